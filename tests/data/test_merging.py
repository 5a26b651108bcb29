"""Equal observations as one with a weight: the same answer, from fewer of them."""

import numpy as np
import pytest

import stategp as sg
from stategp._data import merge, merged, repeat
from stategp._data._store import Store
from stategp._inference import FEW

RNG = np.random.default_rng(0)
X = RNG.integers(0, 40, FEW) / 4.0
Y = RNG.negative_binomial(3, 3 / (3 + np.exp(np.sin(X)))).astype(float)
MODEL = sg.GP(sg.kernels.Matern32(lengthscale=2.0), sg.likelihoods.NegativeBinomial())


def histogram():
    """Each different observation, and how many there are."""
    rows, counts = np.unique(np.stack([X, Y]), axis=1, return_counts=True)
    return *rows, counts.astype(float)


def test_each_different_row_is_there_once():
    beside = RNG.integers(1, 3, 3000).astype(float)
    columns = [X[:3000], Y[:3000], beside, np.arange(3000.0)]
    x, y, extra, weights = merge(columns)
    rows, which = np.unique(np.stack(columns[:3]), axis=1, return_inverse=True)
    order = np.lexsort([extra, y, x])
    np.testing.assert_array_equal(np.stack([x, y, extra])[:, order], rows)
    np.testing.assert_array_equal(weights[order], np.bincount(which, columns[3]))
    assert repeat(columns)
    assert not repeat([np.arange(3000.0), *columns[1:]])
    assert not repeat([np.zeros(0)] * 4)


def test_fits_are_those_of_all_observations():
    posterior = sg.condition(MODEL, X, Y, inducing=10)
    x, y, counts = histogram()
    same = sg.condition(MODEL, x, y, weights=counts, inducing=posterior.inducing)
    assert posterior.elbo == pytest.approx(same.elbo, rel=1e-12)
    np.testing.assert_allclose(posterior.predict_f(x)[0], same.predict_f(x)[0], atol=1e-10)
    assert posterior.data.observed == len(posterior.data) == FEW
    assert len(merged(posterior.data)) == len(x)


def test_rows_on_disk_are_fewer(monkeypatch):
    held = []
    close = Store.close
    monkeypatch.setattr(Store, "close", lambda store: held.append(store.rows) or close(store))
    parts = np.array_split(np.arange(FEW), 3)
    series = sg.stream(lambda: ((X[part], Y[part]) for part in parts), shortest=4.0)
    posterior = sg.condition(MODEL, series, inducing=10)
    x, y, counts = histogram()
    same = sg.condition(MODEL, x, y, weights=counts, inducing=posterior.inducing)
    assert posterior.elbo == pytest.approx(same.elbo, rel=1e-9)
    assert posterior.data.observed == FEW
    assert held[0] < 100  # rows of many observations each
