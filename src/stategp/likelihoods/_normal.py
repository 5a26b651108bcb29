"""The standard normal far out in its tail."""

import math

import jax.numpy as jnp
from jax.scipy.special import erfc
from jaxtyping import Array, Float

Values = Float[Array, "*points"]

_FAR = 20.0  # from here the series below is exact to rounding


def log_cdf(x: Values) -> Values:
    """log Φ(x), with first and second derivatives that hold for any x.

    JAX's own second derivative −λ(λ + x) with λ = φ/Φ loses all digits by x = −1e4.
    """
    negative = x < 0
    tail = erfc(jnp.where(negative, jnp.minimum(-x, _FAR), x) / math.sqrt(2)) / 2
    near = jnp.where(negative, jnp.log(jnp.where(negative, tail, 0.5)), jnp.log1p(-tail))
    away = jnp.maximum(-x, _FAR)
    far = -(away**2) / 2 - math.log(2 * math.pi) / 2 + _log_mills(away)
    return jnp.where(x < -_FAR, far, near)


def log_scaled_tail(x: Values) -> Values:
    """log(Φ(−x) exp(x²/2)) for x ≥ 0: what is left of the tail without its Gaussian part."""
    near = jnp.clip(x, 0.0, _FAR)
    close = jnp.log(erfc(near / math.sqrt(2)) / 2) + near**2 / 2
    far = _log_mills(jnp.maximum(x, _FAR)) - math.log(2 * math.pi) / 2
    return jnp.where(x > _FAR, far, close)


def _log_mills(x: Values) -> Values:
    """log(Φ(−x)/φ(x)) for large x: the asymptotic series in 1/x²."""
    q = 1 / x**2
    series = jnp.ones_like(x)
    for k in range(15, 0, -2):
        series = 1 - k * q * series
    return jnp.log(series) - jnp.log(x)
