"""Likelihoods that read several latent functions, against integrals over all of them."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from stategp import likelihoods as lik
from stategp.likelihoods._largest import largest

MEAN = np.array([[0.5, -1.0], [-0.7, 1.2], [2.0, 0.3]])
VARIANCE = np.array([[0.2, 0.7], [1.0, 0.1], [0.5, 0.4]])
_Z = np.linspace(-8, 8, 321)
_W = stats.norm.pdf(_Z) / np.sum(stats.norm.pdf(_Z))


@functools.partial(jax.jit, static_argnames="method")
def compute(likelihood: lik.Likelihood, method: str, *columns: Any) -> Any:
    return getattr(likelihood, method)(*columns)


def over_both(function, mean, variance):
    """E[function(f₁, f₂)] by the trapezoidal rule in both."""
    first, second = (mean[k] + np.sqrt(variance[k]) * _Z for k in range(2))
    return _W @ function(first[:, None], second[None, :]) @ _W


def hurdle(y):
    def log_density(chance, log_rate):
        rate = np.exp(log_rate)
        if y == 0:
            return special.log_expit(-chance) + 0 * log_rate
        count = stats.poisson.logpmf(y, rate) - np.log(-np.expm1(-rate))
        return special.log_expit(chance) + count

    return log_density


def varying_t(y):
    return lambda f, g: stats.t.logpdf(y, 3.0, loc=f, scale=np.exp(g / 2))


CASES = {
    "hurdle": (lik.HurdlePoisson(), hurdle, [0.0, 1.0, 4.0]),
    "student": (lik.HeteroscedasticStudentT(df=3.0), varying_t, [0.3, -2.0, 9.0]),
}


@pytest.mark.parametrize("name", CASES)
def test_expectations(name: str) -> None:
    likelihood, density, values = CASES[name]
    y, ones = jnp.asarray(values), jnp.ones(3)
    columns = (y, jnp.asarray(MEAN), jnp.asarray(VARIANCE), ones)
    value, slope, bend = compute(likelihood, "expected_slopes", *columns)
    predictive = compute(likelihood, "log_predictive_density", *columns)
    single, _, _ = compute(likelihood, "slopes", y, jnp.asarray(MEAN), ones)
    for i, at in enumerate(values):
        given = density(at)
        exact = over_both(given, MEAN[i], VARIANCE[i])
        np.testing.assert_allclose(value[i], exact, rtol=1e-7)
        density_there = over_both(
            lambda f, g, given=given: np.exp(given(f, g)), MEAN[i], VARIANCE[i]
        )
        np.testing.assert_allclose(predictive[i], np.log(density_there), rtol=1e-6)
        np.testing.assert_allclose(single[i], given(*MEAN[i]), rtol=1e-10)
        for k in range(2):
            step = 1e-4 * np.eye(2)[k]
            up, down = (over_both(given, MEAN[i] + s, VARIANCE[i]) for s in (step, -step))
            np.testing.assert_allclose(slope[i, k], (up - down) / 2e-4, rtol=1e-5, atol=1e-7)
            up, down = (over_both(given, MEAN[i], VARIANCE[i] + s) for s in (step, -step))
            np.testing.assert_allclose(bend[i, k], (up - down) / 2e-4, rtol=1e-5, atol=1e-7)


def test_the_distribution_of_counts_in_two_stages() -> None:
    likelihood, ones = lik.HurdlePoisson(), jnp.ones(3)
    moments = (jnp.asarray(MEAN), jnp.asarray(VARIANCE))
    k = np.arange(400.0)
    centre, spread = likelihood.predict(*moments, 2 * ones)
    scored = compute(likelihood, "crps", 2 * ones, *moments, 2 * ones)
    half = compute(likelihood, "predictive_quantile", 0.5 * ones, *moments, 2 * ones)
    below = compute(likelihood, "predictive_cdf", 3 * ones, *moments, 2 * ones)
    for i in range(3):
        chance = _W @ special.expit(MEAN[i, 0] + np.sqrt(VARIANCE[i, 0]) * _Z)
        rate = 2 * np.exp(MEAN[i, 1] + np.sqrt(VARIANCE[i, 1]) * _Z)
        positive = stats.poisson.pmf(k[:, None], rate) / -np.expm1(-rate) @ _W
        mass = np.where(k == 0, 1 - chance, chance * positive)
        np.testing.assert_allclose(np.sum(mass), 1.0, rtol=1e-10)
        np.testing.assert_allclose(centre[i], mass @ k, rtol=1e-7)
        np.testing.assert_allclose(spread[i], mass @ k**2 - (mass @ k) ** 2, rtol=1e-7)
        np.testing.assert_allclose(below[i], np.sum(mass[:4]), atol=1e-7)
        assert half[i] == np.argmax(np.cumsum(mass) >= 0.5)
        np.testing.assert_allclose(scored[i], np.sum((np.cumsum(mass) - (k >= 2)) ** 2), rtol=5e-3)


def test_the_distribution_with_a_varying_scale() -> None:
    likelihood, ones = lik.HeteroscedasticStudentT(df=3.0), jnp.ones(3)
    y, columns = jnp.array([0.3, -2.0, 9.0]), (jnp.asarray(MEAN), jnp.asarray(VARIANCE), ones)
    below = compute(likelihood, "predictive_cdf", y, *columns)
    for i in range(3):
        exact = over_both(
            lambda f, g, i=i: stats.t.cdf(y[i], 3.0, loc=f, scale=np.exp(g / 2)),
            MEAN[i], VARIANCE[i],
        )  # fmt: skip
        np.testing.assert_allclose(below[i], exact, atol=1e-6)
    back = compute(likelihood, "predictive_quantile", below, *columns)
    np.testing.assert_allclose(back, y, rtol=1e-5)
    mean, variance = likelihood.predict(*columns)
    np.testing.assert_allclose(mean, MEAN[:, 0])
    square = np.exp(MEAN[:, 1] + VARIANCE[:, 1] / 2)
    np.testing.assert_allclose(variance, VARIANCE[:, 0] + 3 * square, rtol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_draws(name: str) -> None:
    likelihood = CASES[name][0] if name == "hurdle" else lik.HeteroscedasticStudentT(df=9.0)
    f = jnp.tile(jnp.array([0.4, -0.3]), (20_000, 1))
    y = np.asarray(likelihood.sample(jax.random.key(0), f, jnp.ones(20_000)))
    mean, variance = (float(v[0]) for v in likelihood.moments(f[:1], jnp.ones(1)))
    assert np.all(likelihood.valid(y, np.ones(20_000)))
    assert abs(y.mean() - mean) < 5 * np.sqrt(variance / 20_000)
    squares = (y - mean) ** 2
    assert abs(squares.mean() - variance) < 5 * squares.std() / np.sqrt(20_000)
    guess = likelihood.guess(y[:50], np.ones(50))
    assert guess.shape == (50, 2)
    assert np.all(np.isfinite(guess))


def test_counts_of_rates_near_zero_and_without_end() -> None:
    f = jnp.array([[0.0, -800.0], [0.0, -40.0], [0.0, 6.0], [0.0, 6.0]])
    y = jnp.array([1.0, 2.0, 0.0, 403.0])
    value, slope, bend = compute(lik.HurdlePoisson(), "slopes", y, f, jnp.ones(4))
    assert np.all(np.isfinite(np.concatenate([slope, bend])))
    # The smallest rates leave one event only: log P(1) = 0 and log P(2) = f − log 2.
    np.testing.assert_allclose(
        value[:2] + np.log(2), [0.0, -40 - np.log(2)], rtol=1e-12, atol=1e-12
    )
    poisson = stats.poisson.logpmf(403, np.exp(6.0))
    np.testing.assert_allclose(value[3] + np.log(2), poisson, rtol=1e-10)
    assert lik.HurdlePoisson().guess(np.zeros(4), np.ones(4)).shape == (4, 2)


def by_steps(mean, variance):
    """E[log Σ exp f], class probabilities and their spreads: equal steps in every function."""
    axes = []
    for m, v in zip(mean, variance, strict=True):
        z = np.arange(-8, 8, min(0.4 / np.sqrt(v), 0.5))
        axes.append((m + np.sqrt(v) * z, stats.norm.pdf(z) / np.sum(stats.norm.pdf(z))))
    f = np.stack(np.meshgrid(*(f for f, _ in axes), indexing="ij"), axis=-1).reshape(-1, len(mean))
    weights = functools.reduce(np.multiply.outer, [w for _, w in axes]).ravel()
    shares = special.softmax(f, axis=1)
    return (
        weights @ special.logsumexp(f, axis=1),
        weights @ shares,
        weights @ (shares * (1 - shares)),
    )


SIZES = [(0.0, 1e-9), (0.4, 1e-8), (1.0, 1e-6), (2.5, 1e-6), (5.0, 1e-6)]


@pytest.mark.parametrize(("deviation", "error"), SIZES)
def test_softmax_against_a_grid_in_all_functions(deviation: float, error: float) -> None:
    mean = np.array([[0.3, -1.0, 2.0], [4.0, 3.5, -9.0]])
    variance = deviation**2 * np.array([[1.0, 0.003, 0.2], [0.2, 0.01, 1.0]])
    found = jax.jit(largest)(jnp.asarray(mean), jnp.asarray(variance))
    for i in range(2):
        for ours, theirs in zip(found, by_steps(mean[i], variance[i] + 1e-16), strict=True):
            np.testing.assert_allclose(ours[i], theirs, atol=error)


def test_softmax_of_many_classes_far_away() -> None:
    many = jax.jit(largest)(jnp.full((2, 11), 1e5), jnp.full((2, 11), 0.7))
    np.testing.assert_allclose(many.shares, 1 / 11, rtol=1e-12)
    assert np.all(many.bends <= many.shares * (1 - many.shares))
    draws = special.logsumexp(
        np.sqrt(0.7) * np.random.default_rng(0).standard_normal((200_000, 11)), axis=1
    )
    error = 5 * np.std(draws) / np.sqrt(len(draws))
    np.testing.assert_allclose(many.log_sum - 1e5, np.mean(draws), atol=error)


def test_two_classes_are_a_bernoulli_variable() -> None:
    mean = jnp.array([[0.3, -1.0], [2.0, 5.0], [0.0, 0.1]])
    variance = jnp.array([[0.2, 0.1], [1.0, 0.5], [4.0, 3.0]])
    y, ones = jnp.array([1.0, 0.0, 1.0]), jnp.ones(3)
    softmax = lik.Softmax(2)
    difference, total = mean[:, 1] - mean[:, 0], variance.sum(axis=1)
    for method in ("expected_log_density", "log_predictive_density", "predictive_cdf"):
        ours = compute(softmax, method, y, mean, variance, ones)
        theirs = compute(lik.Bernoulli(quadrature=64), method, y, difference, total, ones)
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    _, slope, bend = compute(softmax, "expected_slopes", y, mean, variance, ones)
    _, theirs, curved = compute(
        lik.Bernoulli(quadrature=64), "expected_slopes", y, difference, total, ones
    )
    np.testing.assert_allclose(slope[:, 1], theirs, atol=1e-6)
    np.testing.assert_allclose(bend[:, 1], curved, atol=1e-6)


def test_softmax_and_its_labels() -> None:
    likelihood = lik.Softmax(classes=3)
    assert repr(likelihood) == "Softmax(classes=3)"
    f, y = jnp.tile(jnp.array([0.4, -0.3, 1.0]), (20_000, 1)), jnp.array([0.0, 2.0])
    shares = special.softmax(f[0])
    drawn = np.asarray(likelihood.sample(jax.random.key(0), f, jnp.ones(20_000)))
    np.testing.assert_allclose(np.bincount(drawn.astype(int)) / 20_000, shares, atol=0.02)
    density = likelihood.log_density(y, f[:2], jnp.ones(2))
    np.testing.assert_allclose(density, np.log(shares)[[0, 2]], rtol=1e-12)
    _, slope, bend = likelihood.slopes(y, f[:2], jnp.ones(2))
    np.testing.assert_allclose(slope, np.eye(3)[[0, 2]] - shares, rtol=1e-12)
    np.testing.assert_allclose(bend[0], -shares * (1 - shares), rtol=1e-12)
    mean, variance = likelihood.moments(f[:1], jnp.ones(1))
    np.testing.assert_allclose(mean, shares @ [0, 1, 2])
    np.testing.assert_allclose(variance, shares @ [0, 1, 4] - mean**2)
    np.testing.assert_allclose(
        likelihood.outcome_probabilities(f[:1], 0 * f[:1], jnp.ones(1))[0], shares, rtol=1e-9
    )
    impossible = likelihood.log_predictive_density(
        jnp.zeros(1), jnp.array([[-900.0, 0.0, 0.0]]), jnp.zeros((1, 3)), jnp.ones(1)
    )
    np.testing.assert_allclose(impossible, -900 - np.log(2), rtol=1e-9)
    guess = likelihood.guess(np.array([0.0, 1.0, 2.0, 2.0]), np.ones(4))
    np.testing.assert_array_equal(np.argmax(guess, axis=1), [0, 1, 2, 2])
    np.testing.assert_array_equal(
        likelihood.valid(np.array([0.0, 2.0, 3.0, 0.5, -1.0, np.nan]), np.ones(6)),
        [1, 1, 0, 0, 0, 0],
    )


def test_outcomes_that_have_no_probability_each() -> None:
    with pytest.raises(ValueError, match="Poisson has no few outcomes"):
        lik.Poisson().outcome_probabilities(jnp.zeros(1), jnp.ones(1), jnp.ones(1))
    levels = lik.Ordinal(3).outcome_probabilities(jnp.zeros(2), jnp.ones(2), jnp.ones(2))
    np.testing.assert_allclose(levels.sum(axis=1), 1.0)
    np.testing.assert_allclose(levels[0, 0], levels[0, 2], rtol=1e-8)
