"""Sites of negative precision: the sweep from the right end against dense algebra."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stategp import chain
from stategp import kernels as k
from tests import jitted
from tests.chain.test_sweep import KERNELS, Z, dense_posterior, random_sites


def assert_dense(kernel, sites):
    d = kernel.state_dim
    transitions = jitted.prior_transitions(kernel, jnp.asarray(Z))
    swept = jax.jit(lambda t, s: jitted.sweep(t, s, indefinite=True))(transitions, sites)
    log_z, mean, covariance = dense_posterior(kernel, sites)
    np.testing.assert_allclose(swept.log_normaliser, log_z, rtol=1e-9)
    found = swept.marginals.mean[:-1, d:].reshape(-1)
    np.testing.assert_allclose(found, mean, rtol=1e-8, atol=1e-9)
    for m in range(len(Z) - 1):
        block = covariance[m * d : (m + 2) * d, m * d : (m + 2) * d]
        np.testing.assert_allclose(swept.marginals.covariance[m + 1], block, atol=1e-9)
    return transitions, swept


@pytest.mark.parametrize("name", ["matern52", "matern32 + cosine"])
def test_positive_sites_equal_dense(name):
    kernel = KERNELS[name]
    assert_dense(kernel, random_sites(len(Z) + 1, kernel.state_dim))


def negative_first_site(kernel):
    """The first observation has negative precision, more than its prior variance allows alone."""
    sites = random_sites(len(Z) + 1, kernel.state_dim, seed=3, scale=3.0)
    precision = sites.precision.at[0, -kernel.state_dim, -kernel.state_dim].set(-2.0)
    return chain.Sites(sites.linear, precision)


def test_a_partial_product_that_is_no_gaussian_does_not_matter():
    kernel = k.Matern32(lengthscale=2.0)
    sites = negative_first_site(kernel)
    transitions, _ = assert_dense(kernel, sites)
    assert np.isnan(jitted.sweep(transitions, sites).log_normaliser)  # what the filter cannot do


def test_no_gaussian_at_all_is_nan():
    kernel = k.Matern32()
    sites = random_sites(len(Z) + 1, 2)
    worse = chain.Sites(sites.linear, sites.precision.at[2, 0, 0].set(-1e3))
    transitions = jitted.prior_transitions(kernel, jnp.asarray(Z))
    assert np.isnan(jitted.sweep(transitions, worse, indefinite=True).log_normaliser)


def test_local_derivatives_are_those_of_log_z():
    sites = negative_first_site(k.Matern32())

    def transitions(lengthscale):
        return jitted.prior_transitions(k.Matern32(lengthscale=lengthscale), jnp.asarray(Z))

    @jax.jit
    def log_z(lengthscale):
        return jitted.sweep(transitions(lengthscale), sites, indefinite=True).log_normaliser

    @jax.jit
    def messages(lengthscale):
        return jitted.sweep(transitions(lengthscale), sites, indefinite=True).messages

    around = messages(jnp.array(2.0))
    local = jax.jit(jax.grad(lambda v: chain.local_log_normaliser(transitions(v), sites, around)))
    step = 1e-5
    slope = (log_z(jnp.array(2.0 + step)) - log_z(jnp.array(2.0 - step))) / (2 * step)
    np.testing.assert_allclose(local(jnp.array(2.0)), slope, rtol=1e-7)


def test_samples_have_the_dense_moments():
    kernel = k.Matern32(lengthscale=2.0)
    sites = negative_first_site(kernel)
    transitions = jitted.prior_transitions(kernel, jnp.asarray(Z))
    n = 20_000
    draws = jitted.sample_states(transitions, sites, jax.random.key(0), n, indefinite=True)
    _, mean, covariance = dense_posterior(kernel, sites)
    flat = np.asarray(draws).reshape(n, -1)
    deviation = np.sqrt(np.diag(covariance))
    assert np.max(np.abs(flat.mean(axis=0) - mean) / deviation) < 4.5 / np.sqrt(n)
    spread = np.sqrt((deviation[:, None] * deviation) ** 2 + covariance**2)
    assert np.all(np.abs(np.cov(flat.T) - covariance) < 4.5 * spread / np.sqrt(n))
