"""Smoothing with linearised observations against dense fixed points, and the bounds by samples.

The dense twins hold N × N matrices and take sums over sigma points as the definitions have them.
"""

import math

import numpy as np
import pytest
import scipy.integrate
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


# --- the importance-weighted bound -----------------------------------------------------------


@pytest.fixture(scope="module")
def posterior():
    model = sg.GP(sg.kernels.Matern12(variance=4.0), sg.likelihoods.Poisson())
    return sg.condition(model, [0.0, 1.0], [0.0, 5.0])


def test_many_samples_give_the_evidence(posterior):
    """log p(y) of two counts, by two-dimensional quadrature."""
    prior = scipy.stats.multivariate_normal(cov=4 * np.exp([[0.0, -1.0], [-1.0, 0.0]]))

    def joint(b, a):
        counts = scipy.stats.poisson.pmf([0, 5], np.exp([a, b]))
        return prior.pdf([a, b]) * counts.prod()

    evidence = math.log(scipy.integrate.dblquad(joint, -14, 6, -14, 6, epsabs=1e-8)[0])
    bound, error = posterior.importance_weighted_bound(1000)
    assert evidence - 4 * error - 2e-3 < bound < evidence + 4 * error
    assert posterior.elbo + 0.01 < evidence


def test_one_sample_gives_the_usual_bound(posterior):
    bound, error = posterior.importance_weighted_bound(1, key=1, repeats=4000)
    assert abs(bound - posterior.elbo) < 4 * error < 0.1


def test_importance_weights_need_states_at_the_data(posterior):
    fewer = sg.condition(posterior.model, [0.0, 1.0], [0.0, 5.0], inducing=[0.0])
    with pytest.raises(ValueError, match="inducing='data'"):
        fewer.importance_weighted_bound(10)
    with pytest.raises(ValueError, match="samples must be a whole number of at least 1"):
        posterior.importance_weighted_bound(0)
