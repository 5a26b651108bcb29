"""Additive models: learning, and the posterior that comes of it."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._data import Table, as_columns, column_names, relative_inputs
from stategp._inference import (
    FitResult,
    Layout,
    NodeSites,
    joint_corrections,
    level,
    may_be_negative,
)
from stategp._models import AdditiveGP
from stategp._posteriors._at_points import predict
from stategp._posteriors._covariance import joint_covariance
from stategp._posteriors._pointwise import Points
from stategp._posteriors._prediction import Chain, Predicts, sample
from stategp._posteriors._states import Strand
from stategp._runtime import as_count, as_key, on_device, refuse_traced
from stategp.chain import Sites

_TOGETHER = 64  # points whose joint variances are solved for at once


class Training(NamedTuple):
    """The data and q as inference saw them."""

    table: Table
    layout: Layout
    sites: NodeSites | tuple[Sites, ...]  # at the nodes; of method="gradient", on pairs of states


class AdditivePosterior(Predicts):
    """The posterior of f = level + f₁(x₁) + f₂(x₂) + …, a chain of states for each component.

    Returned by `sg.condition` and `sg.fit`. Inputs of predictions are arrays with a column for each
    component, dictionaries or data frames; values that were not seen in training are interpolated
    or extrapolated.

    The components are independent under q (mean field). Their means are those of the joint
    posterior, but where inputs are correlated the variances of the components are too small, and
    the variance of their sum may be too small or too large. `joint=True` gives variances that
    account for the correlation, at the cost of a linear solve for each point.
    """

    model: AdditiveGP
    chains: tuple[Chain, ...]  # one for each component
    centring: tuple[Chain, ...]  # the covariance of each with its average over the data, as means
    averages: tuple[tuple[float, float], ...]  # mean and variance of that average
    origins: tuple[int | float, ...]
    training: Training
    elbo: float
    observations: int = eqx.field(static=True)
    states: tuple[int, ...] = eqx.field(static=True)
    fit_result: FitResult | None = eqx.field(static=True, default=None)

    def predict_f(self, x_new: Any, *, joint: Any = False) -> tuple[Points, Points]:
        """Mean and variance of f; with `joint`, the variance accounts for correlated inputs.

        >>> import numpy as np, stategp as sg
        >>> x = np.random.default_rng(0).uniform(size=(50, 2))
        >>> model = sg.AdditiveGP([sg.kernels.Matern32(), sg.kernels.Matern32()])
        >>> posterior = sg.condition(model, x, np.sin(6 * x[:, 0]) + x[:, 1])
        >>> mean, variance = posterior.predict_f([[0.5, 0.5]])
        """
        columns = self._relative(x_new)
        mean, variance = np.asarray(self._level), np.zeros(())
        for chain, x in zip(self.chains, columns, strict=True):
            mean_here, variance_here = predict(chain, x)
            mean, variance = mean + np.asarray(mean_here), variance + np.asarray(variance_here)
        if joint:
            variance = variance + np.asarray(self._corrections(columns, None))
        moments: tuple[Points, Points] = on_device((mean, variance))
        return moments

    def components(self, x_new: Any, *, joint: Any = False) -> dict[str, tuple[Points, Points]]:
        """Mean and variance of the effect of each input, by name.

        An effect is centred: its average over the training data is zero, and `level` is the
        remainder. A dictionary or data frame may have only some of the columns.
        """
        names = self.model.names
        known = column_names(x_new)
        if known is not None:
            names = tuple(name for name in names if name in known)
            if not names:
                raise ValueError(f"x_new has none of the inputs {', '.join(self.model.names)}")
        effects = {}
        for name, x in zip(names, self._relative(x_new, names), strict=True):
            i = self.model.names.index(name)
            mean, variance = map(np.asarray, predict(self.chains[i], x))
            shared = np.asarray(predict(self.centring[i], x)[0])
            average, spread = self.averages[i]
            if joint:
                columns = [x if j == i else None for j in range(len(self.chains))]
                variance = variance + np.asarray(self._corrections(columns, i, centred=True))
            centred = np.maximum(variance - 2 * shared + spread, 0.0)
            effects[name] = on_device((mean - average, centred))
        return effects

    def covariance(self, x: Any, x2: Any = None) -> Float[Array, "points others"]:
        """The joint covariance of f at two sets of rows (by default `x2` is the same as `x`).

        As in `predict_f` without `joint`, the components are independent: their covariances add.
        """
        columns = self._relative(x, name="x")
        others = columns if x2 is None else self._relative(x2, name="x2")
        negative = may_be_negative(self.model, self.training.sites)
        total = jnp.zeros((len(columns[0]), len(others[0])))
        for chain, first, second in zip(self.chains, columns, others, strict=True):
            row = chain.model.kernels[0].emission()[None]
            points = np.asarray(first), np.asarray(second)
            total = total + joint_covariance(Strand.of(chain, 0), *points, row, negative)
        return (total + total.T) / 2 if x2 is None else total

    @property
    def level(self) -> float:
        """The average of f over the training data, to which the centred effects are added."""
        return float(self._level) + sum(average for average, _ in self.averages)

    def sample_f(
        self, key: PRNGKeyArray | int | Any, x_new: Any, num_samples: Any = 1
    ) -> Float[Array, "samples points"]:
        """Joint samples of f; `key` is a JAX random key or an integer seed."""
        count, columns = as_count(num_samples), self._relative(x_new)
        if count == 0 or len(columns[0]) == 0:
            return jnp.zeros((count, len(columns[0])))
        negative = may_be_negative(self.model, self.training.sites)
        total = np.full((count, len(columns[0])), np.asarray(self._level))
        for number, (chain, x) in enumerate(zip(self.chains, columns, strict=True)):
            chain_key = jax.random.fold_in(as_key(key), number)
            total += np.asarray(sample(chain, chain_key, x, count, negative))
        drawn: Float[Array, "samples points"] = on_device(total)
        return drawn

    @property
    def inducing(self) -> dict[str, np.ndarray]:
        """The inducing locations of every input, in the user's units."""
        parts = zip(self.model.names, self.chains, self.states, self.origins, strict=True)
        return {
            name: np.asarray(chain.inducing)[:states] + origin
            for name, chain, states, origin in parts
        }

    @property
    def _level(self) -> Float[Array, ""]:
        return level(self.model)

    def _relative(
        self, x_new: Any, names: tuple[str, ...] | None = None, *, name: str = "x_new"
    ) -> list[Points]:
        refuse_traced("the posterior", self)
        names = names or self.model.names
        columns = as_columns(name, names, x_new)
        return [
            on_device(relative_inputs(name, column, self.origins[self.model.names.index(name)]))
            for name, column in zip(names, columns, strict=True)
        ]

    def _corrections(self, columns: list[Any], only: int | None, centred: bool = False) -> Points:
        """What the joint posterior adds to the variance of f, or of one component."""
        points = next(len(x) for x in columns if x is not None)
        x = np.stack([np.zeros(points) if c is None else np.asarray(c) for c in columns])
        which = np.arange(len(columns)) if only is None else np.asarray([only])
        seen = np.isin(np.arange(len(columns)), which).astype(float)
        size = -(-points // _TOGETHER) * _TOGETHER
        x = np.pad(x, ((0, 0), (0, size - points)), mode="edge")
        parts = [
            joint_corrections(
                self.model,
                self.training.table,
                self.training.layout,
                self.training.sites,
                jnp.asarray(x[:, start : start + _TOGETHER]),
                jnp.asarray(seen),
                centred=centred,
            )
            for start in range(0, size, _TOGETHER)
        ]
        return jnp.concatenate(parts)[:points] if parts else jnp.zeros(0)

    def __repr__(self) -> str:
        lines = [
            f"AdditivePosterior of {self.model!r}",
            f"  {self.observations} observations, inducing states: "
            + ", ".join(f"{n} {m}" for n, m in zip(self.model.names, self.states, strict=True)),
            f"  ELBO {self.elbo:.6g}",
        ]
        if self.fit_result is not None:
            lines.append(f"  fit {self.fit_result}")
        return "\n".join(lines)
