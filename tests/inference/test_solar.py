"""The solar data: learned bounds against dense optima, and against classic inducing points.

The whole study, with all numbers of inducing points, is `make solar`.
"""

import os

import pytest

import stategp as sg
from experiments import solar

pytestmark = pytest.mark.skipif(
    "STATEGP_DATA" not in os.environ, reason="STATEGP_DATA does not name a folder with the data"
)


def test_learned_bounds():
    data = sg.data.solar()
    exact = sg.fit(solar.model(), data.x_train, data.y_train)
    bounds = []
    for count in [60, 195]:
        posterior = sg.fit(
            solar.model(), data.x_train, data.y_train, inducing=solar.grid(data, count)
        )
        assert posterior.fit_result.converged
        _, twin = solar.learn_dense(data, count, slopes=True)
        assert abs(posterior.elbo - twin) < 1e-5
        _, classic = solar.learn_dense(data, count, slopes=False)
        assert posterior.elbo > classic
        bounds.append(posterior.elbo)
    assert bounds[0] < bounds[1] < exact.elbo
