"""Kernels given only as a stochastic differential equation ds = F s dx + L dβ, f = H s.

The matrices of a step come from Taylor series at a step so short that they converge, doubled as
often as needed: A(2δ) = A(δ)², Q(2δ) = Q(δ) + A(δ)Q(δ)A(δ)ᵀ. Q is a sum of positive
semi-definite terms throughout, so it keeps its digits where P₀ − A P₀ Aᵀ loses them, and P₀ is
its limit.
"""

import abc
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.linalg import matrix_balance

from stategp.kernels._base import Kernel, Matrix, Scalar, State, Steps
from stategp.parameters import Parameter, Value, fixed, positive

_DEGREE = 26  # of the Taylor series at ‖F‖δ ≤ 1, and two for each component of the state
_STEP_DOUBLINGS = 34
_LOOPS = (0, 4, 12, _STEP_DOUBLINGS)
_STATIONARY_DOUBLINGS = 90
_STIFFEST = 1e7

Matrices = Float[Array, "dim dim *steps"]
Batch = Float[Array, "dim dim steps"]
SDE = tuple[
    Float[Array, "dim dim"],
    Float[Array, "dim noise"],
    Float[Array, "noise noise"],
    Float[Array, " dim"],
]


class LinearSDE(Kernel):
    """Base class of kernels that are written down as (F, L, Q_c, H) and nothing else.

    Subclass it, declare parameters as other kernels do, and return the four arrays from
    :meth:`sde`. F must be stable (eigenvalues with negative real parts).
    """

    @abc.abstractmethod
    def sde(self) -> SDE:
        """F, L, Q_c and H."""

    @property
    def state_dim(self) -> int:
        return int(jax.eval_shape(lambda: self.sde()[0]).shape[0])

    def _balanced(self) -> SDE:
        """The same equation with every state component divided by its standard deviation."""
        F, L, Qc, H = self.sde()
        variances = jnp.diagonal(_stationary(F, L, Qc))
        scale = jnp.sqrt(jnp.where(variances > 0, variances, 1.0))
        return F * scale[None, :] / scale[:, None], L / scale[:, None], Qc, H * scale

    def transition(self, dt: Scalar) -> Matrix:
        return self.step_matrices(jnp.asarray(dt, dtype=float))[0]

    def process_noise(self, dt: Scalar) -> Matrix:
        return self.step_matrices(jnp.asarray(dt, dtype=float))[1]

    def step_matrices(self, dt: Steps) -> tuple[Matrices, Matrices]:
        F, L, Qc, _ = self._balanced()
        A, Q = discretise(F, L @ Qc @ L.T, dt.reshape(-1))
        return A.reshape(*A.shape[:2], *dt.shape), Q.reshape(*Q.shape[:2], *dt.shape)

    def stationary_covariance(self) -> Matrix:
        F, L, Qc, _ = self._balanced()
        return _stationary(F, L, Qc)

    def emission(self) -> State:
        return self._balanced()[3]

    def feedback(self) -> Matrix:
        return self._balanced()[0]

    def diffusion(self) -> Matrix:
        _, L, Qc, _ = self._balanced()
        return L @ Qc @ L.T

    def covariance(self, lag: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        emission, start = self.emission(), self.stationary_covariance() @ self.emission()
        A, _ = self.step_matrices(jnp.abs(lag))
        return jnp.einsum("i,ij...,j->...", emission, A, start)


def discretise(F: Matrix, diffusion: Matrix, dt: Float[Array, " steps"]) -> tuple[Batch, Batch]:
    """A(Δ) and Q(Δ) of a stable linear equation, for many steps at once."""
    rate = _fastest_rate(F)
    dt = jnp.minimum(rate * dt, 2.0**_STEP_DOUBLINGS)  # by then the process has forgotten all
    doublings = jnp.ceil(jnp.log2(jnp.maximum(jax.lax.stop_gradient(dt), 1.0)))
    A, Q = _short_steps(F / rate, diffusion / rate, dt / 2.0**doublings)
    return _doubled(A, Q, doublings)


def _fastest_rate(F: Matrix) -> Float[Array, ""]:
    """A norm of F. In units of it nothing overflows; the results do not depend on it."""
    return jax.lax.stop_gradient(jnp.max(jnp.sum(jnp.abs(F), axis=1)))


def _short_steps(F: Matrix, diffusion: Matrix, dt: Float[Array, " steps"]) -> tuple[Batch, Batch]:
    """Taylor series of A = e^{FΔ} and of Q = ∫ e^{Fu} (L Q_c Lᵀ) e^{Fu}ᵀ du, for ‖F‖Δ ≤ 1.

    An entry of Q starts with a power of Δ of its own: the coefficients before it are zeros, so
    that small entries keep their digits.
    """
    degree = _DEGREE + 2 * len(F)
    A, Q = [jnp.eye(len(F))], [jnp.zeros_like(diffusion), diffusion]
    for k in range(1, degree):
        A.append(F @ A[-1] / k)
        moved = F @ Q[-1]
        Q.append((moved + moved.T) / (k + 1))
    return polynomial(jnp.stack(A), dt), polynomial(jnp.stack(Q[:degree]), dt)


@jax.custom_jvp
def polynomial(coefficients: Float[Array, "degree dim dim"], x: Float[Array, " steps"]) -> Batch:
    """Σ_k coefficients[k] xᵏ, by Horner's rule."""
    value = jnp.broadcast_to(coefficients[-1][..., None], (*coefficients.shape[1:], *x.shape))
    for coefficient in coefficients[-2::-1]:
        value = value * x[None, None] + coefficient[..., None]
    return value


@polynomial.defjvp
def _polynomial_jvp(primals: Any, tangents: Any) -> Any:
    """The powers are multiplied out for derivatives, which sum over many steps."""
    (coefficients, x), (d_coefficients, dx) = primals, tangents
    orders = jnp.arange(1.0, len(coefficients))
    slope = polynomial(coefficients[1:] * orders[:, None, None], x)
    powers = _powers(x, len(coefficients))
    moved = jnp.einsum("kij,kn->ijn", d_coefficients, powers)
    return polynomial(coefficients, x), moved + slope * dx[None, None]


def _powers(x: Float[Array, " steps"], degree: int) -> Float[Array, "degree steps"]:
    """1, x, x², …"""
    powers, factor = jnp.ones((1, *x.shape)), x
    while len(powers) < degree:
        powers = jnp.concatenate([powers, powers * factor[None]])
        factor = factor * factor
    return powers[:degree]


@jax.custom_vjp
def _doubled(A: Batch, Q: Batch, times: Float[Array, " steps"]) -> tuple[Batch, Batch]:
    """The matrices of steps 2^times as long, with no more work than the longest step needs."""
    return jax.lax.switch(_loop(times), _BY_LOOPS, A, Q, times)


def _doubled_forward(A: Batch, Q: Batch, times: Float[Array, " steps"]) -> Any:
    return _doubled(A, Q, times), (A, Q, times)


def _doubled_backward(saved: Any, cotangents: Any) -> Any:
    """Each branch has its own reverse pass: that of a switch would keep what all of them need."""

    def reverse(branch: Any, A: Batch, Q: Batch, times: Any, cotangents: Any) -> Any:
        return jax.vjp(lambda A, Q: branch(A, Q, times), A, Q)[1](cotangents)

    branches = [partial(reverse, branch) for branch in _BY_LOOPS]
    found = jax.lax.switch(_loop(saved[2]), branches, *saved, cotangents)
    return *found, jnp.zeros_like(saved[2])


_doubled.defvjp(_doubled_forward, _doubled_backward)


def _loop(times: Float[Array, " steps"]) -> Int[Array, ""]:
    """Which of the numbers of doublings suffices."""
    return jnp.searchsorted(jnp.asarray(_LOOPS[:-1], float), jnp.max(times, initial=0.0))


def _double(most: int, A: Batch, Q: Batch, times: Float[Array, " steps"]) -> tuple[Batch, Batch]:
    def double(i: Int[Array, ""], step: tuple[Batch, Batch]) -> tuple[Batch, Batch]:
        A, Q = step
        carried = _times(_times(A, Q), jnp.swapaxes(A, 0, 1))
        active = (i < times)[None, None]
        symmetric = (carried + jnp.swapaxes(carried, 0, 1)) / 2
        return jnp.where(active, _times(A, A), A), jnp.where(active, Q + symmetric, Q)

    unroll = most <= _LOOPS[1] and len(A) <= 4  # compiled as one expression
    return jax.lax.fori_loop(0, most, double, (A, Q), unroll=unroll or None)


_BY_LOOPS = [partial(_double, most) for most in _LOOPS]


def _times(left: Batch, right: Batch) -> Batch:
    terms = [left[:, k, None] * right[None, k] for k in range(len(right))]
    return sum(terms[1:], start=terms[0])


def _stationary(F: Matrix, L: Float[Array, "dim noise"], Qc: Float[Array, "noise noise"]) -> Matrix:
    """P₀, which solves F P + P Fᵀ + L Q_c Lᵀ = 0: the process noise of an endless step."""
    rate = _fastest_rate(F)
    A, Q = _short_steps(F / rate, L @ Qc @ L.T / rate, jnp.ones(1))
    most = _STATIONARY_DOUBLINGS
    return _double(most, A, Q, jnp.full(1, float(most)))[1][..., 0]


class FromSDE(LinearSDE):
    """A kernel from the four arrays of its stochastic differential equation.

    The arrays stay as they are; `variance` multiplies the covariance and can be learned.

    >>> import stategp as sg
    >>> ou = sg.kernels.FromSDE(F=[[-1.0]], L=[[1.0]], Qc=[[2.0]], H=[1.0])
    >>> ou.state_dim
    1
    """

    variance: Parameter
    F: Parameter
    L: Parameter
    Qc: Parameter
    H: Parameter

    def __init__(self, F: Value, L: Value, Qc: Value, H: Value, *, variance: Value = None):
        f, loading, q, h = (np.asarray(array, dtype=float) for array in (F, L, Qc, H))
        h, q = h.reshape(-1), np.atleast_2d(q)
        dim = len(h)
        if loading.ndim == 1:
            loading = loading[:, None]
        if f.shape != (dim, dim) or loading.shape[:1] != (dim,) or q.shape != loading.shape[1:] * 2:
            raise ValueError(
                "F must be (d, d), L (d, r), Qc (r, r) and H (d,); "
                f"got {np.shape(F)}, {np.shape(L)}, {np.shape(Qc)}, {np.shape(H)}"
            )
        if not all(np.all(np.isfinite(array)) for array in (f, loading, q, h)):
            raise ValueError("F, L, Qc and H must be finite")
        eigenvalues = np.linalg.eigvals(f)
        if eigenvalues.real.max() >= 0:
            raise ValueError(
                "F must be stable (every eigenvalue with a negative real part) for the process to "
                f"be stationary; got eigenvalues {np.round(eigenvalues, 6)}. For components "
                "without decay add sg.kernels.Constant or sg.kernels.Cosine"
            )
        balanced = matrix_balance(f, permute=False)[0]  # as free of the choice of units as can be
        stiffness = np.abs(balanced).sum(axis=1).max() / np.abs(eigenvalues.real).min()
        if stiffness > _STIFFEST:
            raise ValueError(
                f"F mixes rates that differ by a factor of {stiffness:.1g}; beyond "
                f"{_STIFFEST:.0e} the digits of the slow ones are lost. Split it into a sum of "
                "kernels, one for each scale"
            )
        eigenvalues = np.linalg.eigvalsh(q)
        if not np.allclose(q, q.T) or eigenvalues.min() < -1e-12 * np.abs(eigenvalues).max():
            raise ValueError("Qc must be symmetric and positive semi-definite")
        self.variance = positive("variance", variance, default=1.0, role="variance")
        self.F, self.L, self.Qc, self.H = (fixed(array) for array in (f, loading, q, h))

    def sde(self) -> SDE:
        return self.F.value, self.L.value, self.variance.value * self.Qc.value, self.H.value

    def _repr_fields(self) -> list[str]:
        return [f"state_dim={self.state_dim}", f"variance={self.variance!r}"]
