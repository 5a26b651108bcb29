"""Inducing places that are learned: their gradient, the bound they reach, where they may go."""

import equinox as eqx
import jax
import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import Matern

import stategp as sg
from stategp._data import observe_in_space
from stategp._fitting._methods import find_method
from stategp._fitting._remarks import remarks_on
from stategp._fitting._settings import choose_settings
from stategp._fitting._space_time import SpaceTimeTask
from stategp._runtime import Progress
from stategp.parameters import to_vector

RNG = np.random.default_rng(4)
TIMES = np.arange(5.0)
SITES = RNG.uniform(0, 3, (7, 2))
SIGNAL = np.sin(TIMES)[:, None] * np.sin(2 * SITES[:, 0])
Y = {
    "gaussian": SIGNAL + 0.2 * RNG.standard_normal(SIGNAL.shape),
    "poisson": RNG.poisson(np.exp(1 + SIGNAL)).astype(float),
}
Z = np.array([[0.5, 0.6], [1.5, 2.3], [2.6, 1.2]])
NOISE = 0.1


def model(places, likelihood="gaussian", q="joint", **space):
    seen = sg.likelihoods.Gaussian(variance=sg.fixed(NOISE))
    return sg.SpaceTimeGP(
        sg.spatial.Matern32(lengthscale=sg.fixed(1.3), **space),
        sg.kernels.Matern32(variance=sg.fixed(1.0), lengthscale=sg.fixed(1.5)),
        seen if likelihood == "gaussian" else likelihood,
        places=places,
        q=q,
        mean=sg.means.Zero(),
    )


def sparse_bound(places):
    """Of Gaussian observations at all times, from scikit-learn's kernels."""
    space, time = Matern(1.3, nu=1.5), Matern(1.5, nu=1.5)(TIMES[:, None])
    cross = space(SITES, places)
    low_rank = np.kron(time, cross @ np.linalg.solve(space(places), cross.T))
    y = Y["gaussian"].ravel()
    fit = multivariate_normal(np.zeros(len(y)), low_rank + NOISE * np.eye(len(y))).logpdf(y)
    return fit - np.sum(1 - np.diag(low_rank)) / NOISE / 2


def objective(likelihood, q):
    """The function of the places that a search maximises."""
    start = model(sg.Learned(Z), likelihood, q).placed(SITES).in_modes()
    names = ("optimiser", "batch_size", "step_size", "max_steps", "tolerance")
    settings = choose_settings(
        lambda regime: find_method(start, "natural", regime),
        stochastic=False,
        **dict.fromkeys(names) | {"starts": 1, "seed": 0},
    )
    data = observe_in_space((TIMES, SITES), Y[likelihood], start.names, start.likelihood)
    task = SpaceTimeTask.around(start, *data, TIMES, settings, Progress.of(False))
    return settings.method.objective(start, task, None)


def test_the_gradient_is_that_of_the_dense_bound():
    value, gradient = objective("gaussian", "joint")(Z.ravel())
    assert value == pytest.approx(sparse_bound(Z), rel=1e-9)
    known = approx_fprime(Z.ravel(), lambda z: sparse_bound(z.reshape(Z.shape)), 1e-6)
    np.testing.assert_allclose(gradient, known, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("likelihood", "q"), [("poisson", "joint"), ("gaussian", "product")])
def test_the_gradient_is_that_of_differences(likelihood, q):
    function, way = objective(likelihood, q), RNG.standard_normal(Z.size)
    value, gradient = function(Z.ravel())
    bound = sg.condition(model(Z, likelihood, q), (TIMES, SITES), Y[likelihood]).elbo
    assert value == pytest.approx(bound, rel=1e-9)
    ends = [function(Z.ravel() + side * 1e-4 * way)[0] for side in (-1, 1)]
    assert gradient @ way == pytest.approx((ends[1] - ends[0]) / 2e-4, rel=1e-5)


@pytest.mark.parametrize(("likelihood", "q"), [("gaussian", "joint"), ("poisson", "product")])
def test_learned_places_raise_the_bound(likelihood, q, tmp_path):
    """From where they would be otherwise, within the box of the data; `condition` leaves them."""
    data = (TIMES, SITES), Y[likelihood]
    chosen = sg.condition(model(3, likelihood, q), *data)
    learned = sg.fit(model(sg.Learned(3), likelihood, q), *data)
    assert learned.fit_result.converged
    assert learned.elbo > chosen.elbo + 1
    found = learned.inducing_places
    assert np.all((found >= SITES.min(0)) & (found <= SITES.max(0)))
    again = sg.condition(model(found, likelihood, q), *data)
    # Patterns of a product are those of the places at the start, if these turn out as good.
    assert again.elbo == pytest.approx(learned.elbo, abs=1e-6 if q == "joint" else 0.05)
    if q == "joint" and likelihood == "gaussian":
        assert learned.elbo == pytest.approx(sparse_bound(found), rel=1e-9)
    still = sg.condition(learned.model, *data)
    np.testing.assert_array_equal(still.inducing_places, found)
    assert repr(still.model) == repr(learned.model)
    assert "Learned(3)" in repr(learned.model)
    learned.save(tmp_path / "field")
    loaded = sg.load(tmp_path / "field")
    np.testing.assert_array_equal(loaded.inducing_places, found)
    np.testing.assert_array_equal(loaded.map([1.5], Z).mean, learned.map([1.5], Z).mean)
    assert np.array_equal(to_vector(loaded.model), to_vector(learned.model))
    assert len(to_vector(learned.model)) == 6


def test_hyperparameters_and_places_are_learned_together():
    """From places that were given; also with Adam, and once more from those found."""
    free = sg.SpaceTimeGP(sg.spatial.Matern32(), "matern32", places=Z)
    data = (TIMES, SITES), Y["gaussian"]
    moving = sg.SpaceTimeGP(sg.spatial.Matern32(), "matern32", places=sg.Learned(Z))
    np.testing.assert_array_equal(sg.condition(moving, *data).inducing_places, Z)
    learned = sg.fit(moving, *data)
    assert learned.elbo > sg.fit(free, *data).elbo + 0.1
    again = sg.fit(learned.model, *data)  # from where they are
    np.testing.assert_allclose(again.inducing_places, learned.inducing_places, atol=0.01)
    adam = sg.fit(moving, *data, optimiser="adam", max_steps=300)
    assert adam.elbo == pytest.approx(learned.elbo, abs=0.1)


def test_on_the_earth_places_go_around_it_and_stay_between_the_poles():
    where = np.array([[0.0, 0], [170, 80], [-175, 75], [-165, -20], [180, 0], [150, 85]])
    y = np.sin(TIMES)[:, None] * np.cos(np.deg2rad(where[:, 0])) + where[:, 1] / 40
    field = eqx.tree_at(
        lambda m: m.space,
        model(sg.Learned([[350.0, 0.0], [178.0, 30.0], [-170.0, 88.0]])),
        sg.spatial.Matern32(lengthscale=sg.fixed(5000.0), metric="chordal"),
    )
    learned = sg.fit(field, (TIMES, where), y)
    assert learned.elbo > sg.condition(field, (TIMES, where), y).elbo + 1
    found = learned.inducing_places
    assert np.all(np.abs(found[:, 1]) <= 90)
    assert np.all(np.abs(found[:, 0] - 2.5) <= 180)  # in the turn of the data
    assert sg.condition(learned.model, (TIMES, where), y).elbo == pytest.approx(learned.elbo)


def test_distances_have_a_derivative_on_the_other_side_of_the_earth():
    here, there = np.array([[0.0, 0.0]]), np.array([[180.0, 0.0]])

    def apart(place):
        return sg.spatial.distances(place, here, "great-circle")[0, 0]

    assert float(apart(there)) == pytest.approx(np.pi * sg.spatial.EARTH, rel=1e-12)
    assert np.all(np.isfinite(jax.grad(apart)(there)))


def test_fields_that_one_likelihood_reads_learn_their_places():
    part = sg.SpaceTimeGP(sg.spatial.Matern32(), "matern32", places=sg.Learned(Z[:2]))
    stack = sg.StackedGP(part, sg.likelihoods.HurdlePoisson())
    posterior = sg.fit(stack, (TIMES, SITES), Y["poisson"], max_steps=2)
    assert not np.array_equal(posterior.parts[0].inducing_places, Z[:2])


def test_a_long_lengthscale_over_space_is_told_by_the_extent_of_the_places():
    """Not by the time that passes, which is longer here."""
    task = objective("gaussian", "joint").task
    assert np.ptp(SITES, axis=0).max() < 3 < 3.5 < np.ptp(TIMES)
    for length, said in [(2e3, 0), (3.5e3, 1)]:
        far = sg.SpaceTimeGP(sg.spatial.Matern32(lengthscale=length), "matern32(2)", places=Z)
        assert len(remarks_on(far, task, np.zeros(len(to_vector(far)), int))) == said


def test_misuse_is_named():
    with pytest.raises(ValueError, match="a number of at least 2"):
        model(sg.Learned(0.9))
    with pytest.raises(ValueError, match="have 2 coordinates, the places of the data 1"):
        sg.fit(model(sg.Learned(Z)), (TIMES, SITES[:, :1]), Y["gaussian"])
