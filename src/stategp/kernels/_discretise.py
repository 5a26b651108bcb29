"""A(Δ) and Q(Δ) of a linear equation, and its stationary covariance.

The matrices of a step come from Taylor series at a step so short that they converge, doubled as
often as needed: A(2δ) = A(δ)², Q(2δ) = Q(δ) + A(δ)Q(δ)A(δ)ᵀ. Q is a sum of positive
semi-definite terms throughout, so it keeps its digits where P₀ − A P₀ Aᵀ loses them, and P₀ is
its limit.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stategp.kernels._base import Matrix

_DEGREE = 26  # of the Taylor series at ‖F‖δ ≤ 1, and two for each component of the state
STEP_DOUBLINGS = 34
_KEPT_EVERY = 4  # doublings, on the way back through them
_STATIONARY_DOUBLINGS = 90

Batch = Float[Array, "dim dim steps"]
Coefficients = Float[Array, "degree dim dim"]


@jax.custom_vjp
def discretise(F: Matrix, diffusion: Matrix, dt: Float[Array, " steps"]) -> tuple[Batch, Batch]:
    """A(Δ) and Q(Δ) of a linear equation, for many steps at once."""
    return _forward(F, diffusion, dt)[0]


def _forward(F: Matrix, diffusion: Matrix, dt: Float[Array, " steps"]) -> tuple[Any, Any]:
    rate = fastest_rate(F, diffusion)
    times, powers = _short_steps(rate * dt, len(F))
    A, Q = sums(coefficients(F / rate, diffusion / rate), powers)
    return _doubled(A, Q, times, 0.0, jnp.max(times, initial=0.0)), (F, diffusion, dt, A, Q)


def _backward(kept: Any, cotangents: Any) -> Any:
    """Back through the doublings, then into the coefficients: sums over steps times powers."""
    F, diffusion, dt, A, Q = kept
    rate = fastest_rate(F, diffusion)
    times, powers = _short_steps(rate * dt, len(F))
    most = jnp.max(times, initial=0.0)
    A_end, A_kept, Q_kept = _doubled_and_kept(A, Q, times, most)
    on_A, on_Q = cotangents[0], symmetric(cotangents[1])
    # dA/dΔ = F A and dQ/dΔ = A (L Q_c Lᵀ) Aᵀ
    spread = jnp.einsum("ijn,jk,lkn->iln", A_end, diffusion, A_end)
    d_dt = jnp.sum(on_A * jnp.einsum("ij,jkn->ikn", F, A_end) + on_Q * spread, axis=(0, 1))

    def halve(state: Any) -> Any:
        left, on_A, on_Q = state
        number = jnp.floor((left - 1) / _KEPT_EVERY)
        A_near, Q_near = (each[number.astype(int)] for each in (A_kept, Q_kept))
        A_left, Q_left = _doubled(A_near, Q_near, times, _KEPT_EVERY * number, left - 1)
        moved = product(on_Q, product(A_left, Q_left))
        flipped = transpose(A_left)
        before = product(on_A, flipped) + product(flipped, on_A) + 2 * moved
        back = product(flipped, product(on_Q, A_left))
        active = (left <= times)[None, None]
        return left - 1, jnp.where(active, before, on_A), jnp.where(active, on_Q + back, on_Q)

    _, on_A, on_Q = jax.lax.while_loop(lambda state: state[0] > 0, halve, (most, on_A, on_Q))
    on_coefficients = tuple(jnp.einsum("kn,ijn->kij", powers, on) for on in (on_A, on_Q))
    _, pull = jax.vjp(coefficients, F / rate, diffusion / rate)
    d_F, d_diffusion = pull(on_coefficients)
    return d_F / rate, d_diffusion / rate, d_dt


discretise.defvjp(_forward, _backward)


def fastest_rate(F: Matrix, diffusion: Matrix) -> Float[Array, ""]:
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
    dt = jnp.minimum(dt, 2.0**STEP_DOUBLINGS)  # by then the process has forgotten all
    times = jnp.ceil(jnp.log2(jnp.maximum(dt, 1.0)))
    return times, powers_of(dt / 2.0**times, dim)


def powers_of(step: Float[Array, " steps"], dim: int) -> Float[Array, "degree steps"]:
    """All that the Taylor series need, of steps up to 1."""
    powers, factor = jnp.ones((1, len(step))), step
    while len(powers) < _DEGREE + 2 * dim:
        powers = jnp.concatenate([powers, powers * factor[None]])
        factor = factor * factor
    return powers[: _DEGREE + 2 * dim]


def coefficients(F: Matrix, diffusion: Matrix) -> tuple[Coefficients, Coefficients]:
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


def sums(
    coefficients: tuple[Coefficients, Coefficients], powers: Float[Array, "degree steps"]
) -> tuple[Batch, Batch]:
    A, Q = (jnp.einsum("kij,kn->ijn", each, powers) for each in coefficients)
    return A, Q


def _doubled(
    A: Batch, Q: Batch, times: Float[Array, " steps"], first: Any, most: Float[Array, ""]
) -> tuple[Batch, Batch]:
    """The matrices of steps 2^times as long, but of none longer than 2^most, from 2^first."""

    def double(state: Any) -> Any:
        done, A, Q = state
        carried = product(product(A, Q), transpose(A))
        active = (done < times)[None, None]
        Q = jnp.where(active, Q + symmetric(carried), Q)
        return done + 1, jnp.where(active, product(A, A), A), Q

    start = (first + jnp.zeros_like(most), A, Q)
    _, A, Q = jax.lax.while_loop(lambda state: state[0] < most, double, start)
    return A, Q


def _doubled_and_kept(
    A: Batch, Q: Batch, times: Float[Array, " steps"], most: Float[Array, ""]
) -> tuple[Batch, Any, Any]:
    """A in the end, and A and Q as they were after every few doublings."""

    def stretch(state: Any) -> Any:
        number, A, Q, A_kept, Q_kept = state
        A_kept, Q_kept = A_kept.at[number].set(A), Q_kept.at[number].set(Q)
        first = _KEPT_EVERY * number.astype(float)
        A, Q = _doubled(A, Q, times, first, jnp.minimum(first + _KEPT_EVERY, most))
        return number + 1, A, Q, A_kept, Q_kept

    room = jnp.zeros((-(-STEP_DOUBLINGS // _KEPT_EVERY), *A.shape))
    start = (jnp.zeros((), int), A, Q, room, room)
    kept = jax.lax.while_loop(lambda state: _KEPT_EVERY * state[0] < most, stretch, start)
    return kept[1], kept[3], kept[4]


def product(left: Batch, right: Batch) -> Batch:
    terms = [left[:, k, None] * right[None, k] for k in range(len(right))]
    return sum(terms[1:], start=terms[0])


def transpose(matrix: Batch) -> Batch:
    return jnp.swapaxes(matrix, 0, 1)


def symmetric(matrix: Batch) -> Batch:
    return (matrix + transpose(matrix)) / 2


def stationary_of(F: Matrix, diffusion: Matrix) -> Matrix:
    """P₀, which solves F P + P Fᵀ + L Q_c Lᵀ = 0: the process noise of an endless step."""
    rate = fastest_rate(F, diffusion)
    A, Q = sums(coefficients(F / rate, diffusion / rate), jnp.ones((_DEGREE + 2 * len(F), 1)))

    def double(_: Any, step: tuple[Matrix, Matrix]) -> tuple[Matrix, Matrix]:
        A, Q = step
        carried = A @ Q @ A.T
        return A @ A, Q + (carried + carried.T) / 2

    return jax.lax.fori_loop(0, _STATIONARY_DOUBLINGS, double, (A[..., 0], Q[..., 0]))[1]
