"""Trends against what they become when nothing is known beforehand, from other sources."""

import numpy as np
import pytest
from scipy.interpolate import make_smoothing_spline
from scipy.stats import linregress

import stategp as sg
from stategp import kernels as k
from tests import dense

SIZE, NOISE = 40, 0.3
X = np.sort(np.random.default_rng(1).uniform(0, 20, SIZE))
OUTSIDE = np.array([-10.0, -1.0, 20.5, 35.0])


def walk(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    steps = np.sqrt(np.diff(X, prepend=X[0])) * rng.normal(size=SIZE)
    return 5.0 + np.cumsum(steps) + np.sqrt(NOISE) * rng.normal(size=SIZE)


def posterior(kernel: k.Kernel, y: np.ndarray) -> sg.Posterior:
    return sg.condition(sg.GP(kernel, sg.likelihoods.Gaussian(variance=NOISE)), X, y)


def test_wiener_is_the_random_walk_of_unknown_level() -> None:
    """Its precision is that of the differences alone, which says nothing about the level."""
    y, diffusivity = walk(), 0.7
    differences = np.diff(np.eye(SIZE), axis=0)
    precision = differences.T / (diffusivity * np.diff(X)) @ differences
    covariance = np.linalg.inv(precision + np.eye(SIZE) / NOISE)
    expected = covariance @ y / NOISE
    found = posterior(k.Wiener(diffusivity=diffusivity, start=1e8), y)
    mean, variance = found.predict_f(X)
    np.testing.assert_allclose(mean, expected, rtol=1e-6)
    np.testing.assert_allclose(variance, np.diag(covariance), rtol=1e-6)
    mean, variance = found.predict_f(OUTSIDE)
    ends = np.array([0, 0, -1, -1])
    away = np.abs(OUTSIDE - X[ends])
    np.testing.assert_allclose(mean, expected[ends], rtol=1e-6)
    np.testing.assert_allclose(variance, np.diag(covariance)[ends] + diffusivity * away, rtol=1e-6)


def test_integrated_wiener_is_the_smoothing_spline_and_straight_beyond_the_data() -> None:
    y, diffusivity = walk(), 0.05
    spline = make_smoothing_spline(X, y, lam=NOISE / diffusivity)
    found = posterior(k.IntegratedWiener(diffusivity=diffusivity, start=1e11, slope=1e4), y)
    inside = np.linspace(X[0], X[-1], 30)
    mean, _ = found.predict_f(inside)
    np.testing.assert_allclose(mean, spline(inside), rtol=1e-5)
    mean, _ = found.predict_f(OUTSIDE)
    ends = X[np.array([0, 0, -1, -1])]
    np.testing.assert_allclose(mean, spline(ends) + spline(ends, 1) * (OUTSIDE - ends), atol=3e-4)


@pytest.mark.parametrize("kernel", [
    k.Linear(slope=1e2, start=1e10),
    k.IntegratedWiener(diffusivity=1e-12, start=1e10, slope=1e2),
])  # fmt: skip
def test_linear_is_least_squares_with_its_intervals(kernel: k.Kernel) -> None:
    y = walk()
    line = linregress(X, y)
    at = np.concatenate([OUTSIDE, X[:3]])
    mean, variance = posterior(kernel, y).predict_f(at)
    np.testing.assert_allclose(mean, line.intercept + line.slope * at, rtol=1e-5)
    centred = X - X.mean()
    expected = NOISE * (1 / SIZE + (at - X.mean()) ** 2 / (centred @ centred))
    np.testing.assert_allclose(variance, expected, rtol=1e-5)


def test_a_damped_trend_levels_off_at_its_rate() -> None:
    found = posterior(k.DampedTrend(diffusivity=0.4, damping=0.5, start=1e8), walk())
    ahead = X[-1] + np.array([0.0, 1.0, 2.0, 3.0, 200.0])
    mean, _ = found.predict_f(ahead)
    steps = np.diff(mean)
    np.testing.assert_allclose(steps[1:3] / steps[:2], np.exp(-0.5), rtol=1e-5)
    np.testing.assert_allclose(mean[-1] - mean[0], steps[0] / -np.expm1(-0.5), rtol=1e-5)


@pytest.mark.parametrize("kernel", [
    k.Wiener(diffusivity=0.7, start=50.0),
    k.IntegratedWiener(diffusivity=0.1, start=50.0, slope=2.0),
    k.Linear(slope=0.3, start=50.0) + k.DampedTrend(diffusivity=0.4, damping=0.5, start=9.0),
    k.Wiener(diffusivity=0.7, start=1.0) * k.Cosine(period=3.0),
    k.FromSDE([[0, 1], [0, 0]], [0, 1], [[0.1]], [1, 0], start=50.0, variance=1.0),
], ids=["Wiener", "integrated", "sum", "product", "equation"])  # fmt: skip
def test_with_a_given_start_they_are_dense_gaussian_processes(kernel: k.Kernel) -> None:
    y = walk()
    expected = dense.gp(kernel, X, y, NOISE, np.concatenate([OUTSIDE, X[:5] + 0.1]))
    found = posterior(kernel, y)
    mean, variance = found.predict_f(np.concatenate([OUTSIDE, X[:5] + 0.1]))
    np.testing.assert_allclose(found.elbo, expected.log_evidence, rtol=1e-10)
    np.testing.assert_allclose(mean, expected.mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(variance, expected.variance, rtol=1e-8)


@pytest.mark.parametrize("level", [0.0, 1e3])
def test_a_fit_makes_starts_vague(level: float) -> None:
    """A level far from zero is not pulled there, and the scale of x does not matter."""
    y = walk() + level
    far = [-2000.0, 3000.0]
    found = sg.fit(sg.GP("wiener"), 100 * X, y)
    mean, _ = found.predict_f([*far, 100 * X[0], 100 * X[-1]])
    np.testing.assert_allclose(mean[:2], mean[2:], atol=1e-2)
    kernel = found.model.kernels[0]
    assert not kernel.start.learned
    assert kernel.start.value >= 1e6 * np.var(y)

    line = linregress(X, y)
    found = sg.fit(sg.GP(k.IntegratedWiener(diffusivity=sg.fixed(1e-12))), 100 * X, y)
    mean, _ = found.predict_f(far)
    np.testing.assert_allclose(mean, line.intercept + line.slope * np.array(far) / 100, atol=0.05)


def test_trends_can_be_saved(tmp_path) -> None:
    kernel = k.Sum(level=k.Wiener(start=1e4), line=k.Linear(), bent=k.DampedTrend())
    found = posterior(kernel, walk())
    found.save(tmp_path / "trend.stategp")
    loaded = sg.load(tmp_path / "trend.stategp")
    assert repr(loaded.model) == repr(found.model)
    np.testing.assert_array_equal(loaded.predict_f(OUTSIDE)[0], found.predict_f(OUTSIDE)[0])
