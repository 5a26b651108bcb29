"""Small dense algebra on batches: a matrix lies in the first two axes, the batch in those after.

So laid out, every entry of a matrix is an array over the batch, and a product of small matrices is
a few multiplications of such arrays, which the compiler turns into one loop over the batch. For
large batches of small matrices everything is written out in entries, which is several times faster
and takes several times longer to compile; for others, as operations on whole matrices.

Covariances here may be graded over many orders of magnitude (process noise of a short step) or
singular (deterministic components). Scaled to unit diagonal they are of modest condition, so that
is what gets factorised, without jitter: a direction whose pivot vanishes to rounding is treated
as having variance zero.

Loops over the dimension are unrolled for small matrices and scanned for larger ones, where
unrolling would take minutes to compile. No LAPACK: batched over many intervals it is slower for
small matrices, and on the CPU several such calls at once can wait for each other for ever (seen
with jaxlib 0.10.2, two cores, 20 000 matrices).
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._native import hold

_ROUNDING = 8 * np.finfo(float).eps
_UNROLLED = 4  # the largest dimension for which loops are unrolled
_LARGE = 4096  # the batch from which on speed matters more than the time to compile

Matrix = Float[Array, "dim dim *#batch"]  # batches may be broadcast
Columns = Float[Array, "dim columns *#batch"]
Vector = Float[Array, "dim *#batch"]
Batch = Float[Array, "*#batch"]
Entries = list[list[Any]]  # of a matrix; an entry that is always zero may be the number 0.0


def in_entries(dim: int, batch: tuple[int, ...]) -> bool:
    """Whether to write out the algebra of a batch of matrices entry by entry."""
    return dim <= _UNROLLED and math.prod(batch) >= _LARGE


def transpose(matrix: Float[Array, "rows columns *#batch"]) -> Float[Array, "columns rows *#batch"]:
    """Each matrix of the batch transposed."""
    return jnp.swapaxes(matrix, 0, 1)


def times(
    left: Float[Array, "rows inner *#batch"], right: Float[Array, "inner columns *#batch"]
) -> Float[Array, "rows columns *_"]:
    """The product of two matrices."""
    batch = max(left.shape[2:], right.shape[2:], key=math.prod)
    if in_entries(right.shape[0], batch):
        return _total(left[:, k, None] * right[None, k] for k in range(right.shape[0]))
    return jnp.sum(left[:, :, None] * right[None], axis=1)


def apply(matrix: Float[Array, "rows dim *#batch"], vector: Vector) -> Float[Array, "rows *_"]:
    """The product of a matrix and a vector."""
    if in_entries(len(vector), vector.shape[1:]):
        return _total(matrix[:, k] * vector[k][None] for k in range(len(vector)))
    return jnp.sum(matrix * vector[None], axis=1)


def dot(left: Vector, right: Vector) -> Float[Array, "*_"]:
    """The inner product of two vectors."""
    return jnp.sum(left * right, axis=0)


def outer(left: Vector, right: Vector) -> Float[Array, "dim dim *_"]:
    """The outer product of two vectors."""
    return left[:, None] * right[None]


def identity(like: Matrix) -> Matrix:
    """Identity matrices, as many as in a batch (or one to be broadcast over it)."""
    dim = like.shape[0]
    return jnp.eye(dim).reshape(dim, dim, *[1] * (like.ndim - 2))


def assemble(entries: Entries, like: Float[Array, "*batch"]) -> Float[Array, "dim dim *batch"]:
    """Entries as matrices over a batch like this one; an entry may be in several places."""
    layers = {
        id(entry): jnp.broadcast_to(entry, (1, *like.shape)) for row in entries for entry in row
    }
    flat = jnp.concatenate([layers[id(entry)] for row in entries for entry in row])
    return jax.lax.reshape(flat, (len(entries), len(entries[0]), *like.shape))


def diagonal(matrix: Matrix) -> Vector:
    """The diagonals."""
    if in_entries(len(matrix), matrix.shape[2:]):
        return jnp.stack([matrix[i, i] for i in range(len(matrix))])
    unit = np.eye(len(matrix), dtype=bool).reshape(*matrix.shape[:2], *[1] * (matrix.ndim - 2))
    return jnp.sum(jnp.where(unit, matrix, 0.0), axis=0)


def symmetric(matrix: Matrix) -> Matrix:
    """The symmetric part."""
    return (matrix + transpose(matrix)) / 2


def lower_triangle(matrix: Matrix, below: int = 0) -> Matrix:
    """The lower triangle; with `below` = 1, without the diagonal."""
    dim = matrix.shape[0]
    mask = np.tri(dim, k=-below, dtype=bool).reshape(dim, dim, *[1] * (matrix.ndim - 2))
    return jnp.where(mask, matrix, 0.0)


# --- factors -----------------------------------------------------------------------------------


@jax.custom_jvp
def cholesky(matrix: Matrix) -> Matrix:
    """Lower factor of the symmetric part of a matrix; NaN where it is not positive definite."""
    return _eliminate(symmetric(matrix), _inverse_root)


@jax.custom_jvp
def psd_cholesky(covariance: Matrix) -> Matrix:
    """Lower-triangular S with S Sᵀ = covariance, for any positive semi-definite covariance."""
    variances = diagonal(covariance)
    positive = variances > 0
    scale = jnp.sqrt(jnp.where(positive, variances, 1.0))
    correlation = covariance / outer(scale, scale)
    tolerance = _ROUNDING * len(covariance)

    def inverse_root(pivot: Batch) -> Batch:
        usable = pivot > tolerance
        return jnp.where(usable, _inverse_root(jnp.where(usable, pivot, 1.0)), 0.0)

    return _eliminate(correlation, inverse_root) * jnp.where(positive, scale, 0.0)[:, None]


def _inverse_root(pivot: Batch) -> Batch:
    return 1 / jnp.sqrt(pivot)


def _eliminate(matrix: Matrix, inverse_root: Any) -> Matrix:
    """Cholesky, column by column."""
    dim = len(matrix)
    if dim <= _UNROLLED:
        entries = {(i, j): matrix[i, j] for i in range(dim) for j in range(i + 1)}
        return _assemble(_eliminate_entries(entries, dim, inverse_root)[0], dim)
    rows = np.arange(dim).reshape(-1, *[1] * (matrix.ndim - 2))

    def next_column(rest: Matrix, k: Any) -> tuple[Matrix, Vector]:
        column = jnp.where(rows >= k, rest[:, k], 0.0) * inverse_root(rest[k, k])[None]
        return rest - outer(column, column), column

    return transpose(jax.lax.scan(next_column, matrix, jnp.arange(dim))[1])


def _eliminate_entries(
    entries: dict[tuple[int, int], Batch], dim: int, inverse_root: Any
) -> tuple[dict[tuple[int, int], Batch], list[Batch]]:
    """Cholesky of the lower triangle, entry by entry; the inverse pivots too."""
    factor: dict[tuple[int, int], Batch] = {}
    inverses: list[Batch] = []
    for j in range(dim):
        for i in range(j, dim):
            left = entries[i, j]
            for k in range(j):
                left = left - factor[i, k] * factor[j, k]
            if i == j:
                inverses.append(inverse_root(left))
            factor[i, j] = left * inverses[j]
    return factor, inverses


def _assemble(entries: dict[tuple[int, int], Batch], dim: int) -> Matrix:
    """A lower triangle as a matrix."""
    rows = range(dim)
    return assemble([[entries.get((i, j), 0.0) for j in rows] for i in rows], entries[0, 0])


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
    whitened = solve_lower(factor, transpose(solve_lower(factor, symmetric(change))))
    return times(factor, (lower_triangle(whitened) + lower_triangle(whitened, below=1)) / 2)


# --- solves ------------------------------------------------------------------------------------


def solve_lower(factor: Matrix, rhs: Columns) -> Columns:
    """L⁻¹ B; directions in which L vanishes give zero."""
    # A linear solve in JAX's eyes: its derivatives are solves too, not transposed substitutions.
    solution: Columns = jax.lax.custom_linear_solve(
        lambda x: times(lower_triangle(factor), x),
        rhs,
        lambda _, b: _substitute(factor, b),
        lambda _, b: _substitute_back(factor, b),
    )
    return solution


def solve_upper(factor: Matrix, rhs: Columns) -> Columns:
    """L⁻ᵀ B; directions in which L vanishes give zero."""
    solution: Columns = jax.lax.custom_linear_solve(
        lambda x: times(transpose(lower_triangle(factor)), x),
        rhs,
        lambda _, b: _substitute_back(factor, b),
        lambda _, b: _substitute(factor, b),
    )
    return solution


def _substitute(factor: Matrix, rhs: Columns) -> Columns:
    return _rows_in_order(factor, _inverse_pivots(factor), rhs)


def _substitute_back(factor: Matrix, rhs: Columns) -> Columns:
    upper = transpose(factor)[::-1, ::-1]  # reversed, the last row comes first
    return _rows_in_order(upper, _inverse_pivots(factor)[::-1], rhs[::-1])[::-1]


def _rows_in_order(factor: Matrix, inverse_pivots: Vector, rhs: Columns) -> Columns:
    if len(rhs) <= _UNROLLED:
        rows: list[Array] = []
        for k in range(len(rhs)):
            known = [-factor[k, j][None] * rows[j] for j in range(k)]
            rows.append(_total([rhs[k], *known]) * inverse_pivots[k][None])
        return jnp.stack(rows)
    below = lower_triangle(factor, below=1)

    def next_row(known: Columns, k: Any) -> tuple[Columns, None]:
        row = (rhs[k] - jnp.sum(below[k][:, None] * known, axis=0)) * inverse_pivots[k][None]
        return known.at[k].set(row), None

    return jax.lax.scan(next_row, jnp.zeros_like(rhs), jnp.arange(len(rhs)))[0]


def _inverse_pivots(factor: Matrix) -> Vector:
    pivots = diagonal(factor)
    return jnp.where(pivots == 0, 0.0, 1 / jnp.where(pivots == 0, 1.0, pivots))


# --- Gaussians ---------------------------------------------------------------------------------


def psd_solve(covariance: Matrix, root: Matrix, rhs: Columns) -> Columns:
    """C⁻¹ B, given the root of C from `psd_cholesky`; directions of variance zero give zero.

    The derivative goes through C and B, d(C⁻¹B) = C⁻¹(dB − dC C⁻¹B): a root needs none.
    """
    solution: Columns = jax.lax.custom_linear_solve(
        lambda x: times(covariance, x),
        rhs,
        lambda _, b: _substitute_back(root, _substitute(root, b)),
        symmetric=True,
    )
    return solution


@jax.custom_jvp
def solve_entries(
    covariance: list[list[Batch]], root: list[list[Batch]], rhs: list[Batch]
) -> tuple[Batch, ...]:
    """`psd_solve` for one column, with matrices as rows of entries (of the root, lower ones)."""
    dim = len(rhs)
    inverses = [
        jnp.where(root[i][i] == 0, 0.0, 1 / jnp.where(root[i][i] == 0, 1.0, root[i][i]))
        for i in range(dim)
    ]
    down: list[Batch] = []
    for i in range(dim):
        known = [-root[i][j] * down[j] for j in range(i)]
        down.append(_total([rhs[i], *known]) * inverses[i])
    up: dict[int, Batch] = {}
    for i in reversed(range(dim)):
        known = [-root[j][i] * up[j] for j in range(i + 1, dim)]
        up[i] = _total([down[i], *known]) * inverses[i]
    return tuple(hold([up[i] for i in range(dim)]))


@solve_entries.defjvp
def _solve_entries_jvp(primals: Any, tangents: Any) -> Any:
    covariance, root, rhs = primals
    d_covariance, _, d_rhs = tangents
    solution = solve_entries(covariance, root, rhs)
    moved = [
        _total([d_rhs[i], *(-d * x for d, x in zip(d_covariance[i], solution, strict=True))])
        for i in range(len(rhs))
    ]
    return solution, solve_entries(covariance, root, hold(moved))


@jax.custom_jvp
def tilt(covariance: Matrix, precision: Matrix) -> tuple[Matrix, Float[Array, "*#batch"]]:
    """(C⁻¹ + J)⁻¹ and log det(I + CJ) for a covariance C, possibly singular, and a symmetric J.

    By C = S Sᵀ the result is S (I + SᵀJS)⁻¹ Sᵀ, positive semi-definite by construction. J may be
    indefinite; where the product of the two is not a Gaussian the result is NaN.
    """
    if len(covariance) <= _UNROLLED:
        return _tilt_entries(covariance, precision)
    root = psd_cholesky(covariance)
    upper = transpose(root)
    inner = cholesky(identity(root) + times(upper, times(precision, root)))
    half = solve_lower(inner, upper)
    return times(transpose(half), half), 2 * jnp.sum(jnp.log(diagonal(inner)), axis=0)


def _tilt_entries(covariance: Matrix, precision: Matrix) -> tuple[Matrix, Float[Array, "*#batch"]]:
    """`tilt` entry by entry, without the products that are zero."""
    dim = len(covariance)
    root = psd_cholesky(covariance)
    S = {(i, j): root[i, j] for i in range(dim) for j in range(i + 1)}
    JS = [
        [_total(precision[i, k] * S[k, j] for k in range(j, dim)) for j in range(dim)]
        for i in range(dim)
    ]
    inner = {
        (i, j): _total(S[k, i] * JS[k][j] for k in range(i, dim)) + (1.0 if i == j else 0.0)
        for i in range(dim)
        for j in range(i + 1)
    }
    factor, inverses = _eliminate_entries(inner, dim, _inverse_root)
    half: dict[tuple[int, int], Batch] = {}  # L⁻¹Sᵀ: row i, and column j with all j from zero
    for i in range(dim):
        for j in range(dim):
            known = [factor[i, k] * half[k, j] for k in range(i)]
            entry = [S[j, i]] if i <= j else []
            left = _total([*entry, *(-term for term in known)])
            half[i, j] = left * inverses[i]
    tilted = {
        (i, j): _total(half[k, i] * half[k, j] for k in range(dim))
        for i in range(dim)
        for j in range(i + 1)
    }
    log_det = -2 * _total(jnp.log(inverse) for inverse in inverses)
    return _mirror(tilted, dim), log_det


def _total(terms: Any) -> Batch:
    first, *rest = terms
    return sum(rest, start=first)


def _mirror(lower: dict[tuple[int, int], Batch], dim: int) -> Matrix:
    """A symmetric matrix from its lower triangle."""
    rows = range(dim)
    return assemble([[lower[max(i, j), min(i, j)] for j in rows] for i in rows], lower[0, 0])


@tilt.defjvp
def _tilt_jvp(primals: Any, tangents: Any) -> Any:
    """dC⁺ = R dC Rᵀ − C⁺ dJ C⁺ and d log det = tr(J R dC) + tr(C⁺ dJ), with R = I − C⁺J."""
    (covariance, precision), (d_covariance, d_precision) = primals, tangents
    tilted, log_det = tilt(covariance, precision)
    keep = identity(tilted) - times(tilted, precision)
    shrunk = times(times(keep, d_covariance), transpose(keep))
    d_tilted = shrunk - times(times(tilted, d_precision), tilted)
    pull = transpose(times(precision, keep))
    d_log_det = jnp.sum(pull * d_covariance + tilted * d_precision, axis=(0, 1))
    return (tilted, log_det), (d_tilted, d_log_det)
