"""The posterior of the hyperparameters as a function for samplers: values and derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import stategp as sg

X = np.array([0.0, 0.4, 1.1, 1.5, 2.3, 3.0])
Y = np.array([1.0, 0.0, 2.0, 3.0, 1.0, 0.0])


def positive(median):
    return sg.parameter(prior=sg.priors.LogNormal(median, 1.0))


def density_of(likelihood, inducing="data"):
    kernel = sg.kernels.Matern32(variance=positive(0.8), lengthscale=positive(0.7))
    return sg.log_posterior(sg.GP(kernel, likelihood), X, Y, inducing=inducing)


GAUSSIAN = sg.likelihoods.Gaussian(variance=positive(0.3))


def dense(vector):
    """log N(y; 0, K + σ²I) + log priors of the logarithms, by SciPy."""
    variance, lengthscale, noise = np.exp(vector)
    scaled = np.sqrt(3) * np.abs(X[:, None] - X[None]) / lengthscale
    covariance = variance * (1 + scaled) * np.exp(-scaled) + noise * np.eye(len(X))
    prior = scipy.stats.norm.logpdf(vector, np.log([0.8, 0.7, 0.3]), 1.0).sum()
    return scipy.stats.multivariate_normal.logpdf(Y, cov=covariance) + prior


def dense_hessian(vector, step=1e-3):
    ways = step * np.eye(len(vector))
    corners = [(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)]
    return np.array(
        [
            [sum(s * dense(vector + a * v + b * w) for a, b, s in corners) for w in ways]
            for v in ways
        ]
    ) / (4 * step**2)  # fmt: skip


@pytest.mark.parametrize("inducing", ["data", X])
def test_second_derivatives_of_a_gaussian_model_are_those_of_a_dense_one(inducing, monkeypatch):
    if not isinstance(inducing, str):  # the way of devices that do not loop well
        monkeypatch.setattr("stategp._inference._natural.knows_evidence", lambda *_: False)
    density = density_of(GAUSSIAN, inducing)
    vector = density.start + jnp.array([0.2, -0.1, 0.3])
    expected = dense_hessian(np.asarray(vector))
    np.testing.assert_allclose(jax.hessian(density)(vector), expected, atol=1e-5)
    np.testing.assert_allclose(density.hessian(vector), expected, atol=1e-5)


def test_second_derivatives_of_counts_are_right_or_refused():
    """The Hessian is that of the function itself, by differences of its values."""
    density = density_of(sg.likelihoods.Poisson())
    vector, step = density.start + 0.1, 1e-2
    with pytest.raises(NotImplementedError, match=r"use density.hessian\(vector"):
        jax.hessian(density)(vector)
    with pytest.raises(NotImplementedError, match="Poisson"):
        jax.jacrev(jax.grad(density))(vector)
    found = np.asarray(density.hessian(vector))
    for number, way in enumerate(step * np.eye(len(vector))):
        values = [float(density(vector + side * way)) for side in (-2, -1, 0, 1, 2)]
        second = np.dot([-1, 16, -30, 16, -1], values) / (12 * step**2)
        np.testing.assert_allclose(found[number, number], second, rtol=1e-5)


def test_jit_vmap_and_both_modes_of_differentiation_take_it_as_it_is():
    density = density_of(GAUSSIAN)
    start = density.start
    assert hash(density) == hash(density)
    value, gradient = jax.jit(jax.value_and_grad(density))(start)
    np.testing.assert_allclose(jax.jit(density)(start), value, rtol=1e-12)
    np.testing.assert_allclose(value, dense(np.asarray(start)), rtol=1e-10)
    several = jax.vmap(density)(jnp.stack([start, start + 0.1]))
    np.testing.assert_allclose(several, [value, float(density(start + 0.1))], rtol=1e-12)
    way = jnp.array([1.0, -2.0, 0.5])
    _, along = jax.jvp(density, (start,), (way,))
    np.testing.assert_allclose(along, gradient @ way, rtol=1e-12)
