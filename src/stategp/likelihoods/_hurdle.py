"""Counts in two stages: whether there is any, and how many if so."""

import math
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammainc, gammaln
from jaxtyping import PRNGKeyArray

from stategp._arguments import whole_number
from stategp.likelihoods._base import Latent, Likelihood, Points, is_count
from stategp.likelihoods._bernoulli import Bernoulli
from stategp.likelihoods._counts import Poisson
from stategp.likelihoods._distribution import Coordinate, average
from stategp.likelihoods._normal import log1mexp
from stategp.likelihoods._quadrature import expectation, tilted, trapezoid

_NODES = 96
_SMALL, _LARGE = -36.0, 300.0  # logarithms of rates at which 1 − exp(−rate) is the rate, or one


class HurdlePoisson(Likelihood):
    """Counts in two stages: log odds f₁(x) of any at all, and how many there then are.

    The second stage is a Poisson distribution with rate exposure · exp(f₂(x)), given that it is not
    zero. So zeros may be rarer or more frequent than a Poisson distribution has them.

    >>> import stategp as sg
    >>> sg.likelihoods.HurdlePoisson().latents
    2
    """

    latents: ClassVar[int] = 2
    extra: ClassVar[str | None] = "exposure"
    extra_default: ClassVar[float] = 1.0
    log_concave: ClassVar[bool] = True  # in each latent on its own
    support: ClassVar[str] = "be a count 0, 1, 2, …"
    discrete: ClassVar[bool] = True

    quadrature: int = eqx.field(static=True)

    def __init__(self, *, quadrature: int = _NODES):
        self.quadrature = whole_number("quadrature", quadrature, least=16)

    def log_density(self, y: Points, f: Latent, extra: Points) -> Points:
        some = y > 0
        count = _log_count(jnp.where(some, y, 1.0), f[..., 1] + jnp.log(extra))
        return jax.nn.log_sigmoid(jnp.where(some, 1, -1) * f[..., 0]) + jnp.where(some, count, 0.0)

    def expected_log_density(
        self, y: Points, mean: Latent, variance: Latent, extra: Points
    ) -> Points:
        some = y > 0
        any_at_all = _STAGE.expected_log_density(1.0 * some, mean[..., 0], variance[..., 0], extra)
        log_rate, spread = mean[..., 1] + jnp.log(extra), variance[..., 1]
        hidden = expectation(_log_some, log_rate, spread, self.quadrature, trapezoid)
        count = y * log_rate - jnp.exp(log_rate + spread / 2) - hidden - gammaln(y + 1)
        return any_at_all + jnp.where(some, count, 0.0)

    def expected_jointly(
        self, y: Points, mean: Latent, covariance: Latent, extra: Points
    ) -> Points:
        """E[log p(y | f)] where the two functions are dependent: each has a term of its own."""
        variance = jnp.diagonal(covariance, axis1=-2, axis2=-1)
        return self.expected_log_density(y, mean, variance, extra)

    def moments(self, f: Latent, extra: Points) -> tuple[Points, Points]:
        return self.predict(f, jnp.zeros_like(f), extra)

    def predict(self, mean: Latent, variance: Latent, extra: Points) -> tuple[Points, Points]:
        chance, _ = _STAGE.predict(mean[..., 0], variance[..., 0], extra)
        log_rate, spread = mean[..., 1] + jnp.log(extra), variance[..., 1]

        def more(power: int, f: Points) -> Points:  # rateᵖ / (exp(rate) − 1)
            return jnp.exp(power * f - jnp.exp(jnp.minimum(f, _LARGE)) - _log_some(f))

        def averaged(power: int) -> Points:
            rate = jnp.exp(power * log_rate + power**2 * spread / 2)
            rule = (log_rate, spread, self.quadrature, trapezoid)
            return rate + expectation(lambda f: more(power, f), *rule)

        first, second = averaged(1), averaged(2)
        centre = chance * first
        return centre, chance * (first + second) - centre**2

    def log_predictive_density(
        self, y: Points, mean: Latent, variance: Latent, extra: Points
    ) -> Points:
        some = y > 0
        any_at_all = _STAGE.log_predictive_density(
            1.0 * some, mean[..., 0], variance[..., 0], extra
        )
        count = jnp.where(some, y, 1.0)
        log_rate = mean[..., 1] + jnp.log(extra)
        counted = tilted(lambda f: _log_count(count, f), log_rate, variance[..., 1], 32)
        return any_at_all + jnp.where(some, counted.log_normaliser, 0.0)

    def continued_cdf(self, y: Points, mean: Latent, variance: Latent, extra: Points) -> Points:
        chance, _ = _STAGE.predict(mean[..., 0], variance[..., 0], extra)
        log_rate = mean[..., 1] + jnp.log(extra)
        return 1 - chance * average(lambda f: _more_than(y, f), log_rate, variance[..., 1])

    def coordinate(self, mean: Latent, variance: Latent, extra: Points) -> Coordinate:
        return Poisson().coordinate(mean[..., 1], variance[..., 1], extra)

    def bounds(self, extra: Points) -> tuple[Points | float, Points | float]:
        return 0.0, jnp.inf

    def sample(self, key: PRNGKeyArray, f: Latent, extra: Points) -> Points:
        # Given that there is one, the first event comes at a time with a truncated exponential
        # distribution; after it, the number is Poisson-distributed again.
        of_any, of_first, of_others = jax.random.split(key, 3)
        rate = extra * jnp.exp(f[..., 1])
        share = jax.random.uniform(of_first, rate.shape)
        waited = -jnp.log1p(share * jnp.expm1(-rate))
        others = jax.random.poisson(of_others, jnp.maximum(rate - waited, 0.0))
        some = jax.random.bernoulli(of_any, jax.nn.sigmoid(f[..., 0]))
        return jnp.where(some, 1.0 + others, 0.0)

    def guess(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        some = y > 0
        rates = Poisson().guess(y[some], extra[some]) if np.any(some) else np.zeros(1)
        log_rate = np.full(y.shape, np.mean(rates))  # zeros say nothing of how many there would be
        log_rate[some] = rates[: int(np.sum(some))]
        return np.stack([_STAGE.guess(1.0 * some, extra), log_rate], axis=-1)

    def valid(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return is_count(y)

    def highest_log_density(self, y: Points, extra: Points) -> Points:
        return jnp.zeros_like(y)  # a probability


_STAGE = Bernoulli()


def _log_some(log_rate: Points) -> Points:
    """log(1 − exp(−rate))."""
    rare, certain = log_rate < _SMALL, log_rate > _LARGE
    rate = jnp.exp(jnp.where(rare | certain, 0.0, log_rate))
    return jnp.where(rare, log_rate, jnp.where(certain, 0.0, log1mexp(rate)))


def _log_count(y: Points, log_rate: Points) -> Points:
    """log P(Y = y | Y > 0) for a Poisson variable and y > 0."""
    return y * log_rate - jnp.exp(log_rate) - _log_some(log_rate) - gammaln(y + 1)


def _more_than(y: Points, log_rate: Points) -> Points:
    """P(Y > y | Y > 0) for a Poisson variable and y ≥ 0."""
    rate = jnp.exp(jnp.clip(log_rate, _SMALL, _LARGE))
    more = gammainc(y + 1, rate) / -jnp.expm1(-rate)
    return jnp.where(log_rate < _SMALL, jnp.where(y < math.ulp(1.0), 1.0, 0.0), more)
