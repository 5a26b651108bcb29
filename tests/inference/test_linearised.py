"""Smoothing with linearised observations against dense fixed points.

The dense twins hold N × N matrices and take sums over sigma points as the definitions have them.
"""

import math

import numpy as np
import pytest
import scipy.stats

import stategp as sg

X = np.arange(8) * 0.7
Y = np.array([1.0, 3, 5, 3, 2, 0, 1, 0])
KERNEL = sg.kernels.Matern32(variance=0.8, lengthscale=2.0)
LEVEL = 0.3
POISSON = sg.GP(KERNEL, sg.likelihoods.Poisson(), mean=LEVEL)


def taylor(mean, variance):
    rate = np.exp(mean)
    return rate, rate, rate  # slope, centre and noise of counts


def regression(nodes):
    def line(mean, variance):
        t, w = np.polynomial.hermite.hermgauss(nodes)
        f = mean[:, None] + np.sqrt(2 * variance)[:, None] * t
        w, rate = w / math.sqrt(math.pi), np.exp(f)
        centre = rate @ w
        slope = ((f - mean[:, None]) * rate) @ w / variance
        noise = rate @ w + (rate - centre[:, None]) ** 2 @ w - slope**2 * variance
        return slope, centre, noise

    return line


def dense_fixed_point(line):
    """Mean and variance of f at the data, and log N(y; …) of what was linearised there."""
    r = math.sqrt(3) * np.abs(X[:, None] - X[None]) / 2.0
    K = 0.8 * (1 + r) * np.exp(-r)
    mean, variance = np.full(len(X), LEVEL), np.diagonal(K)
    for _ in range(400):
        slope, centre, noise = line(mean, variance)
        S = K + np.diag(noise / slope**2)
        seen = (Y - centre) / slope + mean - LEVEL
        mean = mean + 0.5 * (LEVEL + K @ np.linalg.solve(S, seen) - mean)
        posterior = np.diagonal(K - K @ np.linalg.solve(S, K))
        variance = variance + 0.5 * (posterior - variance)
    law = scipy.stats.multivariate_normal(cov=np.outer(slope, slope) * K + np.diag(noise))
    return mean, variance, law.logpdf(Y - centre + slope * (mean - LEVEL))


@pytest.mark.parametrize(
    ("method", "line"),
    [
        ("extended", taylor),
        ("unscented", regression(3)),
        ("posterior_linearisation", regression(40)),
    ],
)
def test_the_fixed_point_is_that_of_dense_matrices(method, line):
    posterior = sg.condition(POISSON, X, Y, method=method)
    mean, variance, evidence = dense_fixed_point(line)
    found = posterior.predict_f(X)
    np.testing.assert_allclose(found[0], mean, atol=1e-7)
    np.testing.assert_allclose(found[1], variance, atol=1e-7)
    np.testing.assert_allclose(posterior.elbo, evidence, atol=1e-6)


def test_gauss_newton_finds_the_mode():
    """That of Laplace's method, also where slopes of the mean do not say it all (Student-t)."""
    model = sg.GP(KERNEL, sg.likelihoods.StudentT(scale=0.5, df=5.0), mean=LEVEL)
    mode, newton = (sg.condition(model, X, Y, method=m) for m in ("laplace", "gauss_newton"))
    np.testing.assert_allclose(newton.predict_f(X)[0], mode.predict_f(X)[0], atol=1e-6)


def test_what_linearisation_cannot_do():
    for method in ("extended", "gauss_newton"):
        with pytest.raises(ValueError, match=r"learn them by another.*sg\.condition"):
            sg.fit(POISSON, X, Y, method=method)
    gaussian = sg.GP(KERNEL, sg.likelihoods.Gaussian(variance=0.1))
    exact = sg.condition(gaussian, X, Y)
    assert sg.condition(gaussian, X, Y, method="unscented").elbo == exact.elbo
    several = sg.GP(KERNEL, sg.likelihoods.HeteroscedasticGaussian())
    with pytest.raises(ValueError, match="one latent function"):
        sg.condition(several, X, Y, method="unscented")
