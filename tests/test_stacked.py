"""Answers found in turns: several functions of several inputs; fields, site by site."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.gaussian_process.kernels import Matern

import stategp as sg
from stategp._story import maps_of, portray
from stategp.likelihoods import HurdlePoisson, Poisson, Softmax
from stategp.parameters import map_parameters
from stategp.plots import plot_checks
from tests.dense_inference import product_rule, variational_apart

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


IN_TWO = RNG.uniform(0, 3, size=(8, 2))
TIMES, SITES = np.array([0.0, 0.7, 1.1, 2.4]), np.array([[0.0, 0.2], [0.8, 1.0]])
CLASSES = np.array([0.0, 1, 2, 1, 0, 2, 1, 0])


@pytest.mark.parametrize("kind", ["two inputs", "two places"])
def test_it_is_the_dense_variational_posterior(kind):
    """Several inputs, whose effects are independent under q; fields at several places."""

    def covariance(x, lengthscale):
        return 2.0 * Matern(lengthscale, nu=1.5)(np.asarray(x).reshape(len(x), -1))

    if kind == "two inputs":
        x, y = IN_TWO, CLASSES
        part = sg.AdditiveGP([KERNEL, KERNEL])
        effects = [covariance(column, 2.0) for column in IN_TWO.T]
    else:
        x, y = (TIMES, SITES), CLASSES.reshape(4, 2)
        part = sg.SpaceTimeGP(sg.spatial.Matern32(lengthscale=1.5), KERNEL, places=SITES)
        effects = [np.kron(covariance(TIMES, 2.0), covariance(SITES, 1.5) / 2)]

    def log_density(y, f):
        chosen = jnp.take_along_axis(f, y.astype(int)[..., None], axis=-1)[..., 0]
        return chosen - jax.nn.logsumexp(f, axis=-1)

    dense = variational_apart([effects] * 3, product_rule(log_density, CLASSES, 3, order=16))
    found = sg.condition(
        sg.StackedGP(part, Softmax(classes=3)), x, y, inducing="data", tolerance=1e-11
    )
    assert found.elbo == pytest.approx(dense.log_evidence, abs=1e-5)
    rows = x if kind == "two inputs" else (np.repeat(TIMES, 2), np.tile(SITES, (4, 1)))
    mean, variance = found.predict_f(rows)
    np.testing.assert_allclose(mean, dense.mean, atol=1e-3)
    np.testing.assert_allclose(variance, dense.variance, atol=1e-3)


@pytest.fixture(scope="module")
def sky():
    """Three classes at four places."""
    places = np.array([[0.0, 0.0], [0.0, 3.0], [3.0, 0.0], [3.0, 3.0]])
    part = sg.SpaceTimeGP(sg.spatial.Matern32(lengthscale=2.0), KERNEL, places=places[:3])
    y = np.array([[0.0, 1, 2, 2], [0, 1, 2, np.nan], [1, 1, 2, 2]])
    return sg.condition(sg.StackedGP(part, Softmax(classes=3)), (np.arange(3.0), places), y)


def test_maps_and_reports_have_the_probability_of_each_class(sky, tmp_path):
    maps = maps_of(sky, [0.0, 2.0], resolution=4)
    shares = np.stack([layer.values for layer in maps.layers])
    np.testing.assert_allclose(shares.sum(axis=0), 1.0, atol=1e-5)
    there = np.array([[maps.across[1][3], maps.up[1][1]]])
    np.testing.assert_allclose(
        shares[:, 1, 1, 3], sky.predict_probabilities(([2.0], there))[0], rtol=1e-6
    )
    figure = sky.plot(times=[0.0, 2.0], resolution=3)
    assert [axes.get_ylabel() for axes in figure.axes[-3:]] == [
        f"probability of {number}" for number in range(3)
    ]
    sky.report(tmp_path / "sky.html", times=[0.0, 2.0])
    page = (tmp_path / "sky.html").read_text()
    assert "11 observations at 4 places and 3 times" in page
    assert page.count('<canvas data-field="class') == 5  # three maps, two small ones
    assert "function 2 (space): lengthscale" in page
    for wrong, words in [({"of": "f"}, r"parts\[0\]\.plot_maps"), ({"of": "g"}, "'f'")]:
        with pytest.raises(ValueError, match=words):
            maps_of(sky, **wrong)


def test_classes_in_no_order_have_no_mean(series, sky):
    """A GP and fields: their figures show probabilities, and a filter gives them."""
    there = np.array([X[-1] + 1.0])
    shares = series.filter().predict_probabilities(there)
    np.testing.assert_allclose(shares, series.predict_probabilities(there), atol=1e-6)
    for ask in (
        lambda: series.predict_y(there),
        lambda: series.quantiles(there),
        lambda: series.cdf(there, [1.0]),
        lambda: series.crps(there, [1.0]),
        lambda: series.filter().predict_y(there),
        lambda: sky.predict_y(([1.0], [[0.0, 0.0]])),
    ):
        with pytest.raises(ValueError, match=r"have no order.*predict_probabilities\(x_new\)"):
            ask()
    panels = portray(series).panels
    assert [panel.title for panel in panels[1:]] == [f"Function of class {k}" for k in range(3)]
    labels = [mark for mark in panels[0].marks if type(mark).__name__ == "Dots"]
    for number, mark in enumerate(labels):
        np.testing.assert_allclose(mark.x, X[number == Y], rtol=1e-12)
    assert series.plot().axes[0].get_ylabel() == "Probability"
    with pytest.raises(ValueError, match="whose observations have an order"):
        plot_checks(series)


def test_maps_of_counts_that_two_fields_make():
    part = sg.SpaceTimeGP(sg.spatial.Matern32(), KERNEL, places=[[0.0], [1.0]])
    counts = sg.condition(
        sg.StackedGP(part, HurdlePoisson()), (np.arange(3.0), [0.0, 1.0]), np.ones((3, 2))
    )
    maps = maps_of(counts, resolution=3)
    assert [layer.name for layer in maps.layers] == ["mean of y", "standard deviation of y"]
    assert len(maps.dots[0]) == 6
    panels = portray(counts).panels
    assert [type(mark).__name__ for mark in panels[0].marks] == ["Fill", "Line"]


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
