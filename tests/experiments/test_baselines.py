"""The dense baselines, against scikit-learn and against NumPy written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import stategp as sg
from stategp_experiments import baselines

KERNELS = {
    "matern32": sg.kernels.Matern32(variance=1.7, lengthscale=0.8),
    "harmonic": sg.kernels.Harmonic(weights=[1.0, 0.5], frequency=0.3, lengthscale=4.0),
    "sum": sg.kernels.Matern12(variance=0.6, lengthscale=3.0)
    + sg.kernels.Matern52(variance=1.2, lengthscale=0.7),
}
NOISE = 0.05
rng = np.random.default_rng(0)
X = np.sort(rng.uniform(0, 10, 40))
Y = np.sin(2 * X) + 0.2 * rng.standard_normal(40)
Z = np.linspace(0, 10, 9)
X_NEW = np.linspace(-1, 11, 13)


def model_of(name):
    return sg.GP(KERNELS[name], sg.likelihoods.Gaussian(variance=NOISE))


@pytest.fixture(params=KERNELS)
def model(request):
    return model_of(request.param)


def test_exact_is_that_of_scikit_learn():
    gp = pytest.importorskip("sklearn.gaussian_process")
    kernels = gp.kernels
    covariance = kernels.ConstantKernel(1.7) * kernels.Matern(0.8, nu=1.5)
    peer = gp.GaussianProcessRegressor(covariance, alpha=NOISE, optimizer=None)
    peer.fit(X[:, None], Y)
    evidence, mean, variance = baselines.exact(model_of("matern32"), X, Y, X_NEW)
    their_mean, their_deviation = peer.predict(X_NEW[:, None], return_std=True)
    np.testing.assert_allclose(evidence, peer.log_marginal_likelihood(), rtol=1e-11)
    np.testing.assert_allclose(mean, their_mean, atol=1e-10)
    np.testing.assert_allclose(variance, their_deviation**2, rtol=1e-9)


def test_learning_reaches_what_scikit_learn_reaches():
    gp = pytest.importorskip("sklearn.gaussian_process")
    kernels = gp.kernels
    covariance = kernels.ConstantKernel(1.7) * kernels.Matern(0.8, nu=1.5)
    peer = gp.GaussianProcessRegressor(covariance + kernels.WhiteKernel(NOISE)).fit(X[:, None], Y)
    learned, reached = baselines.learn(
        lambda model: baselines.exact(model, X, Y, X_NEW)[0], model_of("matern32")
    )
    np.testing.assert_allclose(reached, peer.log_marginal_likelihood_value_, rtol=1e-8)
    np.testing.assert_allclose(
        float(learned.kernel.lengthscale), peer.kernel_.k1.k2.length_scale, rtol=1e-3
    )


def test_the_bound_at_any_q_is_that_of_numpy(model):
    """E_q[log p(y | f)] − KL(q‖p) with the joint Gaussians of u and f written out."""
    count, rng = len(Z), np.random.default_rng(1)
    mean = rng.standard_normal(count)
    factor = np.tril(0.2 * rng.standard_normal((count, count))) + np.eye(count)
    Kuu, Kuf = np.asarray(model.kernel(Z, Z)), np.asarray(model.kernel(Z, X))
    root = np.linalg.cholesky(Kuu)
    mean_u, covariance_u = root @ mean, root @ factor @ factor.T @ root.T
    A = np.linalg.solve(Kuu, Kuf).T
    f_mean = A @ mean_u
    f_covariance = np.asarray(model.kernel(X, X)) - A @ Kuf + A @ covariance_u @ A.T
    fit = multivariate_normal(f_mean, NOISE * np.eye(len(X))).logpdf(Y)
    fit -= np.trace(f_covariance) / (2 * NOISE)
    ratio = np.linalg.slogdet(Kuu)[1] - np.linalg.slogdet(covariance_u)[1]
    distance = np.trace(np.linalg.solve(Kuu, covariance_u)) - count + ratio
    distance += mean_u @ np.linalg.solve(Kuu, mean_u)
    q = baselines.Whitened(jnp.asarray(mean), jnp.asarray(factor))
    ours = baselines.uncollapsed(q, model, X, Y, Z)
    np.testing.assert_allclose(ours, fit - distance / 2, rtol=1e-7)  # the jitter is 1e-10

    f_new, f_variance = baselines.predict(q, model, Z, X, jitter=0.0)
    np.testing.assert_allclose(f_new, f_mean, atol=1e-9)
    np.testing.assert_allclose(f_variance, np.diagonal(f_covariance), atol=1e-9)


def test_the_collapsed_bound_is_the_maximum(model):
    bound, q = baselines.collapsed(model, X, Y, Z)
    value, gradient = baselines.bound_and_gradient(q, model, X, Y, Z)
    np.testing.assert_allclose(bound, value, rtol=1e-12)
    for slope in gradient:
        np.testing.assert_allclose(slope, 0, atol=1e-8 * float(jnp.abs(bound)))
    dense = baselines.exact(model, X, Y, X_NEW)[0]
    assert bound < dense
    assert baselines.uncollapsed(baselines.standard(len(Z)), model, X, Y, Z) < bound
    covariance = np.asarray(
        model.kernel(X, Z) @ jnp.linalg.solve(model.kernel(Z, Z), model.kernel(Z, X))
    )
    trace = np.sum(np.diagonal(model.kernel(X, X)) - np.diagonal(covariance)) / (2 * NOISE)
    law = multivariate_normal(np.zeros(len(X)), covariance + NOISE * np.eye(len(X)))
    np.testing.assert_allclose(bound, law.logpdf(Y) - trace, rtol=1e-7)  # Titsias' formula


def test_inducing_points_at_the_data_lose_nothing(model):
    evidence, mean, variance = baselines.exact(model, X, Y, X_NEW)
    bound, q = baselines.collapsed(model, X, Y, X)
    np.testing.assert_allclose(bound, evidence, atol=1e-6)
    for ours, theirs in zip(baselines.predict(q, model, X, X_NEW), (mean, variance), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_values_and_slopes_are_the_family_of_s2vgp():
    model = model_of("matern32")
    twin, q = baselines.collapsed(model, X, Y, Z, baselines.VALUES_AND_SLOPES)
    posterior = sg.condition(model, X, Y, inducing=Z)
    np.testing.assert_allclose(posterior.elbo, twin, atol=1e-5)
    moments = baselines.predict(q, model, Z, X_NEW, baselines.VALUES_AND_SLOPES)
    for ours, theirs in zip(posterior.predict_f(X_NEW), moments, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_crowded_inducing_points_need_no_more_than_the_jitter():
    model = sg.GP(sg.kernels.Matern72(lengthscale=5.0), sg.likelihoods.Gaussian(variance=NOISE))
    crowded = np.linspace(0, 10, 300)
    bound, _ = baselines.collapsed(model, X, Y, crowded)
    evidence = baselines.exact(model, X, Y, X_NEW)[0]
    assert float(evidence) - 1e-3 < float(bound) < float(evidence)
    assert np.isnan(baselines.collapsed(model, X, Y, crowded, jitter=0.0)[0])


def test_nothing_is_data_by_data():
    """Compiled, the largest array of a sparse gradient is data by inducing points."""
    model, count = model_of("matern32"), 3000
    x = jnp.linspace(0, 10, count)
    q = baselines.standard(len(Z))
    compiled = jax.jit(jax.grad(baselines.uncollapsed)).lower(q, model, x, x, Z).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 8 * count * len(Z) * 20
