"""f at new points, each from the two states around it.

The states around every point are looked up first, for few points by NumPy. What is compiled then
sees points and their neighbours only, so that one program serves chains of any length.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from stategp._inference import prior_mean, stack
from stategp._linalg import apply, dot
from stategp._models import GP, bare
from stategp._posteriors._pointwise import MANY, Latent, Points, by_blocks, over_blocks
from stategp._posteriors._prediction import Chain, summands_of
from stategp._projection import Parts, Projection, Where, join_parts, project_steps
from stategp._runtime import is_traced, on_device, quick_jit
from stategp.chain import PairMarginals
from stategp.kernels import Kernel, group_blocks, outlines_of
from stategp.likelihoods import Gaussian
from stategp.means import Periodic

PATTERN = "pattern"  # the component that a periodic mean function is
Moments = tuple[tuple[Points, Points], ...]  # mean and variance of each summand of a kernel
Extents = tuple[tuple[int, int], ...]  # the size of the state of each, and its blocks


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
    gap = jnp.where(between, near.high - near.low, 0.0)
    where = Where(jnp.arange(len(near.x)), near.left, near.right, before, after, near.x)

    def block(kernel: Kernel) -> Parts:
        """All steps of a kernel together: one by one they take longer to compile."""
        starts = jnp.concatenate([near.x - before, near.x, near.low])
        A, Q = kernel.matrices_from(starts, jnp.concatenate([before, after, gap]))
        n = len(gap)
        left, right, across = ((A[..., i : i + n], Q[..., i : i + n]) for i in (0, n, 2 * n))
        # As in `prior_transitions`, which has the same intervals at the ends.
        start = jnp.where(near.left, 0.0, kernel.covariance_at(near.high))
        return project_steps(
            kernel,
            where,
            left,
            right,
            (jnp.where(between, across[0], 0.0), jnp.where(between, across[1], start)),
        )

    return join_parts([jax.vmap(block)(group) for group in group_blocks(kernel)], where)


class Seen(NamedTuple):
    """f at points, and where its variance comes from."""

    centre: Latent  # the mean function
    shift: Latent  # what the states add to it
    spread: Latent  # variance through the states
    residual: Latent  # what they leave open
    prior: Latent  # variance through the states a priori
    parts: tuple[Moments, ...]  # of the summands of each latent function that has several

    @property
    def mean(self) -> Any:
        return self.centre + self.shift

    @property
    def variance(self) -> Any:
        return self.spread + self.residual


def _of_f(model: GP) -> GP:
    """A model without what says nothing about f: one program serves all likelihoods."""
    alike: GP = eqx.tree_at(lambda tree: tree.likelihood, bare(model), bare(Gaussian()))
    return alike


def see(chain: Chain, x: Points) -> Seen:
    """f at points in any order: NumPy arrays, unless the points are traced."""
    plain = _of_f(chain.model)
    extents = tuple(_extents(kernel) for kernel in chain.model.kernels)
    if is_traced(x):
        return over_blocks(lambda x: _see(plain, _near(chain, x, jnp), extents), x)
    if len(x) > MANY:
        anonymous = chain._replace(model=plain, sites=())
        seen = by_blocks(lambda x: _look_up_and_see(anonymous, x, extents), x)
    else:
        on_host: Chain = chain._replace(
            inducing=np.asarray(chain.inducing),  # type: ignore[arg-type]  # NumPy for once
            origin=np.asarray(chain.origin),  # type: ignore[arg-type]  # likewise
            marginals=jax.tree.map(np.asarray, chain.marginals),
        )
        seen = by_blocks(lambda x: _see(plain, _near(on_host, x, np), extents), x)
    return seen


@jax.jit(static_argnames="extents")
def _look_up_and_see(chain: Chain, x: Points, extents: tuple[Extents, ...]) -> Seen:
    """With many points the neighbours are looked up where the computation runs."""
    return _see(chain.model, _near(chain, x, jnp), extents)


@quick_jit(rows="near", static_argnames="extents")
def _see(model: GP, near: Near, extents: tuple[Extents, ...]) -> Seen:
    columns: list[list[Points]] = []
    parts = []
    for kernel, q, extent in zip(model.kernels, near.marginals, extents, strict=True):
        projection = _project(kernel, near)
        certain = tuple(jnp.zeros_like(part) for part in projection.residual)
        mean, spread = Projection(projection.interval, projection.weights, certain).marginals(q)
        residual = sum(projection.residual, start=jnp.zeros_like(spread))
        h = kernel.emission_at(near.x)
        prior = dot(h, apply(kernel.covariance_at(near.x), h)) - residual
        columns.append([mean, spread, residual, prior])
        parts.append(_split(projection, q, extent))
    shift, spread, residual, prior = (stack(list(those)) for those in zip(*columns, strict=True))
    return Seen(prior_mean(model, near.user_x), shift, spread, residual, prior, tuple(parts))


def _split(projection: Projection, marginals: PairMarginals, extents: Extents) -> Moments:
    """Each summand owns consecutive parts of the state, and reads only its own."""
    if len(extents) == 1:  # it is all there is
        return ()
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
    return tuple(moments)


def predict(chain: Chain, x: Points) -> tuple[Latent, Latent]:
    """Mean and variance of f at points in any order."""
    return moments_of(see(chain, x))


def moments_of(seen: Seen) -> tuple[Latent, Latent]:
    """Mean and variance of f."""
    moments = (seen.mean, seen.variance)
    return moments if is_traced(seen.centre) else on_device(moments)


def component_moments(model: GP, seen: Seen) -> list[dict[str, tuple[Points, Points]]]:
    """Mean and variance of each summand of each kernel, by name.

    The pattern of a periodic mean function is one more, without uncertainty.
    """
    answers = []
    for number, (kernel, parts) in enumerate(zip(model.kernels, seen.parts, strict=True)):
        several = len(model.kernels) > 1
        whole = [v[:, number] if several else v for v in (seen.shift, seen.variance)]
        moments = parts or ((whole[0], whole[1]),)
        names = [*summands_of(kernel)]
        mean = model.means[number]
        if isinstance(mean, Periodic):
            centre: Any = seen.centre[:, number] if several else seen.centre
            moments += ((centre - np.asarray(mean.level.value), 0.0 * centre),)
            names.append(PATTERN)
        moments = moments if is_traced(seen.centre) else on_device(moments)
        answers.append(dict(zip(names, moments, strict=True)))
    return answers


def read_weights(kernel: Kernel, inducing: np.ndarray, x: np.ndarray) -> np.ndarray:
    """What f reads of the two states around each point: a row of 2d numbers for each."""
    plain, last = bare(kernel), len(inducing) - 1

    def block(x: np.ndarray) -> Any:
        interval = np.searchsorted(inducing, x, side="right")
        low, high = inducing[np.maximum(interval - 1, 0)], inducing[np.minimum(interval, last)]
        columns: Any = (x, x, interval > 0, low, interval <= last, high, ())
        return _weights(plain, Near(*columns))

    return np.asarray(by_blocks(block, x))


@quick_jit(rows="near")
def _weights(kernel: Kernel, near: Near) -> Array:
    return jnp.stack(_project(kernel, near).weights, axis=1)


def _extents(kernel: Kernel) -> Extents:
    """The size and the number of blocks of each summand; nothing is computed for that."""
    parts = summands_of(kernel).values()
    return tuple((part.state_dim, len(outlines_of(part))) for part in parts)
