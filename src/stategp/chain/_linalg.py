"""Small dense algebra, one matrix at a time: `vmap` makes batches.

Covariances here may be graded over many orders of magnitude (process noise of a short step) or
singular (deterministic components). Scaled to unit diagonal they are of modest condition, so that
is what gets factorised, without jitter: a direction whose pivot vanishes to rounding is treated
as having variance zero.

Loops over the dimension are unrolled for small matrices and scanned for larger ones, where
unrolling would take minutes to compile. No LAPACK: batched over many intervals it is slower for
small matrices, and on the CPU several such calls at once can wait for each other for ever (seen
with jaxlib 0.10.2, two cores, 20 000 matrices).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

_ROUNDING = 8 * np.finfo(float).eps
_UNROLLED = 4  # the largest dimension for which loops are unrolled

Matrix = Float[Array, "dim dim"]
Columns = Float[Array, "dim columns"]


def symmetric(matrix: Matrix) -> Matrix:
    """The symmetric part."""
    return (matrix + matrix.T) / 2


# --- factors -----------------------------------------------------------------------------------


@jax.custom_jvp
def cholesky(matrix: Matrix) -> Matrix:
    """Lower factor of the symmetric part of a matrix; NaN where it is not positive definite."""
    return _eliminate(symmetric(matrix), lambda pivot: 1 / jnp.sqrt(pivot))


@jax.custom_jvp
def psd_cholesky(covariance: Matrix) -> Matrix:
    """Lower-triangular S with S Sᵀ = covariance, for any positive semi-definite covariance."""
    variances = jnp.diagonal(covariance)
    positive = variances > 0
    scale = jnp.sqrt(jnp.where(positive, variances, 1.0))
    correlation = covariance / (scale[:, None] * scale[None, :])
    tolerance = _ROUNDING * len(covariance)

    def inverse_root(pivot: Float[Array, ""]) -> Float[Array, ""]:
        usable = pivot > tolerance
        return jnp.where(usable, 1 / jnp.sqrt(jnp.where(usable, pivot, 1.0)), 0.0)

    return _eliminate(correlation, inverse_root) * jnp.where(positive, scale, 0.0)[:, None]


def _eliminate(matrix: Matrix, inverse_root: Any) -> Matrix:
    """Cholesky, column by column."""
    rows = np.arange(len(matrix))

    def next_column(rest: Matrix, k: Any) -> tuple[Matrix, Float[Array, " dim"]]:
        column = jnp.where(rows >= k, rest[:, k], 0.0) * inverse_root(rest[k, k])
        return rest - column[:, None] * column[None, :], column

    return _loop(next_column, matrix, len(matrix))[1].T


@cholesky.defjvp
def _cholesky_jvp(primals: Any, tangents: Any) -> Any:
    factor = cholesky(*primals)
    return factor, _factor_tangent(factor, *tangents)


@psd_cholesky.defjvp
def _psd_cholesky_jvp(primals: Any, tangents: Any) -> Any:
    factor = psd_cholesky(*primals)
    return factor, _factor_tangent(factor, *tangents)


def _factor_tangent(factor: Matrix, change: Matrix) -> Matrix:
    """dL = L Φ(L⁻¹ dA L⁻ᵀ), where Φ keeps the lower triangle and half of the diagonal."""
    whitened = solve_lower(factor, solve_lower(factor, symmetric(change)).T)
    return factor @ (jnp.tril(whitened) - jnp.diag(jnp.diagonal(whitened)) / 2)


# --- solves ------------------------------------------------------------------------------------


def solve_lower(factor: Matrix, rhs: Columns) -> Columns:
    """L⁻¹ B; directions in which L vanishes give zero."""
    # A linear solve in JAX's eyes: its derivatives are solves too, not transposed substitutions.
    solution: Columns = jax.lax.custom_linear_solve(
        lambda x: jnp.tril(factor) @ x,
        rhs,
        lambda _, b: _substitute(factor, b),
        lambda _, b: _substitute_back(factor, b),
    )
    return solution


def solve_upper(factor: Matrix, rhs: Columns) -> Columns:
    """L⁻ᵀ B; directions in which L vanishes give zero."""
    solution: Columns = jax.lax.custom_linear_solve(
        lambda x: jnp.tril(factor).T @ x,
        rhs,
        lambda _, b: _substitute_back(factor, b),
        lambda _, b: _substitute(factor, b),
    )
    return solution


def _substitute(factor: Matrix, rhs: Columns) -> Columns:
    return _rows_in_order(jnp.tril(factor, k=-1), _inverse_pivots(factor), rhs)


def _substitute_back(factor: Matrix, rhs: Columns) -> Columns:
    upper = jnp.tril(factor, k=-1).T[::-1, ::-1]  # reversed, the last row comes first
    return _rows_in_order(upper, _inverse_pivots(factor)[::-1], rhs[::-1])[::-1]


def _rows_in_order(below: Matrix, inverse_pivots: Float[Array, " dim"], rhs: Columns) -> Columns:
    def next_row(known: Columns, k: Any) -> tuple[Columns, Float[Array, " columns"]]:
        row = (rhs[k] - below[k] @ known) * inverse_pivots[k]
        return known.at[k].set(row), row

    return _loop(next_row, jnp.zeros_like(rhs), len(rhs))[1]


def _inverse_pivots(factor: Matrix) -> Float[Array, " dim"]:
    pivots = jnp.diagonal(factor)
    return jnp.where(pivots == 0, 0.0, 1 / jnp.where(pivots == 0, 1.0, pivots))


def _loop(step: Any, start: Array, count: int) -> tuple[Array, Array]:
    """`lax.scan` over 0 … count−1, unrolled where that is small."""
    if count > _UNROLLED:
        return jax.lax.scan(step, start, jnp.arange(count))
    outputs = []
    for k in range(count):
        start, output = step(start, k)
        outputs.append(output)
    return start, jnp.stack(outputs)


# --- Gaussians ---------------------------------------------------------------------------------


@jax.custom_jvp
def psd_solve(covariance: Matrix, root: Matrix, rhs: Columns) -> Columns:
    """C⁻¹ B, given the root of C from `psd_cholesky`; directions of variance zero give zero.

    The derivative goes through C and B: a root needs none.
    """
    return solve_upper(root, solve_lower(root, rhs))


@psd_solve.defjvp
def _psd_solve_jvp(primals: Any, tangents: Any) -> Any:
    """d(C⁻¹B) = C⁻¹(dB − dC C⁻¹B)."""
    covariance, root, rhs = primals
    d_covariance, _, d_rhs = tangents
    solution = psd_solve(covariance, root, rhs)
    return solution, psd_solve(covariance, root, d_rhs - d_covariance @ solution)


@jax.custom_jvp
def tilt(covariance: Matrix, precision: Matrix) -> tuple[Matrix, Float[Array, ""]]:
    """(C⁻¹ + J)⁻¹ and log det(I + CJ) for a covariance C, possibly singular, and a symmetric J.

    By C = S Sᵀ the result is S (I + SᵀJS)⁻¹ Sᵀ, positive semi-definite by construction. J may be
    indefinite; where the product of the two is not a Gaussian the result is NaN.
    """
    root = psd_cholesky(covariance)
    inner = cholesky(jnp.eye(len(root)) + root.T @ precision @ root)
    half = solve_lower(inner, root.T)
    return half.T @ half, 2 * jnp.sum(jnp.log(jnp.diagonal(inner)))


@tilt.defjvp
def _tilt_jvp(primals: Any, tangents: Any) -> Any:
    """dC⁺ = R dC Rᵀ − C⁺ dJ C⁺ and d log det = tr(J R dC) + tr(C⁺ dJ), with R = I − C⁺J."""
    (covariance, precision), (d_covariance, d_precision) = primals, tangents
    tilted, log_det = tilt(covariance, precision)
    keep = jnp.eye(len(tilted)) - tilted @ precision
    d_tilted = keep @ d_covariance @ keep.T - tilted @ d_precision @ tilted
    d_log_det = jnp.sum((precision @ keep).T * d_covariance) + jnp.sum(tilted * d_precision)
    return (tilted, log_det), (d_tilted, d_log_det)
