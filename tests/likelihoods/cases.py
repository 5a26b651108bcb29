"""One table of likelihoods, each with SciPy's distribution of the same observations."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats

from stategp import likelihoods as lik
from tests.likelihoods import reference


class Case(NamedTuple):
    likelihood: lik.Likelihood
    log_density: Callable[[float, np.ndarray], np.ndarray]  # of y and f
    distribution: Callable[[np.ndarray], Any]  # SciPy's, given f
    y: list[float]
    all_y: np.ndarray  # every y (discrete), or a grid (continuous)
    weights: np.ndarray  # so that Σ weights · density = 1
    extra: float = 1.0
    centre: Callable[[float], float] | None = None  # the f that y points at, where it is sharp


def _ordinal(link: str, cuts: list[float]) -> Callable[[np.ndarray], Any]:
    family = stats.logistic if link == "logit" else stats.norm

    class Levels:
        def __init__(self, f: np.ndarray):
            above = family.sf(np.asarray(cuts) - np.asarray(f)[..., None])
            self._f, self._mean = f, above.sum(-1)
            self._second = (above * (2 * np.arange(1, len(cuts) + 1) - 1)).sum(-1)

        def cdf(self, level: np.ndarray) -> np.ndarray:
            ends = np.append(cuts, np.inf)[np.floor(level).astype(int)]
            return family.cdf(ends - self._f)

        def mean(self) -> np.ndarray:
            return self._mean

        def var(self) -> np.ndarray:
            return self._second - self._mean**2

    return Levels


def _logit_normal(variance: float) -> Callable[[np.ndarray], Any]:
    z = np.linspace(-9, 9, 721)
    weights = stats.norm.pdf(z) / stats.norm.pdf(z).sum()

    class Shares:
        def __init__(self, f: np.ndarray):
            self._odds = stats.norm(f, np.sqrt(variance))
            shares = special.expit(np.asarray(f)[..., None] + z * variance**0.5)
            self._mean = shares @ weights
            self._var = (shares - self._mean[..., None]) ** 2 @ weights

        def cdf(self, y: np.ndarray) -> np.ndarray:
            return self._odds.cdf(special.logit(y))

        def ppf(self, level: np.ndarray) -> np.ndarray:
            return special.expit(self._odds.ppf(level))

        def mean(self) -> np.ndarray:
            return self._mean

        def var(self) -> np.ndarray:
            return self._var

    return Shares


def _with_zeros(share: float, counts: Callable[[np.ndarray], Any]) -> Callable[[np.ndarray], Any]:
    class Thinned:
        def __init__(self, f: np.ndarray):
            self._given = counts(f)

        def cdf(self, y: np.ndarray) -> np.ndarray:
            return np.where(y < 0, 0.0, share + (1 - share) * self._given.cdf(y))

        def mean(self) -> np.ndarray:
            return (1 - share) * self._given.mean()

        def var(self) -> np.ndarray:
            square = (1 - share) * (self._given.var() + self._given.mean() ** 2)
            return square - self.mean() ** 2

    return Thinned


_T = np.linspace(-1, 1, 801)
_REAL = np.sinh(_T * np.arcsinh(1e5)), np.cosh(_T * np.arcsinh(1e5)) * np.arcsinh(1e5) / 400
_POSITIVE = np.exp(_T * 40), np.exp(_T * 40) * 40 / 400
_UNIT = special.expit(_T * 34), special.expit(_T * 34) * special.expit(-_T * 34) * 34 / 400
_LABELS = np.arange(2.0), np.ones(2)
_COUNTS = np.arange(3000.0), np.ones(3000)
_CUTS = [-1.2, 0.1, 0.9]


def _identity(y: float) -> float:
    return y


CASES = {
    "gaussian": Case(
        lik.Gaussian(variance=0.3),
        reference.gaussian(1.3),
        lambda f: stats.norm(f, np.sqrt(1.3)),
        [0.0, 3.0],
        *_REAL,
    ),
    "student_t": Case(
        lik.StudentT(df=3.0, scale=0.7),
        reference.student_t(3.0, 0.7),
        lambda f: stats.t(3.0, loc=f, scale=0.7),
        [0.0, 0.8, -30.0],
        *_REAL,
        centre=_identity,
    ),
    "laplace": Case(
        lik.Laplace(scale=0.7),
        reference.laplace(0.7),
        lambda f: stats.laplace(f, 0.7),
        [0.0, 0.8, -30.0],
        *_REAL,
        centre=_identity,
    ),
    "bernoulli": Case(
        lik.Bernoulli(),
        reference.bernoulli("logit"),
        lambda f: stats.bernoulli(special.expit(f)),
        [0.0, 1.0],
        *_LABELS,
    ),
    "bernoulli_probit": Case(
        lik.Bernoulli(link="probit"),
        reference.bernoulli("probit"),
        lambda f: stats.bernoulli(special.ndtr(f)),
        [0.0, 1.0],
        *_LABELS,
    ),
    "binomial": Case(
        lik.Binomial(),
        reference.binomial("logit", 5),
        lambda f: stats.binom(5, special.expit(f)),
        [0.0, 2.0, 5.0],
        np.arange(6.0),
        np.ones(6),
        extra=5.0,
    ),
    "binomial_probit": Case(
        lik.Binomial(link="probit"),
        reference.binomial("probit", 5),
        lambda f: stats.binom(5, special.ndtr(f)),
        [0.0, 2.0, 5.0],
        np.arange(6.0),
        np.ones(6),
        extra=5.0,
    ),
    "poisson": Case(
        lik.Poisson(),
        reference.poisson(1.7),
        lambda f: stats.poisson(1.7 * np.exp(f)),
        [0.0, 3.0, 20.0],
        *_COUNTS,
        extra=1.7,
    ),
    "negative_binomial": Case(
        lik.NegativeBinomial(shape=2.5),
        reference.negative_binomial(2.5, 1.7),
        lambda f: stats.nbinom(2.5, 2.5 / (2.5 + 1.7 * np.exp(f))),
        [0.0, 3.0, 20.0],
        *_COUNTS,
        extra=1.7,
    ),
    "zero_inflated_poisson": Case(
        lik.ZeroInflatedPoisson(odds=0.25),
        reference.with_zeros(0.2, reference.poisson(1.7)),
        _with_zeros(0.2, lambda f: stats.poisson(1.7 * np.exp(f))),
        [0.0, 3.0, 20.0],
        *_COUNTS,
        extra=1.7,
    ),
    "zero_inflated_negative_binomial": Case(
        lik.ZeroInflatedNegativeBinomial(odds=0.25, shape=2.5),
        reference.with_zeros(0.2, reference.negative_binomial(2.5, 1.7)),
        _with_zeros(0.2, lambda f: stats.nbinom(2.5, 2.5 / (2.5 + 1.7 * np.exp(f)))),
        [0.0, 3.0, 20.0],
        *_COUNTS,
        extra=1.7,
    ),
    "censored": Case(
        lik.Censored(variance=1.3),
        reference.gaussian(1.3),
        lambda f: stats.norm(f, np.sqrt(1.3)),
        [0.0, 3.0],
        *_REAL,
        extra=0.0,
    ),
    "exponential": Case(
        lik.Exponential(),
        reference.gamma(1.0),
        lambda f: stats.expon(scale=np.exp(f)),
        [0.1, 1.0, 9.0],
        *_POSITIVE,
    ),
    "gamma": Case(
        lik.Gamma(shape=2.5),
        reference.gamma(2.5),
        lambda f: stats.gamma(2.5, scale=np.exp(f) / 2.5),
        [0.1, 1.0, 9.0],
        *_POSITIVE,
    ),
    "log_normal": Case(
        lik.LogNormal(variance=0.5),
        reference.positive_normal(0.5),
        lambda f: stats.lognorm(np.sqrt(0.5), scale=np.exp(f)),
        [0.1, 1.0, 9.0],
        *_POSITIVE,
    ),
    "bounded_below": Case(
        lik.Bounded(0.0, None, variance=0.5),
        reference.positive_normal(0.5),
        lambda f: stats.lognorm(np.sqrt(0.5), scale=np.exp(f)),
        [0.1, 1.0, 9.0],
        *_POSITIVE,
    ),
    "bounded": Case(
        lik.Bounded(variance=0.5),
        reference.logit_normal(0.5),
        _logit_normal(0.5),
        [0.02, 0.5, 0.9],
        *_UNIT,
    ),
    "weibull": Case(
        lik.Weibull(shape=1.5),
        reference.weibull(1.5),
        lambda f: stats.weibull_min(1.5, scale=np.exp(f)),
        [0.1, 1.0, 9.0],
        *_POSITIVE,
    ),
    "beta": Case(
        lik.Beta(precision=6.0),
        reference.beta(6.0),
        lambda f: stats.beta(6 * special.expit(f), 6 * special.expit(-f)),
        [0.02, 0.5, 0.9],
        *_UNIT,
    ),
    "ordinal": Case(
        lik.Ordinal(4, cutpoints=_CUTS),
        reference.ordinal("logit", _CUTS),
        _ordinal("logit", _CUTS),
        [0.0, 1.0, 2.0, 3.0],
        np.arange(4.0),
        np.ones(4),
    ),
    "ordinal_probit": Case(
        lik.Ordinal(4, link="probit", cutpoints=_CUTS),
        reference.ordinal("probit", _CUTS),
        _ordinal("probit", _CUTS),
        [0.0, 1.0, 2.0, 3.0],
        np.arange(4.0),
        np.ones(4),
    ),
}
