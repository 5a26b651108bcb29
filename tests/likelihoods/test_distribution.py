"""Distribution functions, quantiles and CRPS of new observations, against SciPy's distributions."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

from stategp import likelihoods as lik
from tests.likelihoods.cases import CASES, Case

POINTS = [(m, v) for m in (-1.3, 2.0) for v in (0.0, 1e-4, 0.3, 25.0)]
MEAN, VARIANCE = np.array(POINTS).T
_T = np.linspace(-8.5, 8.5, 2001)
_WEIGHTS = stats.norm.pdf(_T) / np.sum(stats.norm.pdf(_T))


@functools.partial(jax.jit, static_argnames="method")
def compute(likelihood: lik.Likelihood, method: str, *columns: Any) -> Any:
    """One program for each class and method: the columns are NumPy's, eight of each."""
    return getattr(likelihood, method)(*columns)


def extra_of(case: Case) -> Any:
    return np.full(MEAN.shape, case.extra)


def mixture(case: Case, y: np.ndarray, mean: float, variance: float) -> np.ndarray:
    """P(Y ≤ y) by the trapezoidal rule over f."""
    given = case.distribution(mean + np.sqrt(variance) * _T)
    return np.array([np.sum(_WEIGHTS * given.cdf(value)) for value in y])


@pytest.mark.parametrize("name", CASES)
def test_predictive_cdf(name: str) -> None:
    case = CASES[name]
    for y in case.y:
        ours = compute(
            case.likelihood, "predictive_cdf", np.full(MEAN.shape, y), MEAN, VARIANCE,
            extra_of(case),
        )  # fmt: skip
        theirs = [mixture(case, np.array([y]), m, v)[0] for m, v in POINTS]
        np.testing.assert_allclose(ours, theirs, atol=1e-6 if name == "beta" else 1e-7)
    plain = compute(case.likelihood, "cdf", np.full(MEAN.shape, case.y[0]), MEAN, extra_of(case))
    theirs = [case.distribution(np.array([m])).cdf(case.y[0])[0] for m in MEAN]
    np.testing.assert_allclose(plain, theirs, atol=1e-8)


@pytest.mark.parametrize("name", CASES)
def test_quantiles_invert_the_distribution_function(name: str) -> None:
    case = CASES[name]
    # Of Beta with a variance of 25, more than 1e-3 is beyond the last number below 1.
    keep = (1.0 if name == "beta" else np.inf) > VARIANCE
    for level in (1e-3, 0.5, 0.999):
        levels = np.full(MEAN.shape, level)
        rest = (MEAN, VARIANCE, extra_of(case))
        y = compute(case.likelihood, "predictive_quantile", levels, *rest)
        reached = compute(case.likelihood, "predictive_cdf", y, *rest)
        if case.likelihood.discrete:
            before = compute(case.likelihood, "predictive_cdf", y - 1, *rest)
            assert np.all((before < level) & (level <= reached))
            assert np.all((y >= 0) & (y == np.round(y)))
        else:
            np.testing.assert_allclose(reached[keep], level, rtol=1e-8)


@pytest.mark.parametrize("name", CASES)
def test_beyond_the_bounds(name: str) -> None:
    likelihood = CASES[name].likelihood
    values = np.array([-np.inf, -3.5, 1e9, np.inf, np.nan, 0.0, 0.0, 0.0])
    below = compute(likelihood, "predictive_cdf", values, MEAN, VARIANCE, extra_of(CASES[name]))
    low, left, right, high, missing = np.asarray(below)[:5]
    assert low == 0
    assert high == 1
    assert np.isnan(missing)
    assert right > 1 - 1e-6
    assert left == 0 or name in ("gaussian", "student_t", "laplace", "censored")


def test_counts_are_whole_numbers() -> None:
    y = np.array([2.0, 2.7, 2.999, 3.0, -0.1, 0.0, 0.0, 0.0])
    mean, variance = np.full(8, 0.5), np.full(8, 0.3)
    below = compute(lik.Poisson(), "predictive_cdf", y, mean, variance, np.ones(8))
    assert below[0] == below[1] == below[2] < below[3]
    assert below[4] == 0


def test_large_counts_with_an_uncertain_rate() -> None:
    """The rate is far more uncertain than the count given the rate, or the other way round."""
    case = CASES["poisson"]
    mean, variance = np.full(8, 15.0), np.asarray([0.0, 1e-9, 1e-7, 1e-5, 1e-3, 0.1, 1.0, 4.0])
    rest = (mean, variance, np.ones(8))
    y = compute(case.likelihood, "predictive_quantile", np.full(8, 0.9), *rest)
    np.testing.assert_allclose(y[0], stats.poisson(np.exp(15.0)).ppf(0.9), atol=1.0)
    # log y is nearly normal, with the variance of f and that of the count given f.
    normal = np.exp(15.0 + special.ndtri(0.9) * np.sqrt(variance + np.exp(-15.0)))
    np.testing.assert_allclose(y, normal, rtol=1e-6)


@pytest.mark.parametrize("shape", [0.05, 0.4, 30.0])
def test_shapes_of_any_size(shape: float) -> None:
    f = -1.0 + 0.8 * _T
    columns = (np.full(8, -1.0), np.full(8, 0.64), np.ones(8))
    y = np.array([1e-3, 0.1, 0.5, 1.0, 2.0, 5.0, 20.0, 100.0])
    gamma = compute(lik.Gamma(shape=shape), "predictive_cdf", y, *columns)
    theirs = special.gammainc(shape, shape * y[:, None] * np.exp(-f)) @ _WEIGHTS
    np.testing.assert_allclose(gamma, theirs, atol=1e-6)
    counts = np.array([0.0, 1.0, 2.0, 3.0, 5.0, 10.0, 50.0, 300.0])
    likelihood = lik.NegativeBinomial(shape=shape)
    ours = compute(likelihood, "predictive_cdf", counts, *columns)
    theirs = special.betainc(shape, counts[:, None] + 1, shape / (shape + np.exp(f))) @ _WEIGHTS
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_heteroscedastic() -> None:
    likelihood = lik.HeteroscedasticGaussian()
    mean = np.tile(np.array([0.5, -1.0]), (8, 1))
    variance = np.tile(np.array([0.2, 0.7]), (8, 1))
    y = np.linspace(-2.0, 3.0, 8)
    ours = compute(likelihood, "predictive_cdf", y, mean, variance, np.zeros(8))
    deviation = np.sqrt(0.2 + np.exp(-1.0 + np.sqrt(0.7) * _T))
    theirs = stats.norm.cdf((y[:, None] - 0.5) / deviation) @ _WEIGHTS
    np.testing.assert_allclose(ours, theirs, atol=1e-8)
    back = compute(likelihood, "predictive_quantile", ours, mean, variance, np.zeros(8))
    np.testing.assert_allclose(back, y, rtol=1e-6)


@pytest.mark.parametrize("df", [0.7, 1.0, 2.0, 1e9])
def test_student_t_with_any_tail(df: float) -> None:
    likelihood = lik.StudentT(df=df, scale=0.5)
    levels = np.array([1e-3, 0.01, 0.1, 0.4, 0.5, 0.8, 0.99, 0.999])
    still = (np.ones(8), np.zeros(8), np.zeros(8))
    ours = compute(likelihood, "predictive_quantile", levels, *still)
    theirs = stats.t(df, 1.0, 0.5).ppf(levels) if df < 1e6 else stats.norm(1.0, 0.5).ppf(levels)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)


@pytest.mark.parametrize("variance", [0.0, 0.5])
def test_crps_of_gaussian_observations(variance: float) -> None:
    y = np.array([-2.0, 0.3, 1.0, 4.0, 0.0, 0.0, 0.0, np.nan])
    likelihood = lik.Gaussian(variance=0.3)
    columns = (np.ones(8), np.full(8, variance), np.zeros(8))
    ours = compute(likelihood, "crps", y, *columns)
    given = stats.norm(1.0, np.sqrt(0.3 + variance))
    for value, score in zip(y[:4], ours, strict=False):
        under = integrate.quad(lambda u: given.cdf(u) ** 2, -20, value)[0]
        over = integrate.quad(lambda u: given.sf(u) ** 2, value, 20)[0]
        np.testing.assert_allclose(score, under + over, rtol=1e-7)
    assert np.isnan(ours[-1])
    # The general way finds the same.
    general = jax.jit(lik.Likelihood.crps)(likelihood, y, *columns)
    np.testing.assert_allclose(general, ours, rtol=1e-3)


@pytest.mark.parametrize(
    "name", ["poisson", "negative_binomial", "zero_inflated_poisson", "binomial", "ordinal"]
)
def test_crps_of_whole_numbers_is_a_sum(name: str) -> None:
    case = CASES[name]
    points = [(y, m, v) for y in case.y[:2] for m in (-1.3, 2.0) for v in (0.0, 0.3)]
    columns = [np.asarray(column) for column in np.array(points).T]
    ours = compute(case.likelihood, "crps", *columns, extra_of(case))
    k = np.arange({"binomial": 6, "ordinal": 4}.get(name, 500))
    theirs = [np.sum((mixture(case, k, m, v) - (k >= y)) ** 2) for y, m, v in points]
    np.testing.assert_allclose(ours, theirs, rtol=2e-3)


@pytest.mark.parametrize(
    "name", ["student_t", "laplace", "exponential", "gamma", "weibull", "beta"]
)
def test_crps_is_an_average_distance(name: str) -> None:
    """E|Y − y| − E|Y − Y'|/2, from quantiles of SciPy's distribution at the mean of f."""
    case = CASES[name]
    levels = (np.arange(200_000) + 0.5) / 200_000
    y = np.asarray([case.y[i % len(case.y)] for i in range(8)])
    ours = compute(case.likelihood, "crps", y, MEAN, np.zeros(8), extra_of(case))
    for i in (0, 1, 4, 5):
        draws = case.distribution(np.array([MEAN[i]])).ppf(levels)
        theirs = np.mean(2 * (levels - (y[i] < draws)) * (y[i] - draws))
        np.testing.assert_allclose(ours[i], theirs, rtol=3e-3)


def test_crps_far_from_the_data() -> None:
    """Distributions all at one end of what y can be, and an f of great uncertainty."""
    mean = np.asarray([-50.0, -50.0, 50.0, 50.0, 0.0, 0.0, 0.0, 0.0])
    variance = np.asarray([0.0, 1.0, 0.0, 1.0, 9.0, 25.0, 25.0, 25.0])
    f, half, trials = (mean, variance), np.full(8, 0.5), np.full(8, 7.0)
    counts = compute(lik.Binomial(link="probit"), "crps", np.ones(8), *f, trials)
    np.testing.assert_allclose(counts[:4], [1, 1, 6, 6], rtol=1e-6)
    shares = compute(lik.Beta(precision=0.5), "crps", half, *f, half)
    np.testing.assert_allclose(shares[:4], 0.5, rtol=1e-6)
    times = compute(lik.Exponential(), "crps", half, *f, half)
    np.testing.assert_allclose(times[:2], 0.5, rtol=1e-6)
    np.testing.assert_allclose(times[2], np.exp(50.0) / 2, rtol=1e-3)
    u = np.exp(np.linspace(-40, 60, 4001))  # an exponential times a log-normal
    for deviation, score in [(3, times[4]), (5, times[5])]:
        tail = np.exp(-np.minimum(u[:, None] * np.exp(-deviation * _T), 700)) @ _WEIGHTS
        square = np.where(u < 0.5, 1 - tail, tail) ** 2
        np.testing.assert_allclose(score, integrate.trapezoid(square, u), rtol=1e-2)


def test_custom_likelihoods_bring_their_own() -> None:
    def density(y, f, scale):
        return -jnp.log(jnp.pi * scale) - jnp.log1p(((y - f) / scale) ** 2)

    def cdf(y, f, scale):
        return 0.5 + jnp.arctan((y - f) / scale) / jnp.pi

    likelihood = lik.Custom(density, parameters={"scale": 0.5}, cdf=cdf)
    cauchy = lik.StudentT(df=1.0, scale=0.5)
    levels = np.asarray([0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99])
    rest = (np.ones(8), np.full(8, 0.3), np.zeros(8))
    ours = compute(likelihood, "predictive_quantile", levels, *rest)
    theirs = compute(cauchy, "predictive_quantile", levels, *rest)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match=r"pass Custom\(..., cdf=...\)"):
        compute(lik.Custom(density, parameters={"scale": 0.5}), "predictive_cdf", levels, *rest)


def test_a_class_without_a_distribution_function_says_what_to_write() -> None:
    class Plain(lik.Likelihood):
        def log_density(self, y, f, extra):
            return -jnp.abs(y - f)

        def moments(self, f, extra):
            return f, jnp.ones_like(f)

        def sample(self, key, f, extra):
            return f

    with pytest.raises(ValueError, match=r"Plain need its distribution function.*cdf\(y, f, extra"):
        compute(Plain(), "predictive_quantile", np.full(8, 0.5), MEAN, VARIANCE, MEAN)
