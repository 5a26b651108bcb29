"""Prior densities for hyperparameters. With priors, a fit finds the posterior mode (MAP).

A prior is any hashable object with ``log_density(value)``, the log density of the parameter
in the user's units (not of its logarithm). Those of this module are pytrees, so that another median
does not require a new compilation.
"""

import dataclasses
import math
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

__all__ = ["Gamma", "HalfNormal", "InverseGamma", "LogNormal", "Normal", "Prior"]

Number = Any  # a float, and an array while JAX looks at it
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@runtime_checkable
class Prior(Protocol):
    """What a prior has to provide."""

    def log_density(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        """Elementwise log density."""
        ...


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Normal:
    """Normal density with the given mean and standard deviation."""

    mean: Number = 0.0
    standard_deviation: Number = 1.0

    def log_density(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        z = (value - self.mean) / self.standard_deviation
        return -0.5 * z**2 - jnp.log(self.standard_deviation) - _HALF_LOG_2PI


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class HalfNormal:
    """The absolute value of a centred normal variable with standard deviation ``scale``."""

    scale: Number = 1.0

    def log_density(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        return math.log(2) - 0.5 * (value / self.scale) ** 2 - jnp.log(self.scale) - _HALF_LOG_2PI


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LogNormal:
    """Log-normal density: ``spread`` is the standard deviation of the logarithm."""

    median: Number = 1.0
    spread: Number = 1.0

    def log_density(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        log_value = jnp.log(value)
        z = (log_value - jnp.log(self.median)) / self.spread
        return -0.5 * z**2 - log_value - jnp.log(self.spread) - _HALF_LOG_2PI


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Gamma:
    """Gamma density with the given concentration (shape) and rate."""

    concentration: Number = 2.0
    rate: Number = 1.0

    def log_density(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        a, b = self.concentration, self.rate
        return a * jnp.log(b) - gammaln(a) + (a - 1) * jnp.log(value) - b * value


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class InverseGamma:
    """Inverse-gamma density: keeps a parameter away from zero."""

    concentration: Number = 2.0
    scale: Number = 1.0

    def log_density(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        a, b = self.concentration, self.scale
        return a * jnp.log(b) - gammaln(a) - (a + 1) * jnp.log(value) - b / value


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Own:
    """A prior of the user's, which JAX does not look into."""

    prior: Prior = dataclasses.field(metadata={"static": True})

    def log_density(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.prior.log_density(value)

    def __repr__(self) -> str:
        return repr(self.prior)


def as_pytree(prior: Prior | None) -> Prior | None:
    """The prior as something that JAX can pass around."""
    return Own(prior) if prior is not None and jax.tree_util.all_leaves([prior]) else prior
