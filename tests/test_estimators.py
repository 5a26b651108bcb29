"""The estimators are scikit-learn's in every respect, and thin over `fit` and its posterior."""

import importlib
import os
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import stategp as sg
from stategp._estimators import GPClassifier, GPRegressor

k = sg.kernels

# `make estimator-checks` runs all checks on the estimators as they are, which takes minutes, most
# of them spent compiling. Otherwise a few steps of the regressor do for what the checks look at,
# and those that fit tables of many more shapes are left out.
ALL = "STATEGP_ALL_CHECKS" in os.environ
CHECKED = [GPRegressor(), GPClassifier()] if ALL else [GPRegressor(max_iter=5)]
SLOW = (
    "check_classifiers_train",
    "check_regressors_train",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weights_list",
    "check_sample_weights_pandas_series",
    "check_dtype_object",
    "check_estimators_dtypes",
    "check_fit_score_takes_y",
    "check_non_transformer_estimators_n_iter",
    "check_positive_only_tag_during_fit",
    "check_n_features_in_after_fitting",
    "check_fit_idempotent",
    "check_estimators_overwrite_params",
    "check_regressor_data_not_an_array",
    "check_regressors_int",
    "check_dont_overwrite_parameters",
    "check_estimators_fit_returns_self",
    "check_fit_check_is_fitted",
    "check_regressors_no_decision_function",
)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(CHECKED)
def test_scikit_learn(estimator, check):
    name = getattr(check, "func", check).__name__
    if name in SLOW and not ALL:
        pytest.skip("slow: make estimator-checks")
    check(estimator)


@pytest.fixture(scope="module")
def series():
    random = np.random.default_rng(0)
    x = random.uniform(0, 10, 40)
    return x[:, None], 5 + np.sin(x) + 0.2 * random.standard_normal(40)


@pytest.fixture(scope="module")
def fitted(series):
    return GPRegressor(k.Matern52()).fit(*series)


@pytest.fixture(scope="module")
def direct(series):
    """The same by `sg.fit`."""
    X, y = series
    return sg.fit(sg.GP(k.Matern52(), mean=sg.means.Constant()), X[:, 0], y, tolerance=1e-4)


NEW = np.array([[3.0], [-1.0], [12.0]])


def test_one_column_is_a_plain_fit(fitted, direct):
    mean, std = fitted.predict(NEW, return_std=True)
    expected, variance = direct.predict_f(NEW[:, 0])
    np.testing.assert_allclose(mean, expected, rtol=1e-9)
    np.testing.assert_allclose(std, np.sqrt(variance), rtol=1e-9)
    np.testing.assert_allclose(fitted.elbo_, direct.elbo)
    assert repr(fitted.kernel_) == repr(direct.model.kernel)
    assert fitted.n_iter_ == direct.fit_result.steps


def test_the_standard_deviation_of_an_observation(fitted, direct):
    _, std = fitted.predict(NEW, return_std=True, include_noise=True)
    np.testing.assert_allclose(std, np.sqrt(direct.predict_y(NEW[:, 0])[1]), rtol=1e-9)
    assert np.all(std > fitted.predict(NEW, return_std=True)[1])


@pytest.mark.parametrize("noise", [False, True])
def test_samples_have_the_moments_of_the_prediction(fitted, noise):
    draws = fitted.sample_y(NEW, n_samples=4000, random_state=1, include_noise=noise)
    mean, std = fitted.predict(NEW, return_std=True, include_noise=noise)
    assert draws.shape == (3, 4000)
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=5 * std.max() / np.sqrt(4000))
    np.testing.assert_allclose(draws.std(axis=1), std, rtol=0.08)


def test_samples_repeat_with_their_seed(fitted):
    first, again = (fitted.sample_y(NEW, 2, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, fitted.sample_y(NEW, 2, random_state=np.random.RandomState(4)))


def test_counts(series):
    """The rate exp(f) is lognormal, whose moments are known."""
    X, _ = series
    y = np.random.default_rng(1).poisson(np.exp(1 + np.sin(X[:, 0])))
    model = GPRegressor(likelihood="poisson").fit(X, y)
    mean, std = model.predict(NEW, return_std=True)
    m, v = (np.asarray(a) for a in model.posterior_.predict_f(NEW[:, 0]))
    np.testing.assert_allclose(mean, np.exp(m + v / 2), rtol=1e-6)
    np.testing.assert_allclose(std, mean * np.sqrt(np.expm1(v)), rtol=1e-5)
    observed = model.predict(NEW, return_std=True, include_noise=True)[1]
    np.testing.assert_allclose(observed**2, std**2 + mean, rtol=1e-5)


def test_a_pipeline_and_the_units_of_x(series, fitted):
    X, y = series
    scaled = make_pipeline(StandardScaler(), GPRegressor(k.Matern52())).fit(X, y)
    np.testing.assert_allclose(scaled.predict(NEW), fitted.predict(NEW), rtol=1e-3)
    assert scaled.score(X, y) > 0.8


def test_a_search_over_kernels_and_inducing_points(series):
    X, y = series
    kernels = [k.Matern12(lengthscale=sg.fixed(1e-3)), k.Matern52()]
    grid = [{"kernel": kernels}, {"kernel": [k.Matern52()], "inducing": [4, "data"]}]
    search = GridSearchCV(GPRegressor(inducing="data"), grid, cv=2).fit(X, y)
    assert isinstance(search.best_params_["kernel"], k.Matern52)
    rough, at_data = search.cv_results_["mean_test_score"][2:]
    assert rough < at_data
    assert "Matern52" in str(search.cv_results_["param_kernel"][1])


def test_a_clone_has_the_same_kernel():
    kernel = k.Matern32(lengthscale=sg.fixed(2.0)) + k.Periodic(period=1.0)
    copy = clone(GPRegressor({"a": kernel, "b": k.Matern12()}))
    assert repr(copy.kernel["a"]) == repr(kernel)
    assert copy.get_params()["kernel"]["a"] is not kernel
    assert "Matern32" in repr(copy)


def test_kernels_as_text(series, fitted):
    X, y = series
    model = GPRegressor("matern52").fit(X, y)
    np.testing.assert_allclose(model.elbo_, fitted.elbo_, rtol=1e-12)
    assert [type(v).__name__ for v in sg.AdditiveGP(["rbf", "matern12(3)"]).kernels] == [
        "SquaredExponential",
        "Matern12",
    ]
    assert isinstance(sg.Layer("matern32").kernel, k.Matern32)


def test_hyperparameters_by_name():
    kernel = k.Matern32(lengthscale=sg.fixed(2.0)) + k.Periodic(period=3.0) * k.Matern12()
    model = clone(GPRegressor(kernel))
    names = {name for name in model.get_params() if name.startswith("kernel__")}
    assert {"kernel__matern32__lengthscale", "kernel__product__periodic__period"} <= names
    assert not any("__" in name for name in model.get_params(deep=False))
    model.set_params(kernel__matern32__lengthscale=5.0, kernel__product__matern12__variance=0.5)
    assert repr(model.kernel) == repr(
        k.Matern32(lengthscale=sg.fixed(5.0)) + k.Periodic(period=3.0) * k.Matern12(variance=0.5)
    )
    assert float(kernel.kernels[0].lengthscale) == 2.0  # the one given never changes
    rough = GPRegressor(k.Periodic()).set_params(kernel__lengthscale=0.2).kernel
    assert rough.order == k.Periodic(lengthscale=0.2).order
    learned = GPRegressor("matern52").set_params(kernel__lengthscale=sg.fixed("2d"), tol=1e-3)
    assert repr(learned.kernel) == "Matern52(variance=1, lengthscale=fixed(2))"
    assert learned.tol == 1e-3
    columns = GPRegressor({"a": "matern12", "a__b": k.Matern32()})
    columns.set_params(kernel__a__b__lengthscale=4.0, kernel__a__variance=3.0)
    assert [float(v) for v in columns.get_params()["kernel__a__b__lengthscale"].value[None]] == [4]
    assert float(columns.kernel["a"].variance) == 3.0
    listed = GPRegressor(["matern12", "matern32"]).set_params(kernel__1__lengthscale=4.0)
    assert repr(listed.kernel[1]) == "Matern32(variance=1, lengthscale=4)"


@pytest.mark.parametrize(
    ("kernel", "name", "message"),
    [
        (None, "kernel__lengthscale", "no kernel is given.* such as kernel='matern52'"),
        ("matern52", "kernel__period", "has no hyperparameter 'period'; it has variance, length"),
        ([k.Matern32()], "kernel__lengthscale", "there are 0__variance, 0__lengthscale"),
        ("matern52", "kernel__lengthscale", "lengthscale must be positive, got -1"),
    ],
)
def test_hyperparameters_by_a_wrong_name_or_value(kernel, name, message):
    with pytest.raises(ValueError, match=message):
        GPRegressor(kernel).set_params(**{name: -1.0})


def test_a_search_over_a_lengthscale(series):
    X, y = series
    kernel = k.Matern52(variance=1.0, lengthscale=sg.fixed(1.0))
    grid = {"kernel__lengthscale": [1e-3, 2.0]}
    search = GridSearchCV(GPRegressor(kernel, inducing="data"), grid, cv=2).fit(X, y)
    assert search.best_params_ == {"kernel__lengthscale": 2.0}
    assert repr(search.best_estimator_.kernel_.lengthscale) == "fixed(2)"


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"hour": random.uniform(0, 24, 60), "price": random.normal(size=60)})
    return frame, np.sin(frame["hour"] / 4) + frame["price"] + 0.1 * random.standard_normal(60)


def test_several_columns_are_an_additive_model(table):
    frame, y = table
    model = GPRegressor({"price": k.Matern52(), "hour": k.Matern52()}).fit(frame, y)
    assert list(model.kernel_) == list(model.feature_names_in_) == ["hour", "price"]
    effect, _ = model.posterior_.components({"price": [-1.0, 1.0]})["price"]
    np.testing.assert_allclose(np.diff(effect), 2.0, atol=0.3)
    assert model.score(frame, y) > 0.9


def test_two_classes(series):
    X, y = series
    labels = np.where(y > 5, "high", "low")
    model = GPClassifier().fit(X, labels)
    assert model.classes_.tolist() == ["high", "low"]
    expected = np.asarray(model.posterior_.predict_y(NEW[:, 0])[0])
    np.testing.assert_allclose(model.predict_proba(NEW)[:, 1], expected)
    assert model.score(X, labels) > 0.85


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("multi_class", ["softmax", "one_vs_rest"])
def test_three_classes(multi_class):
    X, y = load_iris(return_X_y=True)
    X, names = X[::3, [2]], np.array(["setosa", "versicolor", "virginica"])[y][::3]  # petals
    model = GPClassifier(max_iter=3, multi_class=multi_class).fit(X, names)
    assert model.score(X, names) > 0.93
    assert len(model.kernel_) == 3
    together = multi_class == "softmax"
    assert np.ndim(model.elbo_) == (0 if together else 1)
    probabilities = model.predict_proba(X)
    assert probabilities.shape == (50, 3)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    if together:
        expected = model.posterior_.predict_probabilities(X[:, 0])
        np.testing.assert_array_equal(probabilities, expected)
        assert model.posterior_.model.likelihood.classes == 3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_three_classes_of_two_columns_learned_together():
    X, y = load_iris(return_X_y=True)
    X, y = X[::3, 2:], y[::3]
    model = GPClassifier(max_iter=1, inducing=8).fit(X, y)
    assert model.score(X, y) > 0.93
    assert [list(kernels) for kernels in model.kernel_] == [["x0", "x1"]] * 3
    expected = model.posterior_.predict_probabilities(X)
    np.testing.assert_array_equal(model.predict_proba(X), expected)


def test_a_short_search_warns(series):
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        GPRegressor(max_iter=1).fit(*series)


TWO, Y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 1, 0, 1])


@pytest.mark.parametrize(
    ("model", "X", "message"),
    [
        (GPRegressor([k.Matern32()] * 3), TWO, "kernel lists 3 kernels, but X has 2 columns"),
        (GPRegressor([k.Matern32()] * 2), TWO[:, :1], "lists 2 kernels, but X has one column"),
        (GPRegressor({"x0": k.Matern32(), "hour": k.Matern32()}), TWO, "names the column 'hour'"),
        (GPRegressor({"x0": k.Matern32()}), TWO, "kernel has no entry for the column 'x1'"),
        (GPRegressor(3), TWO, "kernel must be one of sg.kernels, .* got 3"),
        (GPRegressor("matern"), TWO, "say how smooth it is: matern12.* in matern"),
        (GPRegressor([k.Matern32(), 3]), TWO, "the kernel of 'x1' must be one of sg.kernels"),
        (GPRegressor(likelihood="normall"), TWO, "likelihood"),
        (GPRegressor(n_restarts_optimizer=2), TWO, "n_restarts_optimizer must be 0"),
        (GPRegressor(max_iter=0), TWO, "max_iter must be a whole number of at least 1, got 0"),
        (GPRegressor(tol=-1), TWO, "tol must be a positive number, got -1"),
        (GPRegressor(inducing="many"), TWO[:, :1], "inducing must be"),
        (GPClassifier(likelihood="poisson"), TWO, "likelihood of a GPClassifier must be"),
        (GPClassifier(multi_class="ovo"), TWO, "multi_class must be one of 'auto', .* got 'ovo'"),
        (
            GPClassifier(multi_class="softmax", likelihood=sg.likelihoods.Bernoulli(link="probit")),
            TWO,
            "needs the link 'logit', but the link is 'probit'",
        ),
    ],
)
def test_wrong_arguments(model, X, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 2], "sample_weight must have one number for each of 6 rows"),
        (-np.ones(6), "sample_weight must be finite and zero or more"),
        (np.zeros(6), "every sample_weight is zero"),
    ],
)
def test_wrong_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        GPRegressor().fit(TWO, Y, sample_weight=weights)


def test_one_class():
    with pytest.raises(ValueError, match="y has one class only: 'a'"):
        GPClassifier().fit(TWO, ["a"] * 6)


def test_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.delitem(sys.modules, "stategp._estimators")
    with pytest.raises(ImportError, match=r'need scikit-learn: pip install "stategp\[sklearn\]"'):
        importlib.import_module("stategp._estimators")
