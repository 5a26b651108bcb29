"""Gaussian observations."""

import math

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from stategp.parameters import Parameter, Value, positive

Points = Float[Array, " points"]


class Gaussian(eqx.Module):
    """y = f(x) + noise of the given variance, the same for all observations.

    Where observations come with known variances of their own (`noise_variance` of `condition` and
    `fit`), the two add up; ``variance=sg.fixed(0.0)`` then leaves the known ones alone.

    >>> import stategp as sg
    >>> sg.likelihoods.Gaussian(variance=0.1)
    Gaussian(variance=0.1)
    """

    variance: Parameter

    def __init__(self, *, variance: Value = None):
        self.variance = positive("variance", variance, default=1.0, role="noise")

    def log_density(self, y: Points, f: Points, known: Points) -> Points:
        """log p(y | f)."""
        return self.log_predictive_density(y, f, jnp.zeros_like(f), known)

    def expected_log_density(
        self, y: Points, mean: Points, variance: Points, known: Points
    ) -> Points:
        """E[log p(y | f)] for f ~ N(mean, variance)."""
        noise = self.variance.value + known
        return -(((y - mean) ** 2 + variance) / noise + jnp.log(noise) + math.log(2 * math.pi)) / 2

    def sites(self, y: Points, known: Points) -> tuple[Points, Points]:
        """The likelihood as a function of f: exp(linear·f − ½ precision·f²) up to a constant."""
        precision = 1 / (self.variance.value + known)
        return precision * y, precision

    def highest_log_density(self, known: Points) -> Float[Array, ""]:
        """The log density that no set of observations can exceed."""
        return -jnp.sum(jnp.log(2 * math.pi * (self.variance.value + known))) / 2

    def predict(self, mean: Points, variance: Points, known: Points) -> tuple[Points, Points]:
        """Mean and variance of y for f ~ N(mean, variance)."""
        return mean, variance + self.variance.value + known

    def log_predictive_density(
        self, y: Points, mean: Points, variance: Points, known: Points
    ) -> Points:
        """log ∫ p(y | f) N(f; mean, variance) df."""
        total = variance + self.variance.value + known
        return -((y - mean) ** 2 / total + jnp.log(total) + math.log(2 * math.pi)) / 2

    def __repr__(self) -> str:
        return f"Gaussian(variance={self.variance!r})"
