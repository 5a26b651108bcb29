"""Special functions that keep their relative accuracy where the textbook forms cancel."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import i0e
from jaxtyping import Array, Float

Scalar = Float[Array, ""]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def incomplete_gamma_table(
    orders: int, x: Float[Array, "*batch"]
) -> tuple[Float[Array, "*batch"], ...]:
    """The regularised lower incomplete gamma functions γ(1, x), …, γ(orders, x).

    The highest order comes from its series (small x) or from one minus a finite sum; the others
    follow downwards from γ(a, x) = γ(a+1, x) + xᵃe⁻ˣ/a!, a sum of positive terms.
    """
    return _table(orders, x)


@functools.partial(jax.jit, static_argnums=0)  # traced once, for all kernels and programs
def _table(orders: int, x: Float[Array, "*batch"]) -> tuple[Float[Array, "*batch"], ...]:
    terms = poisson_terms(orders, x)
    switch = max(2.0, 0.4 * orders)  # above it, one minus the upper tail does not cancel
    small = jnp.minimum(x, switch)
    # Σ xᵏ orders!/(orders + k)!, all terms positive
    coefficients = np.cumprod([1.0] + [1 / (orders + k) for k in range(1, max(20, 2 * orders))])
    series = jnp.full_like(small, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        series = series * small + float(coefficient)
    below = terms[-1] * (small * (1 / orders)) * series
    above = 1.0 - sum(terms, start=jnp.zeros_like(x))
    # The long series is computed once, and not again wherever one of the values is read.
    values = [jax.lax.optimization_barrier(jnp.where(x < switch, below, above))]
    for a in range(orders - 1, 0, -1):
        values.append(values[-1] + terms[a])
    return tuple(values[::-1])


def poisson_terms(orders: int, x: Float[Array, "*batch"]) -> list[Float[Array, "*batch"]]:
    """e⁻ˣ xᵏ/k! for k = 0 … orders − 1."""
    bounded = jnp.minimum(x, 800.0)
    decay = jnp.exp(-bounded)
    return [decay * bounded**k * (1 / math.factorial(k)) for k in range(orders)]


@incomplete_gamma_table.defjvp
def _incomplete_gamma_table_jvp(orders: int, primals: Any, tangents: Any) -> Any:
    """∂γ(a, x)/∂x = x^(a−1) e⁻ˣ / (a−1)!"""
    (x,), (dx,) = primals, tangents
    densities = tuple(term * dx for term in poisson_terms(orders, x))
    return incomplete_gamma_table(orders, x), densities


def scaled_bessel_table(order: int, x: Scalar) -> Float[Array, " terms"]:
    """e⁻ˣI_0(x), …, e⁻ˣI_order(x): ratios by the downward recurrence, all terms positive.

    I_j/I_{j−1} = 1/(2j/x + I_{j+1}/I_j), started far above `order` from Amos' bound.
    """
    start = 2 * order + 40
    ratio = x / (start + jnp.sqrt(start**2 + x**2))
    ratios = []
    for j in range(start, 0, -1):
        ratio = x / (2 * j + x * ratio)
        if j <= order:
            ratios.append(ratio)
    return i0e(x) * jnp.cumprod(jnp.stack([jnp.ones_like(x), *ratios[::-1]]))


def unit_gauss_legendre(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss–Legendre quadrature on [0, 1]."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    return (x + 1) / 2, w / 2
