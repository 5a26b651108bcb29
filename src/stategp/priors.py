"""Prior densities for hyperparameters. A prior on a parameter turns the fit into MAP.

A prior is any hashable object with ``log_density(value)``, the log density of the parameter
in the units the user sees (not of its logarithm).
"""

import dataclasses
import math
from typing import Protocol, runtime_checkable

import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

__all__ = ["Gamma", "HalfNormal", "InverseGamma", "LogNormal", "Normal", "Prior"]

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@runtime_checkable
class Prior(Protocol):
    """What a prior has to offer."""

    def log_density(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        """Elementwise log density."""
        ...


@dataclasses.dataclass(frozen=True)
class Normal:
    """Normal density with the given mean and standard deviation."""

    mean: float = 0.0
    standard_deviation: float = 1.0

    def log_density(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        z = (value - self.mean) / self.standard_deviation
        return -0.5 * z**2 - math.log(self.standard_deviation) - _HALF_LOG_2PI


@dataclasses.dataclass(frozen=True)
class HalfNormal:
    """The absolute value of a centred normal variable with standard deviation ``scale``."""

    scale: float = 1.0

    def log_density(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        return math.log(2) - 0.5 * (value / self.scale) ** 2 - math.log(self.scale) - _HALF_LOG_2PI


@dataclasses.dataclass(frozen=True)
class LogNormal:
    """The logarithm of the parameter is normal: ``median`` and the spread of the logarithm."""

    median: float = 1.0
    spread: float = 1.0

    def log_density(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        log_value = jnp.log(value)
        z = (log_value - math.log(self.median)) / self.spread
        return -0.5 * z**2 - log_value - math.log(self.spread) - _HALF_LOG_2PI


@dataclasses.dataclass(frozen=True)
class Gamma:
    """Gamma density with the given concentration (shape) and rate."""

    concentration: float = 2.0
    rate: float = 1.0

    def log_density(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        a, b = self.concentration, self.rate
        return a * math.log(b) - gammaln(a) + (a - 1) * jnp.log(value) - b * value


@dataclasses.dataclass(frozen=True)
class InverseGamma:
    """Inverse-gamma density: keeps a parameter away from zero."""

    concentration: float = 2.0
    scale: float = 1.0

    def log_density(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        a, b = self.concentration, self.scale
        return a * math.log(b) - gammaln(a) - (a + 1) * jnp.log(value) - b / value
