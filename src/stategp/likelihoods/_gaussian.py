"""Gaussian observations."""

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr, ndtri
from jaxtyping import PRNGKeyArray

from stategp.likelihoods._base import Likelihood, Points
from stategp.likelihoods._quadrature import Tilted
from stategp.parameters import Parameter, Value, positive


class Gaussian(Likelihood):
    """y = f(x) + noise of the given variance, the same for all observations.

    If observations have known variances (`noise_variance` of `condition` and `fit`), the two are
    added; with ``variance=sg.fixed(0.0)`` there is only the known noise.

    >>> import stategp as sg
    >>> sg.likelihoods.Gaussian(variance=0.1)
    Gaussian(variance=0.1)
    """

    extra: ClassVar[str | None] = "noise_variance"
    elementary: ClassVar[bool] = True
    conjugate: ClassVar[bool] = True
    log_concave: ClassVar[bool] = True

    variance: Parameter

    def __init__(self, *, variance: Value = None):
        self.variance = positive("variance", variance, default=1.0, role="noise")

    def log_density(self, y: Points, f: Points, extra: Points) -> Points:
        return _log_normal(y - f, self.variance.value + extra)

    def expected_log_density(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> Points:
        noise = self.variance.value + extra
        return _log_normal(y - mean, noise) - variance / (2 * noise)

    def moments(self, f: Points, extra: Points) -> tuple[Points, Points]:
        return f, self.variance.value + extra

    def predict(self, mean: Points, variance: Points, extra: Points) -> tuple[Points, Points]:
        return mean, variance + self.variance.value + extra

    def tilted(
        self, y: Points, mean: Points, variance: Points, extra: Points, power: float = 1.0
    ) -> Tilted:
        noise = (self.variance.value + extra) / power
        total = variance + noise
        constant = (jnp.log(2 * math.pi * noise) - power * jnp.log(2 * math.pi * noise * power)) / 2
        gain = variance / total
        return Tilted(
            _log_normal(y - mean, total) + constant, mean + gain * (y - mean), gain * noise
        )

    def log_predictive_density(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> Points:
        return _log_normal(y - mean, variance + self.variance.value + extra)

    def continued_cdf(self, y: Points, mean: Points, variance: Points, extra: Points) -> Points:
        _, total = self.predict(mean, variance, extra)
        return ndtr((y - mean) / jnp.sqrt(jnp.maximum(total, 1e-300)))

    def predictive_quantile(
        self, level: Points, mean: Points, variance: Points, extra: Points
    ) -> Points:
        _, total = self.predict(mean, variance, extra)
        return mean + jnp.sqrt(total) * ndtri(level)

    def crps(self, y: Points, mean: Points, variance: Points, extra: Points) -> Points:
        _, total = self.predict(mean, variance, extra)
        deviation = jnp.sqrt(jnp.maximum(total, 1e-300))
        t = (y - mean) / deviation
        density = jnp.exp(-(t**2) / 2) / math.sqrt(2 * math.pi)
        return deviation * (t * (2 * ndtr(t) - 1) + 2 * density - 1 / math.sqrt(math.pi))

    def sample(self, key: PRNGKeyArray, f: Points, extra: Points) -> Points:
        deviation = jnp.sqrt(self.variance.value + extra)
        return f + deviation * jax.random.normal(key, f.shape)

    def guess(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return y

    def highest_log_density(self, y: Points, extra: Points) -> Points:
        return _log_normal(jnp.zeros_like(y), self.variance.value + extra)


def _log_normal(residual: Points, variance: Points) -> Points:
    return -(residual**2 / variance + jnp.log(variance) + math.log(2 * math.pi)) / 2
