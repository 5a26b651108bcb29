"""Observations with double-exponential noise."""

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf, ndtr
from jaxtyping import Array, PRNGKeyArray

from stategp.likelihoods._base import Likelihood, Points, all_slopes
from stategp.likelihoods._normal import log_cdf, log_scaled_tail
from stategp.likelihoods._quadrature import Tilted
from stategp.parameters import Parameter, Value, positive

# The curvature at y = mean grows as 1/√variance: it stays finite, if huge, by this least variance
# (in units of scale²). The value is off by 1e-10 there.
_LEAST = 1e-20


class Laplace(Likelihood):
    """y = f(x) + noise with density exp(−|noise| / scale) / (2 scale).

    >>> import stategp as sg
    >>> sg.likelihoods.Laplace(scale=0.5)
    Laplace(scale=0.5)
    """

    log_concave: ClassVar[bool] = True

    scale: Parameter

    def __init__(self, *, scale: Value = None):
        self.scale = positive("scale", scale, default=1.0, role="scale")

    def log_density(self, y: Points, f: Points, extra: Points) -> Points:
        scale = self.scale.value
        return -jnp.abs(y - f) / scale - jnp.log(2 * scale)

    def expected_log_density(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> Points:
        scale = self.scale.value
        distance = _mean_distance((y - mean) / scale, variance / scale**2)
        return -distance - jnp.log(2 * scale)

    def expected_slopes(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> tuple[Points, Points, Points]:
        return all_slopes(lambda m, v: self.expected_log_density(y, m, v, extra), mean, variance)

    def moments(self, f: Points, extra: Points) -> tuple[Points, Points]:
        return self.predict(f, jnp.zeros_like(f), extra)

    def predict(self, mean: Points, variance: Points, extra: Points) -> tuple[Points, Points]:
        return mean, variance + 2 * self.scale.value**2

    def tilted(
        self, y: Points, mean: Points, variance: Points, extra: Points, power: float = 1.0
    ) -> Tilted:
        # Each side of the kink is a Gaussian, shifted by variance · slope and cut at y.
        deviation = jnp.sqrt(jnp.maximum(variance, 1e-24 * (1 + mean**2)))
        slope = power * deviation / self.scale.value
        residual = (y - mean) / deviation
        below = _side(residual, slope)  # f < y, log p rises
        above = _side(-residual, slope)
        log_mass = jnp.logaddexp(below[0], above[0])
        share, rest = jnp.exp(below[0] - log_mass), jnp.exp(above[0] - log_mass)
        shift = share * below[1] - rest * above[1]
        spread = share * below[2] + rest * above[2] + share * rest * (below[1] + above[1]) ** 2
        constant = -power * jnp.log(2 * self.scale.value)
        return Tilted(log_mass + constant, mean + deviation * shift, deviation**2 * spread)

    def continued_cdf(self, y: Points, mean: Points, variance: Points, extra: Points) -> Points:
        deviation = jnp.sqrt(jnp.maximum(variance, 1e-24 * (1 + mean**2)))
        slope, residual = deviation / self.scale.value, (y - mean) / deviation
        below, above = (jnp.exp(_side(cut, slope)[0]) for cut in (residual, -residual))
        return ndtr(residual) + (above - below) / 2

    def sample(self, key: PRNGKeyArray, f: Points, extra: Points) -> Points:
        return f + self.scale.value * jax.random.laplace(key, f.shape)

    def guess(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return y

    def highest_log_density(self, y: Points, extra: Points) -> Points:
        return jnp.full(y.shape, -jnp.log(2 * self.scale.value))


@jax.custom_jvp
def _mean_distance(residual: Array, variance: Array) -> Array:
    """E|residual + √variance · ε| for a standard normal ε."""
    spread = 2 * jnp.maximum(variance, _LEAST)
    gaussian = jnp.sqrt(spread / math.pi) * jnp.exp(-(residual**2) / spread)
    return residual * erf(residual / jnp.sqrt(spread)) + gaussian


@_mean_distance.defjvp
def _mean_distance_jvp(
    primals: tuple[Array, Array], tangents: tuple[Array, Array]
) -> tuple[Array, Array]:
    residual, variance = primals
    spread = 2 * jnp.maximum(variance, _LEAST)
    in_residual = erf(residual / jnp.sqrt(spread))
    in_variance = jnp.exp(-(residual**2) / spread) / jnp.sqrt(math.pi * spread)
    tangent = in_residual * tangents[0] + in_variance * tangents[1]
    return _mean_distance(residual, variance), tangent


def _side(cut: Points, slope: Points) -> tuple[Points, Points, Points]:
    """exp(slope · (g − cut)) on g < cut, times a standard normal: log mass, mean, variance.

    It is a normal of mean `slope`, cut at `cut`.
    """
    a = cut - slope
    inside = slope * (slope / 2 - cut) + log_cdf(a)  # the cut leaves most of it
    tail = log_scaled_tail(jnp.maximum(-a, 0.0)) - cut**2 / 2
    log_mass = jnp.where(a > 0, inside, tail)
    # With λ = φ(a)/Φ(a): mean slope − λ, variance 1 − λ(a + λ).
    hazard, curvature = _hazard(a)
    return log_mass, slope - hazard, 1 + curvature


def _hazard(a: Points) -> tuple[Points, Points]:
    """First and second derivative of log Φ."""
    ones = jnp.ones_like(a)

    def first(a: Points) -> Points:
        return jax.jvp(log_cdf, (a,), (ones,))[1]

    return jax.jvp(first, (a,), (ones,))
