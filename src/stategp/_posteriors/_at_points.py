"""f at new points, each from the two states around it.

The states around every point are looked up first, for few points by NumPy. What is compiled then
sees points and their neighbours only, so that one program serves chains of any length.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from stategp._inference import prior_mean, stack
from stategp._models import GP, bare
from stategp._posteriors._pointwise import BLOCK, Latent, Points, by_blocks, over_blocks
from stategp._posteriors._prediction import Chain
from stategp._projection import Projection, Where, project_at
from stategp._runtime import is_traced, on_device
from stategp.chain import PairMarginals, Transitions
from stategp.kernels import Kernel


class Near(NamedTuple):
    """Points, and what is known of the states on both sides of each."""

    x: Points
    user_x: Points  # as mean functions have it
    left: Bool[Array, " points"]  # whether there is a state on the left, and where
    low: Points
    right: Bool[Array, " points"]
    high: Points
    marginals: tuple[PairMarginals, ...]  # of the two states, a row for every point


def _near(chain: Chain, x: Any, xp: Any) -> Near:
    """`xp` is jax.numpy, or numpy where nothing is traced."""
    states = len(chain.inducing)
    interval = xp.searchsorted(chain.inducing, x, side="right")
    left, right = interval > 0, interval < states
    low = chain.inducing[xp.maximum(interval - 1, 0)]
    high = chain.inducing[xp.minimum(interval, states - 1)]
    pairs = jax.tree.map(lambda leaf: leaf[interval], chain.marginals)
    return Near(x, x + chain.origin, left, low, right, high, pairs)


def _project(kernel: Kernel, near: Near) -> Projection:
    """What the states around every point say about f there."""
    # Where there is no neighbour, a step of zero stands in; its results are not used.
    # (A comparison, not a maximum, whose derivative on an inducing point would be a half.)
    before = jnp.where(near.left & (near.x >= near.low), near.x - near.low, 0.0)
    after = jnp.where(near.right & (near.x <= near.high), near.high - near.x, 0.0)
    between = near.left & near.right
    A, Q = kernel.step_matrices(jnp.where(between, near.high - near.low, 0.0))
    # As in `prior_transitions`, which has the same intervals at the ends.
    start = jnp.where(near.left, 0.0, kernel.stationary_covariance()[..., None])
    across = Transitions(
        jnp.moveaxis(jnp.where(between, A, 0.0), -1, 0),
        jnp.moveaxis(jnp.where(between, Q, start), -1, 0),
    )
    where = Where(jnp.arange(len(near.x)), near.left, near.right, before, after)
    return project_at(kernel, where, across)


def _answered(function: Any, chain: Chain, x: Points) -> Any:
    """A compiled function of a model and points with their neighbours, at any number of points."""
    plain = bare(chain.model)
    if is_traced(x):
        return over_blocks(lambda block: function(plain, _near(chain, block, jnp)), x)
    if len(x) > BLOCK:
        return by_blocks(lambda block: _look_up_and(function, plain, chain, block), x)
    on_host: Chain = chain._replace(
        inducing=np.asarray(chain.inducing),  # type: ignore[arg-type]
        origin=np.asarray(chain.origin),  # type: ignore[arg-type]
        marginals=jax.tree.map(np.asarray, chain.marginals),
    )
    return by_blocks(lambda block: function(plain, _near(on_host, block, np)), x)


def _look_up_and(function: Any, model: GP, chain: Chain, x: Points) -> Any:
    """With many points the neighbours are looked up where the computation runs."""
    return _compiled(function, model, chain._replace(model=model, sites=()), x)


@jax.jit(static_argnames="function")
def _compiled(function: Any, model: GP, chain: Chain, x: Points) -> Any:
    return function(model, _near(chain, x, jnp))


class Seen(NamedTuple):
    """f at points, and where its variance comes from."""

    mean: Latent
    spread: Latent  # variance through the states
    residual: Latent  # what they leave open
    prior: Latent  # variance through the states a priori


def see(chain: Chain, x: Points) -> Seen:
    """f at points in any order."""
    seen: Seen = _answered(_see, chain, x)
    return seen


@jax.jit
def _see(model: GP, near: Near) -> Seen:
    columns: list[list[Points]] = []
    for kernel, q in zip(model.kernels, near.marginals, strict=True):
        projection = _project(kernel, near)
        certain = tuple(jnp.zeros_like(part) for part in projection.residual)
        mean, spread = Projection(projection.interval, projection.weights, certain).marginals(q)
        residual = sum(projection.residual, start=jnp.zeros_like(spread))
        h = kernel.emission()
        columns.append([mean, spread, residual, h @ kernel.stationary_covariance() @ h - residual])
    mean, spread, residual, prior = (stack(list(parts)) for parts in zip(*columns, strict=True))
    return Seen(mean + prior_mean(model, near.user_x), spread, residual, prior)


def predict(chain: Chain, x: Points) -> tuple[Latent, Latent]:
    """Mean and variance of f at points in any order."""
    seen = see(chain, x)
    if is_traced(x):
        return seen.mean, seen.spread + seen.residual
    variance = np.asarray(seen.spread) + np.asarray(seen.residual)
    return seen.mean, on_device(variance)


Components = list[list[tuple[Points, Points]]]  # moments of each summand of each latent function


def component_moments(
    chain: Chain, x: Points, summands: tuple[tuple[Kernel, ...], ...]
) -> Components:
    """Mean and variance of each summand of each kernel at points in any order."""
    extents = tuple(
        tuple((kernel.state_dim, len(kernel.blocks())) for kernel in kernels)
        for kernels in summands
    )
    moments: Components = _answered(_component_moments(extents), chain, x)
    return moments


_Extents = tuple[tuple[int, int], ...]  # the size of the state of each summand, and its blocks


@functools.cache
def _component_moments(extents: tuple[_Extents, ...]) -> Any:
    """A compiled function for summands of these sizes."""

    @jax.jit
    def components(model: GP, near: Near) -> Components:
        return [
            _split(_project(kernel, near), q, parts)
            for kernel, q, parts in zip(model.kernels, near.marginals, extents, strict=True)
        ]

    return components


def _split(
    projection: Projection, marginals: PairMarginals, extents: _Extents
) -> list[tuple[Points, Points]]:
    """Each summand owns consecutive parts of the state, and reads only its own."""
    dim = len(projection.weights) // 2
    moments, first, first_block = [], 0, 0
    for size, blocks in extents:
        inside = np.arange(first, first + size)
        places = np.concatenate([inside, inside + dim])  # in the pair of states
        part = Projection(
            projection.interval,
            tuple(projection.weights[i] for i in places),
            projection.residual[first_block : first_block + blocks],
        )
        mean, covariance = marginals.mean[:, places], marginals.covariance[:, places][:, :, places]
        moments.append(part.marginals(PairMarginals(mean, covariance)))
        first, first_block = first + size, first_block + blocks
    return moments
