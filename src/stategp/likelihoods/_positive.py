"""Positive observations: durations, amounts."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, polygamma
from jaxtyping import PRNGKeyArray

from stategp.likelihoods._base import Features, Likelihood, Points, with_constants
from stategp.likelihoods._distribution import Coordinate
from stategp.likelihoods._laws import log_gamma_plus_normal
from stategp.parameters import Parameter, Value, positive

_LOG_VARIANCE = 1.6  # of the logarithm of an exponential variable; its mean is −0.6


class _Positive(Likelihood):
    """What the three have in common: y > 0, and f is the logarithm of y's size."""

    elementary: ClassVar[bool] = True
    log_concave: ClassVar[bool] = True
    support: ClassVar[str] = "be positive"

    def bounds(self, extra: Points) -> tuple[Points | float, Points | float]:
        return 0.0, jnp.inf

    def guess(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return np.log(y)

    def valid(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return np.isfinite(y) & (y > 0)


class Exponential(_Positive):
    """Exponentially distributed with mean exp(f(x)).

    >>> import stategp as sg
    >>> sg.likelihoods.Exponential()
    Exponential()
    """

    def log_density(self, y: Points, f: Points, extra: Points) -> Points:
        return -f - y * jnp.exp(-f)

    def expected_log_density(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> Points:
        return -mean - y * jnp.exp(variance / 2 - mean)

    def statistics(self, y: Any, extra: Any) -> Any:
        xp = y.__array_namespace__()
        return xp.stack([xp.ones_like(y), y])

    def expected_features(
        self, mean: Points, variance: Points
    ) -> tuple[Features, Features, Features]:
        return _scale_features(mean, variance)

    def moments(self, f: Points, extra: Points) -> tuple[Points, Points]:
        return jnp.exp(f), jnp.exp(2 * f)

    def predict(self, mean: Points, variance: Points, extra: Points) -> tuple[Points, Points]:
        centre = jnp.exp(mean + variance / 2)
        return centre, centre**2 * (jnp.exp(variance) + jnp.expm1(variance))

    def sample(self, key: PRNGKeyArray, f: Points, extra: Points) -> Points:
        return jnp.exp(f) * jax.random.exponential(key, f.shape)

    def continued_cdf(self, y: Points, mean: Points, variance: Points, extra: Points) -> Points:
        return log_gamma_plus_normal(jnp.ones_like(y), jnp.log(y) - mean, variance)

    def coordinate(self, mean: Points, variance: Points, extra: Points) -> Coordinate:
        return Coordinate("log", mean - 0.6, jnp.sqrt(variance + _LOG_VARIANCE))

    def highest_log_density(self, y: Points, extra: Points) -> Points:
        return -jnp.log(y) - 1  # at exp(f) = y


class Gamma(_Positive):
    """Gamma-distributed with mean exp(f(x)) and variance mean²/shape.

    >>> import stategp as sg
    >>> sg.likelihoods.Gamma(shape=2.0)
    Gamma(shape=2)
    """

    shape: Parameter

    def __init__(self, *, shape: Value = None):
        self.shape = positive("shape", shape, default=1.0, role="shape")

    def log_density(self, y: Points, f: Points, extra: Points) -> Points:
        return self._log_density(y, f, y * jnp.exp(-f))

    def expected_log_density(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> Points:
        return self._log_density(y, mean, y * jnp.exp(variance / 2 - mean))

    def statistics(self, y: Any, extra: Any) -> Any:
        xp = y.__array_namespace__()
        return xp.stack([xp.ones_like(y), y, xp.ones_like(y), xp.log(y)])

    def expected_features(
        self, mean: Points, variance: Points
    ) -> tuple[Features, Features, Features]:
        shape = self.shape.value
        value, slope, curvature = _scale_features(mean, variance)
        constants = jnp.stack([shape * jnp.log(shape) - gammaln(shape), shape - 1])
        return with_constants((shape * value, shape * slope, shape * curvature), constants)

    def _log_density(self, y: Points, f: Points, ratio: Points) -> Points:
        shape = self.shape.value
        constant = shape * jnp.log(shape) - gammaln(shape)
        return constant - shape * (f + ratio) + (shape - 1) * jnp.log(y)

    def moments(self, f: Points, extra: Points) -> tuple[Points, Points]:
        return jnp.exp(f), jnp.exp(2 * f) / self.shape.value

    def predict(self, mean: Points, variance: Points, extra: Points) -> tuple[Points, Points]:
        centre = jnp.exp(mean + variance / 2)
        relative = jnp.exp(variance) / self.shape.value + jnp.expm1(variance)
        return centre, centre**2 * relative

    def sample(self, key: PRNGKeyArray, f: Points, extra: Points) -> Points:
        shape = self.shape.value
        return jnp.exp(f) * jax.random.gamma(key, shape, f.shape) / shape

    def continued_cdf(self, y: Points, mean: Points, variance: Points, extra: Points) -> Points:
        shape = jnp.broadcast_to(self.shape.value, y.shape)
        return log_gamma_plus_normal(shape, jnp.log(shape * y) - mean, variance)

    def coordinate(self, mean: Points, variance: Points, extra: Points) -> Coordinate:
        shape = self.shape.value
        centre = mean + polygamma(0, shape) - jnp.log(shape)
        return Coordinate("log", centre, jnp.sqrt(variance + polygamma(1, shape)))

    def highest_log_density(self, y: Points, extra: Points) -> Points:
        return self._log_density(y, jnp.log(y), jnp.ones_like(y))  # at exp(f) = y


def _scale_features(mean: Points, variance: Points) -> tuple[Features, Features, Features]:
    """−f and −exp(−f)."""
    ratio = jnp.exp(variance / 2 - mean)
    ones, zeros = jnp.ones_like(mean), jnp.zeros_like(mean)
    return jnp.stack([-mean, -ratio]), jnp.stack([-ones, ratio]), jnp.stack([zeros, -ratio / 2])


class Weibull(_Positive):
    """Weibull-distributed with scale exp(f(x)), so that the mean is exp(f) · Γ(1 + 1/shape).

    >>> import stategp as sg
    >>> sg.likelihoods.Weibull(shape=1.5)
    Weibull(shape=1.5)
    """

    shape: Parameter

    def __init__(self, *, shape: Value = None):
        self.shape = positive("shape", shape, default=1.0, role="shape")

    def log_density(self, y: Points, f: Points, extra: Points) -> Points:
        return self._log_density(y, f, jnp.exp(self.shape.value * (jnp.log(y) - f)))

    def expected_log_density(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> Points:
        shape = self.shape.value
        power = jnp.exp(shape * (jnp.log(y) - mean) + shape**2 * variance / 2)
        return self._log_density(y, mean, power)

    def _log_density(self, y: Points, f: Points, power: Points) -> Points:
        shape = self.shape.value
        return jnp.log(shape) - shape * f + (shape - 1) * jnp.log(y) - power

    def moments(self, f: Points, extra: Points) -> tuple[Points, Points]:
        return self.predict(f, jnp.zeros_like(f), extra)

    def predict(self, mean: Points, variance: Points, extra: Points) -> tuple[Points, Points]:
        first = gammaln(1 + 1 / self.shape.value)
        second = gammaln(1 + 2 / self.shape.value)
        centre = jnp.exp(mean + variance / 2 + first)
        return centre, centre**2 * jnp.expm1(variance + second - 2 * first)

    def sample(self, key: PRNGKeyArray, f: Points, extra: Points) -> Points:
        return jnp.exp(f) * jax.random.exponential(key, f.shape) ** (1 / self.shape.value)

    def continued_cdf(self, y: Points, mean: Points, variance: Points, extra: Points) -> Points:
        shape = self.shape.value
        at = shape * (jnp.log(y) - mean)
        return log_gamma_plus_normal(jnp.ones_like(y), at, shape**2 * variance)

    def coordinate(self, mean: Points, variance: Points, extra: Points) -> Coordinate:
        shape = self.shape.value
        size = jnp.sqrt(variance + _LOG_VARIANCE / shape**2)
        return Coordinate("log", mean - 0.6 / shape, size)

    def highest_log_density(self, y: Points, extra: Points) -> Points:
        return self._log_density(y, jnp.log(y), jnp.ones_like(y))  # at exp(f) = y
