"""The solar data: learned bounds against dense optima, and against classic inducing points.

The whole study, with all numbers of inducing points, is `make solar`.
"""

import os

import pytest

import stategp as sg
from stategp_experiments import solar

pytestmark = pytest.mark.skipif(
    "STATEGP_DATA" not in os.environ, reason="STATEGP_DATA does not name a folder with the data"
)


def test_learned_bounds():
    data = sg.data.solar()
    inducing = solar.grid(data, 195)
    posterior = sg.fit(solar.model(), data.x_train, data.y_train, inducing=inducing)
    assert posterior.fit_result.converged
    _, twin = solar.learn_dense(data, 195, slopes=True)
    assert abs(posterior.elbo - twin) < 1e-5
    _, classic = solar.learn_dense(data, 195, slopes=False)
    assert classic < posterior.elbo < posterior.log_marginal_likelihood()
