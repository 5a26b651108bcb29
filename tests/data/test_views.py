"""The same data seen one by one, in rows and as moments: the same bound, the same derivatives."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import stategp as sg
import stategp._data._compression
from stategp import kernels as k
from stategp._data import Compressed, Moments, Observations, Pooled, Rows, cut_cells, observe
from stategp._inference import Collapsed, Sight
from stategp._inference._seeing import fastest_rate
from stategp.parameters import to_vector

N = 800
RNG = np.random.default_rng(0)
X = np.sort(
    np.concatenate([RNG.uniform(0, 4, N // 2), RNG.uniform(7, 9, N // 2 - 40), np.full(40, 3.3)])
)
F = np.sin(X)
Z = jnp.array([0.3, 2.0, 3.3, 5.0, 8.8])  # data beyond both ends, on a location, and a gap
SMOOTH = k.Matern32(variance=1.3, lengthscale=4.0)

SEASONS = k.Periodic(period=sg.fixed(0.5), order=1) + 0.7 * k.Cosine(period=sg.fixed(0.3))
TREND_AND_SEASONS = k.Matern52(lengthscale=40.0) + SEASONS
FAST = np.sin(4 * np.pi * X) + np.cos(20 * X)

CASES = {
    "gaussian": (
        sg.GP(
            k.Matern52(variance=1.3, lengthscale=4.0),
            sg.likelihoods.Gaussian(variance=0.1),
            sg.means.Constant(0.4),
        ),
        F + 0.3 * RNG.standard_normal(N),
        {},
        Moments,
    ),
    "gaussian, tiny noise, far away": (
        sg.GP(k.Matern52(lengthscale=4.0), sg.likelihoods.Gaussian(variance=1e-6), 1e6),
        1e6 + F + 1e-3 * RNG.standard_normal(N),
        {},
        Moments,
    ),
    "gaussian, seasons, weights": (
        sg.GP(TREND_AND_SEASONS, mean=sg.means.Linear(slope=0.3)),
        F + FAST + 0.3 * RNG.standard_normal(N),
        {"weights": RNG.uniform(0.5, 2.0, N)},
        Compressed,
    ),
    "gaussian, nothing but seasons": (
        sg.GP(SEASONS),
        FAST + 0.3 * RNG.standard_normal(N),
        {},
        Compressed,
    ),
    "gaussian, seasons, tiny noise, far away": (
        sg.GP(
            TREND_AND_SEASONS,
            sg.likelihoods.Gaussian(variance=1e-6),
            sg.means.Linear(intercept=1e6, slope=0.3),
        ),
        1e6 + F + FAST + 1e-3 * RNG.standard_normal(N),
        {},
        Compressed,
    ),
    "gaussian, a season whose period is learned": (
        sg.GP(k.Matern32(lengthscale=40.0) + k.Periodic(period=0.5, order=2)),
        F + FAST + 0.3 * RNG.standard_normal(N),
        {},
        Compressed,
    ),
    "gaussian, noise known": (
        sg.GP(SMOOTH + k.Cosine(period=9.0), sg.likelihoods.Gaussian(variance=0.1)),
        F + 0.3 * RNG.standard_normal(N),
        {"extras": {"noise_variance": RNG.uniform(0.05, 0.2, N)}},
        Rows,
    ),
    "poisson, weights": (
        sg.GP(SMOOTH, "poisson"),
        RNG.poisson(np.exp(F)).astype(float),
        {"weights": RNG.uniform(0.5, 2.0, N)},
        Pooled,
    ),
    "steep labels": (  # where f changes its sign, it bends too much for sums
        sg.GP(k.Matern52(variance=400.0, lengthscale=4.0), "bernoulli"),
        1.0 * (F > 0),
        {},
        Pooled,
    ),
    "student-t": (
        sg.GP(SMOOTH, sg.likelihoods.StudentT(scale=0.2)),
        F + 0.2 * RNG.standard_t(4, N),
        {},
        Rows,
    ),
    "two latent functions": (
        sg.GP(SMOOTH, sg.likelihoods.HeteroscedasticGaussian()),
        F + np.exp(-1 + 0.3 * F) * RNG.standard_normal(N),
        {},
        Rows,
    ),
}


def bound_and_gradient(model, data, few):
    objective = Collapsed(model, data, Z)
    objective.sight.few = few
    value, gradient = objective(np.asarray(to_vector(model)))
    return value, gradient, objective.sight.view


@pytest.mark.parametrize("name", CASES)
def test_cells_change_nothing(name):
    model, y, given, kind = CASES[name]
    data = observe(X, y, model.likelihood, **given)
    value, gradient, one_by_one = bound_and_gradient(model, data, few=10**9)
    packed_value, packed_gradient, packed = bound_and_gradient(model, data, few=1)
    assert isinstance(one_by_one, Observations)
    assert type(packed) is kind
    # Numbers near 10⁶ are known to 10⁻¹⁰, which is 10⁻⁷ of the noise there.
    rtol = 1e-10 if "far away" in name else 1e-11
    np.testing.assert_allclose(packed_value, value, rtol=rtol)
    atol = max(1e-7 * N, 1e-8 * np.max(np.abs(gradient)))
    np.testing.assert_allclose(packed_gradient, gradient, rtol=1e-7, atol=atol)


def test_sums_stand_for_observations_where_f_is_smooth():
    model = sg.GP(SMOOTH, sg.likelihoods.Gamma(shape=3.0))
    data = observe(X, RNG.gamma(3.0, np.exp(F) / 3.0), model.likelihood)
    view = Sight(data, Z, few=1)(model)[0]
    assert type(view) is Pooled
    nothing = eqx.tree_at(lambda view: view.rows.filled, view, jnp.zeros_like(view.rows.filled))

    @jax.jit
    def look(view, steepness):
        mean = steepness * jnp.sin(view.nodes.reshape(-1) / 2)
        variance = 0.1 + 0.05 * jnp.cos(view.nodes.reshape(-1) / 2)
        return view.expected_and_parameters(model.likelihood, mean, variance)

    for steepness in (0.1, 1.0, 30.0):
        mean, variance = steepness * jnp.sin(data.nodes / 2), 0.1 + 0.05 * jnp.cos(data.nodes / 2)
        one_by_one = data.expected_and_parameters(model.likelihood, mean, variance)
        ours = look(view, steepness)
        np.testing.assert_allclose(ours.value, one_by_one.value, rtol=1e-10)
        np.testing.assert_allclose(jnp.sum(ours.slope), jnp.sum(one_by_one.slope), rtol=1e-9)
        bends = ours.curvature, one_by_one.curvature
        np.testing.assert_allclose(*(jnp.sum(bend) for bend in bends), rtol=1e-10)
        slopes = ours.parameters.shape.value, one_by_one.parameters.shape.value
        np.testing.assert_allclose(*slopes, rtol=1e-10)
        alone = look(nothing, steepness).value
        missing = abs(alone - one_by_one.value) > 1e-6 * abs(one_by_one.value)
        assert missing == (steepness > 5)  # the steep ones need the observations


def test_cells_are_cut_anew_when_the_kernel_becomes_faster():
    data = observe(X, F)
    sight = Sight(data, Z, few=1)

    def look(lengthscale):
        return sight(sg.GP(k.Matern32(lengthscale=lengthscale)))[0]

    slow = look(40.0)
    assert look(30.0) is slow  # within the margin
    faster = look(6.0)
    assert len(faster.nodes) >= len(slow.nodes)
    assert isinstance(look(0.05), Observations)  # hardly more observations than nodes
    assert isinstance(look(40.0), Moments)


def test_data_that_does_not_fit_into_memory_at_once_is_compressed_in_pieces(monkeypatch):
    model, y, given, _ = CASES["gaussian, seasons, weights"]
    data = observe(X, y, model.likelihood, **given)
    value, gradient, whole = bound_and_gradient(model, data, few=1)
    monkeypatch.setattr(stategp._data._compression, "_HELD", 150)
    in_pieces, gradient_in_pieces, cut = bound_and_gradient(model, data, few=1)
    assert len(np.unique(cut.sums.nodes, axis=0)) > len(np.unique(whole.sums.nodes, axis=0))
    np.testing.assert_allclose(in_pieces, value, rtol=1e-12)
    np.testing.assert_allclose(gradient_in_pieces, gradient, rtol=1e-8, atol=1e-8 * N)


def test_a_period_may_move_a_little_before_cells_are_cut_anew():
    model, y, _, _ = CASES["gaussian, a season whose period is learned"]
    data = observe(X, y, model.likelihood)
    packed, one_by_one = (Collapsed(model, data, Z) for _ in range(2))
    packed.sight.few = 1
    start = np.asarray(to_vector(model))
    period = model.kernels[0].kernels[1].period
    at = int(np.flatnonzero(start == np.log(period.value))[0])
    packed(start)
    before = packed.sight.view
    for far, same in ((0.002, True), (0.1, False)):
        moved = start + far * (np.arange(len(start)) == at)
        value, gradient = packed(moved)
        assert (packed.sight.view is before) == same
        expected, expected_gradient = one_by_one(moved)
        np.testing.assert_allclose(value, expected, rtol=1e-11)
        np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-7, atol=1e-7 * N)


def test_cells_are_cut_anew_when_a_season_is_another():
    data = observe(X, F)
    sight = Sight(data, Z, few=1)

    def look(period, lengthscale=40.0):
        season = k.Cosine(period=sg.fixed(period))
        return sight(sg.GP(k.Matern32(lengthscale=lengthscale) + season))[0]

    first = look(0.5)
    assert isinstance(first, Compressed)
    assert look(0.5, 30.0) is first
    second = look(0.25)
    assert isinstance(second, Compressed)
    np.testing.assert_allclose(second.sums.carriers, [8 * np.pi])
    assert not isinstance(look(0.25, 0.3), Compressed)  # what is left is as fast as the season


def test_with_inducing_points_at_the_data_observations_are_seen_one_by_one():
    data = observe(X, F)
    assert isinstance(Sight(data, jnp.unique(data.x), few=1)(sg.GP(SMOOTH))[0], Observations)


def test_a_mean_function_of_the_user_s_is_not_interpolated():
    model = sg.GP(SMOOTH, mean=lambda x: jnp.where(x > 2, 1.0, 0.0))
    assert isinstance(Sight(observe(X, F), Z, few=1)(model)[0], Observations)


@given(
    st.lists(st.floats(0, 100), min_size=1, max_size=60),
    st.lists(st.floats(0, 100), min_size=1, max_size=6, unique=True),
    st.floats(0.1, 200),
)
def test_cells_hold_every_observation_once(x, inducing, widest):
    x, inducing = np.sort(x), np.sort(inducing)
    cells = cut_cells(x, inducing, widest, most=10**6)
    assert cells.first[0] == 0
    np.testing.assert_array_equal(cells.first[1:], np.cumsum(cells.size)[:-1])
    assert cells.size.sum() == len(x)
    assert np.all(cells.high - cells.low <= widest * (1 + 1e-12))
    interval = np.searchsorted(inducing, x, side="right")
    for first, size in zip(cells.first, cells.size, strict=True):
        assert len(set(interval[first : first + size])) == 1
    nodes = cells.nodes()
    assert np.all((nodes >= cells.low[:, None]) & (nodes <= cells.high[:, None]))
    assert cut_cells(x, inducing, widest, most=0) is None


def test_fastest_rate_is_that_of_the_equation():
    model = sg.GP(k.Matern32(lengthscale=2.0) + k.Cosine(period=1.0))
    np.testing.assert_allclose(fastest_rate(model), 2 * np.pi)
