"""What the inducing states say about whole states between them.

With r = u₊ − A₋₊u₋ the innovation of an interval, what its right state has that its left one does
not foretell, a state inside is

    s(x) = A₋ₓ u₋ + P₂ r + bridge,   P₂ = Q₋ₓ Aₓ₊ᵀ Q₋₊⁻¹,   bridge ~ N(0, W Q₋ₓ Wᵀ + P₂ Qₓ₊ P₂ᵀ)

with W = I − P₂ Aₓ₊; the covariance is a sum of two squares, and that of two bridges at x ≤ x′ is
Q₋ₓ Aₓₓ′ᵀ W′ᵀ. It is written in the innovation and not in u₊ because the rows of P₂ that belong to
derivatives grow as powers of 1/Δ: times the difference of two nearly equal states they would give
rounding, times r (small, and known to its own last digits) they give the derivative.

Rows of a matrix stand for whatever is wanted of the state: all of it, f, its derivatives. Points
lie along the last axis. As in `_projection`, each block of a kernel is looked at on its own.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from stategp._linalg import times, transpose
from stategp._projection import Where, diagonal_blocks, locate
from stategp.chain import Transitions, psd_cholesky, psd_solve
from stategp.kernels import Kernel, group_blocks

Points = Float[Array, " points"]
Rows = Float[Array, "rows dim"]
Seen = Float[Array, "rows dim points"]


class StateProjection(NamedTuple):
    """R s(x) given the states around x, for a matrix R of rows."""

    interval: Int[Array, " points"]
    x: Points
    carried: Seen  # R A₋ₓ
    gain: Seen  # R P₂
    residual: Float[Array, "rows rows points"]  # the covariance of R · bridge
    noise: Seen  # R Q₋ₓ
    keep: Seen  # R W


def project_states(
    kernel: Kernel,
    inducing: Float[Array, " states"],
    x: Points,
    transitions: Transitions,
    rows: Rows,
) -> StateProjection:
    """The conditionals of R s at x, in any order, inside or outside the inducing points."""
    where = locate(inducing, x)
    columns: list[list[Array]] = []
    residual = jnp.zeros((len(rows), len(rows), len(x)))
    start = 0
    for group in group_blocks(kernel):
        count, dim = jax.eval_shape(jax.vmap(lambda block: block.emission()), group).shape
        across = diagonal_blocks(transitions, start, count, dim)
        wanted = rows[:, start : start + count * dim].reshape(len(rows), count, dim)
        *parts, spread = jax.vmap(_project_block, in_axes=(0, 0, 1, None))(
            group, across, wanted, where
        )
        columns.append([_side_by_side(part) for part in parts])
        residual = residual + jnp.sum(spread, axis=0)
        start += count * dim
    carried, gain, noise, keep = (
        jnp.concatenate(parts, axis=1) for parts in zip(*columns, strict=True)
    )
    return StateProjection(where.interval, x, carried, gain, residual, noise, keep)


def _side_by_side(parts: Float[Array, "count rows dim points"]) -> Float[Array, "rows _ points"]:
    return jnp.moveaxis(parts, 0, 1).reshape(parts.shape[1], -1, parts.shape[-1])


def _project_block(block: Kernel, across: Transitions, rows: Rows, where: Where) -> Any:
    at_rest, seen = block.covariance_at(where.x), rows[..., None]
    A_left, Q_left = block.matrices_from(where.low, where.before)
    A_right, Q_right = block.matrices_from(where.x, where.after)
    A_left = jnp.where(where.left[None, None], A_left, 0.0)
    Q_left = jnp.where(where.left[None, None], Q_left, at_rest)
    A_right = jnp.where(where.right[None, None], A_right, 0.0)
    Q = jnp.moveaxis(across.Q, 0, -1)
    root = jax.lax.stop_gradient(psd_cholesky(Q))
    noise = times(seen, Q_left)
    ahead = times(A_right, transpose(noise))
    gain = transpose(psd_solve(Q[..., where.interval], root[..., where.interval], ahead))
    keep = seen - times(gain, A_right)
    residual = _square(keep, Q_left) + _square(gain, Q_right)
    return times(seen, A_left), gain, noise, keep, residual


def _square(rows: Seen, covariance: Float[Array, "dim dim points"]) -> Any:
    return times(times(rows, covariance), transpose(rows))


def bridges(
    kernel: Kernel, first: StateProjection, second: StateProjection
) -> Float[Array, "first second"]:
    """Covariances of the bridges of two sets of points, for a single row; zero across intervals."""
    total = jnp.zeros((first.gain.shape[-1], second.gain.shape[-1]))
    lag = second.x[None] - first.x[:, None]
    start = 0
    for group in group_blocks(kernel):
        count, dim = jax.eval_shape(jax.vmap(lambda block: block.emission()), group).shape
        if not group.deterministic:
            span = slice(start, start + count * dim)
            entries = [
                part[0, span].reshape(count, dim, -1)
                for part in (first.noise, first.keep, second.noise, second.keep)
            ]
            total = total + jnp.sum(
                jax.vmap(_bridge_block, in_axes=(0, None, None, *[0] * 4))(
                    group, jnp.minimum(first.x[:, None], second.x[None]), lag, *entries
                ),
                axis=0,
            )
        start += count * dim
    return jnp.where(first.interval[:, None] == second.interval[None], total, 0.0)


def _bridge_block(
    block: Kernel,
    earlier: Float[Array, "first second"],
    lag: Float[Array, "first second"],
    noise: Float[Array, "dim first"],
    keep: Float[Array, "dim first"],
    other_noise: Float[Array, "dim second"],
    other_keep: Float[Array, "dim second"],
) -> Float[Array, "first second"]:
    A, _ = block.matrices_from(earlier, jnp.abs(lag))
    later = jnp.einsum("in,jinm,jm->nm", noise, A, other_keep)
    before = jnp.einsum("im,jinm,jn->nm", other_noise, A, keep)
    return jnp.where(lag >= 0, later, before)
