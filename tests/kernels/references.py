"""Step matrices to hundreds of digits, straight from the differential equation.

No closed form of the package is repeated here. From F and D = L Q_c Lᵀ alone: A(Δ) = e^{FΔ} by
mpmath's matrix exponential, P∞ from the linear system F P + P Fᵀ = −D, and Q(Δ) = P∞ − A P∞ Aᵀ,
whose cancellation costs digits that we have.

F and D are read as exact numbers. In a single kernel they are products of a few rounded factors
with the structural zeros kept, so rounding moves the entries of A and Q by some units of the
last place (times λΔ at large steps). In a product of kernels it would do more: F₁⊗I + I⊗F₂
and its D no longer balance exactly, and P∞ gets entries of 1e-19 where it must have zeros. There
the definition is used: P = P₁⊗P₂ and A = A₁⊗A₂ from the factors.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import mpmath
import numpy as np
import scipy.linalg

from stategp.kernels import Kernel
from stategp.kernels._compose import Kronecker

DIGITS = 340  # entries down to 1e-300 next to entries of order one, with digits to spare
NEGLIGIBLE = 1e-300

Exponential = Callable[[float], mpmath.matrix]
Equation = tuple[Any, Any, Any]  # F, D and P₀


def exact_matrices(
    kernel: Kernel,
    steps: Sequence[float],
    *,
    digits: int = DIGITS,
    equation: Equation | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A(Δ) and Q(Δ) for every step, and P∞; rounded to double precision at the very end.

    Where there is no noise to determine P∞ it is the kernel's own P₀. `equation` is that of a
    kernel whose state has no parts, where it is known.
    """
    with mpmath.workdps(digits):
        blocks = kernel.blocks()
        known = equation if len(blocks) == 1 and blocks[0] is kernel else None
        exponential_of = functools.cache(_exponential)  # parts of a product come several times
        parts = [_solution(block, exponential_of, known) for block in blocks]
        A = [[exponential(step) for _, exponential in parts] for step in steps]
        Q = [[p - a * p * a.T for (p, _), a in zip(parts, row, strict=True)] for row in A]
        exact = [np.array([_block_diagonal(row) for row in rows]) for rows in (A, Q)]
        return *exact, _block_diagonal([p for p, _ in parts])


def exact_covariance(
    F: np.ndarray, D: np.ndarray, H: np.ndarray, lags: Sequence[float]
) -> np.ndarray:
    """k(τ) = H e^{Fτ} P∞ Hᵀ."""
    with mpmath.workdps(60):
        f, h = mpmath.matrix(F), mpmath.matrix(H)
        start = _lyapunov(f, mpmath.matrix(D)) * h
        values = [(h.T * mpmath.expm(f * mpmath.mpf(lag)) * start)[0] for lag in lags]
        return np.array([float(value) for value in values])


@eqx.filter_jit
def _equation(block: Kernel) -> Equation:
    return block.feedback(), block.diffusion(), block.stationary_covariance()


def _solution(
    block: Kernel,
    exponential_of: Callable[[bytes, float], mpmath.matrix],
    known: Equation | None = None,
) -> tuple[mpmath.matrix, Exponential]:
    """P∞ and the function Δ ↦ e^{FΔ} of one independent part of the state."""
    if isinstance(block, Kronecker):
        p1, left = _solution(block.left, exponential_of)
        p2, right = _solution(block.right, exponential_of)
        return _kron(p1, p2), lambda step: _kron(left(step), right(step))
    F, D, start = (np.asarray(matrix) for matrix in known or _equation(block))
    P = _lyapunov(mpmath.matrix(F), mpmath.matrix(D)) if np.any(D) else mpmath.matrix(start)
    return P, functools.partial(exponential_of, F.tobytes())


def _exponential(feedback: bytes, step: float) -> mpmath.matrix:
    F = np.frombuffer(feedback)
    dim = round(len(F) ** 0.5)
    return mpmath.expm(mpmath.matrix(F.reshape(dim, dim)) * mpmath.mpf(step))


def _lyapunov(F: mpmath.matrix, D: mpmath.matrix) -> mpmath.matrix:
    """P of F P + P Fᵀ + D = 0, from one equation for each pair i ≤ j."""
    dim = F.rows
    pairs = [(i, j) for i in range(dim) for j in range(i, dim)]
    index = {pair: n for n, pair in enumerate(pairs)}
    system, right = mpmath.zeros(len(pairs)), mpmath.zeros(len(pairs), 1)
    for (i, j), row in index.items():
        right[row] = -D[i, j]
        for k in range(dim):
            system[row, index[min(k, j), max(k, j)]] += F[i, k]
            system[row, index[min(i, k), max(i, k)]] += F[j, k]
    solution = mpmath.lu_solve(system, right)
    P = mpmath.zeros(dim)
    for (i, j), n in index.items():
        P[i, j] = P[j, i] = solution[n]
    return P


def _kron(a: mpmath.matrix, b: mpmath.matrix) -> mpmath.matrix:
    rows = [[x * y for x in u for y in v] for u in a.tolist() for v in b.tolist()]
    return mpmath.matrix(rows)


def _block_diagonal(blocks: Sequence[mpmath.matrix]) -> np.ndarray:
    rounded = [np.array(block.tolist(), dtype=float) for block in blocks]
    return scipy.linalg.block_diag(*rounded)
