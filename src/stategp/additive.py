"""Additive models: learning, and the posterior that comes of it."""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stategp.chain import PairMarginals, Sites
from stategp.data import Observed, Table, as_columns, column_names, relative_inputs
from stategp.inference import (
    FitResult,
    Layout,
    NodeSites,
    Q,
    Recorder,
    Settling,
    additive_bound,
    additive_infer,
    additive_objective,
    additive_scales,
    averages,
    has_settled,
    joint_corrections,
    lay_out,
    learn_additive_in_minibatches,
    level,
    maximise,
    no_node_sites,
)
from stategp.learning import STUCK, check_finite, reaches, unpadded, with_result
from stategp.likelihoods import Gaussian
from stategp.means import Zero
from stategp.models import GP, AdditiveGP
from stategp.parameters import to_vector, with_vector
from stategp.prediction import Chain, Points, Predicts, as_key, padded, predict, sample
from stategp.progress import Progress
from stategp.settings import Settings

_TOGETHER = 64  # points whose joint variances are solved for at once


class Training(NamedTuple):
    """The data and q as inference saw them."""

    table: Table
    layout: Layout
    sites: NodeSites


class AdditivePosterior(Predicts):
    """The posterior of f = level + f₁(x₁) + f₂(x₂) + …, a chain of states for each component.

    Made by `sg.condition` and `sg.fit`. Inputs of predictions are arrays with a column for each
    component, dictionaries or data frames; values that were not seen in training are interpolated
    and extrapolated.

    The components are independent under q (mean field). Their means are those of the joint
    posterior, but where inputs are correlated the variances of the components are too small, and
    that of their sum is wrong either way; `joint=True` gives variances that account for it, at the
    price of a linear solve for each point.
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
        mean, variance = self._level, jnp.zeros(())
        for chain, x in zip(self.chains, columns, strict=True):
            own_mean, own_variance = predict(chain, padded(x))
            mean, variance = mean + own_mean[: len(x)], variance + own_variance[: len(x)]
        if joint:
            variance = variance + self._corrections(columns, None)
        return mean, variance

    def components(self, x_new: Any, *, joint: Any = False) -> dict[str, tuple[Points, Points]]:
        """Mean and variance of the effect of each input, by name.

        An effect is centred: its average over the training data is zero, and `level` holds what
        that leaves. From a dictionary or a data frame, the columns it has are enough.
        """
        names = self.model.names
        given = column_names(x_new)
        if given is not None:
            names = tuple(name for name in names if name in given)
            if not names:
                raise ValueError(f"x_new has none of the inputs {', '.join(self.model.names)}")
        found = {}
        for name, x in zip(names, self._relative(x_new, names), strict=True):
            i = self.model.names.index(name)
            mean, variance = (v[: len(x)] for v in predict(self.chains[i], padded(x)))
            shared = predict(self.centring[i], padded(x))[0][: len(x)]
            average, spread = self.averages[i]
            if joint:
                columns = [x if j == i else None for j in range(len(self.chains))]
                variance = variance + self._corrections(columns, i, centred=True)
            centred = jnp.maximum(variance - 2 * shared + spread, 0.0)
            found[name] = mean - average, centred
        return found

    @property
    def level(self) -> float:
        """The average of f over the training data: what the centred effects add to."""
        return float(self._level) + sum(average for average, _ in self.averages)

    def sample_f(
        self, key: PRNGKeyArray | int | Any, x_new: Any, num_samples: Any = 1
    ) -> Float[Array, "samples points"]:
        """Joint samples of f; `key` is a JAX random key or an integer seed."""
        if isinstance(num_samples, bool) or not isinstance(num_samples, int | np.integer):
            raise ValueError(f"num_samples must be a whole number, got {num_samples!r}")
        columns = self._relative(x_new)
        if num_samples < 1 or len(columns[0]) == 0:
            return jnp.zeros((max(num_samples, 0), len(columns[0])))
        negative = not self.model.likelihood.log_concave
        total = jnp.full((num_samples, len(columns[0])), self._level)
        for number, (chain, x) in enumerate(zip(self.chains, columns, strict=True)):
            own = jax.random.fold_in(as_key(key), number)
            total = total + sample(chain, own, padded(x), num_samples, negative)[:, : len(x)]
        return total

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

    def _relative(self, x_new: Any, names: tuple[str, ...] | None = None) -> list[Points]:
        names = names or self.model.names
        columns = as_columns("x_new", names, x_new)
        return [
            jnp.asarray(relative_inputs(name, column, self.origins[self.model.names.index(name)]))
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


def learn_additive(
    model: AdditiveGP,
    observed: Observed,
    inducing: list[np.ndarray],
    settings: Settings,
    show: Progress,
) -> AdditivePosterior:
    """The posterior with hyperparameters learned, if any are open."""
    task = _Task(observed, inducing, settings, show, *lay_out(model, observed, inducing))
    learned: FitResult | None = None
    if settings.batch_size is not None:
        model, q, learned = _in_minibatches(model, task)
        result = None
    else:
        if len(to_vector(model)) > 0:
            model, task, found, learned = _climb(model, task)
        else:
            warm, most = no_node_sites(task.table), settings.inference_steps
            found = additive_infer(model, task.table, task.layout, warm, most, settings.settling)
        q, result = found.q, _said(model, task.table, found, settings, show)
    check_finite(model, q.elbo)
    posterior = _as_posterior(model, observed, inducing, task.layout, task.table, q, result)
    return posterior if learned is None else with_result(posterior, learned)


class _Task(NamedTuple):
    observed: Observed
    inducing: list[np.ndarray]
    settings: Settings
    show: Progress
    layout: Layout
    table: Table


def _in_minibatches(model: AdditiveGP, task: _Task) -> tuple[AdditiveGP, Q, FitResult]:
    scales, settings = additive_scales(model, task.observed), task.settings
    assert settings.batch_size is not None
    scaled, sites, learned = learn_additive_in_minibatches(
        model,
        task.table,
        task.layout,
        np.asarray(to_vector(model)) / scales,
        scales,
        len(task.observed),
        settings.optimiser,
        batch_size=settings.batch_size,
        step_size=settings.step_size,
        seed=settings.seed,
        max_steps=settings.max_steps,
        tolerance=settings.tolerance,
        report=task.show,
    )
    model = with_vector(model, jnp.asarray(scaled * scales))
    return model, additive_bound(model, task.table, task.layout, sites), learned


def _climb(model: AdditiveGP, task: _Task) -> tuple[AdditiveGP, _Task, Settling, FitResult]:
    """L-BFGS, repeated if a kernel's truncation has to follow its new parameters."""
    settings = task.settings
    while True:
        scales = additive_scales(model, task.observed)
        objective = _Objective(model, task.table, task.layout, scales)
        best, _, learned = maximise(
            objective,
            np.asarray(to_vector(model)) / scales,
            observations=len(task.observed),
            reach=reaches(model),
            max_steps=settings.max_steps,
            report=task.show,
            flat=settings.tolerance or 1e-5,
            gtol=settings.tolerance or 1e-6,
        )
        objective(best)
        model = with_vector(model, jnp.asarray(best * scales))
        try:
            kernels = [kernel.refined() for kernel in model.kernels]
        except ValueError as error:  # more harmonics than anyone would want
            message = f"{learned.message}; {error}"
            learned = dataclasses.replace(learned, converged=False, message=message)
            return model, task, objective.found, learned
        pairs = zip(kernels, model.kernels, strict=True)
        if not learned.converged or all(new.state_dim <= old.state_dim for new, old in pairs):
            return model, task, objective.found, learned
        names = dict(zip(model.names, kernels, strict=True))
        model = AdditiveGP(names, model.likelihood, model.mean)
        layout, table = lay_out(model, task.observed, task.inducing)
        task = task._replace(layout=layout, table=table)


class _Objective:
    """The bound as a function of the scaled hyperparameters; q starts from the last one found."""

    def __init__(self, model: AdditiveGP, table: Table, layout: Layout, scales: np.ndarray):
        self.model, self.table, self.layout, self.scales = model, table, layout, scales
        self.nothing = self.warm = no_node_sites(table)
        self.found: Any = None

    def __call__(self, scaled: np.ndarray) -> tuple[float, np.ndarray]:
        vector = jnp.asarray(scaled * self.scales)
        for warm in (self.warm, self.nothing):
            value, gradient, self.found = additive_objective(
                vector, self.model, self.table, self.layout, warm
            )
            if np.isfinite(value) and np.all(np.isfinite(gradient)):
                self.warm = self.found.q.sites[0]
                break
        return float(value), np.asarray(gradient) * self.scales


def _said(
    model: AdditiveGP, table: Table, found: Settling, settings: Settings, show: Progress
) -> FitResult | None:
    """What there is to say about a search for q."""
    if model.likelihood.conjugate:
        return None
    settled = has_settled(model, table, found, settings.tolerance)
    record = Recorder(show)
    record(float(found.q.elbo), float(found.step_size))
    message = "the bound stopped rising" if settled else STUCK[bool(found.done)]
    return record.result(settled, message)


def _as_posterior(
    model: AdditiveGP,
    observed: Observed,
    inducing: list[np.ndarray],
    layout: Layout,
    table: Table,
    q: Q,
    result: FitResult | None,
) -> AdditivePosterior:
    sites = q.sites[0]
    about = averages(model, table, layout, sites)
    chains: dict[int, Chain] = {}
    centring: dict[int, Chain] = {}
    moments: dict[int, tuple[float, float]] = {}
    number = 0
    for group, linear, marginals, shared in zip(
        layout, about.sites, q.marginals, about.covariances, strict=True
    ):
        for j, i in enumerate(group.members):

            def chain(
                pairs: PairMarginals, i: int = i, j: int = j, linear: Sites = linear
            ) -> Chain:
                site, pair = jax.tree.map(lambda leaf: leaf[j], (linear, pairs))
                kept = unpadded(site, pair, len(inducing[i]))
                gp = GP(model.kernels[i], Gaussian(), Zero())
                origin = observed.inputs[i].origin
                return Chain.padded(gp, inducing[i], origin, (kept[0],), (kept[1],))

            chains[i], centring[i] = chain(marginals), chain(shared)
            moments[i] = float(about.mean[number]), float(about.variance[number])
            number += 1
    order = range(len(model.kernels))
    return AdditivePosterior(
        model,
        tuple(chains[i] for i in order),
        tuple(centring[i] for i in order),
        tuple(moments[i] for i in order),
        tuple(own.origin for own in observed.inputs),
        Training(table, layout, sites),
        float(q.elbo),
        len(observed),
        tuple(len(places) for places in inducing),
        result,
    )
