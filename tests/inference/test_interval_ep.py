"""Power EP with a site for every interval, beside a site for every observation and VI."""

import numpy as np
import pytest

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
