"""log p(y) by the filter over scalar observations: values, gradients and digits."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import stategp as sg
from stategp import kernels as k
from stategp._data import AtInducing, observe, pad_observations
from stategp._inference import evidence, evidence_and_gradient, knows_evidence
from stategp._runtime._shapes import pad_inducing
from stategp.parameters import to_vector, with_vector

NOISE = 0.1
KERNELS = {  # of states with 1, 2, 3, 5 dimensions
    "matern12": k.Matern12(variance=1.3, lengthscale=0.7),
    "matern32": k.Matern32(variance=1.3, lengthscale=0.7),
    "from sde": k.FromSDE([[0.0, 1.0], [-4.0, -4.0]], [0.0, 1.0], [[3.0]], [1.0, 0.5]),
    "matern52": k.Matern52(variance=1.3, lengthscale=0.7),
    "sum": k.Matern52(variance=1.3, lengthscale=0.7) + k.Matern32(variance=0.2, lengthscale=0.1),
}
compiled = jax.jit(evidence)


def model_of(kernel, noise=NOISE):
    mean = sg.means.Linear(intercept=0.3, slope=-0.2)
    return sg.GP(kernel, sg.likelihoods.Gaussian(variance=noise), mean=mean)


def series(count=24, seed=0):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 4, count))
    x[5:8] = x[4]  # several observations of one state
    return x, np.sin(2 * x) + 0.3 * rng.standard_normal(count)


def seen(model, x, y, **given):
    """Observations at inducing points, padded as a fit pads them."""
    data = observe(x, y, model.likelihood, **given)
    inducing = pad_inducing(np.unique(np.asarray(data.x)))
    view = pad_observations(data, inducing)
    assert isinstance(view, AtInducing)
    assert knows_evidence(model, view)
    return view, jnp.asarray(inducing)


def dense(vector, model, x, y, noise):
    """log p(y), written with the kernel's covariance function."""
    moved = with_vector(model, vector)
    own = moved.likelihood.variance.value + noise
    L = jnp.linalg.cholesky(moved.kernel(x, x) + jnp.diag(own))
    white = jax.scipy.linalg.solve_triangular(L, y - moved.means[0](x), lower=True)
    scale = jnp.sum(jnp.log(jnp.diagonal(L))) + len(y) / 2 * jnp.log(2 * jnp.pi)
    return -(white @ white) / 2 - scale


@pytest.mark.parametrize("name", KERNELS)
def test_value_and_gradient_are_those_of_the_dense_gp(name):
    model = model_of(KERNELS[name])
    x, y = series()
    noise = np.linspace(0.0, 0.2, len(x))
    view, inducing = seen(model, x, y, extras={"noise_variance": noise})
    vector = jnp.asarray(to_vector(model))
    value, gradient = evidence_and_gradient(vector, model, view, inducing)
    arguments = (vector, model, jnp.asarray(x), jnp.asarray(y), jnp.asarray(noise))
    expected, slopes = jax.jit(jax.value_and_grad(dense))(*arguments)
    np.testing.assert_allclose(value, expected, rtol=1e-11)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-8, atol=1e-8)


def test_weights_count_observations_that_often():
    model = model_of(KERNELS["matern32"])
    x, y = series()
    counts = np.arange(len(x)) % 3
    view, inducing = seen(model, x, y, weights=counts.astype(float))
    repeated = seen(model, np.repeat(x, counts), np.repeat(y, counts))
    np.testing.assert_allclose(
        compiled(model, view, inducing), compiled(model, *repeated), rtol=1e-12
    )


@pytest.mark.parametrize("noise", [1e-9, 1.0])
@pytest.mark.parametrize("step", [1e-12, 1e-6, 1e-2, 1.0, 1e3])
def test_digits_hold_at_every_step_size(step, noise):
    """Against a dense GP with sixty digits."""
    model = sg.GP(k.Matern32(), sg.likelihoods.Gaussian(variance=noise), mean=0.0)
    x = step * np.array([0.0, 1.0, 1.5, 3.0, 3.2, 7.0])
    y = np.array([0.3, 0.1, -0.4, 0.2, 0.5, 0.0]) * np.sqrt(noise)
    value = compiled(model, *seen(model, x, y))
    with mpmath.workdps(60):
        rate = mpmath.sqrt(3)
        K = mpmath.matrix(len(x), len(x))
        for i, a in enumerate(x):
            for j, b in enumerate(x):
                lag = rate * abs(mpmath.mpf(a) - mpmath.mpf(b))
                K[i, j] = (1 + lag) * mpmath.exp(-lag) + (mpmath.mpf(noise) if i == j else 0)
        column = mpmath.matrix(y)
        square = (column.T * mpmath.lu_solve(K, column))[0]
        expected = -(square + mpmath.log(mpmath.det(K)) + len(x) * mpmath.log(2 * mpmath.pi)) / 2
    np.testing.assert_allclose(value, float(expected), rtol=1e-11)


def test_fits_search_log_evidence_and_end_with_its_posterior():
    x, y = series(60)
    model = sg.GP(k.Matern32(), mean=0.0)
    posterior = sg.fit(model, x, y, inducing="data")
    found = posterior.model
    noise = float(found.likelihood.variance.value)
    covariance = np.asarray(found.kernel(x, x)) + noise * np.eye(len(x))
    expected = multivariate_normal(np.asarray(found.means[0](jnp.asarray(x))), covariance).logpdf(y)
    np.testing.assert_allclose(posterior.elbo, expected, rtol=1e-9)
    np.testing.assert_allclose(posterior.fit_result.trace[-1], expected, rtol=1e-9)


def test_where_noise_drowns_in_rounding_the_quick_way_gives_no_number():
    x, y = series()
    model = model_of(k.Cosine(variance=1.3, period=2.0), noise=1e-14)
    view, inducing = seen(model, x, y)
    assert np.isnan(compiled(model, view, inducing))
