"""Random walks integrated many times against a dense GP with sixty digits."""

import functools

import mpmath as mp
import numpy as np
import pytest

import stategp as sg
from stategp.chain import prior_transitions, sweep

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 10, 14))  # the longest of the steps is a thousand times the shortest
X[7] = X[6] + 0.002
Y = np.sin(X) + 0.1 * RNG.standard_normal(len(X))
NEW = np.array([X[0] - 2, X[0] - 0.1, *(X[1:] + X[:-1]) / 2, *X, X[-1] + 0.1, X[-1] + 2])
NOISE = 0.01
# The diffusivity of the highest derivative, and the variances of level and slope at first.
SETTINGS = {"known": (1.0, 100.0, 100.0), "vague": (0.01, 1e6, 1e4)}


def covariance(order, setting, a, b):
    """Of f at two distances from the first observation, on either side of it."""
    diffusivity, start, slope = map(mp.mpf, SETTINGS[setting])
    total = mp.fsum(
        start * (slope / start * a * b) ** i / mp.factorial(i) ** 2 for i in range(order + 1)
    )
    if a * b <= 0:
        return total
    short, more = min(abs(a), abs(b)), abs(abs(a) - abs(b))
    # ∫ (short − u)ᵏ (short + more − u)ᵏ du, expanded in powers of more
    walk = mp.fsum(
        mp.binomial(order, j) * more ** (order - j) * short ** (order + j + 1) / (order + j + 1)
        for j in range(order + 1)
    )
    return total + diffusivity * walk / mp.factorial(order) ** 2


@functools.cache
def dense(order, setting):
    """log p(y), and mean and variance of f at the new places."""
    with mp.workdps(60):
        x, new = ([mp.mpf(float(v)) - mp.mpf(float(X[0])) for v in each] for each in (X, NEW))
        y = mp.matrix([float(v) for v in Y])
        K = mp.matrix(len(x), len(x))
        for i, a in enumerate(x):
            for j, b in enumerate(x):
                K[i, j] = covariance(order, setting, a, b) + (i == j) * mp.mpf(NOISE)
        inverse = K**-1
        evidence = -((y.T * inverse * y)[0] + mp.log(mp.det(2 * mp.pi * K))) / 2
        mean, variance = [], []
        for place in new:
            across = mp.matrix([covariance(order, setting, place, b) for b in x])
            solved = inverse * across
            mean.append(float((solved.T * y)[0]))
            left = covariance(order, setting, place, place) - (across.T * solved)[0]
            variance.append(float(left))
    return float(evidence), np.array(mean), np.array(variance)


@functools.cache
def found(order, setting):
    diffusivity, start, slope = SETTINGS[setting]
    kernel = sg.kernels.IntegratedWiener(
        order=order, diffusivity=diffusivity, start=start, slope=slope
    )
    return sg.condition(sg.GP(kernel, sg.likelihoods.Gaussian(variance=NOISE)), X, Y)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("order", [2, 5, 10])
def test_posteriors_before_between_and_after_the_data(order, setting):
    """The numbers in docs/kernels.md."""
    evidence, mean, variance = dense(order, setting)
    np.testing.assert_allclose(found(order, setting).elbo, evidence, atol=1e-8)
    at = found(order, setting).predict_f(NEW)
    np.testing.assert_allclose((at[0] - mean) / np.sqrt(variance), 0.0, atol=1e-7)
    np.testing.assert_allclose(at[1], variance, rtol=1e-8)


@pytest.mark.parametrize(("order", "lost"), [(5, 1e-8), (10, 1e-4)])
def test_what_a_sweep_loses(order, lost):
    """What observations that are not Gaussian have to do with (docs/kernels.md)."""
    chain = found(order, "known").chain
    (kernel,) = chain.model.kernels
    swept = sweep(prior_transitions(kernel, chain.inducing), chain.sites[0]).marginals
    variance = 100.0 * np.asarray(swept.covariance)[1 : len(X) + 1, 0, 0]
    exact = dense(order, "known")[2][-2 - len(X) : -2]
    np.testing.assert_allclose(variance, exact, rtol=lost)


def test_too_few_digits_are_no_answer():
    """After a gap of a hundred times the rest, the tenth integral has left the doubles."""
    kernel = sg.kernels.IntegratedWiener(order=10, diffusivity=0.01, start=1e6, slope=1e4)
    x = np.concatenate([X / 10, 99 + X / 10])
    with pytest.raises(FloatingPointError, match="not finite"):
        sg.condition(sg.GP(kernel, sg.likelihoods.Gaussian(variance=NOISE)), x, np.sin(x))


def test_the_highest_order_is_fitted():
    x = np.linspace(0.0, 6.0, 30)
    wave = np.sin(x) + 0.1 * RNG.standard_normal(30)
    posterior = sg.fit(sg.GP(sg.kernels.IntegratedWiener(order=10)), x, wave)
    assert posterior.fit_result.converged
    assert np.max(np.abs(posterior.predict_f(x)[0] - np.sin(x))) < 0.15
