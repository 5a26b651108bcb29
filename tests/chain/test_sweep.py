"""Prior × sites: sequential, parallel and dense agree; derivatives are right."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stategp import chain
from stategp import kernels as k
from tests import jitted
from tests.dense import state_covariances

Z = np.array([0.0, 0.3, 0.4, 1.5, 2.0, 2.1])
KERNELS = {
    "matern12": k.Matern12(),
    "matern52": k.Matern52(),
    "matern32 + cosine": k.Matern32() + k.Cosine(period=2.0),
    "harmonic, six states": k.Harmonic(weights=[1.0, 0.5, 0.3], frequency=0.5),
}


def random_sites(intervals, dim, seed=0, scale=1.0):
    """Sites that are positive definite on the states that exist."""
    rng = np.random.default_rng(seed)
    roots = scale * rng.standard_normal((intervals, 2 * dim, 2 * dim))
    linear = scale * rng.standard_normal((intervals, 2 * dim))
    exists = np.ones((intervals, 2 * dim))
    exists[0, :dim] = exists[-1, dim:] = 0.0
    precision = (roots @ roots.mT) * exists[:, :, None] * exists[:, None, :]
    return chain.Sites(jnp.asarray(linear * exists), jnp.asarray(precision))


def sites_on_values(states, precision, linear):
    """Sites on the first of three components of each state alone."""
    rows = np.zeros((states + 1, 6))
    rows[:-1, 3] = 1.0
    precisions = precision * rows[:, :, None] * rows[:, None, :]
    return chain.Sites(jnp.asarray(linear[:, None] * rows), jnp.asarray(precisions))


def dense_posterior(kernel, sites):
    """log Z, mean and covariance of prior × sites, by dense linear algebra."""
    d, M = kernel.state_dim, len(Z)
    Kuu, _ = state_covariances(kernel, Z, Z[:0])
    Lambda, eta = np.zeros((M * d, M * d)), np.zeros(M * d)
    for m in range(M + 1):
        index = [i for s in (m - 1, m) for i in range(s * d, (s + 1) * d)]
        keep = [n for n, i in enumerate(index) if 0 <= i < M * d]
        own = np.array(index)[keep]
        Lambda[np.ix_(own, own)] += np.asarray(sites.precision[m])[np.ix_(keep, keep)]
        eta[own] += np.asarray(sites.linear[m])[keep]
    B = np.eye(M * d) + Kuu @ Lambda
    S = np.linalg.solve(B, Kuu)
    log_z = (eta @ S @ eta - np.linalg.slogdet(B)[1]) / 2
    return log_z, S @ eta, S


@pytest.mark.parametrize("name", KERNELS)
def test_sequential_and_parallel_equal_dense(name):
    kernel = KERNELS[name]
    d = kernel.state_dim
    sites = random_sites(len(Z) + 1, d)
    transitions = jitted.prior_transitions(kernel, jnp.asarray(Z))
    log_z, mean, covariance = dense_posterior(kernel, sites)
    for how in ["sequential", "parallel"]:
        swept = jax.tree.map(np.asarray, jitted.sweep(transitions, sites, how=how))
        np.testing.assert_allclose(swept.log_normaliser, log_z, rtol=1e-10)
        np.testing.assert_allclose(
            swept.marginals.mean[:-1, d:].reshape(-1), mean, rtol=1e-9, atol=1e-10
        )
        for m in range(len(Z) - 1):
            block = covariance[m * d : (m + 2) * d, m * d : (m + 2) * d]
            np.testing.assert_allclose(swept.marginals.covariance[m + 1], block, atol=1e-10)


def test_sequential_and_parallel_agree_on_a_long_chain_with_tiny_steps():
    kernel = k.Matern52(lengthscale=1e3)
    sites = sites_on_values(500, 10.0, 10 * np.sin(7 * np.arange(501.0)))
    transitions = jitted.prior_transitions(kernel, jnp.asarray(np.linspace(0.0, 1.0, 500)))
    swept = jitted.sweep
    one = swept(transitions, sites, how="sequential")
    for how in ["lanes", "parallel"]:
        agree(one, swept(transitions, sites, how=how))


def agree(one, many):
    np.testing.assert_allclose(one.log_normaliser, many.log_normaliser, rtol=1e-12)
    np.testing.assert_allclose(one.marginals.mean, many.marginals.mean, atol=1e-10)
    np.testing.assert_allclose(one.marginals.covariance, many.marginals.covariance, atol=1e-10)


@pytest.mark.parametrize("how", ["sequential", "parallel"])
def test_gradients_of_the_sweep(how):
    kernel = KERNELS["matern32 + cosine"]
    z = jnp.asarray(Z[:4])
    transitions = jitted.prior_transitions(kernel, z)
    sites = random_sites(len(z) + 1, kernel.state_dim)
    rng = np.random.default_rng(1)
    cross = jnp.asarray(rng.standard_normal(sites.precision.shape))

    def summary(A, noise, linear, precision):
        A = jnp.pad(A, ((1, 1), (0, 0), (0, 0)))  # nothing leads into or out of the chain
        Q = noise[:, None, None] * transitions.Q
        symmetric = (precision + precision.mT) / 2
        swept = jitted.sweep(chain.Transitions(A, Q), chain.Sites(linear, symmetric), how=how)
        moments = jnp.sum(jnp.sin(swept.marginals.mean)) + jnp.sum(
            cross * swept.marginals.covariance
        )
        return swept.log_normaliser + moments

    noise = np.ones(len(z) + 1)
    arguments = [np.asarray(v) for v in (transitions.A, noise, sites.linear, sites.precision)]
    arguments[0] = arguments[0][1:-1]
    compiled = jax.jit(jax.value_and_grad(summary, argnums=(0, 1, 2, 3)))
    slopes = compiled(*arguments)[1]
    for _ in range(3):
        ways = [rng.standard_normal(at.shape) for at in arguments]
        up, down = (
            compiled(*(at + nudge * way for at, way in zip(arguments, ways, strict=True)))[0]
            for nudge in (1e-5, -1e-5)
        )
        along = sum(np.sum(way * slope) for way, slope in zip(ways, slopes, strict=True))
        np.testing.assert_allclose(along, (up - down) / 2e-5, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", KERNELS)
def test_local_derivatives_are_those_of_log_z(name):
    kernel = KERNELS[name]
    z = jnp.asarray(Z)
    sites = random_sites(len(z) + 1, kernel.state_dim)
    transitions = jitted.prior_transitions(kernel, z)
    messages = jitted.sweep(transitions, sites).messages
    local = jax.jit(jax.grad(chain.local_log_normaliser, argnums=(0, 1)))(
        transitions, sites, messages
    )
    full = jax.jit(jax.grad(chain.log_normaliser, argnums=(0, 1)))(transitions, sites)
    # What the states that do not exist would contribute is not asked for.
    # (Those in symmetric matrices may be given by halves or not: their symmetric parts count.)
    for number, (own, expected) in enumerate(
        zip(*([np.asarray(v) for v in jax.tree.leaves(s)] for s in (local, full)), strict=True)
    ):
        if number in (1, 3):
            own, expected = own + own.mT, expected + expected.mT
        np.testing.assert_allclose(own[1:-1], expected[1:-1], rtol=1e-8, atol=1e-8)


def test_local_derivatives_with_tiny_steps():
    """∂ log Z in the lengthscale for λΔ ≈ 1e-6, against reverse mode through the filter."""
    z = jnp.asarray(np.linspace(0.0, 1.0, 50))
    sites = sites_on_values(50, 100.0, np.ones(51))

    def transitions(log_lengthscale):
        return jitted.prior_transitions(k.Matern52(lengthscale=jnp.exp(log_lengthscale)), z)

    at = jnp.log(1e4)
    messages = jitted.sweep(transitions(at), sites).messages
    local = jax.jit(
        jax.grad(lambda v: chain.local_log_normaliser(transitions(v), sites, messages))
    )(at)
    full = jax.jit(jax.grad(lambda v: chain.log_normaliser(transitions(v), sites)))(at)
    np.testing.assert_allclose(local, full, rtol=1e-6)


@given(scale=st.floats(0.1, 10.0), seed=st.integers(0, 1000))
def test_kl_to_the_prior_is_that_of_the_precision_form(scale, seed):
    kernel = KERNELS["matern52"]
    sites = random_sites(len(Z) + 1, 3, seed, scale)
    transitions = jitted.prior_transitions(kernel, jnp.asarray(Z))
    np.testing.assert_allclose(*_kl_twice(transitions, sites), rtol=1e-6)


@jax.jit
def _kl_twice(transitions, sites):
    swept = jitted.sweep(transitions, sites)
    prior = jitted.sweep(transitions, chain.Sites.zeros(len(Z) + 1, 3))
    q, p = swept.marginals.to_mean_cholesky(), prior.marginals.to_mean_cholesky()
    return jitted.kl_to_prior(sites, swept), chain.kl_divergence(q, p)


def test_samples_of_the_states():
    kernel = KERNELS["matern32 + cosine"]
    d = kernel.state_dim
    sites = random_sites(len(Z) + 1, d, scale=0.5)
    transitions = jitted.prior_transitions(kernel, jnp.asarray(Z))
    _, mean, covariance = dense_posterior(kernel, sites)
    n = 40_000
    u = jitted.sample_states(transitions, sites, jax.random.key(0), n).reshape(n, -1)
    deviation = np.sqrt(np.diag(covariance))
    error = np.abs(u.mean(axis=0) - mean) / deviation
    assert error.max() < 4.5 / np.sqrt(n)
    sample_covariance = np.cov(u.T)
    bound = 4.5 * np.sqrt((deviation[:, None] * deviation) ** 2 + covariance**2) / np.sqrt(n)
    assert np.all(np.abs(sample_covariance - covariance) < bound)


def test_a_site_that_is_not_gaussian_gives_nan_not_a_number():
    kernel = KERNELS["matern12"]
    sites = chain.Sites(jnp.zeros((7, 2)), -50.0 * jnp.broadcast_to(jnp.eye(2), (7, 2, 2)))
    swept = jitted.sweep(jitted.prior_transitions(kernel, jnp.asarray(Z)), sites)
    assert np.isnan(swept.log_normaliser)
