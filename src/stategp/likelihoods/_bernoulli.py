"""Yes or no, and how many yes out of how many."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Array, Float, PRNGKeyArray

from stategp.likelihoods._base import (
    QUADRATURE,
    Features,
    Likelihood,
    Points,
    all_slopes,
    check_link,
    check_quadrature,
    is_count,
    log_gamma,
    with_constants,
)
from stategp.likelihoods._laws import (
    beta_score_plus_normal,
    link_plus_normal,
    log_ratio_plus_normal,
)
from stategp.likelihoods._links import LINKS, cdf, log_cdf, quantile
from stategp.likelihoods._logistic import expected_log_odds, expected_log_probability
from stategp.likelihoods._quadrature import expectation_and_slopes


class Bernoulli(Likelihood):
    """Labels 0 and 1: the probability of 1 is 1 / (1 + exp(−f(x))), or Φ(f(x)) with link="probit".

    >>> import stategp as sg
    >>> sg.likelihoods.Bernoulli()
    Bernoulli(link='logit')
    """

    log_concave: ClassVar[bool] = True
    support: ClassVar[str] = "be 0 or 1 (for labels −1 and 1 pass (y + 1) / 2)"
    discrete: ClassVar[bool] = True

    link: str = eqx.field(static=True)
    quadrature: int = eqx.field(static=True)

    def __init__(self, *, link: Any = "logit", quadrature: Any = QUADRATURE):
        self.link = check_link(link, LINKS)
        self.quadrature = check_quadrature(quadrature)

    def log_density(self, y: Points, f: Points, extra: Points) -> Points:
        return log_cdf(self.link, (2 * y - 1) * f)

    def expected_log_density(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> Points:
        if self.link == "probit":
            return super().expected_log_density(y, mean, variance, extra)
        return expected_log_probability(y, 1 - y, mean, variance, self.quadrature)

    def expected_slopes(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> tuple[Points, Points, Points]:
        if self.link == "probit":
            return super().expected_slopes(y, mean, variance, extra)
        return all_slopes(lambda m, v: self.expected_log_density(y, m, v, extra), mean, variance)

    def expected_features(
        self, mean: Points, variance: Points
    ) -> tuple[Features, Features, Features]:
        if type(self).expected_log_density is not Bernoulli.expected_log_density:
            return super().expected_features(mean, variance)
        return _expected_log_probabilities(self.link, mean, variance, self.quadrature)

    def moments(self, f: Points, extra: Points) -> tuple[Points, Points]:
        probability = cdf(self.link, f)
        return probability, probability * cdf(self.link, -f)

    def predict(self, mean: Points, variance: Points, extra: Points) -> tuple[Points, Points]:
        if self.link == "logit":
            return super().predict(mean, variance, extra)
        shrunk = mean / jnp.sqrt(1 + variance)
        return ndtr(shrunk), ndtr(shrunk) * ndtr(-shrunk)

    def log_predictive_density(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> Points:
        if self.link == "logit":
            return super().log_predictive_density(y, mean, variance, extra)
        return log_cdf("probit", (2 * y - 1) * mean / jnp.sqrt(1 + variance))

    def continued_cdf(self, y: Points, mean: Points, variance: Points, extra: Points) -> Points:
        return link_plus_normal(self.link, -mean, variance)  # the probability of 0

    def bounds(self, extra: Points) -> tuple[Points | float, Points | float]:
        return 0.0, 1.0

    @property
    def outcomes(self) -> int | None:
        return 2

    def outcome_probabilities(
        self, mean: Points, variance: Points, extra: Points
    ) -> Float[Array, "*points outcomes"]:
        yes, _ = self.predict(mean, variance, extra)
        return jnp.stack([1 - yes, yes], axis=-1)

    def sample(self, key: PRNGKeyArray, f: Points, extra: Points) -> Points:
        return jax.random.bernoulli(key, cdf(self.link, f)).astype(float)

    def guess(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return _scores(self.link, y, np.ones_like(y))

    def valid(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return (y == 0) | (y == 1)

    def highest_log_density(self, y: Points, extra: Points) -> Points:
        return jnp.zeros_like(y)  # a probability


class Binomial(Likelihood):
    """The number of successes in `trials`, each with the probability of `Bernoulli`.

    The numbers of trials are the argument `trials` of `condition` and `fit`, by default one.

    >>> import stategp as sg
    >>> sg.likelihoods.Binomial(link="probit")
    Binomial(link='probit')
    """

    extra: ClassVar[str | None] = "trials"
    extra_default: ClassVar[float] = 1.0
    log_concave: ClassVar[bool] = True
    support: ClassVar[str] = "be a count 0, 1, 2, … of at most `trials`, itself a count,"
    discrete: ClassVar[bool] = True

    link: str = eqx.field(static=True)
    quadrature: int = eqx.field(static=True)

    def __init__(self, *, link: Any = "logit", quadrature: Any = QUADRATURE):
        self.link = check_link(link, LINKS)
        self.quadrature = check_quadrature(quadrature)

    def log_density(self, y: Points, f: Points, extra: Points) -> Points:
        ways = _log_ways(y, extra)
        return ways + y * log_cdf(self.link, f) + (extra - y) * log_cdf(self.link, -f)

    def expected_log_density(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> Points:
        if self.link == "probit":
            return super().expected_log_density(y, mean, variance, extra)
        value = expected_log_probability(y, extra - y, mean, variance, self.quadrature)
        return _log_ways(y, extra) + value

    def expected_slopes(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> tuple[Points, Points, Points]:
        if self.link == "probit":
            return super().expected_slopes(y, mean, variance, extra)
        return all_slopes(lambda m, v: self.expected_log_density(y, m, v, extra), mean, variance)

    def statistics(self, y: Any, extra: Any) -> Any:
        return y.__array_namespace__().stack([extra - y, y, _log_ways(y, extra)])

    def expected_features(
        self, mean: Points, variance: Points
    ) -> tuple[Features, Features, Features]:
        features = _expected_log_probabilities(self.link, mean, variance, self.quadrature)
        return with_constants(features, jnp.ones(1))

    def moments(self, f: Points, extra: Points) -> tuple[Points, Points]:
        centre = extra * cdf(self.link, f)
        return centre, centre * cdf(self.link, -f)

    def continued_cdf(self, y: Points, mean: Points, variance: Points, extra: Points) -> Points:
        # The probability is below a variable with distribution Beta(y + 1, trials − y).
        law = log_ratio_plus_normal if self.link == "logit" else beta_score_plus_normal
        return 1 - law(y + 1, jnp.maximum(extra - y, 0.5), mean, variance)

    def bounds(self, extra: Points) -> tuple[Points | float, Points | float]:
        return jnp.zeros_like(extra), extra

    def sample(self, key: PRNGKeyArray, f: Points, extra: Points) -> Points:
        return jax.random.binomial(key, extra, cdf(self.link, f)).astype(float)

    def guess(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return _scores(self.link, y, extra)

    def valid(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return is_count(y) & is_count(extra) & (y <= extra)

    def highest_log_density(self, y: Points, extra: Points) -> Points:
        return jnp.zeros_like(y)


def _log_ways(y: Any, trials: Any) -> Any:
    """The logarithm of the number of ways to have y successes."""
    return log_gamma(trials + 1) - log_gamma(y + 1) - log_gamma(trials - y + 1)


def _expected_log_probabilities(
    link: str, mean: Points, variance: Points, order: int
) -> tuple[Features, Features, Features]:
    """Of no, then of yes."""
    if link == "logit":
        yes, no = expected_log_odds(mean, variance, order)
        value, slope, curvature = (jnp.stack(both) for both in zip(no, yes, strict=True))
        return value, slope, curvature
    sign = jnp.array([-1.0, 1.0]).reshape(2, *[1] * mean.ndim)
    mean, variance = (jnp.broadcast_to(v, (2, *v.shape)) for v in (mean, variance))
    return expectation_and_slopes(lambda f: log_cdf(link, sign * f), mean, variance, order)


def _scores(link: str, y: np.ndarray, trials: np.ndarray) -> np.ndarray:
    """The f of each share, with one more trial from the overall share."""
    overall = (np.sum(y) + 0.5) / (np.sum(trials) + 1)
    return quantile(link, (y + overall) / (trials + 1))
