"""Positive observations whose logarithm is Gaussian."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import PRNGKeyArray

from stategp.likelihoods._base import Likelihood, Points
from stategp.likelihoods._distribution import Coordinate
from stategp.likelihoods._gaussian import Gaussian
from stategp.likelihoods._quadrature import Tilted
from stategp.parameters import Parameter, Value, positive


class LogNormal(Likelihood):
    """log y = f(x) + noise of the given variance: deviations grow with the level.

    The median of y is exp(f), its mean is larger by a factor exp(variance/2).

    >>> import stategp as sg
    >>> sg.likelihoods.LogNormal(variance=0.1)
    LogNormal(variance=0.1)
    """

    log_concave = True
    support = "be positive"

    variance: Parameter

    def __init__(self, *, variance: Value = None):
        self.variance = positive("variance", variance, default=1.0, role="noise")

    @property
    def of_logarithms(self) -> Gaussian:
        """How log y depends on f."""
        return Gaussian(variance=self.variance)

    def log_density(self, y: Points, f: Points, extra: Points) -> Points:
        return self.of_logarithms.log_density(jnp.log(y), f, _none(extra)) - jnp.log(y)

    def expected_log_density(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> Points:
        logs = jnp.log(y)
        return self.of_logarithms.expected_log_density(logs, mean, variance, _none(extra)) - logs

    def moments(self, f: Points, extra: Points) -> tuple[Points, Points]:
        return self.predict(f, jnp.zeros_like(f), extra)

    def predict(self, mean: Points, variance: Points, extra: Points) -> tuple[Points, Points]:
        total = variance + self.variance.value
        centre = jnp.exp(mean + total / 2)
        return centre, centre**2 * jnp.expm1(total)

    def tilted(
        self, y: Points, mean: Points, variance: Points, extra: Points, power: float = 1.0
    ) -> Tilted:
        logs = jnp.log(y)
        found = self.of_logarithms.tilted(logs, mean, variance, _none(extra), power)
        return found._replace(log_normaliser=found.log_normaliser - power * logs)

    def log_predictive_density(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> Points:
        logs = jnp.log(y)
        return self.of_logarithms.log_predictive_density(logs, mean, variance, _none(extra)) - logs

    def continued_cdf(self, y: Points, mean: Points, variance: Points, extra: Points) -> Points:
        return self.of_logarithms.continued_cdf(jnp.log(y), mean, variance, _none(extra))

    def predictive_quantile(
        self, level: Points, mean: Points, variance: Points, extra: Points
    ) -> Points:
        return jnp.exp(self.of_logarithms.predictive_quantile(level, mean, variance, _none(extra)))

    def crps(self, y: Points, mean: Points, variance: Points, extra: Points) -> Points:
        total = variance + self.variance.value
        deviation = jnp.sqrt(jnp.maximum(total, 1e-300))
        t = (jnp.log(y) - mean) / deviation
        centre = jnp.exp(mean + total / 2)
        spread = ndtr(t - deviation) + ndtr(deviation / math.sqrt(2)) - 1
        return y * (2 * ndtr(t) - 1) - 2 * centre * spread

    def coordinate(self, mean: Points, variance: Points, extra: Points) -> Coordinate:
        return Coordinate("log", mean, jnp.sqrt(variance + self.variance.value))

    def bounds(self, extra: Points) -> tuple[Points | float, Points | float]:
        return 0.0, jnp.inf

    def sample(self, key: PRNGKeyArray, f: Points, extra: Points) -> Points:
        return jnp.exp(f + jnp.sqrt(self.variance.value) * jax.random.normal(key, f.shape))

    def guess(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return np.log(y)

    def valid(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return np.isfinite(y) & (y > 0)

    def highest_log_density(self, y: Points, extra: Points) -> Points:
        return self.of_logarithms.highest_log_density(y, _none(extra)) - jnp.log(y)


def _none(extra: Points) -> Points:
    """No known noise, whatever is in the place of it."""
    return jnp.zeros_like(extra)
