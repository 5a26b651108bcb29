"""Answers found in turns: several functions of several inputs; fields, site by site."""

import dataclasses

import numpy as np
import pytest

import stategp as sg
from stategp.likelihoods import HurdlePoisson, Poisson, Softmax
from stategp.parameters import map_parameters

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 10, 16))
Y = np.floor(X / 3.4)
KERNEL = sg.kernels.Matern32(variance=2.0, lengthscale=2.0)
ADDITIVE = sg.AdditiveGP([KERNEL])


@pytest.fixture(scope="module")
def series():
    """Functions of one input, by the natural gradients of chains."""
    return sg.condition(sg.GP(KERNEL, Softmax(classes=3)), X, Y, inducing="data")


@pytest.mark.parametrize("kind", ["additive", "field"])
def test_with_one_input_it_is_a_gp_of_several_functions(kind, series):
    part, x = ADDITIVE, X[:, None]
    if kind == "field":
        part = sg.SpaceTimeGP(sg.spatial.Matern32(), KERNEL, places=[[0.0]])
        x = (X, np.zeros((16, 1)))
    posterior = sg.condition(
        sg.StackedGP(part, Softmax(classes=3)), x, Y, inducing="data", tolerance=1e-12
    )
    assert posterior.fit_result.converged
    np.testing.assert_allclose(posterior.elbo, series.elbo, rtol=1e-7)
    for found, known in zip(posterior.predict_f(x), series.predict_f(X), strict=True):
        np.testing.assert_allclose(found, known, atol=1e-4)
    np.testing.assert_allclose(
        posterior.predict_probabilities(x), series.predict_probabilities(X), atol=1e-4
    )


def test_missing_rows_weights_and_files(tmp_path):
    """A row of weight two is two rows; one that is missing is none."""
    model = sg.StackedGP(ADDITIVE, HurdlePoisson())
    x, y = np.append(X, [3.0, 4.0])[:, None], np.append(Y, [np.nan, 2.0])
    weights = np.append(np.ones(17), 2.0)
    once = sg.condition(model, x, y, weights=weights, inducing="data", tolerance=1e-10)
    twice = sg.condition(
        model,
        np.append(X, [4.0, 4.0])[:, None],
        np.append(Y, [2.0, 2.0]),
        inducing="data",
        tolerance=1e-10,
    )
    np.testing.assert_allclose(once.elbo, twice.elbo, rtol=1e-6)
    once.save(tmp_path / "stack")
    back = sg.load(tmp_path / "stack")
    np.testing.assert_array_equal(back.predict_y(x)[0], once.predict_y(x)[0])
    assert back.sample_y(0, x, 2).shape == (2, 18)
    with pytest.raises(ValueError, match="those of each of its functions"):
        back.plot()


def test_what_it_cannot_be_is_said():
    with pytest.raises(ValueError, match="Poisson reads one function"):
        sg.StackedGP(ADDITIVE, Poisson())
    with pytest.raises(ValueError, match="reads 3 functions, got 2 parts"):
        sg.StackedGP([ADDITIVE] * 2, Softmax(classes=3))
    with pytest.raises(ValueError, match=r"an sg\.AdditiveGP or an sg\.SpaceTimeGP, got GP"):
        sg.StackedGP(sg.GP(KERNEL), Softmax(classes=3))
    with pytest.raises(ValueError, match="the likelihood belongs to the stack"):
        sg.StackedGP(sg.AdditiveGP([KERNEL], "poisson"), Softmax(classes=3))
    model = sg.StackedGP(ADDITIVE, Softmax(classes=3))
    with pytest.raises(ValueError, match=r"y must .* but y\[2\] is 7"):
        sg.condition(model, X[:3, None], [0.0, 1.0, 7.0])
    with pytest.raises(ValueError, match=r"batch_size is not for an sg\.StackedGP"):
        sg.condition(model, X[:, None], Y, batch_size=4)


@pytest.mark.parametrize(
    ("objective", "curvature"),
    [
        ("mode", "exact"),
        ("ep", "exact"),
        ("linearised", "gauss_newton"),
        ("variational", "riemann"),
    ],
)
def test_newton_steps_of_a_field_with_one_place_are_those_of_a_series(objective, curvature):
    counts, method = np.array([1.0, 3, 5, 3, 2, 0, 1, 0]), sg.BayesNewton(objective, curvature)
    times, space = np.arange(8) * 0.7, sg.spatial.Matern32()
    series = sg.condition(sg.GP(KERNEL, "poisson", 0.3), times, counts, method=method)
    model = sg.SpaceTimeGP(space, KERNEL, "poisson", places=[[0.0]], mean=0.3)
    field = sg.condition(model, (times, [[0.0]]), counts[:, None], method=method, inducing="data")
    np.testing.assert_allclose(field.elbo, series.elbo, rtol=1e-7)
    at = (times, np.zeros((8, 1)))
    for found, known in zip(field.predict_y(at), series.predict_y(times), strict=True):
        np.testing.assert_allclose(found, known, rtol=1e-6)


FIELD = sg.SpaceTimeGP(sg.spatial.Matern32(), KERNEL, "poisson", places=[[0.0]], mean=0.3)
EP = sg.BayesNewton("ep", "exact")


@pytest.mark.parametrize(
    ("do", "given", "message"),
    [
        (sg.condition, {"method": sg.BayesNewton("mode", "quasi_newton")}, "is for an sg"),
        (sg.condition, {"method": EP, "weights": 2.0}, "'ep' does not take weights"),
        (sg.condition, {"method": EP, "batch_size": 4}, r"takes all data .*; got minibatches"),
        (sg.condition, {"method": EP, "optimiser": "adam"}, "optimiser='lbfgs'; got all data with"),
        (sg.condition, {"method": EP, "step_size": 0.1}, "step_size is the step size of"),
        (sg.condition, {"method": EP, "max_steps": 0}, "max_steps must be"),
        (
            sg.condition,
            {"method": "laplace"},
            r'=sg\.BayesNewton\("mode", "exact"\) does that',
        ),
        (sg.condition, {"method": "unscented"}, r'sg\.BayesNewton\("linearised", "gauss_newton"\)'),
        (sg.condition, {"method": sg.PowerEP(0.5)}, "use one of 'bayes_newton', 'natural'"),
        (sg.fit, {"method": "bayes_newton"}, "finds f for given hyperparameters"),
        (sg.fit, {"method": EP, "starts": 2}, "starts needs"),
    ],
)
def test_what_newton_steps_of_a_field_cannot_do(do, given, message):
    with pytest.raises(ValueError, match=message):
        do(FIELD, (X, [[0.0]]), Y[:, None], **given)


def test_newton_steps_of_a_field_have_no_checkpoint(tmp_path):
    given = map_parameters(lambda one: dataclasses.replace(one, learned=False), FIELD)
    with pytest.raises(ValueError, match="checkpoint is for searches for hyperparameters"):
        sg.fit(given, (X, [[0.0]]), Y[:, None], method=EP, checkpoint=tmp_path / "file")


def test_one_precision_for_all_sites_of_a_field_says_what_it_costs():
    counts, given = np.array([[1.0, 3, np.nan, 3, 2, 0]]).T, (np.arange(6) * 0.7, [[0.0]])
    steady = sg.condition(FIELD, given, counts, method=sg.BayesNewton("mode", "exact", True))
    lost = sg.condition(FIELD, given, counts).elbo - steady.elbo
    assert steady.fit_result.remarks == (
        "the objective 'mode' with the curvature 'exact' and one precision for all sites costs "
        f"{lost:.2g} nats of the bound",
    )


def test_newton_steps_of_a_field_with_gaussian_noise_are_exact():
    model = sg.SpaceTimeGP(sg.spatial.Matern32(), KERNEL, places=[[0.0]])
    model = map_parameters(lambda one: dataclasses.replace(one, learned=False), model)
    given = (X, [[0.0]]), Y[:, None]
    found, known = (sg.condition(model, *given, method=m) for m in (EP, "natural"))
    assert found.elbo == known.elbo
