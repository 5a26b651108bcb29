"""Bounds, gradients and posteriors when the signal is many orders of magnitude above the noise.

The reference is a dense GP with sixty digits.
"""

import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

import stategp as sg
from stategp import kernels as k
from stategp._data import observe, place_inducing
from stategp._inference import Collapsed, Sight, no_sites, objective_and_gradient
from stategp._runtime import pad_inducing
from stategp.parameters import to_vector

X = np.array([0.0, 0.7, 1.1, 1.9, 2.6, 2.6, 3.3, 4.1, 4.4, 5.2, 5.9, 6.6])
WEIGHTS = np.where(np.arange(len(X)) % 4 == 1, 2.0, 1.0)


def matern12_and_52(v1, l1, v2, l2):
    def covariance(lag):
        r = mp.sqrt(5) * lag / l2
        return v1 * mp.exp(-lag / l1) + v2 * (1 + r + r**2 / 3) * mp.exp(-r)

    return covariance


def periodic(variance, period, lengthscale):
    x = lengthscale**-2
    weights = [mp.besseli(j, x) * mp.exp(-x) * (1 if j == 0 else 2) for j in range(4)]

    def covariance(lag):
        angle = 2 * mp.pi * lag / period
        return variance * sum(w * mp.cos(j * angle) for j, w in enumerate(weights))

    return covariance


SUM = k.Matern12(variance=0.5, lengthscale=1.0) + k.Matern52(variance=0.8, lengthscale=2.0)
PERIODIC = k.Periodic(variance=0.9, period=2.7, lengthscale=0.8, order=3)
# With a deterministic kernel any inducing points lose nothing: the bound is log p(y) there too.
CASES = {
    "sum": (SUM, matern12_and_52, "data"),
    "deterministic": (PERIODIC, periodic, "data"),
    "deterministic, sparse": (PERIODIC, periodic, np.array([0.5, 3.1, 6.0])),
}


def dense(covariance_of, vector, y):
    """log p(y) with weights, as a function of all hyperparameters' logarithms."""
    *own, noise = [mp.exp(v) for v in vector]
    covariance = covariance_of(*own)
    x, y, w = ([mp.mpf(float(v)) for v in column] for column in (X, y, WEIGHTS))
    K = mp.matrix(len(x), len(x))
    for i, a in enumerate(x):
        for j, b in enumerate(x):
            K[i, j] = covariance(abs(a - b)) + (noise / w[i] if i == j else 0)
    L = mp.cholesky(K)
    white = mp.lu_solve(L, mp.matrix(y))
    value = -sum(white[i] ** 2 / 2 + mp.log(L[i, i]) for i in range(len(x)))
    return value + sum(mp.log(noise / v) - v * mp.log(2 * mp.pi * noise) for v in w) / 2


def reference(covariance_of, vector, y):
    with mp.workdps(60):
        vector = [mp.mpf(float(v)) for v in vector]
        value = dense(covariance_of, vector, y)
        slopes, step = [], mp.mpf(10) ** -20
        for i in range(len(vector)):
            moved = [v + step * (i == j) for j, v in enumerate(vector)]
            slopes.append(float((dense(covariance_of, moved, y) - value) / step))
        return float(value), np.array(slopes)


def problem(name, noise):
    """A model, and observations that it finds likely."""
    kernel, covariance_of, inducing = CASES[name]
    model = sg.GP(kernel, sg.likelihoods.Gaussian(variance=noise), mean=sg.means.Zero())
    own = [mp.mpf(float(v)) for v in np.exp(np.asarray(to_vector(kernel)))]
    covariance = covariance_of(*own)
    K = np.array([[float(covariance(abs(a - b))) for b in X] for a in X])
    values, vectors = np.linalg.eigh(K)
    rng = np.random.default_rng(1)
    f = vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal(len(X)))
    return model, f + np.sqrt(noise) * rng.standard_normal(len(X)), covariance_of, inducing


@pytest.mark.parametrize("noise", [1e-6, 1e-12])
@pytest.mark.parametrize("name", CASES)
def test_bound_and_gradient_have_eight_digits(name, noise):
    model, y, covariance_of, inducing = problem(name, noise)
    data = observe(X, y, model.likelihood, weights=WEIGHTS)
    objective = Collapsed(model, data, jnp.asarray(pad_inducing(place_inducing(inducing, data))))
    value, gradient = objective(to_vector(model))
    expected, slopes = reference(covariance_of, to_vector(model), y)
    assert value == pytest.approx(expected, rel=1e-8)
    np.testing.assert_allclose(gradient, slopes, rtol=0, atol=1e-8 * np.max(np.abs(slopes)))


@pytest.mark.parametrize("name", CASES)
def test_posteriors_say_the_same_bound_and_pass_through_the_data(name):
    model, y, covariance_of, inducing = problem(name, 1e-12)
    posterior = sg.condition(model, X, y, weights=WEIGHTS, inducing=inducing)
    expected, _ = reference(covariance_of, to_vector(model), y)
    assert posterior.elbo == pytest.approx(expected, rel=1e-8)
    assert posterior.log_marginal_likelihood() == pytest.approx(expected, rel=1e-8)
    assert abs(posterior.kl_to_exact()) < 1e-7
    mean, variance = posterior.predict_f(X)
    np.testing.assert_allclose(mean, y, atol=1e-5)
    assert np.all((variance > 1e-14) & (variance < 2e-12))


def test_no_number_is_given_where_double_precision_has_none():
    model, y, _, inducing = problem("deterministic", 1e-24)
    with pytest.raises(FloatingPointError, match="orders of magnitude above the noise"):
        sg.condition(model, X, y, inducing=inducing)
    density = sg.log_posterior(model, X, y)
    assert np.isnan(density(density.start))


def test_a_sweep_that_lost_the_digits_of_its_bound_says_so():
    """For likelihoods that have no other way."""
    model, y, _, inducing = problem("sum", 1e-10)
    data = observe(X, y, model.likelihood, weights=WEIGHTS)
    states = jnp.asarray(pad_inducing(place_inducing(inducing, data)))
    view, guess = Sight(data, states)(model)
    nothing = no_sites(model, states)
    arguments = (to_vector(model), model, view, states, guess, nothing, False)
    value, _, state = objective_and_gradient(*arguments)
    assert np.isnan(value)
    assert state.q.rounding > 1.0
