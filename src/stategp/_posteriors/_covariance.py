"""Joint covariances of f at two sets of points, in time linear in the chain.

Points are compared through the intervals that hold any of them. Under q the left states of those
follow each other linearly, so what f(y) shares with the states on its right is passed on from one
to the next (`ahead`), and so is what it depends on of those on its left (`behind`). With b the
slope of f(x) in the state on its left, and n the covariance of f(x) with the state on its right,

    Cov(f(x), f(y)) = b(x) · ahead(y)      if y lies in an earlier interval,
                      n(x) · behind(y)     if it lies in a later one,

and within an interval what the two share through the left state, the innovation and the bridge.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from stategp._linalg import apply, dot, times, transpose
from stategp._posteriors._pointwise import padded
from stategp._posteriors._states import Conditional, Strand, Swept, block_size
from stategp._runtime import pad_last, padded_size, quick_jit
from stategp._state_projection import Rows, StateProjection, bridges
from stategp.chain import Affine, follow

Points = Float[Array, " points"]


def joint_covariance(
    strand: Strand, x: np.ndarray, x2: np.ndarray, rows: Rows, indefinite: bool
) -> Float[Array, "points others"]:
    """Cov(f(x), f(x2)), for the single row that makes f of the state."""
    if len(x) < len(x2):  # the fewer are passed along the chain
        return joint_covariance(strand, x2, x, rows, indefinite).T
    if len(x2) == 0:
        return jnp.zeros((len(x), 0))
    inducing = np.asarray(strand.inducing)
    held = [np.searchsorted(inducing, points, side="right") for points in (x, x2)]
    visited = np.unique(np.concatenate(held))
    visited = pad_last(visited, padded_size(len(visited)))
    whole = padded(jnp.asarray(x))
    entries = max(len(visited), len(whole)) * strand.kernel.state_dim**2
    most = min(block_size(entries), padded_size(len(x2)))
    columns = -(-len(x2) // most) * most
    covariance = _covariance(
        strand,
        jnp.asarray(visited),
        whole,
        jnp.asarray(pad_last(x2, columns)).reshape(-1, most),
        rows,
        indefinite,
    )
    return covariance[: len(x), : len(x2)]


class Shared(NamedTuple):
    """What f at points shares with the states around them."""

    at: StateProjection
    slope: Float[Array, "dim points"]  # b: of f in the left state
    right: Float[Array, "dim points"]  # n: covariance with the right state

    @staticmethod
    def of(swept: Swept, x: Points, rows: Rows) -> "Shared":
        """From the conditionals at x."""
        at = swept.project(x, rows)
        conditional = Conditional.of(swept, at)
        innovations, slope = swept.innovations, conditional.slope[0]
        right = apply(innovations.carried[..., at.interval], apply(conditional.left, slope))
        right = right + apply(innovations.covariance[..., at.interval], at.gain[0])
        return Shared(at, slope, right)


@quick_jit(rows=("strand", "x"), static_argnames="indefinite")
def _covariance(
    strand: Strand,
    visited: Int[Array, " visited"],
    x: Points,
    others: Float[Array, "blocks block"],
    rows: Rows,
    indefinite: bool,
) -> Float[Array, "points others"]:
    swept = Swept.of(strand, indefinite)
    dim = swept.transitions.A.shape[-1]
    innovations, marginals = swept.innovations, strand.marginals
    between = _products_between(innovations.carried, visited)
    onward = times(between, innovations.carried[..., visited])  # from left state to left state
    lefts = jnp.moveaxis(marginals.covariance[:, :dim, :dim], 0, -1)
    mine = Shared.of(swept, x, rows)
    place = jnp.searchsorted(visited, mine.at.interval)

    def block(y: Float[Array, " block"]) -> Float[Array, "_ block"]:
        theirs = Shared.of(swept, y, rows)
        here = (theirs.at.interval[:, None] == visited[None]) & _first_of_each(visited)[None]
        enter = jnp.where(here[None], times(between, theirs.right[..., None]), 0.0)
        ahead = follow(Affine(onward, enter), jnp.zeros(theirs.right.shape))
        leave = jnp.where(here[None], theirs.slope[..., None], 0.0)
        behind = follow(
            Affine(transpose(onward), leave), jnp.zeros(theirs.slope.shape), reverse=True
        )
        behind = times(transpose(between), behind)
        apart = dot(mine.slope[:, None], ahead[..., place])
        apart = apart + dot(mine.right[:, None], behind[..., place])
        their_interval, my_interval = theirs.at.interval, mine.at.interval
        left = jnp.einsum("in,ijm,jm->nm", mine.slope, lefts[..., their_interval], theirs.slope)
        step = jnp.einsum(
            "in,ijm,jm->nm",
            mine.at.gain[0],
            innovations.covariance[..., their_interval],
            theirs.at.gain[0],
        )
        together = jnp.where(my_interval[:, None] == their_interval[None], left + step, 0.0)
        return apart.T + together + bridges(strand.kernel, mine.at, theirs.at)

    columns = jax.lax.map(block, others)
    return jnp.moveaxis(columns, 0, 1).reshape(len(x), -1)


def _first_of_each(visited: Int[Array, " visited"]) -> Array:
    """Not the repetitions that only fill up."""
    return jnp.concatenate([jnp.ones(1, dtype=bool), visited[1:] > visited[:-1]])


def _products_between(
    carried: Float[Array, "dim dim intervals"], visited: Int[Array, " visited"]
) -> Float[Array, "dim dim visited"]:
    """From the right state of each visited interval to the left state of the next."""
    dim, _, intervals = carried.shape
    stops = jnp.zeros(intervals, dtype=bool).at[visited].set(True)

    def step(product: Array, interval: tuple[Array, Array]) -> tuple[Array, Array]:
        matrix, stop = interval
        return jnp.where(stop, jnp.eye(dim), matrix @ product), product

    _, products = jax.lax.scan(step, jnp.eye(dim), (jnp.moveaxis(carried, -1, 0), stops))
    following = jnp.append(visited[1:], visited[-1])
    return jnp.moveaxis(products[following], 0, -1)
