"""The posterior of a Gaussian process and of effects that were integrated out."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._files import allow, check_when_read
from stategp._forecasting._design import Design
from stategp._posteriors import (
    Chain,
    Points,
    Posterior,
    Seen,
    check_posterior,
    component_moments,
    read_weights,
    see,
    summands_of,
)
from stategp._runtime import as_count, as_key, on_device, refuse_traced

_FEW, _POINTS = 8, 1024  # responses that are looked at one after another, at few points


class RegressionPosterior(Posterior):
    """The posterior of f(x) = GP(x) + Σ βⱼ φⱼ(x).

    The chain is that of the GP given the mean of β. Given another β its mean would be less by the
    responses times the difference.
    """

    design: Design = eqx.field(static=True, kw_only=True)
    effect_mean: np.ndarray = eqx.field(kw_only=True)  # the mean of β
    effect_covariance: np.ndarray = eqx.field(kw_only=True)  # of β
    effect_deviations: np.ndarray = eqx.field(kw_only=True)  # of β a priori
    responses: np.ndarray = eqx.field(kw_only=True)  # of the states: coefficients, states, dim

    def knowing(self, design: Design) -> "RegressionPosterior":
        """The same with other values of regressors at new times."""
        known: RegressionPosterior = dataclasses.replace(self, design=design)
        return known

    def components(self, x_new: Any) -> dict[str, tuple[Points, Points]]:
        """Mean and variance of each component of the kernel and of each effect, by name.

        All holidays are one component, and so are all lags of a regressor.
        """
        x = np.asarray(self._points(x_new))
        (given,) = component_moments(self.model, see(self.chain, on_device(x)))
        moments: dict[str, Any] = {name: tuple(map(np.asarray, p)) for name, p in given.items()}
        for name, response in zip(given, self._split(self._response(x)), strict=False):
            mean, variance = moments[name]
            moments[name] = (mean, variance + self._through(response))
        matrix = self.design.matrix(x + float(self.data.origin))
        for name, inside in self.effect_columns(list(moments)).items():
            part = np.where(inside, matrix, 0.0)
            moments[name] = (part @ self.effect_mean, self._through(part))
        return {name: on_device(pair) for name, pair in moments.items()}

    def effect_columns(self, taken: list[str]) -> dict[str, np.ndarray]:
        """Which columns belong to each effect, under a name that is not taken."""
        names = np.array([column.component for column in self.design.columns])
        return {
            f"{name}_effect" if name in taken else name: names == name
            for name in dict.fromkeys(names.tolist())
        }

    def effects_at_states(
        self, states: np.ndarray, emission: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """What effects add to the mean and to the variance of f where the states are."""
        matrix = self.design.matrix(states + float(self.data.origin))
        return matrix @ self.effect_mean, self._through(matrix - (self.responses @ emission).T)

    def sample_f(
        self, key: PRNGKeyArray | int | Any, x_new: Any, num_samples: Any = 1
    ) -> Float[Array, "samples points *latents"]:
        """Joint samples of the latent function, effects included."""
        count, x = as_count(num_samples), np.asarray(self._points(x_new))
        key, effects_key = jax.random.split(as_key(key))
        given = np.asarray(Posterior.sample_f(self, key, x_new, count))
        white = np.asarray(jax.random.normal(effects_key, (count, len(self.effect_mean))))
        values, vectors = np.linalg.eigh(self.effect_covariance)
        away = (white * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        matrix = self.design.matrix(x + float(self.data.origin))
        functions: Float[Array, "samples points *latents"] = on_device(
            given + away @ (matrix - self._responses(x)).T + matrix @ self.effect_mean
        )
        return functions

    def log_marginal_likelihood(self) -> float:
        """The exact log p(y) of the model, for Gaussian observations."""
        if not self.model.likelihood.conjugate:
            return Posterior.log_marginal_likelihood(self)  # which says why not
        return self.elbo

    def _seen(self, x: Points) -> Seen:
        refuse_traced("x", x)
        points = np.asarray(x)
        matrix = self.design.matrix(points + float(self.data.origin))
        added = self._through(matrix - self._responses(points))
        seen = see(self.chain, x)
        sizes = np.sum((matrix * self.effect_deviations) ** 2, axis=1)
        return seen._replace(
            centre=seen.centre + matrix @ self.effect_mean,
            spread=seen.spread + added,
            prior=seen.prior + sizes,
        )

    def _responses(self, x: np.ndarray) -> np.ndarray:
        """The response of f to each column: a row for each point."""
        if not 0 < len(self.responses) <= _FEW or len(x) > _POINTS:
            whole: np.ndarray = self._response(x).sum(axis=-1)
            return whole
        (pairs,) = self.marginals  # few are seen as f itself is: by a program that there is
        chain = Chain(self.model, self.relative_inducing, on_device(np.zeros(())), (), ())
        columns = [
            see(chain._replace(marginals=(dataclasses.replace(pairs, mean=mean),)), on_device(x))
            for mean in map(on_device, pairs_of(self.responses))
        ]
        return np.stack([np.asarray(seen.shift) for seen in columns], axis=1)

    def _response(self, x: np.ndarray) -> np.ndarray:
        """What each entry of the states adds to the response of f: points, columns, entries."""
        inducing = np.asarray(self.relative_inducing)
        read = read_weights(self.model.kernels[0], inducing, x)
        interval = np.searchsorted(inducing, x, side="right")
        both = read[:, None] * np.moveaxis(pairs_of(self.responses)[:, interval], 0, 1)
        dim = both.shape[-1] // 2
        added: np.ndarray = both[..., :dim] + both[..., dim:]
        return added

    def _split(self, response: np.ndarray) -> list[np.ndarray]:
        """The response of each summand of the kernel."""
        sizes = [part.state_dim for part in summands_of(self.model.kernels[0]).values()]
        ends = np.cumsum(sizes)[:-1]
        return [part.sum(axis=-1) for part in np.split(response, ends, axis=-1)]

    def _through(self, columns: np.ndarray) -> np.ndarray:
        """The variance of these columns times β."""
        variance = np.sum((columns @ self.effect_covariance) * columns, axis=1)
        return np.maximum(variance, 0.0)

    @property
    def _chain(self) -> Chain:
        raise ValueError(
            "states, derivatives and joint covariances are not known for a fit with regressors, "
            "holidays or events; sample_f gives joint samples"
        )


def pairs_of(states: np.ndarray) -> np.ndarray:
    """States in the last two axes, as [left; right] of every interval; zero where there is none."""
    nothing = np.zeros((*states.shape[:-2], 1, states.shape[-1]))
    left = np.concatenate([nothing, states], axis=-2)
    right = np.concatenate([states, nothing], axis=-2)
    return np.concatenate([left, right], axis=-1)


def check_regression(posterior: RegressionPosterior) -> None:
    """A chain as others, and everything that a coefficient has, once for each."""
    check_posterior(posterior)
    count = len(posterior.design.columns)
    states = (count, len(posterior.relative_inducing), posterior.model.kernels[0].state_dim)
    for name, part, shape in [
        ("effect_mean", posterior.effect_mean, (count,)),
        ("effect_deviations", posterior.effect_deviations, (count,)),
        ("effect_covariance", posterior.effect_covariance, (count, count)),
        ("responses", posterior.responses, states),
    ]:
        if part.shape != shape:
            raise ValueError(f"{name} has shape {part.shape}, and its effects need {shape}")


allow(answers=(RegressionPosterior,))
check_when_read({RegressionPosterior: check_regression})
