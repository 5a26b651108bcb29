"""Maps between ξ, θ and η, divergences and draws against dense Gaussians, natural gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from stategp.chain._block_tridiagonal import BlockBidiagonal
from stategp.chain._parameterisations import (
    MeanCholesky,
    entropy,
    kl_divergence,
    log_density,
    natural_gradient,
    natural_gradient_step,
    sample,
)

SHAPES = [(1, 2), (4, 1), (3, 3)]


def random_chain(states, dim, seed=0, log_scale=0.0):
    rng = np.random.default_rng(seed)
    diagonal = np.tril(rng.normal(size=(states, dim, dim)) / 2, -1)
    diagonal += rng.uniform(0.5, 2.0, (states, dim))[:, :, None] * np.eye(dim)
    lower = rng.normal(size=(states - 1, dim, dim)) / 2
    factor = BlockBidiagonal(*(jnp.asarray(x * np.exp(log_scale)) for x in (diagonal, lower)))
    return MeanCholesky(jnp.asarray(rng.normal(size=(states, dim))), factor)


def dense_moments(q):
    L = np.asarray(q.precision_cholesky.to_dense())
    return np.ravel(q.mean), np.linalg.inv(L @ L.T)


def band(dense, dim):
    """The stored blocks of a dense symmetric matrix."""
    blocks = dense.reshape(len(dense) // dim, dim, -1, dim)
    diagonal = [blocks[m, :, m] for m in range(len(blocks))]
    lower = [blocks[m + 1, :, m] for m in range(len(blocks) - 1)]
    return np.array(diagonal), np.array(lower).reshape(-1, dim, dim)


@pytest.mark.parametrize(("states", "dim"), SHAPES)
def test_maps_equal_their_definitions(states, dim):
    q = random_chain(states, dim)
    mean, covariance = dense_moments(q)
    precision = np.linalg.inv(covariance)
    theta, eta, from_theta = jax.jit(
        lambda q: (q.to_natural(), q.to_expectation(), q.to_natural().to_expectation())
    )(q)
    natural = precision @ mean, *band(-precision / 2, dim)
    expectation = mean, *band(covariance + np.outer(mean, mean), dim)
    for got, want in ((theta, natural), (eta, expectation), (from_theta, expectation)):
        for x, y in zip(jax.tree.leaves(got), want, strict=True):
            np.testing.assert_allclose(x, y.reshape(x.shape), rtol=1e-11, atol=1e-11)


@jax.jit
def round_trips(q):
    theta, eta = q.to_natural(), q.to_expectation()
    return {
        "ξ→θ→ξ": (q, theta.to_mean_cholesky()),
        "ξ→η→ξ": (q, eta.to_mean_cholesky()),
        "θ→η→θ": (theta, theta.to_expectation().to_natural()),
        "η→θ→η": (eta, eta.to_natural().to_expectation()),
    }


@given(seed=st.integers(0, 2**32 - 1), log_scale=st.floats(-5.0, 5.0))
def test_round_trips(seed, log_scale):
    q = random_chain(4, 2, seed, log_scale)
    for name, (there, back) in round_trips(q).items():
        for x, y in zip(jax.tree.leaves(there), jax.tree.leaves(back), strict=True):
            atol = 1e-10 * np.max(np.abs(x))
            np.testing.assert_allclose(y, x, rtol=1e-10, atol=atol, err_msg=name)


@pytest.mark.parametrize(("states", "dim"), SHAPES)
def test_divergence_entropy_and_density_equal_dense_formulas(states, dim):
    q, p = random_chain(states, dim, seed=0), random_chain(states, dim, seed=1)
    (q_mean, q_cov), (p_mean, p_cov) = dense_moments(q), dense_moments(p)
    u = np.random.default_rng(2).normal(size=(states, dim))
    kl, h, log_q = jax.jit(
        lambda q, p: (kl_divergence(q, p), entropy(q), log_density(q, jnp.asarray(u)))
    )(q, p)

    p_inverse, shift = np.linalg.inv(p_cov), p_mean - q_mean
    log_ratio = np.linalg.slogdet(p_cov)[1] - np.linalg.slogdet(q_cov)[1]
    quadratic = np.trace(p_inverse @ q_cov) + shift @ p_inverse @ shift
    np.testing.assert_allclose(kl, (quadratic - shift.size + log_ratio) / 2, rtol=1e-12)
    dense = multivariate_normal(q_mean, q_cov)
    np.testing.assert_allclose(h, dense.entropy(), rtol=1e-12)
    np.testing.assert_allclose(log_q, dense.logpdf(u.ravel()), rtol=1e-12)


def test_draws_have_the_moments_of_the_chain():
    """All second moments, those outside the band too, within 5 standard errors."""
    q, draws_count = random_chain(3, 2), 100_000
    draws = sample(q, jax.random.key(0), draws_count)
    assert draws.shape == (draws_count, 3, 2)
    draws = np.asarray(draws).reshape(draws_count, -1)
    mean, covariance = dense_moments(q)
    variance = np.diag(covariance)
    mean_error = np.sqrt(variance / draws_count)
    covariance_error = np.sqrt((np.outer(variance, variance) + covariance**2) / draws_count)
    assert np.all(np.abs(draws.mean(0) - mean) < 5 * mean_error)
    assert np.all(np.abs(np.cov(draws.T) - covariance) < 5 * covariance_error)


def coordinates(xi):
    """ξ, or a tangent of it, as a vector: the means, the triangles, the blocks below them."""
    factor = xi.precision_cholesky
    rows, columns = np.tril_indices(factor.diagonal.shape[-1])
    parts = xi.mean, factor.diagonal[:, rows, columns], factor.lower
    return np.concatenate([np.ravel(x) for x in parts])


def fisher_information(xi):
    """F_ij = ∂_iμᵀ Q ∂_jμ + ½ tr(C ∂_iQ C ∂_jQ), dense; the definition, for a Gaussian."""
    states, dim = xi.mean.shape
    L = np.asarray(xi.precision_cholesky.to_dense())
    Q, C = L @ L.T, np.linalg.inv(L @ L.T)
    # Positions in L of the coordinates, in their order.
    inside = [
        (m * dim + i, m * dim + j) for m in range(states) for i, j in np.argwhere(np.tri(dim))
    ]
    below = [
        ((m + 1) * dim + i, m * dim + j) for m in range(states - 1) for i, j in np.ndindex(dim, dim)
    ]
    scores = []
    for i, j in inside + below:
        change = np.zeros_like(L)
        change[i, j] = 1.0
        scores.append(C @ (change @ L.T + L @ change.T))
    shape = np.einsum("aij,bji->ab", scores, scores) / 2
    return np.block([[Q, np.zeros((len(Q), len(shape)))], [np.zeros((len(shape), len(Q))), shape]])


def test_natural_gradient_is_inverse_fisher_times_gradient():
    """For an objective that looks at the whole covariance, not only at its band."""
    xi = random_chain(3, 2)
    weights = jnp.asarray(np.random.default_rng(3).normal(size=(6, 6)))

    def objective(q):
        precision = q.precision_cholesky.gram().to_dense()
        covariance = jnp.linalg.inv(precision)
        return jnp.sum(weights * covariance) + jnp.sum(jnp.sin(q.mean) ** 3) * precision[0, 2]

    gradient = coordinates(jax.jit(jax.grad(objective))(xi))
    direction = jax.jit(lambda xi: natural_gradient(objective, xi))(xi)
    expected = np.linalg.solve(fisher_information(xi), gradient)
    np.testing.assert_allclose(coordinates(direction), expected, rtol=1e-10, atol=1e-12)
    assert np.all(np.triu(direction.precision_cholesky.diagonal, 1) == 0.0)


@pytest.mark.parametrize("dim", [2, 5])
def test_one_step_solves_a_conjugate_model(dim):
    """Noisy looks at pairs of neighbouring states: from any q, the posterior in one step."""
    states, noise = 3, 0.3
    rng = np.random.default_rng(4)
    looks, y = rng.normal(size=(states - 1, 2, dim)), rng.normal(size=states - 1)
    prior = random_chain(states, dim, seed=5)

    def bound(q):
        covariance = q.covariance_band()
        left, right = looks[:, 0], looks[:, 1]
        mean = jnp.sum(left * q.mean[:-1] + right * q.mean[1:], axis=1)
        variance = (
            jnp.einsum("mi,mij,mj->m", left, covariance.diagonal[:-1], left)
            + jnp.einsum("mi,mij,mj->m", right, covariance.diagonal[1:], right)
            + jnp.einsum("mi,mij,mj->m", 2 * right, covariance.lower, left)
        )
        return -jnp.sum((y - mean) ** 2 + variance) / (2 * noise) - kl_divergence(q, prior)

    step = jax.jit(lambda q, size: natural_gradient_step(bound, q, size))
    start = random_chain(states, dim, seed=6)
    mean, covariance = dense_moments(step(start, 1.0))

    design = np.zeros((states - 1, states * dim))
    for m in range(states - 1):
        design[m, m * dim : (m + 2) * dim] = looks[m].ravel()
    prior_mean, prior_covariance = dense_moments(prior)
    prior_precision = np.linalg.inv(prior_covariance)
    precision = prior_precision + design.T @ design / noise
    posterior_mean = np.linalg.solve(precision, prior_precision @ prior_mean + design.T @ y / noise)
    np.testing.assert_allclose(mean, posterior_mean, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(covariance, np.linalg.inv(precision), rtol=1e-10, atol=1e-10)

    # A shorter step goes that part of the way in θ.
    quarter = step(start, 0.25).to_natural()
    theta, target = start.to_natural(), step(start, 1.0).to_natural()
    leaves = (jax.tree.leaves(point) for point in (theta, target, quarter))
    for a, b, between in zip(*leaves, strict=True):
        np.testing.assert_allclose(between, 0.75 * a + 0.25 * b, rtol=1e-10, atol=1e-10)
