"""The paper's natural gradient, through ξ, θ and η, is the site update."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stategp import chain
from stategp import kernels as k
from stategp._projection import project

X = np.sort(np.random.default_rng(0).uniform(-0.3, 3.3, 30))
Z = jnp.array([0.0, 0.8, 1.5, 3.0])
KERNEL = k.Matern32(lengthscale=0.7)
Y_REAL = jnp.asarray(np.sin(3 * X))
Y_COUNT = jnp.asarray(np.random.default_rng(1).poisson(1.5, len(X)).astype(float))


def gaussian(y, mean, variance):
    return jnp.sum(-((y - mean) ** 2 + variance) / (2 * 0.1))


def poisson(y, mean, variance):
    return jnp.sum(y * mean - jnp.exp(mean + variance / 2))


class Problem:
    transitions = chain.prior_transitions(KERNEL, Z)
    projection = project(KERNEL, Z, jnp.asarray(X), transitions)
    nothing = chain.Sites.zeros(len(Z) + 1, 2)

    def __init__(self, y, expectation):
        self.y, self.expectation = y, expectation
        self.xi = jax.jit(
            lambda sites: chain.sweep(self.transitions, sites).marginals.to_mean_cholesky()
        )
        self.prior = self.xi(self.nothing)
        self.site_update = jax.jit(self._site_update)
        self.paper_step = jax.jit(
            lambda xi, step: chain.natural_gradient_step(self.bound, xi, step)
        )

    def bound(self, xi):
        """The ELBO as a function of ξ = (mean, Cholesky factor of the precision)."""
        pairs = chain.PairMarginals.of(xi)
        moments = self.projection.marginals(pairs)
        return self.expectation(self.y, *moments) - chain.kl_divergence(xi, self.prior)

    def _site_update(self, sites, step):
        """NUMERICS: λ₂ = −2 ∂E/∂v, λ₁ = ∂E/∂m + λ₂ m, summed by interval."""
        marginals = chain.sweep(self.transitions, sites).marginals
        mean, variance = self.projection.marginals(marginals)
        slope, curvature = jax.grad(self.expectation, argnums=(1, 2))(self.y, mean, variance)
        precision = -2 * curvature
        target = self.projection.gather(slope + precision * mean, precision, len(Z) + 1)
        return sites.mix(target, step)


def assert_same(found, expected, rtol=1e-8):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-8)


@pytest.mark.parametrize(
    "case", [(Y_REAL, gaussian), (Y_COUNT, poisson)], ids=["normal", "poisson"]
)
def test_the_paper_s_step_is_the_site_update(case):
    problem = Problem(*case)
    sites = problem.nothing
    for step in [0.5, 0.3]:
        by_paper = problem.paper_step(problem.xi(sites), step)
        sites = problem.site_update(sites, step)
        assert_same(problem.xi(sites), by_paper)


def test_one_step_of_size_one_from_any_q_is_the_closed_form():
    problem = Problem(Y_REAL, gaussian)
    rng = np.random.default_rng(2)
    roots = rng.standard_normal((len(Z), 2, 2))
    anywhere = chain.MeanCholesky(
        jnp.asarray(rng.standard_normal((len(Z), 2))),
        chain.BlockTridiagonal(
            jnp.asarray(roots @ roots.mT + 9 * np.eye(2)),
            jnp.asarray(rng.standard_normal((len(Z) - 1, 2, 2))),
        ).cholesky(),
    )
    stepped = problem.paper_step(anywhere, 1.0)
    closed_form = problem.xi(problem.site_update(problem.nothing, 1.0))
    assert_same(stepped, closed_form)
    gradient = jax.jit(lambda xi: chain.natural_gradient(problem.bound, xi))(closed_form)
    assert_same(gradient, jax.tree.map(jnp.zeros_like, gradient))
