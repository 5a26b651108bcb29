"""Proportions."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betainc, gammaln
from jaxtyping import PRNGKeyArray

from stategp.likelihoods._base import QUADRATURE, Likelihood, Points, check_quadrature
from stategp.likelihoods._distribution import Coordinate
from stategp.parameters import Parameter, Value, positive


class Beta(Likelihood):
    """Proportions between 0 and 1: Beta-distributed with mean μ = 1 / (1 + exp(−f(x))).

    Their variance is μ(1 − μ) / (1 + precision).

    >>> import stategp as sg
    >>> sg.likelihoods.Beta(precision=20.0)
    Beta(precision=20)
    """

    support: ClassVar[str] = "lie strictly between 0 and 1"

    precision: Parameter
    quadrature: int = eqx.field(static=True)

    def __init__(self, *, precision: Value = None, quadrature: int = QUADRATURE):
        self.precision = positive("precision", precision, default=10.0, role="shape")
        self.quadrature = check_quadrature(quadrature)

    def log_density(self, y: Points, f: Points, extra: Points) -> Points:
        precision = self.precision.value
        a, b = precision * jax.nn.sigmoid(f), precision * jax.nn.sigmoid(-f)
        # Γ(a) = Γ(1 + a) / a, so that a mean that rounds to 0 or 1 does no harm.
        log_a = jnp.log(precision) + jax.nn.log_sigmoid(f)
        log_b = jnp.log(precision) + jax.nn.log_sigmoid(-f)
        constant = gammaln(precision) - gammaln(1 + a) - gammaln(1 + b) + log_a + log_b
        return constant + (a - 1) * jnp.log(y) + (b - 1) * jnp.log1p(-y)

    def moments(self, f: Points, extra: Points) -> tuple[Points, Points]:
        centre = jax.nn.sigmoid(f)
        return centre, centre * jax.nn.sigmoid(-f) / (1 + self.precision.value)

    def cdf(self, y: Points, f: Points, extra: Points) -> Points:
        precision = self.precision.value
        a, b = precision * jax.nn.sigmoid(f), precision * jax.nn.sigmoid(-f)
        least = 1e-12  # all of y is at 0 or at 1 long before
        return betainc(jnp.maximum(a, least), jnp.maximum(b, least), y)

    def coordinate(self, mean: Points, variance: Points, extra: Points) -> Coordinate:
        noise = 4 * jnp.cosh(jnp.clip(mean / 2, -3.0, 3.0)) ** 2 / (1 + self.precision.value)
        return Coordinate("logit", mean, jnp.sqrt(variance + noise))

    def bounds(self, extra: Points) -> tuple[Points | float, Points | float]:
        return 0.0, 1.0

    def sample(self, key: PRNGKeyArray, f: Points, extra: Points) -> Points:
        precision = self.precision.value
        return jax.random.beta(key, precision * jax.nn.sigmoid(f), precision * jax.nn.sigmoid(-f))

    def guess(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return np.log(y) - np.log1p(-y)

    def valid(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return np.isfinite(y) & (y > 0) & (y < 1)
