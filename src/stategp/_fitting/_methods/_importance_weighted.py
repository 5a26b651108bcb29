"""q trained by the importance-weighted bound (Domke & Sheldon, 2018), from the variational optimum.

q has a site for every observation. The bound with K samples is estimated anew in every step, and
climbed by Adam; its slopes in q are those of Tucker, Lawson, Gu & Maddison (2019), which go through
the samples only, each with the square of its weight: they do not drown in noise as K grows.
"""

import dataclasses
import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._arguments import whole_number
from stategp._data import Observations
from stategp._fitting._methods._for_given import ForGiven
from stategp._fitting._methods._lines import Points
from stategp._fitting._methods._natural import Natural
from stategp._fitting._series import SeriesTask
from stategp._inference import (
    Ascent,
    ChainSites,
    Geometry,
    Q,
    States,
    draw_states,
    evaluate,
    gather_sites,
    geometry,
    latent_moments,
    log_normaliser,
    log_weights,
    prior_mean,
    run,
)
from stategp._models import GP, SpaceTimeGP
from stategp._posteriors import Posterior
from stategp.chain import PairMarginals

MOST_STEPS = 400
_GROUPS = 8  # estimates of the bound that are averaged in a step
_STEP = 0.05  # the first of Adam, in standard deviations of f; it falls to nothing
_DECAYS = (0.9, 0.99)
_LEAST = 1e-3  # precision of a site at the start, in that of f under q: others are negative


@dataclasses.dataclass(frozen=True)
class ImportanceWeighted(ForGiven):
    """``method=sg.ImportanceWeighted(samples)``: q with the highest importance-weighted bound.

    Where the usual bound makes q too narrow, this one widens it, so that weighted samples of q
    (`posterior.sample_weighted`) serve better for p(f | y). It is for `sg.condition` with an
    inducing point at every observation; hyperparameters are not learned. `max_steps` is the number
    of steps, all of which are taken; `posterior.importance_weighted_bound(samples)` is what was
    climbed, `posterior.elbo` the usual bound of that q.

    >>> import stategp as sg
    >>> sg.ImportanceWeighted(20)
    ImportanceWeighted(samples=20)
    """

    samples: int = 20

    name = "importance_weighted"
    pads = False  # so that the states of the variational optimum are those of the search

    def __post_init__(self) -> None:
        object.__setattr__(self, "samples", whole_number("samples", self.samples, least=2))

    def check(self, model: GP | SpaceTimeGP, data: Any) -> None:
        super().check(model, data)
        if not data.individual:
            raise ValueError("method='importance_weighted' needs single observations, not sums")

    def infer(self, model: GP, task: SeriesTask, warm: Any) -> Posterior:
        variational = Natural().infer(model, task, None)
        if model.likelihood.conjugate:  # q is the posterior: all weights are equal
            return variational
        if not np.all(np.isin(np.asarray(task.data.x), np.asarray(task.inducing))):
            raise ValueError(
                "method='importance_weighted' needs an inducing point at every observation: "
                "condition with inducing='data'"
            )
        shape, start = first_weighted(model, task.data, task.inducing, variational.marginals)
        steps = task.settings.max_steps or MOST_STEPS
        seed = jax.random.key(task.settings.seed)

        def take(state: Weighing, number: int) -> tuple[Weighing, Any, float]:
            size = _STEP * (1 - number / steps)
            key = jax.random.fold_in(seed, number)
            new, value = weighing_step(model, task.data, shape, state, key, size, self.samples)
            return new, value, size

        search = Ascent(
            start,
            take,
            max_steps=steps,
            window=max(steps // 5, 1),
            enough=1e-5 * task.count,
            noisy=True,
            stop_early=False,
        )
        result = run(search, task.show, task.settings.keeper)
        q = weighed(model, task.data, shape, search.best)
        return task.posterior(model, q.sites, q.marginals, q.elbo, result)


class Moves(NamedTuple):
    """Of the site of every observation, from where it started."""

    linear: Points  # in standard deviations of f
    precision: Points  # logarithm of a factor


class Weighing(NamedTuple):
    """In between steps of Adam."""

    moves: Moves
    first: Moves
    second: Moves
    steps: Float[Array, ""]
    start: Moves  # linear part and precision of the sites
    deviation: Points


@jax.jit
def first_weighted(
    model: GP, data: Observations, inducing: States, marginals: tuple[PairMarginals, ...]
) -> tuple[Geometry, Weighing]:
    """From the sites that the usual bound wants."""
    shape = geometry(model, data.nodes, inducing)
    mean, variance = latent_moments(shape.projections, marginals)
    there = data.expected(model.likelihood, mean + prior_mean(model, data.user_nodes), variance)
    precision = jnp.maximum(-2 * there.curvature, _LEAST / variance)
    start = Moves(there.slope + precision * mean, precision)
    still = Moves(jnp.zeros_like(mean), jnp.zeros_like(mean))
    return shape, Weighing(still, still, still, jnp.zeros(()), start, jnp.sqrt(variance))


def _sites(shape: Geometry, state: Weighing, moves: Moves) -> ChainSites:
    linear = state.start.linear + moves.linear / state.deviation
    return gather_sites(shape, linear, state.start.precision * jnp.exp(moves.precision))


@partial(jax.jit, static_argnames="samples")
def weighing_step(
    model: GP,
    data: Observations,
    shape: Geometry,
    state: Weighing,
    key: PRNGKeyArray,
    size: Float[Array, ""] | float,
    samples: int,
) -> tuple[Weighing, Float[Array, ""]]:
    """One step of Adam, and an estimate of the bound before it."""
    judges = jax.lax.stop_gradient(_sites(shape, state, state.moves))

    def objective(moves: Moves) -> tuple[Float[Array, ""], Float[Array, ""]]:
        sites = _sites(shape, state, moves)

        def group(key: PRNGKeyArray) -> tuple[Float[Array, ""], Float[Array, ""]]:
            states = draw_states(shape, sites, key, samples, False)
            logs = log_weights(model, data, shape, judges, states)
            shares = jax.lax.stop_gradient(jax.nn.softmax(logs))
            return jnp.sum(shares**2 * logs), jax.nn.logsumexp(logs) - math.log(samples)

        pulls, bounds = jax.vmap(group)(jax.random.split(key, _GROUPS))
        return jnp.mean(pulls), jnp.mean(bounds)

    slopes, bound = jax.grad(objective, has_aux=True)(state.moves)
    steps = state.steps + 1

    def average(old: Array, new: Array, decay: float) -> Array:
        return decay * old + (1 - decay) * new

    first = jax.tree.map(lambda a, g: average(a, g, _DECAYS[0]), state.first, slopes)
    second = jax.tree.map(lambda a, g: average(a, g**2, _DECAYS[1]), state.second, slopes)

    def moved(place: Array, first: Array, second: Array) -> Array:
        along = first / (1 - _DECAYS[0] ** steps)
        spread = jnp.sqrt(second / (1 - _DECAYS[1] ** steps))
        return place + size * along / (spread + 1e-8)  # which is of the size of one nat

    moves = jax.tree.map(moved, state.moves, first, second)
    value = bound + log_normaliser(shape, judges, False)
    return Weighing(moves, first, second, steps, state.start, state.deviation), value


@jax.jit
def weighed(model: GP, data: Observations, shape: Geometry, state: Weighing) -> Q:
    """q, and its usual bound."""
    return evaluate(model, data, shape, _sites(shape, state, state.moves))
