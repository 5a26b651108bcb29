"""Learned inducing locations: the gradient is right, the bound rises, the order stays."""

import numpy as np
import pytest

import stategp as sg
from stategp._data import observe
from stategp._inference import Located, as_gaps
from stategp.parameters import to_vector

k = sg.kernels
RNG = np.random.default_rng(2)
X = np.sort(RNG.uniform(0, 10, 50))
F = np.where(X < 7, 0.1 * X, np.sin(5 * X))
Z = np.array([-0.5, 0.8, 2.0, 3.7, 5.1, 7.2, 8.0, 9.9])
MODELS = {
    "gaussian": (
        sg.GP(k.Matern32(lengthscale=0.8), sg.likelihoods.Gaussian(variance=0.02)),
        F + 0.1 * RNG.standard_normal(50),
    ),
    "poisson": (
        sg.GP(k.Matern52(lengthscale=0.8) + k.Constant(), sg.likelihoods.Poisson()),
        RNG.poisson(np.exp(1 + F)).astype(float),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_value_and_gradient(name):
    model, y = MODELS[name]
    data = observe(X, y, model.likelihood)
    where = Z - float(data.origin)
    objective = Located(model, data, where, 12)  # filled up
    vector, gaps = np.asarray(to_vector(model)), as_gaps(where, objective.unit)
    np.testing.assert_allclose(objective.locations(gaps), where, rtol=1e-13, atol=1e-13)
    value, slope, along = objective(vector, gaps)
    assert value == pytest.approx(sg.condition(model, X, y, inducing=Z).elbo, abs=1e-7)
    for way in (*np.eye(len(gaps)), RNG.standard_normal(len(gaps))):
        ends = [objective(vector, gaps + side * 1e-5 * way)[0] for side in (-1, 1)]
        np.testing.assert_allclose((ends[1] - ends[0]) / 2e-5, along @ way, rtol=1e-5, atol=1e-5)
    way = RNG.standard_normal(len(vector))
    ends = [objective(vector + side * 1e-5 * way, gaps)[0] for side in (-1, 1)]
    np.testing.assert_allclose((ends[1] - ends[0]) / 2e-5, slope @ way, rtol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_learned_locations_raise_the_bound_and_keep_their_order(name):
    model, y = MODELS[name]
    grid = sg.condition(model, X, y, inducing=Z)
    learned = sg.condition(model, X, y, inducing=sg.Learned(Z), tolerance=1e-4)
    assert learned.elbo > grid.elbo + 5
    found = np.asarray(learned.inducing)
    assert len(found) == len(Z)
    assert np.all(np.diff(found) > 0)
    # It is the optimum with these locations, and no better than the exact posterior.
    again = sg.condition(model, X, y, inducing=found)
    assert learned.elbo == pytest.approx(again.elbo, abs=1e-6)
    assert learned.elbo < sg.condition(model, X, y, inducing="data").elbo
    assert to_vector(learned.model) == pytest.approx(to_vector(model))


def test_locations_and_hyperparameters_are_learned_together():
    model, y = sg.GP(k.Matern32()), MODELS["gaussian"][1]
    both = sg.fit(model, X, y, inducing=sg.Learned(8), tolerance=1e-4)
    assert both.elbo > sg.fit(model, X, y, inducing=8, tolerance=1e-4).elbo + 0.02
    assert both.fit_result.converged


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sg.Learned(1), "at least 2 locations"),
        (lambda: sg.Learned("data"), "a number of at least 2"),
        (lambda: sg.Learned(True), "a number of at least 2"),
        (lambda: sg.Learned([3.0, 1.0]), "strictly increasing"),
    ],
)
def test_misuse_is_named(make, words):
    model, y = MODELS["gaussian"]
    with pytest.raises(ValueError, match=words):
        sg.condition(model, X, y, inducing=make())


def test_other_methods_are_refused():
    model, y = MODELS["poisson"]
    with pytest.raises(ValueError, match="learned with method='natural'"):
        sg.condition(model, X, y, inducing=sg.Learned(8), method="laplace")
    with pytest.raises(ValueError, match="two distinct inputs"):
        sg.condition(model, [1.0, 1.0], [1.0, 2.0], inducing=sg.Learned(8))
