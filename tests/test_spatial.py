"""Kernels over space, against scikit-learn, mpmath and what is known of great circles."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.gaussian_process import kernels as sklearn_kernels

import stategp as sg

k = sg.spatial
RNG = np.random.default_rng(3)
PLACES = RNG.uniform(-2, 3, size=(7, 2))
OTHERS = np.concatenate([RNG.uniform(-2, 3, size=(4, 2)), PLACES[:1]])
BERLIN, LISBON = [13.405, 52.52], [-9.139, 38.722]


@pytest.mark.parametrize("lengthscale", [0.7, [0.7, 2.5]])
@pytest.mark.parametrize(
    ("cls", "theirs"),
    [
        (k.Matern12, lambda s: sklearn_kernels.Matern(s, nu=0.5)),
        (k.Matern32, lambda s: sklearn_kernels.Matern(s, nu=1.5)),
        (k.Matern52, lambda s: sklearn_kernels.Matern(s, nu=2.5)),
        (k.SquaredExponential, lambda s: sklearn_kernels.RBF(s)),
    ],
)
def test_kernels_are_those_of_scikit_learn(cls, theirs, lengthscale):
    ours = cls(lengthscale=lengthscale)(PLACES, OTHERS)
    np.testing.assert_allclose(ours, theirs(lengthscale)(PLACES, OTHERS), rtol=1e-12)


def test_one_and_three_dimensions():
    theirs = sklearn_kernels.Matern(1.3, nu=1.5)
    ours = k.Matern32(lengthscale=1.3)
    np.testing.assert_allclose(ours([0.0, 1.0], [2.0]), theirs([[0.0], [1.0]], [[2.0]]))
    cube = RNG.uniform(size=(4, 3))
    np.testing.assert_allclose(ours(cube, cube), theirs(cube, cube), atol=1e-15)


@pytest.mark.parametrize("lengthscale", [0.7, [0.7, 2.5]])
def test_separable_kernels_are_products_over_coordinates(lengthscale):
    ours = k.Matern32(lengthscale=lengthscale, separable=True)
    along, across = (
        sklearn_kernels.Matern(scale, nu=1.5)(PLACES[:, [i]], OTHERS[:, [i]])
        for i, scale in enumerate(np.broadcast_to(lengthscale, 2))
    )
    np.testing.assert_allclose(ours(PLACES, OTHERS), along * across, rtol=1e-12)
    assert "separable=True" in repr(ours)
    with pytest.raises(ValueError, match="separable is for metric='euclidean'"):
        k.Matern12(metric="chordal", separable=True)


def test_distances_on_the_earth():
    quarter = np.pi / 2 * k.EARTH
    poles = [[0.0, 90.0], [120.0, -90.0]]
    equator = [[0.0, 0.0], [90.0, 0.0]]
    along = k.distances(poles, equator, "great-circle")
    np.testing.assert_allclose(along, quarter, rtol=1e-14)
    np.testing.assert_allclose(k.distances(poles[:1], poles[1:], "great-circle"), 2 * quarter)
    np.testing.assert_allclose(k.distances(poles[:1], poles[1:], "chordal"), 2 * k.EARTH)
    assert float(k.distances([BERLIN], [LISBON], "great-circle")[0, 0]) == pytest.approx(
        2313, abs=3
    )
    # across the date line, and for places a metre apart, where arccos of a product has no digits
    assert float(k.distances([[179.5, 0.0]], [[-179.5, 0.0]], "chordal")[0, 0]) < 112
    north = np.rad2deg(1e-3 / k.EARTH)
    near = k.distances([[10.0, 50.0]], [[10.0, 50.0 + north]], "great-circle")
    np.testing.assert_allclose(near, 1e-3, rtol=1e-7)


def test_chordal_kernels_are_positive_definite_and_great_circle_ones_are_refused():
    globe = np.stack([RNG.uniform(-180, 180, 60), RNG.uniform(-90, 90, 60)], axis=1)
    for kernel in (
        k.Matern52(lengthscale=9000.0, metric="chordal"),
        k.Matern12(lengthscale=9000.0, metric="great-circle"),
    ):
        assert np.linalg.eigvalsh(kernel(globe, globe)).min() > -1e-12
    # what is refused would not be one
    along = k.distances(globe, globe, "great-circle")
    assert np.linalg.eigvalsh(k.Matern52().correlation(along / 9000.0)).min() < -1e-4
    for cls in (k.Matern32, k.Matern52, k.SquaredExponential):
        with pytest.raises(ValueError, match="metric='chordal'"):
            cls(metric="great-circle")


def test_derivatives_are_finite_where_places_coincide():
    def total(lengthscale):
        return jnp.sum(k.Matern12(lengthscale=lengthscale)(PLACES, PLACES) ** 2)

    slope = float(jax.grad(total)(1.3))
    step = 1e-6
    moved = float(total(1.3 + step) - total(1.3 - step))
    assert slope == pytest.approx(moved / (2 * step), rel=1e-7)


def test_arguments():
    assert k.Matern32(dimensions=2).lengthscale.value.shape == (2,)
    assert not k.Matern32(dimensions=2).lengthscale.given
    prior = sg.parameter(prior=sg.priors.LogNormal(2.0, 0.5))
    assert k.Matern32(lengthscale=prior, dimensions=3).lengthscale.prior is not None
    for wrong, words in [
        ({"lengthscale": [1.0, 2.0], "dimensions": 3}, "each of 3 dimensions"),
        ({"lengthscale": [1.0, 2.0], "metric": "chordal"}, "one lengthscale, in kilometres"),
        ({"lengthscale": -1.0}, "must be positive"),
        ({"lengthscale": "30d"}, "must be a number"),
        ({"metric": "sphere"}, "euclidean, chordal, great-circle"),
        ({"dimensions": 0}, "at least 1"),
    ]:
        with pytest.raises(ValueError, match=words):
            k.Matern32(**wrong)
    with pytest.raises(ValueError, match="2 lengthscales"):
        k.Matern32(dimensions=2)([[1.0]], [[2.0]])


# --- anchors -----------------------------------------------------------------------------------


def test_conditionals_are_those_of_a_dense_gp():
    kernel, anchors = k.Matern32(lengthscale=1.5), jnp.asarray(PLACES)
    rows, rest = k.Anchors.of(kernel, anchors).coefficients(kernel, jnp.asarray(OTHERS))
    theirs = sklearn_kernels.Matern(1.5, nu=1.5)
    inner, cross = theirs(PLACES, PLACES), theirs(OTHERS, PLACES)
    explained = cross @ np.linalg.solve(inner, cross.T)
    np.testing.assert_allclose(rows @ rows.T, explained, atol=1e-13)
    np.testing.assert_allclose(rest, 1 - np.diag(explained), atol=1e-13)
    assert float(rest[-1]) == pytest.approx(0, abs=1e-14)  # an anchor itself


def test_anchors_that_say_nothing_new_are_left_out():
    line = np.linspace(0, 1, 30)[:, None]
    doubled = jnp.asarray(np.concatenate([line, line[:3]]))
    new = jnp.asarray(np.linspace(0, 1, 5)[:, None])

    def left(lengthscale):
        kernel = k.SquaredExponential(lengthscale=lengthscale)
        anchors = k.Anchors.of(kernel, doubled)
        rows, rest = anchors.coefficients(kernel, new)
        return jnp.sum((rows @ rows.T) ** 2) + jnp.sum(rest), anchors.kept

    (value, kept), slope = jax.value_and_grad(left, has_aux=True)(3.0)
    assert not kept[-3:].any()
    assert 4 < kept.sum() < 12
    full = sklearn_kernels.RBF(3.0)(new)
    assert float(value) == pytest.approx((full**2).sum(), abs=1e-8)
    step = 1e-5
    above, below = (float((sklearn_kernels.RBF(s)(new) ** 2).sum()) for s in (3 + step, 3 - step))
    assert float(slope) == pytest.approx((above - below) / (2 * step), rel=1e-4)


# --- the choice of places ----------------------------------------------------------------------


def test_places_are_spread_and_the_same_for_the_same_seed():
    cloud = RNG.uniform(size=(400, 2))
    chosen = k.choose_places(cloud, 25, seed=1)
    assert chosen.shape == (25, 2)
    np.testing.assert_array_equal(chosen, k.choose_places(cloud[::-1], 25, seed=1))
    gap = np.sqrt(((cloud[:, None] - chosen[None]) ** 2).sum(-1)).min(1)
    assert gap.max() < 0.25  # a cell of a five-by-five grid reaches 0.14 from its middle
    few = np.repeat(PLACES, 2, axis=0)
    assert {tuple(row) for row in k.choose_places(few, 99)} == {tuple(row) for row in PLACES}
    assert k.choose_places([[1.0, 2.0]], 3).tolist() == [[1.0, 2.0]]


def test_places_on_both_sides_of_the_date_line():
    lon = np.concatenate([np.linspace(178, 180, 10), np.linspace(-180, -178, 10)])
    chosen = k.choose_places(np.stack([lon, np.zeros(20)], axis=1), 1, metric="chordal")
    assert abs(abs(chosen[0, 0]) - 180) < 0.2


@pytest.mark.parametrize(
    ("places", "words"),
    [
        (np.zeros((2, 4)), "one to three coordinates"),
        ([[0.0, np.nan]], "row 0"),
        ([["a", "b"]], "must hold numbers"),
    ],
)
def test_places_are_checked(places, words):
    with pytest.raises(ValueError, match=words):
        k.choose_places(places, 2)
    with pytest.raises(ValueError, match="the latitude of row 0 is 120"):
        k.choose_places([[10.0, 120.0]], 2, metric="chordal")


def test_places_that_explain_a_share_leave_what_a_dense_gp_leaves():
    places = np.random.default_rng(3).uniform(0, 4, size=(60, 2))
    rows = np.concatenate([places, places[:20]])  # some are observed twice
    kernel = sg.spatial.Matern32(lengthscale=2.0)
    chosen = sg.spatial.places_explaining(kernel, rows, 0.95)

    def left(anchors):
        dense = sklearn_kernels.Matern(2.0, nu=1.5)
        cross = dense(rows, anchors)
        return np.mean(1 - np.sum(cross * np.linalg.solve(dense(anchors), cross.T).T, axis=1))

    assert left(chosen) <= 0.05 < left(chosen[:-1])
    assert len(chosen) < 40
    assert len(sg.spatial.places_explaining(kernel, rows, 0.95, most=3)) == 3
    assert len(sg.spatial.places_explaining(kernel, rows[:1].repeat(3, axis=0), 0.5)) == 1
    with pytest.raises(ValueError, match="share must lie between 0 and 1"):
        sg.spatial.places_explaining(kernel, rows, 1.0)
