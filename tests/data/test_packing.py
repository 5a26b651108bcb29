"""Rows and sums, filled by NumPy or on a device: the same, and what a loop over the data gives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stategp as sg
from stategp._data import _cells, _packing, cut_cells, cut_short_cells, observe, pool
from stategp._data._views import ORDER

RNG = np.random.default_rng(3)
X = np.sort(np.concatenate([RNG.uniform(0, 4, 500), RNG.uniform(7, 9, 250), np.full(50, 3.3)]))
Y = 1e3 + np.sin(X) + 0.1 * RNG.standard_normal(len(X))
Z = np.array([0.3, 2.0, 3.3, 5.0, 8.8])
WEIGHTS = RNG.uniform(0.5, 2.0, len(X))


def lagrange(nodes, x):
    """The interpolating polynomials of the nodes at x."""
    return np.array([
        np.prod([(x - other) / (node - other) for other in nodes if other != node], axis=0)
        for node in nodes
    ])  # fmt: skip


@pytest.fixture
def small_blocks(monkeypatch):
    """Several of them, the last one padded."""
    monkeypatch.setattr(_packing, "_MANY", 256)
    monkeypatch.setattr(_packing, "_WIDTHS", (4,))


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_a_device_fills_the_same_rows(small_blocks, weights):
    data = observe(X, Y, weights=weights)
    cells = cut_cells(data.x, Z - data.origin, 0.7, len(X))
    guess = np.stack([Y, -Y], axis=-1)
    host, device = (
        _packing.pack_rows(data, cells, guess, on_device=there) for there in (False, True)
    )
    used = int(np.sum(np.asarray(host[0].filled) > 0))
    assert device[0].filled.shape[0] > 1

    def rows(packed, guess):
        columns = [packed.t, packed.y, packed.weights, packed.extra, guess, packed.filled]
        return [v if v.ndim == 0 else v.reshape(-1, *v.shape[2:])[:used] for v in columns]

    for a, b in zip(rows(*host), rows(*device), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14, atol=1e-15)
    assert int(jnp.sum(device[0].filled)) == len(X)


def test_a_device_sums_the_same_moments(small_blocks):
    data = observe(X, Y, weights=WEIGHTS)
    cells = cut_cells(data.x, Z - data.origin, 0.7, len(X))
    host, device = (_packing.pack_moments(data, cells, on_device=there) for there in (False, True))
    for a, b in zip(jax.tree.leaves(host), jax.tree.leaves(device), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_a_device_sums_the_same_statistics(small_blocks, likelihood):
    model = sg.GP(sg.kernels.Matern32(), likelihood)
    data = observe(X, 1.0 * (Y > 1e3), model.likelihood, weights=WEIGHTS)
    cells = cut_cells(data.x, Z - data.origin, 0.7, len(X))
    rows, _ = _packing.pack_rows(data, cells, Y, on_device=True)
    host, device = (
        pool(rows, model.likelihood, data, cells, on_device=there).statistics
        for there in (False, True)
    )
    np.testing.assert_allclose(host, device, rtol=1e-12, atol=1e-12)


def test_moments_are_sums_over_the_data():
    data = observe(X, Y, weights=WEIGHTS)
    cells = cut_cells(data.x, Z - data.origin, 0.7, len(X))
    moments = _packing.pack_moments(data, cells)
    shape = -1, ORDER
    total = 0.0
    for number, (first, size) in enumerate(zip(cells.first, cells.size, strict=True)):
        part = slice(first, first + size)
        x, y, w = data.x[part], data.y[part], WEIGHTS[part]
        nodes = np.asarray(moments.nodes)[number]
        if nodes[0] == nodes[-1]:  # observations at one place: no polynomial
            continue
        at = lagrange(nodes, x)
        weights, excess, reference = (
            np.asarray(v).reshape(shape)[number]
            for v in (moments.weights, moments.excess, moments.reference)
        )
        left = y - float(moments.offset) - reference @ at
        np.testing.assert_allclose(weights, at @ w, atol=1e-9)
        np.testing.assert_allclose(excess, at @ (w * left), atol=1e-9)
        total += np.sum(w * left**2)
    np.testing.assert_allclose(moments.spread, total, rtol=1e-6)


def test_short_cells_interpolate_with_fewer_nodes(monkeypatch):
    monkeypatch.setattr(_cells, "_WORTH", 10)
    rate = 0.1
    data = observe(X, Y)
    place = data.x, Z - data.origin, _cells.WIDEST / rate
    assert cut_short_cells(*place[:2], place[2] / 100) is None  # too few observations in each
    cells = cut_short_cells(*place)
    assert cells.order == _cells.FEW_NODES
    rows, _ = _packing.pack_rows(data, cells, Y)
    likelihood = sg.likelihoods.Gaussian(variance=0.1)

    def mean(x):  # as quick as a kernel of this rate allows, and twice as quick for variances
        return 1e3 + x * np.exp(-rate * x) + np.exp(rate * (x - 9))

    def variance(x):
        return 2 + np.exp(-2 * rate * x) + 0.1 * x * np.exp(2 * rate * (x - 9))

    nodes = np.asarray(rows.nodes)
    summed = rows.expected(
        likelihood, jnp.asarray(mean(nodes).ravel()), jnp.asarray(variance(nodes).ravel())
    )
    at = (jnp.asarray(f(data.x)) for f in (mean, variance))
    one_by_one = data.expected(likelihood, *at)
    np.testing.assert_allclose(summed.value, one_by_one.value, rtol=1e-13)
    probe = np.cos(rate * nodes).ravel(), np.cos(rate * data.x)
    for name in ("slope", "curvature"):
        sums = [getattr(e, name) @ p for e, p in zip((summed, one_by_one), probe, strict=True)]
        np.testing.assert_allclose(*sums, rtol=1e-12)
