"""What the user holds: samples, components, densities, and invariances."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import stategp as sg
from stategp import kernels as k
from tests import dense

NOISE = 0.05
X = np.sort(np.random.default_rng(0).uniform(0, 5, 40))
Y = np.sin(2 * X) + np.sqrt(NOISE) * np.random.default_rng(1).standard_normal(40)
KERNEL = k.Matern52(lengthscale=1.0) + k.Cosine(variance=0.5, period=2.5)


@pytest.fixture(scope="module")
def posterior():
    model = sg.GP(KERNEL, sg.likelihoods.Gaussian(variance=NOISE), mean=0.3)
    return sg.condition(model, X, Y)


def test_joint_samples_have_the_dense_posterior_s_mean_and_covariance(posterior):
    x_new = np.array([4.0, -1.0, 0.5, 0.5, X[7], 6.0, 2.0])  # any order, repeated, outside
    n = 20_000
    f = np.asarray(posterior.sample_f(0, x_new, num_samples=n))
    assert f.shape == (n, len(x_new))
    exact = dense.gp(KERNEL, X, Y - 0.3, NOISE, x_new)
    deviation = np.sqrt(exact.variance)
    assert np.max(np.abs(f.mean(axis=0) - 0.3 - exact.mean) / deviation) < 4.5 / np.sqrt(n)
    spread = np.sqrt((deviation[:, None] * deviation) ** 2 + exact.covariance**2)
    assert np.all(np.abs(np.cov(f.T) - exact.covariance) < 4.5 * spread / np.sqrt(n))
    np.testing.assert_allclose(f[:, 2], f[:, 3], atol=1e-7)  # the same point, the same value


def test_samples_of_a_sparse_posterior():
    model = sg.GP(k.Matern32(lengthscale=0.7), sg.likelihoods.Gaussian(variance=NOISE))
    z, x_new = np.array([0.5, 2.0, 4.0]), np.linspace(-1, 6, 9)
    sparse = sg.condition(model, X, Y, inducing=z)
    n = 20_000
    f = np.asarray(sparse.sample_f(jax.random.key(3), x_new, num_samples=n))
    mean, variance = sparse.predict_f(x_new)
    assert np.max(np.abs(f.mean(axis=0) - mean) / np.sqrt(variance)) < 4.5 / np.sqrt(n)
    np.testing.assert_allclose(f.var(axis=0), variance, rtol=4.5 * np.sqrt(2 / n))
    expected = dense.sparse(model.kernel, X, Y, NOISE, z, x_new)
    np.testing.assert_allclose(variance, expected.variance, rtol=1e-9)


def test_same_seed_same_samples(posterior):
    first, second = (np.asarray(posterior.sample_f(7, X[:5], 3)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    keyed = posterior.sample_f(jax.random.key(7), X[:5], 3)
    np.testing.assert_array_equal(first, keyed)


def test_components_are_the_dense_conditionals_of_the_summands(posterior):
    x_new = np.linspace(-1, 6, 15)
    components = posterior.components(x_new)
    assert list(components) == ["matern52", "cosine"]
    C = np.asarray(KERNEL(X, X)) + NOISE * np.eye(len(X))
    for (mean, variance), kernel in zip(components.values(), KERNEL.kernels, strict=True):
        cross = np.asarray(kernel(x_new, X))
        expected = cross @ np.linalg.solve(C, Y - 0.3)
        reduction = np.einsum("ni,in->n", cross, np.linalg.solve(C, cross.T))
        np.testing.assert_allclose(mean, expected, atol=1e-9)
        np.testing.assert_allclose(variance, np.diag(kernel(x_new, x_new)) - reduction, atol=1e-9)
    total = sum(np.asarray(mean) for mean, _ in components.values())
    np.testing.assert_allclose(total + 0.3, posterior.predict_f(x_new)[0], atol=1e-10)


def test_a_single_kernel_is_one_component():
    model = sg.GP(k.Matern32(), sg.likelihoods.Gaussian(variance=NOISE))
    single = sg.condition(model, X, Y)
    (name, (mean, _)), *rest = single.components(X[:3]).items()
    assert (name, rest) == ("matern32", [])
    np.testing.assert_allclose(mean, single.predict_f(X[:3])[0])


def test_new_observations(posterior):
    x_new, y_new = np.array([0.1, 2.0, 7.0]), np.array([0.0, np.nan, 1.0])
    mean, variance = posterior.predict_f(x_new)
    y_mean, y_variance = posterior.predict_y(x_new)
    np.testing.assert_array_equal(y_mean, mean)
    np.testing.assert_allclose(y_variance, variance + NOISE, rtol=1e-14)
    density = posterior.log_density(x_new, y_new)
    np.testing.assert_allclose(density, norm(mean, np.sqrt(y_variance)).logpdf(y_new), rtol=1e-12)
    assert np.isnan(density[1])
    _, with_known = posterior.predict_y(x_new, noise_variance=[0.1, 0.2, 0.3])
    np.testing.assert_allclose(with_known - y_variance, [0.1, 0.2, 0.3], rtol=1e-9)


def test_no_new_points(posterior):
    assert posterior.predict_f([])[0].shape == (0,)
    assert posterior.sample_f(0, [], 2).shape == (2, 0)


def test_repr_tells_what_it_is(posterior):
    text = repr(posterior)
    assert "40 observations, 40 inducing states of dimension 5" in text
    assert "Matern52(variance=1, lengthscale=1)" in text


# --- invariances ---------------------------------------------------------------------------------

MODEL = sg.GP(k.Matern32(lengthscale=1.3), sg.likelihoods.Gaussian(variance=NOISE))
X_NEW = np.array([-0.5, 1.1, 2.2, 5.5])


@given(seed=st.integers(0, 2**31))
@settings(max_examples=8)
def test_the_order_of_the_data_does_not_matter(seed):
    order = np.random.default_rng(seed).permutation(len(X))
    straight = sg.condition(MODEL, X, Y, inducing=9)
    shuffled = sg.condition(MODEL, X[order], Y[order], inducing=9)
    np.testing.assert_allclose(shuffled.elbo, straight.elbo, rtol=1e-12)
    np.testing.assert_allclose(shuffled.predict_f(X_NEW), straight.predict_f(X_NEW), rtol=1e-10)


@given(stretch=st.floats(1e-9, 1e9), shift=st.floats(-1e3, 1e3))
@settings(max_examples=8)
def test_the_unit_and_origin_of_x_do_not_matter(stretch, shift):
    straight = sg.condition(MODEL, X, Y, inducing=9)
    kernel = k.Matern32(lengthscale=1.3 * stretch)
    moved = sg.condition(sg.GP(kernel, MODEL.likelihood), (X + shift) * stretch, Y, inducing=9)
    np.testing.assert_allclose(moved.elbo, straight.elbo, rtol=1e-9)
    predictions = moved.predict_f((X_NEW + shift) * stretch)
    np.testing.assert_allclose(predictions, straight.predict_f(X_NEW), rtol=1e-6, atol=1e-9)


@given(missing=st.sets(st.integers(0, len(X) - 1), min_size=15, max_size=15))
@settings(max_examples=8)
def test_nan_is_the_same_as_absent(missing):
    gone = sorted(missing)
    with_gaps = Y.copy()
    with_gaps[gone] = np.nan
    z = np.array([0.0, 1.0, 2.0, 4.0])
    masked = sg.condition(MODEL, X, with_gaps, inducing=z)
    absent = sg.condition(MODEL, np.delete(X, gone), np.delete(Y, gone), inducing=z)
    assert masked.elbo == absent.elbo
    np.testing.assert_array_equal(masked.predict_f(X_NEW)[0], absent.predict_f(X_NEW)[0])


def test_quantiles_probabilities_and_scores(posterior):
    x_new = np.array([0.5, 3.0, 6.0])
    mean, variance = posterior.predict_y(x_new)
    given = norm(mean, np.sqrt(variance))
    levels = (0.1, 0.5, 0.975)
    quantiles = posterior.quantiles(x_new, levels)
    np.testing.assert_allclose(quantiles, [given.ppf(level) for level in levels], rtol=1e-10)
    assert posterior.quantiles(x_new, 0.5).shape == (1, 3)
    np.testing.assert_allclose(posterior.cdf(x_new, 0.4), given.cdf(0.4), rtol=1e-10)
    known = posterior.cdf(x_new, 0.4, noise_variance=0.3)
    np.testing.assert_allclose(known, norm(mean, np.sqrt(variance + 0.3)).cdf(0.4), rtol=1e-10)
    scores = posterior.crps(x_new, [0.4, np.nan, 0.0])
    assert np.isnan(scores[1])
    levels = (np.arange(2000) + 0.5) / 2000
    draws = posterior.quantiles(x_new, levels[::100])  # many levels, one program
    assert np.all(np.diff(draws, axis=0) > 0)
    assert posterior.quantiles([], 0.5).shape == (1, 0)


def test_probabilities_of_counts_above_and_at_a_value():
    counts = np.random.default_rng(3).poisson(np.exp(np.sin(X)))
    model = sg.GP(k.Matern32(lengthscale=1.0), sg.likelihoods.Poisson())
    fitted = sg.condition(model, X, counts, inducing=10)
    x_new, y = np.array([0.5, 2.0, 7.0]), np.array([0.0, 2.0, 1.0])
    at_most = fitted.cdf(x_new, y, exposure=2.0)
    less = fitted.cdf(x_new, y, strict=True, exposure=2.0)
    mass = np.exp(fitted.log_density(x_new, y, exposure=2.0))
    np.testing.assert_allclose(at_most - less, mass, atol=1e-7)
    assert less[0] == 0
    low, high = fitted.quantiles(x_new, (0.05, 0.95), exposure=2.0)
    assert np.all(fitted.cdf(x_new, high, exposure=2.0) >= 0.95)
    assert np.all(fitted.cdf(x_new, high, strict=True, exposure=2.0) < 0.95)
    assert np.all(low <= high)
    with pytest.raises(ValueError, match="y_new must be a count"):
        fitted.crps(x_new, 0.5)


@pytest.mark.parametrize("levels", [0.0, [0.5, 1.0], [], [np.nan], "many", [[0.5]], None])
def test_levels_are_probabilities(posterior, levels):
    with pytest.raises(ValueError, match="levels must be probabilities strictly between 0 and 1"):
        posterior.quantiles([0.5], levels)
