"""Observations that are not Gaussian, added at the end of a posterior.

Their sites depend on q, and q changes when observations come; but the influence of the new ones
fades along the chain, as the kernel forgets. So sites near the end are found anew, with the
observations there, while those before stay what they were. The moments of all states show whether
that was right: if some of those before have moved, the end is taken longer by them, and where
nothing fades all observations have to be looked at. With sites λ near the end and λ' before it,

    bound = old bound + Δ(Σ E_q[log p(y | f)] − E_q[log λ] + log Z(λ + λ')),

sums over what is near the end: the rest of the bound is stationary at its optimum, and q does not
move there.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from stategp._data import Observations, View
from stategp._fitting._extending import placed, stay
from stategp._fitting._methods import Natural, closeness
from stategp._fitting._series import SeriesTask
from stategp._inference import (
    ChainSites,
    Geometry,
    Q,
    Settling,
    Sight,
    States,
    begin,
    geometry,
    latent_moments,
    rounding_of,
    settle,
    shift,
    wanted_sites,
)
from stategp._models import GP, bare
from stategp._posteriors import Posterior
from stategp._runtime import mesh_of_devices, on_device, pad_inducing, pad_last
from stategp.chain import PairMarginals, expected_log_sites, sweep

_FIRST = 32  # states of the end
_MARGIN = 4  # more of them than have moved
_TRIES = 4
_WORTH = 4  # observations to a state: with fewer, sweeps over the states are what takes time
_MOST = 0.5  # share of the observations near the end beyond which it is not worth it
_STILL = 1e-11  # of a standard deviation: what counts as not moved
_STEPS = 200
_TOLERANCE = 1e-18  # as for an update with all observations


def may_revise_end(posterior: Posterior, task: SeriesTask, new: Observations) -> bool:
    """Whether it may be enough to look at the observations near the end."""
    inducing = np.asarray(task.inducing)[: task.states]
    if posterior.model.likelihood.conjugate or not stay(posterior, inducing):
        return False
    if len(posterior.data) < _WORTH * len(inducing) or mesh_of_devices() is not None:
        return False
    return _start(posterior.data, inducing, _near(inducing, new)) is not None


def with_settled_q(posterior: Posterior, task: SeriesTask) -> Posterior:
    """The same with q at its optimum to the last digits, which a search stops short of.

    All of q is as close to it then that new observations move only what is near them.
    """
    if posterior.settled:
        return posterior
    method, data, inducing = Natural(), posterior.data, np.asarray(posterior.relative_inducing)
    settings = dataclasses.replace(task.settings, method=method, tolerance=closeness(data))
    before = SeriesTask.of(posterior.model, data, inducing, settings, task.show)
    places = np.append(np.arange(len(inducing)), len(before.inducing))
    sites = [placed(site, places, len(before.inducing)) for site in posterior.sites]
    settled: Posterior = method.infer(posterior.model, before, on_device(tuple(sites)))
    return settled


def _near(inducing: np.ndarray, new: Observations) -> int:
    return int(np.searchsorted(inducing, float(new.x[0]))) - _FIRST


def revise_end(posterior: Posterior, task: SeriesTask, new: Observations) -> Posterior | None:
    """The posterior with new observations, or None where all observations have to be looked at."""
    if not posterior.settled or not may_revise_end(posterior, task, new):
        return None
    inducing = np.asarray(task.inducing)[: task.states]
    near = _near(inducing, new)
    for _ in range(_TRIES):
        start = _start(posterior.data, inducing, near)
        if start is None:
            return None
        found = _End(posterior, task, inducing, start).found()
        if not isinstance(found, int):
            return found
        near = min(found, start) - _MARGIN
    return None


def _start(old: Observations, inducing: np.ndarray, near: int) -> int | None:
    """The last state up to one with no observation at it, unless all are at states."""
    x = np.asarray(old.x)
    if np.all(np.isin(x, inducing)):
        start = near
    else:
        free = np.flatnonzero(~np.isin(inducing[: max(near, 0) + 1], x))
        start = int(free[-1]) if len(free) else -1
    if start < 1 or np.searchsorted(x, inducing[start]) < (1 - _MOST) * len(x):
        return None
    return start


class _End:
    """The chain, of which sites right of a state are found anew."""

    def __init__(self, posterior: Posterior, task: SeriesTask, inducing: np.ndarray, start: int):
        self.posterior, self.task, self.start = posterior, task, start
        self.model, self.padded = bare(posterior.model), pad_inducing(inducing)
        self.before = pad_last(np.asarray(posterior.relative_inducing), len(self.padded))
        self.grown = len(inducing) > len(posterior.relative_inducing)

    def found(self) -> Posterior | int | None:
        """The posterior; the first state that has moved, if it is before the end; or None."""
        old, size = len(self.posterior.relative_inducing), len(self.padded)
        places = np.append(np.arange(old), size)
        there = np.append(np.arange(old), old) if self.grown else places
        before = self._settled(self.posterior.data, self.before, places, 1)
        after = self._settled(self.task.data, self.padded, there, _STEPS)
        q = after.q
        if not (bool(after.done) and np.isfinite(q.elbo) and np.isfinite(before.q.elbo)):
            return None
        pairs = zip(q.marginals, self.posterior.marginals, strict=True)
        moved = min(_first_moved(mine, theirs, self.start + 1) for mine, theirs in pairs)
        if moved <= self.start:
            return moved
        fixed, _ = self._sites(there)
        sites: ChainSites = jax.tree.map(jnp.add, fixed, q.sites)
        elbo = self.posterior.elbo + float(q.elbo) - float(before.q.elbo)
        return self.task.posterior(
            self.posterior.model, sites, q.marginals, elbo, None, settled=True
        )

    def _sites(self, places: np.ndarray) -> tuple[ChainSites, ChainSites]:
        """Those that stay, and those near the end, at places of the chain."""
        near = np.arange(len(self.padded) + 1) > self.start
        whole = [placed(site, places, len(self.padded)) for site in self.posterior.sites]

        def part(chosen: np.ndarray) -> Any:
            def only(leaf: np.ndarray) -> np.ndarray:
                return np.where(np.expand_dims(chosen, tuple(range(1, leaf.ndim))), leaf, 0.0)

            return on_device(tuple(jax.tree.map(only, site) for site in whole))

        return part(~near), part(near)

    def _settled(
        self, data: Observations, inducing: np.ndarray, places: np.ndarray, steps: int
    ) -> Settling:
        """So many steps at most, with the observations of the end; the first is where it stands."""
        some = np.asarray(data.x) >= self.padded[self.start]
        x, y, extra, weights = (
            np.asarray(column)[some] for column in (data.x, data.y, data.extra, data.weights)
        )
        columns: Any = x, y, extra, weights, data.origin
        states: Any = on_device(inducing)
        view, _ = Sight(Observations(*columns), states)(self.model)
        fixed, sites = self._sites(places)
        settling: Settling = _settle(self.model, view, states, fixed, sites, jnp.asarray(steps))
        return settling


def _first_moved(mine: PairMarginals, theirs: PairMarginals, count: int) -> int:
    """Of the first pairs of states the one from which on they have moved, or how many these are."""
    means = [np.asarray(pairs.mean)[:count] for pairs in (mine, theirs)]
    variances = [
        np.diagonal(np.asarray(pairs.covariance)[:count], axis1=1, axis2=2)
        for pairs in (mine, theirs)
    ]
    known = variances[1] > 0
    scale = np.where(known, variances[1], 1.0)
    moved = np.abs(means[0] - means[1]) / np.sqrt(scale)
    stretched = np.abs(variances[0] - variances[1]) / scale
    far = np.any(known & ~(np.maximum(moved, stretched) <= _STILL), axis=1)
    return int(np.argmax(far)) if far.any() else count


@eqx.filter_jit
def _settle(
    model: GP,
    data: View,
    inducing: States,
    fixed: ChainSites,
    sites: ChainSites,
    steps: Int[Array, ""],
) -> Settling:
    shape, look = geometry(model, data.nodes, inducing, data.numbers), _beside(fixed)
    state = begin(model, data, shape, sites, look)
    return settle(model, data, shape, state, steps, _TOLERANCE, look)


def _beside(fixed: ChainSites) -> Callable[[Any, Any, Any, Any], Q]:
    """`evaluate` where some sites belong to the prior."""

    def evaluate(model: GP, data: View, shape: Geometry, sites: ChainSites) -> Q:
        whole: ChainSites = jax.tree.map(jnp.add, fixed, sites)
        clip = model.likelihood.log_concave  # precisions are negative by rounding only
        swept = [
            sweep(prior, site, indefinite=not clip)
            for prior, site in zip(shape.transitions, whole, strict=True)
        ]
        marginals = tuple(one.marginals for one in swept)
        mean, variance = latent_moments(shape.projections, marginals)
        expected = data.expected(model.likelihood, mean + shift(model, data), variance, clip=clip)
        parts = [expected.value]
        for one, site in zip(swept, sites, strict=True):
            parts += [one.log_normaliser, -expected_log_sites(site, one.marginals)]
        terms = jnp.stack(parts)
        rounding = rounding_of(terms, list(zip(whole, marginals, strict=True)))
        target = wanted_sites(shape, mean, expected)
        messages = tuple(one.messages for one in swept)
        return Q(sites, marginals, messages, jnp.sum(terms), rounding, target, expected)

    return evaluate
