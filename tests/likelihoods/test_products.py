"""Sums of products of functions, against Gauss–Hermite quadrature that is exact for them."""

import itertools

import jax.numpy as jnp
import numpy as np
from scipy import stats

import stategp as sg
from stategp import likelihoods as lik
from stategp._models._joint_likelihood import JointLikelihood

MEAN = np.array([0.4, -1.0, 0.7, 1.5])
ROOT = np.tril(
    np.array([[0.9, 0, 0, 0], [0.3, 0.7, 0, 0], [-0.5, 0.2, 0.6, 0], [0.1, 0.4, -0.3, 0.5]])
)


def over_all(function):
    """E[function(f)] for f ~ N(MEAN, ROOT ROOTᵀ); exact up to the ninth power."""
    t, w = np.polynomial.hermite_e.hermegauss(5)
    w = w / w.sum()
    nodes = np.array(list(itertools.product(t, repeat=4)))
    weights = np.array([np.prod(each) for each in itertools.product(w, repeat=4)])
    return weights @ function(MEAN + nodes @ ROOT.T)


def test_moments_of_functions_that_are_dependent():
    likelihood, y = lik.Products(terms=2, variance=0.3), 1.2
    exact = over_all(
        lambda f: stats.norm.logpdf(y, f[:, 0] * f[:, 2] + f[:, 1] * f[:, 3], 0.3**0.5)
    )
    columns = (jnp.array([y]), jnp.asarray(MEAN[None]), jnp.asarray((ROOT @ ROOT.T)[None]))
    found, slope, bend = JointLikelihood(likelihood).expected_slopes(*columns, jnp.zeros(1))
    np.testing.assert_allclose(found[0], exact, rtol=1e-12)
    by_hand = over_all(
        lambda f: (y - f[:, 0] * f[:, 2] - f[:, 1] * f[:, 3])[:, None] * f[:, [2, 3, 0, 1]] / 0.3
    )
    np.testing.assert_allclose(slope[0], by_hand, rtol=1e-12)
    assert bend.shape == (1, 4, 4)
    independent = lik.Products(variance=0.3)
    centre, spread = independent.predict(
        jnp.array([[2.0, 3.0]]), jnp.array([[0.5, 0.2]]), jnp.zeros(1)
    )
    np.testing.assert_allclose([centre[0], spread[0]], [6.0, 0.3 + 0.5 * 9 + 0.2 * 4 + 0.1])


def test_a_network_of_two_outputs():
    """y₁ = f g₁ and y₂ = f g₂, of which one is missing now and then."""
    x = np.linspace(0, 8, 40)
    f, first, second = np.sin(2 * x), 1 + 0.1 * x, 2 - 0.1 * x
    y = np.stack([f * first, f * second], axis=1)
    y += 0.1 * np.random.default_rng(0).standard_normal(y.shape)
    truth, y[10:14, 1] = (f * second)[10:14], np.nan
    slow = sg.kernels.Matern52(variance=1.0, lengthscale=8.0)
    fast = sg.kernels.Matern52(variance=1.0, lengthscale=1.0)
    reads = [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]]  # f and g₁, f and g₂
    model = sg.MultiOutputGP(
        [fast, slow, slow],
        lik.Products(variance=0.1),
        mixing=sg.fixed(np.array(reads, float)),
        outputs=2,
        mean=[(0.0, 1.0)] * 2,
    )
    posterior = sg.condition(model, x, y)
    mean, _ = posterior.predict_y(x[10:14], output=1)
    np.testing.assert_allclose(mean, truth, atol=0.1)


def test_coefficients_that_are_known_functions():
    """Factor analysis over time, with the evidence of a dense GP."""
    x = np.linspace(0, 5, 12)
    both = np.stack([np.sin(x), 0.3 * x], axis=1)
    process = sg.kernels.Matern32(lengthscale=2.0)
    model = sg.MultiOutputGP(
        [process, sg.kernels.Constant(variance=sg.fixed(1e-12))],
        lik.Products(variance=0.1),
        mixing=sg.fixed([[1, 0], [0, 1]] * 2),
        mean=[(0.0, sg.means.Function(jnp.cos)), (0.0, sg.means.Linear(slope=0.1))],
        outputs=2,
    )
    scale = np.concatenate([np.cos(x), 0.1 * x])
    K = np.outer(scale, scale) * np.tile(np.asarray(process(x, x)), (2, 2)) + 0.1 * np.eye(24)
    exact = stats.multivariate_normal(np.zeros(24), K).logpdf(both.T.ravel())
    np.testing.assert_allclose(sg.condition(model, x, both).elbo, exact, rtol=1e-8)
