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
    mixed_geometry,
    mixed_infer,
    mixed_moments,
    mixed_objective,
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

    def coefficients(self, x, places):
        return self.weights.value[places]

    def extra_variance(self, x, places):
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


def rows(y=Y, likelihood=None):
    likelihood = likelihood or sg.likelihoods.Gaussian()
    extra = np.full(len(X), likelihood.extra_default)
    guess = likelihood.guess(y, extra)
    return PlacedRows.padded(X, PLACES, y, extra, np.ones(len(X)), guess, 0.0)


def infer(model, inducing, y=Y):
    nothing = no_group_sites(model, len(inducing))
    return mixed_infer(model, rows(y, model.likelihood), jnp.asarray(inducing), nothing, True)


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


def test_rows_in_blocks_say_the_same(monkeypatch):
    model, inducing = mixture("joint"), jnp.asarray(BOUNDS["joint"][1])
    start = no_group_sites(model, len(inducing)), True
    marginals = mixed_objective(to_vector(model), model, rows(), inducing, *start)[2].q.marginals

    def answers():
        def look(model):
            shape = mixed_geometry(model, rows(), inducing)
            mean, variance = mixed_moments(shape, marginals)
            sites = shape.groups[0].gather(mean, variance)
            return jnp.sum(mean * variance), sites

        (_, sites), slope = jax.jit(jax.value_and_grad(look, has_aux=True))(model)
        return jax.tree.leaves((sites, slope))

    whole = answers()
    monkeypatch.setattr("stategp._inference._mixed_shape._AT_ONCE", 1024)
    for one, other in zip(whole, answers(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10)


def test_counts_settle_at_an_optimum():
    model = mixture("joint", sg.likelihoods.Poisson())
    inducing = np.linspace(0.1, 2.9, 7)
    state = infer(model, inducing, np.arange(len(X)) % 4 * 1.0)
    assert state.done
    assert state.moved < 1e-9
    for site, target in zip(state.q.sites, state.q.target, strict=True):
        np.testing.assert_allclose(site.linear, target.linear, atol=1e-4)
