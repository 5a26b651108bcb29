"""Mixtures of processes against dense twins: the bound, its gradient, and q."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import stategp as sg
from stategp._data import PlacedRows
from stategp._inference import (
    mixed_infer,
    mixed_moments,
    mixed_objective,
    mixed_shape,
    no_group_sites,
)
from stategp._models import MixedGP
from stategp.kernels import Kernel
from stategp.likelihoods import Likelihood
from stategp.parameters import Parameter, to_vector, with_vector
from tests.dense import state_covariances

k = sg.kernels
KERNELS = (k.Matern32(variance=1.0, lengthscale=0.4), k.Matern52(variance=0.7, lengthscale=0.9))
WEIGHTS = np.array([[1.0, 0.3], [-0.5, 1.2], [0.8, 0.0]])
EXTRA = np.array([0.0, 0.05, 0.2])
NOISE, LEVEL = 0.1, 0.3


class Mixture(MixedGP):
    """Three outputs of two processes, with variance of their own."""

    kernels: tuple[Kernel, ...]
    noise: Likelihood
    weights: Parameter
    extra: Parameter
    level: Parameter
    q: str = eqx.field(static=True)

    @property
    def likelihood(self):
        return self.noise

    def likelihood_at(self, places):
        return self.noise

    def coefficients(self, places):
        return self.weights.value[places]

    def extra_variance(self, places):
        return self.extra.value[places]

    def offset(self, x, places):
        return jnp.full(x.shape, 1.0) * self.level.value

    def with_kernels(self, kernels):
        return eqx.tree_at(lambda model: model.kernels, self, kernels)


def mixture(q, likelihood=None):
    numbers = (Parameter(jnp.asarray(v)) for v in (WEIGHTS, EXTRA, np.asarray(LEVEL)))
    return Mixture(KERNELS, likelihood or sg.likelihoods.Gaussian(variance=NOISE), *numbers, q)


RNG = np.random.default_rng(0)
X = np.concatenate([np.sort(RNG.uniform(0, 3, 14)), [0.5, 0.5, 2.0]])
PLACES = np.arange(len(X)) % 3
Y = np.sin(2 * X) * WEIGHTS[PLACES, 0] + LEVEL + 0.3 * RNG.standard_normal(len(X))
X_NEW, PLACES_NEW = np.array([-0.4, 0.5, 1.1, 3.6]), np.array([0, 2, 1, 1])


def rows(y=Y, likelihood=None):
    likelihood = likelihood or sg.likelihoods.Gaussian()
    extra = np.full(len(X), likelihood.extra_default)
    guess = likelihood.guess(y, extra)
    return PlacedRows.padded(X, PLACES, y, extra, np.ones(len(X)), guess, 0.0)


def infer(model, inducing, y=Y):
    nothing = no_group_sites(model, len(inducing))
    return mixed_infer(model, rows(y, model.likelihood), jnp.asarray(inducing), nothing, True)


@jax.jit
def predict(model, marginals, inducing, x, places):
    return mixed_moments(mixed_shape(model, x, places, inducing), marginals)


def covariance(model, x, places, x2, places2):
    """Of what rows read of the processes."""
    weights = np.asarray(model.weights.value)
    return sum(
        weights[places, i][:, None] * weights[places2, i] * np.asarray(kernel(x, x2))
        for i, kernel in enumerate(model.kernels)
    )


def own_variance(model):
    extra = np.asarray(model.extra.value)
    return np.diag(extra[PLACES] + float(model.noise.variance.value))


def log_evidence(model):
    C = covariance(model, X, PLACES, X, PLACES) + own_variance(model)
    # The extra variance is the observation's own: q has to leave it open, which costs this much.
    cost = np.asarray(model.extra.value)[PLACES] / float(model.noise.variance.value) / 2
    return C, multivariate_normal(np.full(len(X), float(model.level.value)), C).logpdf(Y), cost


def test_with_states_at_the_data_the_joint_q_is_the_exact_posterior():
    model = eqx.tree_at(lambda m: m.extra.value, mixture("joint"), jnp.zeros(3))
    inducing = np.unique(X)
    state = infer(model, inducing)
    C, evidence, _ = log_evidence(model)
    np.testing.assert_allclose(state.q.elbo, evidence, rtol=1e-10)
    cross = covariance(model, X_NEW, PLACES_NEW, X, PLACES)
    prior = np.diag(covariance(model, X_NEW, PLACES_NEW, X_NEW, PLACES_NEW))
    new = jnp.asarray(X_NEW), jnp.asarray(PLACES_NEW)
    mean, variance = predict(model, state.q.marginals, jnp.asarray(inducing), *new)
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(C, Y - LEVEL), atol=1e-9)
    exact = prior - np.sum(cross * np.linalg.solve(C, cross.T).T, axis=1)
    np.testing.assert_allclose(variance, exact, rtol=1e-7)


def sparse_bound(model, z):
    """The best bound of states of all processes at z, written densely."""
    reads, total = 0.0, np.asarray(model.extra.value)[PLACES]
    for i, kernel in enumerate(model.kernels):
        w = np.asarray(model.weights.value)[PLACES, i]
        Kuu, Kfu = state_covariances(kernel, z, X)
        reads = reads + w[:, None] * w * (Kfu @ np.linalg.solve(Kuu, Kfu.T))
        total = total + w**2 * float(kernel.variance.value)
    noise = float(model.noise.variance.value)
    fit = multivariate_normal(
        np.full(len(X), float(model.level.value)), reads + noise * np.eye(len(X))
    ).logpdf(Y)
    return fit - np.sum(total - np.diag(reads)) / noise / 2


def product_bound(model, inducing):
    """The bound of independent processes at their best, with the states at the data."""
    assert len(inducing) == len(np.unique(X))
    noise, n = float(model.noise.variance.value), len(X)
    distinct, index = np.unique(X, return_inverse=True)
    weights = np.asarray(model.weights.value)[PLACES]
    reads = [weights[:, [i]] * np.eye(len(distinct))[index] for i in range(2)]
    priors = [np.asarray(kernel(distinct, distinct)) for kernel in model.kernels]
    S = np.concatenate(reads, axis=1)
    K = np.block([[priors[0], 0 * priors[0]], [0 * priors[1], priors[1]]])
    r = Y - float(model.level.value)
    m = K @ S.T @ np.linalg.solve(S @ K @ S.T + noise * np.eye(n), r)
    value = -np.sum((r - S @ m) ** 2 + np.asarray(model.extra.value)[PLACES]) / noise / 2
    value -= n / 2 * np.log(2 * np.pi * noise)
    for i, prior in enumerate(priors):
        own = m[i * len(distinct) : (i + 1) * len(distinct)]
        precision = np.linalg.inv(prior) + reads[i].T @ reads[i] / noise
        V = np.linalg.inv(precision)
        value -= np.trace(reads[i] @ V @ reads[i].T) / noise / 2
        trace = np.trace(np.linalg.solve(prior, V)) + own @ np.linalg.solve(prior, own)
        logs = np.linalg.slogdet(prior)[1] - np.linalg.slogdet(V)[1]
        value -= (trace - len(distinct) + logs) / 2
    return value


BOUNDS = {
    "joint": (sparse_bound, np.linspace(0.1, 2.9, 7)),
    "product": (product_bound, np.unique(X)),
}


@pytest.mark.parametrize("q", BOUNDS)
def test_bound_and_gradient_are_those_of_the_dense_twin(q):
    model = mixture(q)
    dense, inducing = BOUNDS[q]
    vector = np.asarray(to_vector(model))
    nothing = no_group_sites(model, len(inducing))
    value, gradient, _ = mixed_objective(
        jnp.asarray(vector), model, rows(), jnp.asarray(inducing), nothing, True
    )
    np.testing.assert_allclose(value, dense(model, inducing), rtol=1e-9)
    step = 1e-5
    for i in range(len(vector)):
        ends = [
            dense(
                with_vector(model, vector + sign * step * (np.arange(len(vector)) == i)), inducing
            )
            for sign in (1, -1)
        ]
        np.testing.assert_allclose(
            gradient[i], (ends[0] - ends[1]) / 2 / step, rtol=1e-5, atol=1e-6
        )


def test_the_means_of_a_product_of_processes_are_those_of_the_joint_one():
    inducing = np.unique(X)
    new = jnp.asarray(X_NEW), jnp.asarray(PLACES_NEW)
    found = {}
    for q in ("joint", "product"):
        model = mixture(q)
        state = infer(model, inducing)
        found[q] = predict(model, state.q.marginals, jnp.asarray(inducing), *new)
    np.testing.assert_allclose(found["joint"][0], found["product"][0], atol=1e-8)


@pytest.mark.parametrize("q", ["joint", "product"])
def test_counts_settle_at_an_optimum(q):
    model = mixture(q, sg.likelihoods.Poisson())
    inducing = np.linspace(0.1, 2.9, 7)
    state = infer(model, inducing, np.arange(len(X)) % 4 * 1.0)
    assert state.done
    assert state.moved < 1e-9
    for site, target in zip(state.q.sites, state.q.target, strict=True):
        np.testing.assert_allclose(site.linear, target.linear, atol=1e-4)
