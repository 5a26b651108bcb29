"""Many steps of one equation: from tables, where doubling each of them would cost more.

With a length h, and Δ = kh + r, r < h,

    A(Δ) = A(r) A(kh),   Q(Δ) = Q(r) + A(r) Q(kh) A(r)ᵀ.

h is a time scale 1/‖F‖ of the equation: the matrices of r are Taylor series without doublings.
Those of kh are tabulated for the numbers of one digit, those of two digits, and so on: a step is
as many products as k has digits, none if it is shorter than h. Nothing is approximated: what
differs from doubling is rounding, a few units in the last place of A and of each variance in Q.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp.kernels._base import Matrix
from stategp.kernels._discretise import (
    STEP_DOUBLINGS,
    Batch,
    Coefficients,
    coefficients,
    discretise,
    fastest_rate,
    powers_of,
    product,
    sums,
    symmetric,
    transpose,
)

_BITS = 7
_DIGITS = -(-STEP_DOUBLINGS // _BITS)  # of the longest step
_ENTRIES = 2**_BITS
_UNITS = np.ldexp(1.0, _BITS * np.arange(_DIGITS))
_FEW = 8192  # steps: no more of them are worth the tables
_LONG = 0.5  # mean step, in units of h, from which tables pay for A and Q without a gradient
_BLOCK = 4104  # steps side by side; of a power of two all rows would share the same cache lines

Steps = Float[Array, " steps"]
Tables = Float[Array, "digits entries pair"]


def many_steps(F: Matrix, diffusion: Matrix, dt: Steps) -> tuple[Batch, Batch]:
    """A(Δ) and Q(Δ) of any number of steps, in the way that is quicker.

    A gradient through many steps is quicker with tables, however long they are.
    """
    return (doubled if len(dt) <= _FEW else _many)(F, diffusion, dt)


@jax.custom_vjp
def _many(F: Matrix, diffusion: Matrix, dt: Steps) -> tuple[Batch, Batch]:
    long = jnp.mean(fastest_rate(F, diffusion) * dt) > _LONG
    A, Q = jax.lax.cond(long, tabulated, doubled, F, diffusion, dt)
    return A, Q


def _many_forward(F: Matrix, diffusion: Matrix, dt: Steps) -> tuple[Any, Any]:
    return jax.vjp(tabulated, F, diffusion, dt)


_many.defvjp(_many_forward, lambda pull, cotangents: pull(cotangents))


def doubled(F: Matrix, diffusion: Matrix, dt: Steps) -> tuple[Batch, Batch]:
    """The same, each step by itself."""
    return _in_blocks(lambda block: discretise(F, diffusion, block), len(F), dt)


def tabulated(F: Matrix, diffusion: Matrix, dt: Steps) -> tuple[Batch, Batch]:
    """The same with tables."""
    rate = fastest_rate(F, diffusion)
    lengths = jnp.minimum(rate * dt, 2.0**STEP_DOUBLINGS)  # by then all is forgotten
    series = coefficients(F / rate, diffusion / rate)
    tables = _tables(F, diffusion, rate, jax.lax.stop_gradient(jnp.max(lengths)))
    return _in_blocks(lambda block: _composed(series, tables, block), len(F), lengths)


def _tables(
    F: Matrix, diffusion: Matrix, rate: Float[Array, ""], longest: Float[Array, ""]
) -> Tables:
    """Rows of A and Q for every value of every digit that the longest step needs."""
    lengths = jnp.asarray(np.outer(_UNITS, np.arange(_ENTRIES)).reshape(-1))
    lengths = jnp.where(lengths <= longest, lengths, 0.0) / rate
    A, Q = discretise(F, diffusion, lengths)
    rows = jnp.concatenate([A.reshape(-1, len(lengths)), Q.reshape(-1, len(lengths))])
    return rows.T.reshape(_DIGITS, _ENTRIES, -1)


@jax.custom_vjp
def _composed(
    series: tuple[Coefficients, Coefficients], tables: Tables, lengths: Steps
) -> tuple[Batch, Batch]:
    """A and Q of steps in units of h."""
    dim = series[0].shape[-1]
    whole, rest = _split(lengths)
    A, Q = sums(series, powers_of(rest, dim))

    def lengthen(state: Any) -> Any:
        digit, A, Q = state
        A_before, Q_before = _looked_up(tables, digit, whole, dim)
        moved = product(product(A, Q_before), transpose(A))
        return digit + 1, product(A, A_before), Q + symmetric(moved)

    number = _digits(whole)
    _, A, Q = jax.lax.while_loop(lambda state: state[0] < number, lengthen, (0, A, Q))
    return A, Q


def _forward(series: Any, tables: Any, lengths: Any) -> tuple[Any, Any]:
    return _composed(series, tables, lengths), (series, tables, lengths)


def _backward(kept: Any, cotangents: Any) -> Any:
    series, tables, lengths = kept
    dim = series[0].shape[-1]
    whole, rest = _split(lengths)
    powers = powers_of(rest, dim)
    shortest = jnp.einsum("kij,kn->ijn", series[0], powers)
    number = _digits(whole)
    on_A, on_Q = cotangents[0], symmetric(cotangents[1])
    # dA/dΔ = F A and dQ/dΔ = A (L Q_c Lᵀ) Aᵀ, and the second coefficients are F and L Q_c Lᵀ
    A = _lengthened(shortest, tables, whole, number)
    spread = jnp.einsum("ijn,jk,lkn->iln", A, series[1][1], A)
    on_lengths = jnp.sum(
        on_A * jnp.einsum("ij,jkn->ikn", series[0][1], A) + on_Q * spread, axis=(0, 1)
    )

    def shorten(state: Any) -> Any:
        digit, on_A, on_Q, on_tables = state
        digit = digit - 1
        A_before, Q_before = _looked_up(tables, digit, whole, dim)
        A = _lengthened(shortest, tables, whole, digit)
        seen = product(on_Q, A)
        on_rows = jnp.stack([product(transpose(A), on_A), product(transpose(A), seen)])
        rows = on_rows.reshape(2 * dim * dim, -1).T
        on_tables = on_tables.at[digit, _digit(whole, digit)].add(rows)
        on_A = product(on_A, transpose(A_before)) + 2 * product(seen, Q_before)
        return digit, on_A, on_Q, on_tables

    start = (number, on_A, on_Q, jnp.zeros_like(tables))
    _, on_A, on_Q, on_tables = jax.lax.while_loop(lambda state: state[0] > 0, shorten, start)
    on_series = tuple(jnp.einsum("kn,ijn->kij", powers, on) for on in (on_A, on_Q))
    return on_series, on_tables, on_lengths


_composed.defvjp(_forward, _backward)


def _split(lengths: Steps) -> tuple[Steps, Steps]:
    whole = jnp.maximum(jnp.floor(lengths), 0.0)
    return whole, lengths - whole


def _digits(whole: Steps) -> Any:
    """How many digits the longest of these steps has."""
    return jnp.sum(jnp.max(whole) >= _UNITS)


def _digit(whole: Steps, digit: Any) -> Any:
    return jnp.mod(jnp.floor(whole / jnp.asarray(_UNITS)[digit]), float(_ENTRIES)).astype(int)


def _looked_up(tables: Tables, digit: Any, whole: Steps, dim: int) -> tuple[Batch, Batch]:
    rows = tables[digit][_digit(whole, digit)].T.reshape(2, dim, dim, -1)
    return rows[0], rows[1]


def _lengthened(A: Batch, tables: Tables, whole: Steps, number: Any) -> Batch:
    """A of the last digits of steps."""

    def lengthen(state: Any) -> Any:
        digit, A = state
        return digit + 1, product(A, _looked_up(tables, digit, whole, len(A))[0])

    lengthened: Batch = jax.lax.while_loop(lambda state: state[0] < number, lengthen, (0, A))[1]
    return lengthened


def _in_blocks(matrices: Any, dim: int, dt: Steps) -> tuple[Batch, Batch]:
    """Of so many steps at a time that the cache holds their matrices."""
    number = -(-len(dt) // _BLOCK)
    if number <= 1:
        A, Q = matrices(dt)
        return A, Q
    blocks = jnp.pad(dt, (0, number * _BLOCK - len(dt))).reshape(number, _BLOCK)
    A, Q = (
        jnp.moveaxis(each, 0, 2).reshape(dim, dim, -1)[..., : len(dt)]
        for each in jax.lax.map(matrices, blocks)
    )
    return A, Q
