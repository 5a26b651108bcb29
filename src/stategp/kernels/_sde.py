"""Kernels given only as a stochastic differential equation ds = F s dx + L dβ, f = H s.

The matrices of a step come from Taylor series at a step so short that they converge, doubled as
often as needed: A(2δ) = A(δ)², Q(2δ) = Q(δ) + A(δ)Q(δ)A(δ)ᵀ. Q is a sum of positive
semi-definite terms throughout, so it keeps its digits where P₀ − A P₀ Aᵀ loses them, and P₀ is
its limit.
"""

import abc
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stategp.kernels._base import Kernel, Matrix, Scalar, State, Steps

_DEGREE = 26  # of the Taylor series at ‖F‖δ ≤ 1, and two for each component of the state
_STEP_DOUBLINGS = 34
_STATIONARY_DOUBLINGS = 90
_BLOCK = 8192  # steps that are taken side by side

Batch = Float[Array, "dim dim steps"]
Coefficients = Float[Array, "degree dim dim"]

SDE = tuple[
    Float[Array, "dim dim"],
    Float[Array, "dim noise"],
    Float[Array, "noise noise"],
    Float[Array, " dim"],
]


class LinearSDE(Kernel):
    """Base class of kernels that are defined only by (F, L, Q_c, H).

    Subclass it, declare parameters as other kernels do, and return the four arrays from
    :meth:`sde`. F must be stable (eigenvalues with negative real parts).
    """

    @abc.abstractmethod
    def sde(self) -> SDE:
        """F, L, Q_c and H."""

    @property
    def state_dim(self) -> int:
        return int(jax.eval_shape(lambda: self.sde()[0]).shape[0])

    def _balanced(self) -> tuple[Matrix, Matrix, State]:
        """F, L Q_c Lᵀ and H with every component of the state divided by its deviation."""
        F, L, Qc, H = self.sde()
        diffusion = L @ Qc @ L.T
        variances = jnp.diagonal(stationary_of(F, diffusion))
        scale = jnp.sqrt(jnp.where(variances > 0, variances, 1.0))
        F = F * scale[None, :] / scale[:, None]
        return F, diffusion / (scale[:, None] * scale[None, :]), H * scale

    def transition(self, dt: Scalar) -> Matrix:
        return self.step_matrices(jnp.asarray(dt, dtype=float))[0]

    def process_noise(self, dt: Scalar) -> Matrix:
        return self.step_matrices(jnp.asarray(dt, dtype=float))[1]

    def step_matrices(
        self, dt: Steps
    ) -> tuple[Float[Array, "dim dim *steps"], Float[Array, "dim dim *steps"]]:
        F, diffusion, _ = self._balanced()
        A, Q = in_blocks(F, diffusion, dt.reshape(-1))
        return A.reshape(*A.shape[:2], *dt.shape), Q.reshape(*Q.shape[:2], *dt.shape)

    def stationary_covariance(self) -> Matrix:
        F, diffusion, _ = self._balanced()
        return stationary_of(F, diffusion)

    def emission(self) -> State:
        return self._balanced()[2]

    def feedback(self) -> Matrix:
        return self._balanced()[0]

    def diffusion(self) -> Matrix:
        return self._balanced()[1]

    def covariance(self, lag: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        emission, start = self.emission(), self.stationary_covariance() @ self.emission()
        A, _ = self.step_matrices(jnp.abs(lag))
        return jnp.einsum("i,ij...,j->...", emission, A, start)


def in_blocks(F: Matrix, diffusion: Matrix, dt: Float[Array, " steps"]) -> tuple[Batch, Batch]:
    """`discretise`, for so many steps at a time that the cache holds their matrices."""
    number = -(-len(dt) // _BLOCK)
    if number <= 1:
        return discretise(F, diffusion, dt)
    blocks = jnp.pad(dt, (0, number * _BLOCK - len(dt))).reshape(number, _BLOCK)
    matrices = jax.lax.map(lambda block: discretise(F, diffusion, block), blocks)
    A, Q = (
        jnp.moveaxis(each, 0, 2).reshape(len(F), len(F), -1)[..., : len(dt)] for each in matrices
    )
    return A, Q


@jax.custom_vjp
def discretise(F: Matrix, diffusion: Matrix, dt: Float[Array, " steps"]) -> tuple[Batch, Batch]:
    """A(Δ) and Q(Δ) of a linear equation, for many steps at once."""
    return _forward(F, diffusion, dt)[0]


def _forward(F: Matrix, diffusion: Matrix, dt: Float[Array, " steps"]) -> tuple[Any, Any]:
    rate = _fastest_rate(F, diffusion)
    times, powers = _short_steps(rate * dt, len(F))
    A, Q = _sums(_coefficients(F / rate, diffusion / rate), powers)
    return _doubled(A, Q, times, jnp.max(times, initial=0.0)), (F, diffusion, dt, A, Q)


def _backward(kept: Any, cotangents: Any) -> Any:
    """Back through the doublings, then into the coefficients: sums over steps times powers."""
    F, diffusion, dt, A, Q = kept
    rate = _fastest_rate(F, diffusion)
    times, powers = _short_steps(rate * dt, len(F))
    most = jnp.max(times, initial=0.0)
    A_end, _ = _doubled(A, Q, times, most)
    on_A, on_Q = cotangents[0], _symmetric(cotangents[1])
    # dA/dΔ = F A and dQ/dΔ = A (L Q_c Lᵀ) Aᵀ
    spread = jnp.einsum("ijn,jk,lkn->iln", A_end, diffusion, A_end)
    d_dt = jnp.sum(on_A * jnp.einsum("ij,jkn->ikn", F, A_end) + on_Q * spread, axis=(0, 1))

    def halve(state: Any) -> Any:
        left, on_A, on_Q = state
        A_left, Q_left = _doubled(A, Q, times, left - 1)  # as they were before this doubling
        moved = _product(on_Q, _product(A_left, Q_left))
        flipped = _transpose(A_left)
        before = _product(on_A, flipped) + _product(flipped, on_A) + 2 * moved
        back = _product(flipped, _product(on_Q, A_left))
        active = (left <= times)[None, None]
        return left - 1, jnp.where(active, before, on_A), jnp.where(active, on_Q + back, on_Q)

    _, on_A, on_Q = jax.lax.while_loop(lambda state: state[0] > 0, halve, (most, on_A, on_Q))
    on_coefficients = tuple(jnp.einsum("kn,ijn->kij", powers, on) for on in (on_A, on_Q))
    _, pull = jax.vjp(_coefficients, F / rate, diffusion / rate)
    d_F, d_diffusion = pull(on_coefficients)
    return d_F / rate, d_diffusion / rate, d_dt


discretise.defvjp(_forward, _backward)


def _fastest_rate(F: Matrix, diffusion: Matrix) -> Float[Array, ""]:
    """A norm of F (of a walk, whose F is zero, of its noise), which no result depends on.

    In units of it nothing overflows.
    """
    rate, noise = jnp.max(jnp.sum(jnp.abs(F), axis=1)), jnp.max(jnp.abs(diffusion))
    return jax.lax.stop_gradient(
        jnp.where(rate > 0, rate, jnp.where(noise > 0, noise, jnp.ones_like(noise)))
    )


def _short_steps(
    dt: Float[Array, " steps"], dim: int
) -> tuple[Float[Array, " steps"], Float[Array, "degree steps"]]:
    """How often to double each step, and the powers of what it is before that."""
    dt = jnp.minimum(dt, 2.0**_STEP_DOUBLINGS)  # by then the process has forgotten all
    times = jnp.ceil(jnp.log2(jnp.maximum(dt, 1.0)))
    powers, factor = jnp.ones((1, len(dt))), dt / 2.0**times
    while len(powers) < _DEGREE + 2 * dim:
        powers = jnp.concatenate([powers, powers * factor[None]])
        factor = factor * factor
    return times, powers[: _DEGREE + 2 * dim]


def _coefficients(F: Matrix, diffusion: Matrix) -> tuple[Coefficients, Coefficients]:
    """Of the Taylor series of A = e^{FΔ} and of Q = ∫ e^{Fu} (L Q_c Lᵀ) e^{Fu}ᵀ du.

    An entry of Q starts with a power of Δ of its own: the coefficients before it are zeros, so
    that small entries keep their digits.
    """

    def next_terms(terms: tuple[Matrix, Matrix], k: Any) -> tuple[Any, tuple[Matrix, Matrix]]:
        A, Q = terms
        moved = F @ Q
        return (F @ A / k, (moved + moved.T) / (k + 1)), terms

    orders = jnp.arange(1.0, _DEGREE + 2 * len(F) + 1)
    _, (A, Q) = jax.lax.scan(next_terms, (jnp.eye(len(F)), diffusion), orders)
    return A, jnp.concatenate([jnp.zeros_like(Q[:1]), Q[:-1]])


def _sums(
    coefficients: tuple[Coefficients, Coefficients], powers: Float[Array, "degree steps"]
) -> tuple[Batch, Batch]:
    A, Q = (jnp.einsum("kij,kn->ijn", each, powers) for each in coefficients)
    return A, Q


def _doubled(
    A: Batch, Q: Batch, times: Float[Array, " steps"], most: Float[Array, ""]
) -> tuple[Batch, Batch]:
    """The matrices of steps 2^times as long, but of none longer than 2^most."""

    def double(state: Any) -> Any:
        done, A, Q = state
        carried = _product(_product(A, Q), _transpose(A))
        active = (done < times)[None, None]
        Q = jnp.where(active, Q + _symmetric(carried), Q)
        return done + 1, jnp.where(active, _product(A, A), A), Q

    start = (jnp.zeros_like(most), A, Q)
    _, A, Q = jax.lax.while_loop(lambda state: state[0] < most, double, start)
    return A, Q


def _product(left: Batch, right: Batch) -> Batch:
    terms = [left[:, k, None] * right[None, k] for k in range(len(right))]
    return sum(terms[1:], start=terms[0])


def _transpose(matrix: Batch) -> Batch:
    return jnp.swapaxes(matrix, 0, 1)


def _symmetric(matrix: Batch) -> Batch:
    return (matrix + _transpose(matrix)) / 2


def stationary_of(F: Matrix, diffusion: Matrix) -> Matrix:
    """P₀, which solves F P + P Fᵀ + L Q_c Lᵀ = 0: the process noise of an endless step."""
    rate = _fastest_rate(F, diffusion)
    A, Q = _sums(_coefficients(F / rate, diffusion / rate), jnp.ones((_DEGREE + 2 * len(F), 1)))

    def double(_: Any, step: tuple[Matrix, Matrix]) -> tuple[Matrix, Matrix]:
        A, Q = step
        carried = A @ Q @ A.T
        return A @ A, Q + (carried + carried.T) / 2

    return jax.lax.fori_loop(0, _STATIONARY_DOUBLINGS, double, (A[..., 0], Q[..., 0]))[1]
