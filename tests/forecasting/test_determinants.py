"""Slopes of the determinant of effects, against differences of a dense one."""

import numpy as np
import pytest

import stategp as sg
from stategp._data import observe
from stategp._forecasting._determinants import _by_evidence, _traced
from stategp.parameters import all_parameters, to_vector, with_vector

N = 30
X = np.sort(np.random.default_rng(0).choice(np.arange(40.0), N))  # some of them twice
Y = np.random.default_rng(1).normal(size=N)
WEIGHTS = np.where(np.arange(N) % 7 == 0, 0.3, 1.0)
MODEL = sg.GP(
    sg.kernels.Matern32(variance=2.0, lengthscale=5.0) * sg.kernels.Cosine(period=sg.fixed(9.0)),
    sg.likelihoods.Gaussian(variance=0.4),
    sg.means.Constant(sg.fixed(3.0)),
)
INDUCING = np.unique(X) - X.min()
COLUMNS = np.stack([INDUCING > 8, INDUCING > 20, np.cos(INDUCING)], axis=1) * [2.0, 0.7, 1.0]


def products(model):
    state = np.searchsorted(INDUCING, X - X.min())
    noise = float(model.likelihood.variance.value) / WEIGHTS
    covariance = np.asarray(model.kernel(X, X)) + np.diag(noise)
    rows = COLUMNS[state]
    return rows.T @ np.linalg.solve(covariance, rows)


@pytest.mark.parametrize("way", ["evidence", "traced"])
def test_slopes_of_the_determinant(way):
    data = observe(X, Y, MODEL.likelihood, weights=WEIGHTS)
    if way == "evidence":
        found = _by_evidence(MODEL, data, INDUCING, COLUMNS, products(MODEL))
    else:
        state = np.searchsorted(INDUCING, X - X.min())
        precision = np.bincount(state, WEIGHTS / 0.4, len(INDUCING))
        found = _traced(MODEL, data, INDUCING, COLUMNS, precision)
    vector, step = np.asarray(to_vector(MODEL)), 1e-4

    def penalty(vector):
        matrix = np.eye(COLUMNS.shape[1]) + products(with_vector(MODEL, vector))
        return -np.linalg.slogdet(matrix)[1] / 2

    units = step * np.eye(len(vector))
    expected = [(penalty(vector + u) - penalty(vector - u)) / (2 * step) for u in units]
    learned = [p.learned for p in all_parameters(MODEL)]
    given = [float(s) for s, known in zip(found, learned, strict=True) if known]
    np.testing.assert_allclose(given, expected, rtol=1e-5, atol=1e-7)
