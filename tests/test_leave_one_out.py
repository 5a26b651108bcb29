"""Leaving one observation out is fitting without it: weights, repetitions, few inducing points."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import stategp as sg
from stategp import kernels as k

NOISE = 0.05
X = np.array([0.0, 0.4, 0.4, 1.1, 1.7, 2.0, 3.3, 3.4])  # one x twice
Y = np.array([0.1, 0.5, -0.2, 0.9, 0.8, 0.9, -0.2, -0.3])
WEIGHTS = np.array([1.0, 0.2, 1.0, 3.0, 0.0, 1.0, 0.2, 2.0])
MODEL = sg.GP(k.Matern32(lengthscale=1.5), sg.likelihoods.Gaussian(variance=NOISE), mean=0.2)


def refitted(inducing, weights, noise_variance=None):
    """f at each observation, from a fit in which that one is missing."""
    means, variances = [], []
    for left in range(len(X)):
        y = np.where(np.arange(len(X)) == left, np.nan, Y)
        others = sg.condition(
            MODEL, X, y, inducing=inducing, weights=weights, noise_variance=noise_variance
        )
        mean, variance = others.predict_f(X[[left]])
        means.append(float(mean[0]))
        variances.append(float(variance[0]))
    return means, variances


@pytest.mark.parametrize("inducing", [np.unique(X), np.array([0.5, 2.5])], ids=["data", "sparse"])
def test_weighted_observations_are_left_out_whole(inducing):
    posterior = sg.condition(MODEL, X, Y, inducing=inducing, weights=WEIGHTS)
    expected = refitted(inducing, WEIGHTS)
    for weights in (WEIGHTS, None):  # given, or looked up
        found = posterior.leave_one_out(X, Y, weights=weights)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    back = np.array([7, 2, 1, 0])  # a part, in another order, with one that is missing
    mean, _ = posterior.leave_one_out(X[back], np.where(back == 0, np.nan, Y[back]))
    np.testing.assert_allclose(mean[:3], np.array(expected[0])[back[:3]], rtol=1e-8)
    np.testing.assert_allclose(mean[3], posterior.predict_f([0.0])[0][0])


def test_an_observation_far_more_precise_than_the_prior():
    noise = np.full(len(X), 1e-7)
    model = sg.GP(MODEL.kernel, sg.likelihoods.Gaussian(variance=sg.fixed(0.0)), mean=0.2)
    keep = X != 0.4
    x, y, noise = X[keep], Y[keep], noise[keep]
    posterior = sg.condition(model, x, y, inducing="data", noise_variance=noise)
    mean, variance = posterior.leave_one_out(x, y, noise_variance=noise)
    y_without = np.where(np.arange(len(x)) == 0, np.nan, y)
    others = sg.condition(model, x, y_without, inducing=x, noise_variance=noise)
    expected, spread = others.predict_f(x[:1])
    np.testing.assert_allclose(mean[0], expected[0], rtol=1e-7)
    np.testing.assert_allclose(variance[0], spread[0], rtol=1e-7)


def test_weights_that_cannot_be_found():
    posterior = sg.condition(MODEL, X, Y, inducing="data", weights=WEIGHTS)
    with pytest.raises(ValueError, match=r"observation 1 \(y = 7.0\) was not fitted"):
        posterior.leave_one_out([0.0, 0.4], [0.1, 7.0])
    with pytest.raises(ValueError, match="more often than in the fit"):
        posterior.leave_one_out([0.0, 0.0], [0.1, 0.1])
    with pytest.raises(ValueError, match="weights must be zero or more"):
        posterior.leave_one_out(X, Y, weights=-WEIGHTS)
    assert posterior.leave_one_out([], [])[0].shape == (0,)


def test_what_the_likelihood_reads_beside_y_is_that_of_the_fit():
    noise = np.linspace(0.0, 2.0, len(X))
    posterior = sg.condition(MODEL, X, Y, inducing=np.unique(X), noise_variance=noise)
    expected = refitted(np.unique(X), None, noise)
    np.testing.assert_allclose(posterior.leave_one_out(X, Y), expected, rtol=1e-8, atol=1e-10)
    z = (Y - expected[0]) / np.sqrt(np.array(expected[1]) + NOISE + noise)
    chances = posterior.tail_probability(X[::-1], Y[::-1])
    np.testing.assert_allclose(chances, 2 * norm.sf(np.abs(z))[::-1], rtol=1e-7)
    with pytest.raises(ValueError, match=r"had noise_variance, but observation 0 \(y = 9.0"):
        posterior.tail_probability([0.4], [9.0])


def test_outliers_count_with_the_weights_of_the_fit():
    frame = pd.DataFrame({"ds": X, "y": Y, "w": np.where(WEIGHTS == 0, 0.5, WEIGHTS)})
    forecaster = sg.Forecaster(MODEL.kernel, MODEL.likelihood, mean=0.2, inducing="data")
    forecaster.fit(frame, weights="w", progress=False, max_steps=2, tolerance=1e3)
    posterior = forecaster.posterior
    expected = posterior.tail_probability(X, Y, weights=frame["w"])
    assert not np.allclose(expected, posterior.tail_probability(X, Y, weights=1.0), rtol=1e-3)
    np.testing.assert_allclose(forecaster.outliers(frame)["probability"], expected, rtol=1e-10)
    np.testing.assert_allclose(forecaster.outliers()["probability"], expected, rtol=1e-10)
