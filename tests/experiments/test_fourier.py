"""Fourier features against the dense GP they approximate."""

import jax.numpy as jnp
import numpy as np
import pytest

from stategp_experiments import fourier

# Two variances, two lengthscales, noise. Features are periodic, so functions that feel both ends of
# the interval are not reached with any number of them: lengthscales are short against it.
PARAMETERS = np.log([0.7, 0.4, 0.4, 0.3, 0.2])


def kernel(a, b, variance, lengthscale):
    distance = np.sqrt(3) * np.abs(a[:, None] - b) / lengthscale
    return variance * (1 + distance) * np.exp(-distance)


def dense(x, y, new):
    """The exact additive GP: log evidence, mean and variance at new rows."""
    v, ell, noise = np.exp(PARAMETERS[:2]), np.exp(PARAMETERS[2:4]), np.exp(PARAMETERS[4])

    def covariance(a, b):
        return sum(kernel(a[:, i], b[:, i], v[i], ell[i]) for i in range(2))

    whole = covariance(x, x) + noise * np.eye(len(x))
    cross = np.linalg.solve(whole, covariance(x, new))
    evidence = -(y @ np.linalg.solve(whole, y) + np.linalg.slogdet(2 * np.pi * whole)[1]) / 2
    return evidence, cross.T @ y, v.sum() - np.sum(cross * covariance(x, new), axis=0)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(60, 2)).round(2)  # some values occur twice
    return x, np.sin(5 * x[:, 0]) + x[:, 1] + 0.4 * rng.standard_normal(60)


def test_inner_products_by_quadrature():
    """cov(u, u) against the inner product of the RKHS, integrated numerically."""
    variance, lengthscale, count = 0.7, 0.5, 4
    rate = np.sqrt(3) / lengthscale
    at = np.linspace(fourier.LOW, fourier.HIGH, 20_001)
    omega = 2 * np.pi * np.arange(count) / (fourier.HIGH - fourier.LOW)
    angle = (at[:, None] - fourier.LOW) * omega
    values = fourier.features(at, count)
    slopes = np.concatenate([-omega * np.sin(angle), (omega * np.cos(angle))[:, 1:]], axis=1)
    bends = -(np.concatenate([omega, omega[1:]]) ** 2) * values
    inside = rate**2 * values + 2 * rate * slopes + bends
    weights = np.full(len(at), at[1] - at[0])
    weights[[0, -1]] /= 2
    wanted = inside.T @ (weights[:, None] * inside) / (4 * rate**3)
    wanted += np.outer(values[0], values[0]) + np.outer(slopes[0], slopes[0]) / rate**2
    found = fourier.feature_covariance(variance, lengthscale, count)
    np.testing.assert_allclose(found, wanted / variance, rtol=1e-6, atol=1e-9)


def test_statistics_are_sums_over_rows(data):
    x, y = data
    both = np.concatenate([fourier.features(x[:, i], 5) for i in range(2)], axis=1)
    found = fourier.statistics(x, y, 5)
    np.testing.assert_allclose(found.gram, both.T @ both, atol=1e-10)
    np.testing.assert_allclose(found.projected, both.T @ y, atol=1e-10)
    assert found.squares == pytest.approx(y @ y)


def test_the_bound_rises_to_the_evidence(data):
    x, y = data
    evidence = dense(x, y, x)[0]
    bounds = [
        float(fourier.bound(jnp.asarray(PARAMETERS), fourier.statistics(x, y, count), 2))
        for count in (5, 40, 160)
    ]
    assert bounds[0] < bounds[1] < bounds[2] < evidence
    assert evidence - bounds[2] < 0.1


def test_predictions_are_those_of_the_dense_gp(data):
    x, y = data
    found = fourier.infer(PARAMETERS, fourier.statistics(x, y, 160), 2)
    new = np.random.default_rng(1).uniform(-0.2, 1.2, size=(20, 2))
    mean, variance = fourier.predict(found, new)
    _, exact_mean, exact_variance = dense(x, y, new)
    np.testing.assert_allclose(mean, exact_mean, atol=2e-3)
    np.testing.assert_allclose(variance, exact_variance, atol=2e-3)


def test_learning_raises_the_bound(data):
    x, y = data
    statistics = fourier.statistics(x, y, 10)
    before = float(fourier.bound(jnp.asarray(fourier.start(2)), statistics, 2))
    assert fourier.fit(statistics, 2, max_steps=20).bound > before + 1


def test_inputs_beyond_the_interval_are_refused():
    with pytest.raises(ValueError, match="features are for inputs in"):
        fourier.features(np.array([3.5]))
