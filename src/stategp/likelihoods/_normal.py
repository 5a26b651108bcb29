"""The standard normal far out in its tail."""

import math

import jax.numpy as jnp
from jax.scipy.special import erf, erfc
from jaxtyping import Array, Float

Values = Float[Array, "*points"]

_FAR = 20.0  # from here the series below is exact to rounding
_NARROW = 0.03  # of an interval: the next term of its series is below rounding


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


def log1mexp(x: Values) -> Values:
    """log(1 − exp(−x)) for x > 0."""
    small = x < 0.7
    near = jnp.log(-jnp.expm1(-jnp.where(small, x, 0.5)))
    return jnp.where(small, near, jnp.log1p(-jnp.exp(-jnp.where(small, 1.0, x))))


def log_mass(start: Values, width: Values) -> Values:
    """log(Φ(start + width) − Φ(start)) for width > 0, with two derivatives, however far out.

    Narrow intervals by the series of the density at their middle; those around or near zero by the
    error function; others from the tail without its Gaussian part, whose exponent is then exact.
    """
    middle = start + width / 2
    narrow = width * (1 + jnp.abs(middle)) < _NARROW
    c, w = jnp.where(narrow, middle, 0.0), jnp.where(narrow, width, _NARROW / 2)
    bends = (c**2 - 1) * w**2 / 24 + (c**4 - 6 * c**2 + 3) * w**4 / 1920
    series = jnp.log(w) - c**2 / 2 - math.log(2 * math.pi) / 2 + jnp.log1p(bends)
    # By symmetry, from the side of the left tail to that of the right one.
    first = jnp.where(middle < 0, -start - width, start)
    around = (first < 0.5) & ~narrow
    below, above = jnp.where(around, first, -1.0), jnp.where(around, first + width, 1.0)
    both = jnp.log((erf(above / math.sqrt(2)) - erf(below / math.sqrt(2))) / 2)
    far = ~(narrow | around)
    a, w = jnp.where(far, first, 1.0), jnp.where(far, width, 1.0)
    end = a + w
    ratio = w * (a + end) / 2 + log_scaled_tail(a) - log_scaled_tail(end)
    tail = log_scaled_tail(a) - a**2 / 2 + log1mexp(ratio)
    return jnp.where(narrow, series, jnp.where(around, both, tail))
