"""The solar data: learned bounds against dense optima, and against classic inducing points.

The whole study, with all numbers of inducing points, is `make solar`.
"""

import os

import pytest

import stategp as sg
from stategp_experiments import baselines, solar

pytestmark = pytest.mark.skipif(
    "STATEGP_DATA" not in os.environ, reason="STATEGP_DATA does not name a folder with the data"
)


def test_learned_bounds():
    data = sg.data.solar()
    inducing = solar.grid(data, 195)
    posterior = sg.fit(solar.model(), data.x_train, data.y_train, inducing=inducing)
    assert posterior.fit_result.converged
    begin = solar.starts(data)
    twin = solar.with_values(data, 195, begin, baselines.VALUES_AND_SLOPES)
    assert abs(posterior.elbo - twin.bound) < 1e-5
    classic = solar.with_values(data, 195, begin)
    assert classic.bound < posterior.elbo < posterior.log_marginal_likelihood()
