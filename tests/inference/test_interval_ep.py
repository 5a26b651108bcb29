"""Power EP with a site for every interval, beside a site for every observation and VI."""

import numpy as np
import pytest
from scipy import integrate, special

import stategp as sg

COUNT = 24
X = np.linspace(0, 3, COUNT)
BETWEEN = (X[1:] + X[:-1]) / 2  # every interval holds one observation
FEW = np.linspace(0.2, 2.8, 6)
KERNEL = sg.kernels.Matern32(variance=2.0, lengthscale=0.7)
rng = np.random.default_rng(1)
F = 2 * np.sin(3 * X)
Y = (rng.uniform(size=COUNT) < 1 / (1 + np.exp(-F))).astype(float)
LOGIT = sg.GP(KERNEL, "bernoulli")


def conditioned(inducing, power, sites, model=LOGIT, y=Y):
    method = sg.PowerEP(power=power, sites=sites)
    return sg.condition(model, X, y, inducing=inducing, method=method)


def assert_same(one, other, tolerance):
    for a, b in zip(one.predict_f(X), other.predict_f(X), strict=True):
        np.testing.assert_allclose(a, b, atol=tolerance)


def test_one_observation_in_every_interval_has_its_own_site():
    shared = conditioned(BETWEEN, 0.5, "interval")
    own = conditioned(BETWEEN, 0.5, "observation")
    assert shared.fit_result.converged
    assert_same(shared, own, 1e-6)
    np.testing.assert_allclose(shared.elbo, own.elbo, atol=1e-7)


def test_gaussian_observations_may_share_sites():
    gaussian = sg.GP(KERNEL, sg.likelihoods.Gaussian(variance=0.1))
    y = F + 0.3 * rng.standard_normal(COUNT)
    shared, own = (
        conditioned(FEW, 0.5, sites, gaussian, y) for sites in ("interval", "observation")
    )
    assert_same(shared, own, 1e-8)
    np.testing.assert_allclose(shared.elbo, own.elbo, atol=1e-8)


def tilted(y, mean, variance, power):
    """Mean and variance of N(mean, variance) × σ(±f)^power, by numerical integration."""
    sign = 2 * y - 1

    def density(f):
        return np.exp(power * special.log_expit(sign * f) - (f - mean) ** 2 / variance / 2)

    ends = mean - 12 * np.sqrt(variance), mean + 12 * np.sqrt(variance)
    moments = [
        integrate.quad(lambda f, n=n: f**n * density(f), *ends, epsabs=0, epsrel=1e-11)[0]
        for n in range(3)
    ]
    first = moments[1] / moments[0]
    return first, moments[2] / moments[0] - first**2


def dense_shared_ep(x, y, z, kernel, power, rounds=80, damping=0.7):
    """Mean and covariance of f(z) for a kernel whose state is f: dense matrices and inverses."""
    prior = kernel(z, z)
    rows = np.linalg.solve(prior, kernel(z, x)).T
    residual = np.diagonal(kernel(x, x)) - np.sum(rows * kernel(x, z), axis=1)
    interval = np.searchsorted(z, x)
    precision = np.zeros((len(z) + 1, len(z), len(z)))
    linear = np.zeros((len(z) + 1, len(z)))

    def posterior(less=None, share=0.0):
        left = np.linalg.inv(prior) + precision.sum(0)
        right = linear.sum(0)
        if less is not None:
            left, right = left - share * precision[less], right - share * linear[less]
        covariance = np.linalg.inv(left)
        return covariance @ right, covariance

    for _ in range(rounds):
        wanted = np.zeros_like(precision), np.zeros_like(linear)
        for row, rest, here, label in zip(rows, residual, interval, y, strict=True):
            mean, covariance = posterior(here, power / np.sum(interval == here))
            spread = row @ covariance @ row + rest
            first, second = tilted(label, row @ mean, spread, power)
            gain = covariance @ row / spread
            moved = mean + gain * (first - row @ mean)
            shrunk = covariance - np.outer(gain, gain) * (spread - second)
            before, after = np.linalg.inv(covariance), np.linalg.inv(shrunk)
            wanted[0][here] += (after - before) / power
            wanted[1][here] += (after @ moved - before @ mean) / power
        precision += damping * (wanted[0] - precision)
        linear += damping * (wanted[1] - linear)
    return posterior()


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_several_observations_share_a_site_as_in_dense_algebra(power):
    """Numerical moments and inverses of whole matrices; intervals with 1 to 4 observations."""
    x = np.array([0.1, 0.5, 0.7, 1.1, 1.3, 1.4, 1.7, 2.2, 2.6])
    y = np.array([1.0, 1, 0, 1, 1, 1, 0, 0, 0])
    z = np.array([0.3, 1.0, 1.8, 2.4])
    kernel = sg.kernels.Matern12(variance=2.0, lengthscale=0.7)
    mean, covariance = dense_shared_ep(
        x, y, z, lambda a, b: 2.0 * np.exp(-np.abs(a[:, None] - b[None]) / 0.7), power
    )
    found = sg.condition(
        sg.GP(kernel, "bernoulli"), x, y, inducing=z,
        method=sg.PowerEP(power=power, sites="interval"),
    )  # fmt: skip
    assert found.fit_result.converged
    for ours, theirs in zip(found.predict_f(z), (mean, np.diagonal(covariance)), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_small_powers_approach_the_variational_answer():
    variational = sg.condition(LOGIT, X, Y, inducing=FEW)
    small = conditioned(FEW, 0.01, "interval")
    assert_same(small, variational, 0.01)
    np.testing.assert_allclose(small.elbo, variational.elbo, atol=0.02)


def test_what_shared_sites_cannot_do_is_said():
    with pytest.raises(ValueError, match="sites must be 'observation' or 'interval', got 'each'"):
        sg.PowerEP(sites="each")
    with pytest.raises(
        ValueError, match=r"finds q for hyperparameters as they are: use sg.condition"
    ):
        sg.fit(LOGIT, X, Y, inducing=FEW, method=sg.PowerEP(sites="interval"))
