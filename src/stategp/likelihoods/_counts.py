"""Counts."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, PRNGKeyArray

from stategp.likelihoods._base import (
    QUADRATURE,
    Features,
    Likelihood,
    Points,
    all_slopes,
    check_quadrature,
    is_count,
    log_gamma,
    with_constants,
)
from stategp.likelihoods._distribution import Coordinate
from stategp.likelihoods._laws import log_gamma_plus_normal, log_ratio_plus_normal
from stategp.likelihoods._logistic import expected_log_probability
from stategp.parameters import Parameter, Value, positive


class Poisson(Likelihood):
    """Counts with mean exposure · exp(f(x)).

    The exposure (length of a bin, people at risk) is the argument `exposure` of `condition` and
    `fit`, by default one.

    >>> import stategp as sg
    >>> sg.likelihoods.Poisson()
    Poisson()
    """

    extra: ClassVar[str | None] = "exposure"
    extra_default: ClassVar[float] = 1.0
    elementary: ClassVar[bool] = True
    log_concave: ClassVar[bool] = True
    support: ClassVar[str] = "be a count 0, 1, 2, …"
    discrete: ClassVar[bool] = True

    def log_density(self, y: Points, f: Points, extra: Points) -> Points:
        return y * (f + jnp.log(extra)) - extra * jnp.exp(f) - gammaln(y + 1)

    def expected_log_density(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> Points:
        rate = extra * jnp.exp(mean + variance / 2)
        return y * (mean + jnp.log(extra)) - rate - gammaln(y + 1)

    def statistics(self, y: Any, extra: Any) -> Any:
        xp = y.__array_namespace__()
        return xp.stack([y, extra, y * xp.log(extra) - log_gamma(y + 1)])

    def expected_features(
        self, mean: Points, variance: Points
    ) -> tuple[Features, Features, Features]:
        rate = jnp.exp(mean + variance / 2)
        value = jnp.stack([mean, -rate])
        slope = jnp.stack([jnp.ones_like(mean), -rate])
        curvature = jnp.stack([jnp.zeros_like(mean), -rate / 2])
        return with_constants((value, slope, curvature), jnp.ones(1))

    def moments(self, f: Points, extra: Points) -> tuple[Points, Points]:
        rate = extra * jnp.exp(f)
        return rate, rate

    def predict(self, mean: Points, variance: Points, extra: Points) -> tuple[Points, Points]:
        rate = extra * jnp.exp(mean + variance / 2)
        return rate, rate + rate**2 * jnp.expm1(variance)

    def continued_cdf(self, y: Points, mean: Points, variance: Points, extra: Points) -> Points:
        # At most y events before `rate` is a time of more than `rate` until event y + 1.
        return 1 - log_gamma_plus_normal(y + 1, mean + jnp.log(extra), variance)

    def coordinate(self, mean: Points, variance: Points, extra: Points) -> Coordinate:
        return _log_counts(mean + jnp.log(extra), variance, 0.0)

    def bounds(self, extra: Points) -> tuple[Points | float, Points | float]:
        return 0.0, jnp.inf

    def sample(self, key: PRNGKeyArray, f: Points, extra: Points) -> Points:
        return jax.random.poisson(key, extra * jnp.exp(f)).astype(float)

    def guess(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return _log_rates(y, extra)

    def valid(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return is_count(y)

    def highest_log_density(self, y: Points, extra: Points) -> Points:
        return jnp.zeros_like(y)  # a probability


class NegativeBinomial(Likelihood):
    """Overdispersed counts: mean μ = exposure · exp(f(x)), variance μ + μ²/shape.

    >>> import stategp as sg
    >>> sg.likelihoods.NegativeBinomial(shape=2.0)
    NegativeBinomial(shape=2)
    """

    extra: ClassVar[str | None] = "exposure"
    extra_default: ClassVar[float] = 1.0
    log_concave: ClassVar[bool] = True
    support: ClassVar[str] = "be a count 0, 1, 2, …"
    discrete: ClassVar[bool] = True

    shape: Parameter
    quadrature: int = eqx.field(static=True)

    def __init__(self, *, shape: Value = None, quadrature: int = QUADRATURE):
        self.shape = positive("shape", shape, default=1.0, role="shape")
        self.quadrature = check_quadrature(quadrature)

    def log_density(self, y: Points, f: Points, extra: Points) -> Points:
        shape = self.shape.value
        odds = f + jnp.log(extra) - jnp.log(shape)  # log of μ / shape
        ways = _log_rising(shape, y) - gammaln(y + 1)
        return ways + y * odds - (y + shape) * jax.nn.softplus(odds)

    def expected_log_density(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> Points:
        # y odds − (y + shape) log(1 + exp odds) = y log σ(odds) + shape log σ(−odds)
        shape = self.shape.value
        odds = mean + jnp.log(extra) - jnp.log(shape)
        ways = _log_rising(shape, y) - gammaln(y + 1)
        failures = jnp.broadcast_to(shape, y.shape)
        return ways + expected_log_probability(y, failures, odds, variance, self.quadrature)

    def expected_slopes(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> tuple[Points, Points, Points]:
        return all_slopes(lambda m, v: self.expected_log_density(y, m, v, extra), mean, variance)

    def moments(self, f: Points, extra: Points) -> tuple[Points, Points]:
        rate = extra * jnp.exp(f)
        return rate, rate + rate**2 / self.shape.value

    def predict(self, mean: Points, variance: Points, extra: Points) -> tuple[Points, Points]:
        rate = extra * jnp.exp(mean + variance / 2)
        relative = jnp.exp(variance) / self.shape.value + jnp.expm1(variance)
        return rate, rate + rate**2 * relative

    def continued_cdf(self, y: Points, mean: Points, variance: Points, extra: Points) -> Points:
        # As for Poisson, with a rate that is itself Gamma-distributed.
        shape = jnp.broadcast_to(self.shape.value, y.shape)
        at = mean + jnp.log(extra) - jnp.log(shape)
        return 1 - log_ratio_plus_normal(y + 1, shape, at, variance)

    def coordinate(self, mean: Points, variance: Points, extra: Points) -> Coordinate:
        return _log_counts(mean + jnp.log(extra), variance, 1 / self.shape.value)

    def bounds(self, extra: Points) -> tuple[Points | float, Points | float]:
        return 0.0, jnp.inf

    def sample(self, key: PRNGKeyArray, f: Points, extra: Points) -> Points:
        # A Poisson whose rate is Gamma-distributed.
        of_rate, of_count = jax.random.split(key)
        shape = self.shape.value
        rate = extra * jnp.exp(f) * jax.random.gamma(of_rate, shape, f.shape) / shape
        return jax.random.poisson(of_count, rate).astype(float)

    def guess(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return _log_rates(y, extra)

    def valid(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return is_count(y)

    def highest_log_density(self, y: Points, extra: Points) -> Points:
        return jnp.zeros_like(y)


def _log_rates(y: np.ndarray, exposure: np.ndarray) -> np.ndarray:
    """Log of each rate, with one more count from the overall rate: rare events have low rates."""
    overall = (np.sum(y) + 0.5) / np.sum(exposure)
    return np.log((y + 1) / (exposure + 1 / overall))


def _log_counts(log_rate: Points, variance: Points, relative_variance: Array | float) -> Coordinate:
    """Of counts, the logarithm of one more, whose noise has a part relative to the rate."""
    noise = relative_variance + jax.nn.sigmoid(-log_rate)  # 1 / (1 + rate)
    return Coordinate("log1p", jax.nn.softplus(log_rate), jnp.sqrt(variance + noise))


def _log_rising(shape: Array, y: Points) -> Points:
    """log Γ(shape + y) − log Γ(shape), which for a large shape (nearly Poisson) cancel."""
    large = shape > 50.0
    r = jnp.where(large, shape, 50.0)

    def correction(z: Array) -> Array:  # Stirling's series, good to rounding from 50 on
        return 1 / (12 * z) - 1 / (360 * z**3) + 1 / (1260 * z**5)

    stirling = (r + y - 0.5) * jnp.log1p(y / r) + y * jnp.log(r) - y
    stirling += correction(r + y) - correction(r)
    plain = jnp.where(large, 1.0, shape)
    return jnp.where(large, stirling, gammaln(plain + y) - gammaln(plain))
