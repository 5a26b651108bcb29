"""Before, between and after the data: kernels whose covariance comes from coupled equations."""

import numpy as np
import pytest

import stategp as sg
from tests.kernels.cases import divergence_free, exponentially_generated

CASES = {
    "divergence-free": divergence_free(variance=1.4, period=3.0, lengthscale=5.0),
    "latent exponentially generated": exponentially_generated(
        np.array([[1.0, 0.0], [0.4, 0.7]]), np.array([[0.0, 1.2], [-0.3, 0.0]]), 1.4
    ),
}
X = np.array([0.0, 0.4, 0.4, 1.7, 2.0, 5.5])
Y = np.array([0.3, 1.1, 0.9, -0.7, -0.4, 0.8])
NEW = np.array([-40.0, -1.3, 0.4, 3.0, 5.7, 9.0, 60.0])
NOISE = 0.05


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_backcasts_and_forecasts(case):
    everywhere = np.concatenate([X, NEW])
    lags = np.abs(everywhere[:, None] - everywhere).ravel()
    unique, place = np.unique(lags, return_inverse=True)
    K = np.asarray(case.reference(unique), dtype=float)[place].reshape(2 * (len(everywhere),))
    n = len(X)
    gain = np.linalg.solve(K[:n, :n] + NOISE * np.eye(n), K[:n, n:]).T
    model = sg.GP(case.kernel, sg.likelihoods.Gaussian(variance=NOISE))
    posterior = sg.condition(model, X, Y, inducing="data")
    mean, variance = posterior.predict_f(NEW)
    np.testing.assert_allclose(mean, gain @ Y, rtol=1e-9, atol=1e-11)
    expected = np.diag(K[n:, n:] - gain @ K[:n, n:])
    np.testing.assert_allclose(variance, expected, rtol=1e-9)
