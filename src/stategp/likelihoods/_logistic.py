"""Expectations of the logarithm of the logistic function σ under Gaussians.

Gauss–Hermite nodes come in pairs m ± δ, and

    log σ(m + δ) + log σ(m − δ) = m − log(2 cosh m + 2 cosh δ)

needs one logarithm for both. For m ≥ 0 and q = exp(−m) that is −log(1 + u), with
u = q² + q exp(δ) + q exp(−δ): small for large m, so that the tail keeps its digits. The other sign
follows from log σ(−f) = log σ(f) − f. The poles of σ are π away from the real line, so that a
narrow Gaussian needs few nodes.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp.likelihoods._quadrature import hermite

Values = Float[Array, "*points"]
Sums = tuple[Values, Values, Values]

# Orders, and the largest variance for which they give 13 digits.
_ENOUGH = ((8, 0.03), (12, 0.12), (16, 0.24), (24, 0.5))
_LARGEST_EXPONENT = 350.0  # beyond, 1 + exp is exp to rounding


class Slopes(NamedTuple):
    """An expectation with its derivatives in the mean and the variance."""

    value: Values
    slope: Values
    curvature: Values


def expected_log_odds(mean: Values, variance: Values, order: int) -> tuple[Slopes, Slopes]:
    """E[log σ(f)] and E[log σ(−f)] for f ~ N(mean, variance), with at most `order` nodes."""
    logarithm, share, bend = _likelier(jnp.abs(mean), variance, order)
    likelier = Slopes(-logarithm, share, -bend)
    other = Slopes(-logarithm - jnp.abs(mean), 1 - share, -bend)
    positive = mean >= 0
    yes, no = (
        Slopes(*(jnp.where(positive, a, b) for a, b in zip(first, second, strict=True)))
        for first, second in ((likelier, other), (other, likelier))
    )
    return yes, no._replace(slope=-no.slope)


def _likelier(mean: Values, variance: Values, order: int) -> Sums:
    """−E[log σ(f)], E[σ(−f)] and E[σ(f) σ(−f)]/2 for a mean of zero or more."""
    limits, counts, table = _nodes(order)
    widest = jnp.max(variance, initial=0.0)
    level = jnp.sum(~(widest <= jnp.asarray(limits)))  # the last for NaN too
    nodes, count = jnp.asarray(table)[level], jnp.asarray(counts)[level]
    deviation, q = jnp.sqrt(variance), jnp.exp(-mean)

    def pair(number: Array | int, sums: Sums) -> Sums:
        x, weight = nodes[number]
        step = deviation * x
        exponent = jnp.minimum(step - mean, _LARGEST_EXPONENT)
        up, down = jnp.exp(exponent), jnp.exp(-step - mean)
        u = q * q + up + down
        share = weight / (1 + u)
        series = 2 * q * (1 + step**2 / 6 * (1 + step**2 / 20))
        slope = jnp.where(step < 1e-2, series, (up - down) / jnp.maximum(step, 1e-2))
        return (
            sums[0] + weight * (jnp.log1p(u) + (step - mean - exponent)),
            sums[1] + share * (u + q * q),
            sums[2] + share * x**2 / 2 * slope,
        )

    nothing = jnp.zeros_like(mean)
    sums: Sums = jax.lax.fori_loop(0, count, pair, (nothing, nothing, nothing))
    return sums


@functools.lru_cache(maxsize=32)
def _nodes(order: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Limits of all rules but the last; the number of pairs of each rule, its nodes and weights."""
    smaller = [(count, limit) for count, limit in _ENOUGH if count < order]
    orders = np.array([*(count for count, _ in smaller), order])
    pairs = (orders + 1) // 2
    table = np.zeros((len(orders), pairs.max(), 2))
    for row, count in zip(table, orders, strict=True):
        x, weights = hermite(int(count))
        upper = slice(count // 2, None)
        row[: (count + 1) // 2] = np.stack([x[upper], weights[upper]], axis=1)
        row[0, 1] /= 1 + count % 2  # a node in the middle is a pair with itself
    return np.array([limit for _, limit in smaller]), pairs, table


@functools.partial(jax.custom_jvp, nondiff_argnums=(4,))
def expected_log_probability(
    yes: Values, no: Values, mean: Values, variance: Values, order: int
) -> Values:
    """`yes` times E[log σ(f)] plus `no` times E[log σ(−f)], to be differentiated once."""
    first, second = expected_log_odds(mean, variance, order)
    return yes * first.value + no * second.value


@expected_log_probability.defjvp
def _move(order: int, primals: Any, tangents: Any) -> tuple[Values, Values]:
    yes, no, mean, variance = primals
    first, second = expected_log_odds(mean, variance, order)
    change = first.value * tangents[0] + second.value * tangents[1]
    change += (yes * first.slope + no * second.slope) * tangents[2]
    change += (yes * first.curvature + no * second.curvature) * tangents[3]
    return yes * first.value + no * second.value, change
