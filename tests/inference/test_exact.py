"""Inducing points at the data: the sparse machinery must be the exact GP."""

import jax.numpy as jnp
import numpy as np
import pytest

import stategp as sg
from stategp import kernels as k
from tests import dense

SPAN, NOISE = 10.0, 0.1
EXACT_SERIES = {"tolerance": 1e-13}

KERNELS = {
    "matern12": k.Matern12(lengthscale=1.5),
    "matern32": k.Matern32(lengthscale=1.5),
    "matern52": k.Matern52(lengthscale=1.5),
    "matern72": k.Matern72(lengthscale=1.5),
    "constant": k.Constant(variance=2.0),
    "cosine": k.Cosine(period=3.0),
    "periodic": k.Periodic(period=3.0, lengthscale=2.0, **EXACT_SERIES),
    "quasiperiodic": k.QuasiPeriodic(period=3.0, lengthscale=3.0, decay=9.0, **EXACT_SERIES),
    "harmonic": k.Harmonic(weights=[1.0, 0.4, 0.2], frequency=0.4, lengthscale=5.0),
    "oscillator, driven": k.Oscillator(period=2.0, quality=20.0),
    "oscillator, overdamped": k.Oscillator(period=2.0, quality=0.2),
    "squared exponential": k.SquaredExponential(lengthscale=1.0, order=6),
    "from sde": k.FromSDE([[0.0, 1.0], [-4.0, -4.0]], [0.0, 1.0], [[3.0]], [1.0, 0.0]),
    "scaled product": 2.0 * k.Matern32(lengthscale=4.0) * k.Cosine(period=2.0),
    "trend + periodic + constant": k.Matern52(lengthscale=5.0)
    + k.Periodic(period=3.0, lengthscale=2.0, **EXACT_SERIES)
    + k.Constant(variance=4.0),
}


def series(n=300, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, SPAN, n)
    x[:20] = x[20:40]  # duplicates, in no order
    y = np.sin(2 * x) + np.sqrt(NOISE) * rng.standard_normal(n)
    inside, outside = rng.uniform(0, SPAN, 20), np.array([-5.0, -0.01, 10.3, 18.0])
    return x, y, np.concatenate([inside, outside, x[:10]])


def model_of(kernel, noise=NOISE):
    return sg.GP(kernel, sg.likelihoods.Gaussian(variance=noise))


@pytest.mark.parametrize("name", KERNELS)
def test_evidence_and_predictions_equal_the_dense_gp(name):
    x, y, x_new = series(140)
    posterior = sg.condition(model_of(KERNELS[name]), x, y, inducing="data")
    mean, variance = posterior.predict_f(x_new)
    expected = dense.gp(KERNELS[name], x, y, NOISE, x_new)
    np.testing.assert_allclose(posterior.elbo, expected.log_evidence, rtol=1e-8)
    scale = float(KERNELS[name].covariance(jnp.zeros(())))
    np.testing.assert_allclose(mean, expected.mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(variance, expected.variance, rtol=1e-8, atol=1e-8 * scale)


@pytest.mark.parametrize("kernel_class", [k.Matern12, k.Matern32, k.Matern52, k.Matern72])
def test_lengthscales_from_a_thousandth_to_a_thousand_times_the_span(kernel_class):
    x, y, x_new = series()
    for ratio in [1e-3, 1e-2, 1e-1, 1.0, 10.0, 1e2, 1e3]:
        kernel = kernel_class(lengthscale=ratio * SPAN)
        posterior = sg.condition(model_of(kernel), x, y, inducing="data")
        mean, variance = posterior.predict_f(x_new)
        expected = dense.gp(kernel, x, y, NOISE, x_new)
        np.testing.assert_allclose(posterior.elbo, expected.log_evidence, rtol=1e-9)
        np.testing.assert_allclose(mean, expected.mean, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(variance, expected.variance, rtol=1e-6, atol=1e-10)


def test_sum_of_components_at_an_extreme_lengthscale():
    x, y, x_new = series(100)
    kernel = k.Matern52(lengthscale=1e4) + k.Matern32(lengthscale=3e3) + k.Constant()
    posterior = sg.condition(model_of(kernel), x, y, inducing="data")
    mean, variance = posterior.predict_f(x_new)
    expected = dense.gp(kernel, x, y, NOISE, x_new)
    np.testing.assert_allclose(posterior.elbo, expected.log_evidence, rtol=1e-9)
    np.testing.assert_allclose(mean, expected.mean, atol=1e-8)
    np.testing.assert_allclose(variance, expected.variance, rtol=1e-6)


def test_known_noise_variances_add_to_the_likelihood():
    x, y, x_new = series(60)
    known = np.random.default_rng(1).uniform(0.05, 2.0, len(x))
    kernel = KERNELS["matern32"]
    for variance in [sg.fixed(0.0), 0.3]:
        posterior = sg.condition(model_of(kernel, variance), x, y, noise_variance=known)
        noise = known + (0.3 if variance == 0.3 else 0.0)
        expected = dense.gp(kernel, x, y, noise, x_new)
        np.testing.assert_allclose(posterior.elbo, expected.log_evidence, rtol=1e-9)
        np.testing.assert_allclose(posterior.predict_f(x_new)[0], expected.mean, atol=1e-9)


@pytest.mark.parametrize(
    "mean",
    [1.5, sg.means.Linear(intercept=1.0, slope=-0.3), lambda x: jnp.sin(x), sg.means.Zero()],
    ids=["constant", "linear", "function", "zero"],
)
def test_mean_functions_shift_data_and_predictions(mean):
    x, y, x_new = series(60)
    x, x_new = x + 100.0, x_new + 100.0  # the mean function sees the user's own x
    kernel = KERNELS["matern32"]
    model = sg.GP(kernel, sg.likelihoods.Gaussian(variance=NOISE), mean)
    posterior = sg.condition(model, x, y)

    def offset(at):
        return np.asarray(model.mean(jnp.asarray(at)))

    expected = dense.gp(kernel, x, y - offset(x), NOISE, x_new)
    np.testing.assert_allclose(posterior.elbo, expected.log_evidence, rtol=1e-9)
    mean, _ = posterior.predict_f(x_new)
    np.testing.assert_allclose(mean, expected.mean + offset(x_new), atol=1e-9)
