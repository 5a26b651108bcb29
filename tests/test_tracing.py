"""What JAX can trace (docs/states.md lists it), and a sentence where it cannot."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stategp as sg
from stategp import kernels as k

X, Y = np.arange(6.0), np.sin(np.arange(6.0))
MODEL = sg.GP(k.Matern32(lengthscale=2.0), sg.likelihoods.Gaussian(variance=0.1), mean=0.3)
POINTS = np.array([0.5, 2.0, 7.5])


@pytest.fixture(scope="module")
def posterior():
    return sg.condition(MODEL, X, Y, inducing="data")


def with_lengthscale(value):
    return jax.tree.map(lambda leaf: leaf * value, MODEL)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda p, v: sg.condition(MODEL, v, Y), id="condition, x"),
        pytest.param(lambda p, v: sg.condition(MODEL, X, v), id="condition, y"),
        pytest.param(lambda p, v: sg.fit(MODEL, X, list(v)), id="fit, a list"),
        pytest.param(lambda p, v: sg.condition(with_lengthscale(v[0]), X, Y), id="the model"),
        pytest.param(lambda p, v: sg.log_posterior(MODEL, X, v), id="log_posterior"),
        pytest.param(lambda p, v: sg.condition(MODEL, X, Y, weights=v), id="weights"),
        pytest.param(lambda p, v: p.log_density(X, v), id="log_density"),
        pytest.param(lambda p, v: p.leave_one_out(X, v), id="leave_one_out"),
        pytest.param(lambda p, v: p.covariance(v), id="covariance"),
        pytest.param(lambda p, v: MODEL.prior_sample(0, v), id="prior_sample"),
        pytest.param(
            lambda p, v: sg.condition(sg.AdditiveGP([k.Matern32()]), v[:, None], Y), id="additive"
        ),
    ],
)
def test_what_cannot_be_traced_says_so(posterior, call):
    with pytest.raises(TypeError, match=r"is being traced by JAX .* sg\.log_posterior"):
        jax.jit(lambda v: call(posterior, v))(jnp.arange(6.0))


def test_a_posterior_is_no_argument_of_a_traced_function(posterior):
    with pytest.raises(TypeError, match="the posterior is being traced by JAX"):
        jax.jit(lambda p: p.predict_f(POINTS))(posterior)


def test_predictions_as_functions_of_where(posterior):
    for predict in (
        lambda x: posterior.predict_f(x),
        lambda x: posterior.predict_y(x),
        lambda x: posterior.predict_state(x),
        lambda x: posterior.predict_derivative(x),
        lambda x: posterior.sample_f(0, x, 2),
        lambda x: posterior.sample_state(0, x, 2),
    ):
        traced, eager = jax.jit(predict)(POINTS), predict(POINTS)
        for got, expected in zip(jax.tree.leaves(traced), jax.tree.leaves(eager), strict=True):
            np.testing.assert_allclose(got, expected, atol=1e-13)
    slopes = jax.vmap(jax.grad(lambda x: posterior.predict_f(x[None])[0][0]))(jnp.asarray(POINTS))
    np.testing.assert_allclose(slopes, posterior.predict_derivative(POINTS)[0], atol=1e-12)


def test_other_things_that_can_be_traced():
    density = sg.log_posterior(MODEL, X, Y)
    value, gradient = jax.jit(jax.value_and_grad(density))(density.start)
    assert np.isfinite(value)
    assert np.all(np.isfinite(gradient))
    covariance = jax.jit(lambda kernel: kernel(X, X))(MODEL.kernel)
    np.testing.assert_allclose(covariance, MODEL.kernel(X, X), atol=1e-15)
    likelihood = sg.likelihoods.Poisson()
    slope = jax.grad(lambda f: jnp.sum(likelihood.log_density(jnp.ones(1), f, jnp.ones(1))))
    np.testing.assert_allclose(slope(jnp.zeros(1)), 0.0, atol=1e-15)

    def log_normaliser(lengthscale):
        kernel = k.Matern32(lengthscale=lengthscale)
        transitions = sg.chain.prior_transitions(kernel, jnp.asarray(X))
        return sg.chain.log_normaliser(transitions, sg.chain.Sites.zeros(len(X) + 1, 2))

    np.testing.assert_allclose(jax.jit(jax.grad(log_normaliser))(2.0), 0.0, atol=1e-15)
