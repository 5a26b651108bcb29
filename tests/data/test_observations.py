"""Data at the door: what is refused, with which words, and what is accepted."""

import numpy as np
import pytest

import stategp as sg
from stategp import kernels as k
from stategp._data import observe, place_inducing, relative_inputs, traced_inputs

X = np.arange(6.0)
Y = np.sin(X)
MODEL = sg.GP(k.Matern32(lengthscale=2.0), sg.likelihoods.Gaussian(variance=0.1))
NAN, INF = float("nan"), float("inf")

REFUSED = {
    "unequal lengths": ((X, Y[:5]), {}, "equal lengths, got 6 and 5"),
    "empty": (([], []), {}, "at least one observation"),
    "all missing": ((X, np.full(6, NAN)), {}, "every y is NaN"),
    "nan in x": (([0, 1, NAN, 3, 4, 5], Y), {}, r"x must be finite: x\[2\] is nan"),
    "infinity in x": (([0, 1, 2, INF, 4, -INF], Y), {}, r"x\[3\] is inf \(and 1 more\)"),
    "infinity in y": ((X, [0, 1, 2, INF, 4, 5]), {}, r"y must be finite .*: y\[3\] is inf"),
    "x in two dimensions": ((X[:, None], Y), {}, r"shape \(6, 1\); pass x\[:, 0\]"),
    "y in two dimensions": ((X, np.zeros((6, 2))), {}, r"y must be one-dimensional, .*MultiOutput"),
    "a scalar": ((1.0, 2.0), {}, r"x must be one-dimensional, got shape \(\)"),
    "strings in x": ((list("abcdef"), Y), {}, "x must hold numbers, got .* such as 'a'"),
    "strings in y": ((X, list("abcdef")), {}, "y must hold numbers"),
    "objects": ((X, [object()] * 6), {}, "y must hold numbers"),
    "complex": ((X, Y + 1j), {}, "y must hold numbers, got complex"),
    "dates": ((np.arange(6).astype("datetime64[D]"), Y), {}, "make days of them"),
    "range too large": (([-1e308, 0, 1, 2, 3, 1e308], Y), {}, "double precision"),
    "y too small": ((X, 1e-300 * Y), {}, "too small .* rescale y"),
    "y too large": ((X, 1e200 * Y), {}, "too large .* rescale y"),
    "unsigned integers": (
        (np.arange(6, dtype=np.uint64) + np.uint64(2**63 - 2), Y),
        {},
        r"x\[2\] is 9223372036854775808; subtract a common origin",
    ),
    "long integers": (([2**64 + i for i in range(6)], Y), {}, r"x\[0\] is 18446744073709551616;"),
    "long and negative integers": (([-1, 2**63, 2, 3, 4, 5], Y), {}, r"x\[1\] is 9223372"),
    "unordered inducing": ((X, Y), {"inducing": [0.0, 3.0, 2.0]}, r"inducing\[1\] = 3.0 and"),
    "repeated inducing": ((X, Y), {"inducing": [0.0, 3.0, 3.0]}, "are repeated"),
    "nan in inducing": ((X, Y), {"inducing": [0.0, NAN]}, r"inducing\[1\] is nan"),
    "no inducing": ((X, Y), {"inducing": []}, "inducing is empty"),
    "zero inducing": ((X, Y), {"inducing": 0}, "inducing must be at least 1, got 0"),
    "inducing by a wrong name": ((X, Y), {"inducing": "points"}, "got 'points'"),
    "inducing true": ((X, Y), {"inducing": True}, "got True"),
    "negative noise": ((X, Y), {"noise_variance": [1, 1, -2, 1, 1, 1]}, r"noise_variance\[2\] is"),
    "noise of wrong length": ((X, Y), {"noise_variance": [1.0, 2.0]}, "got 2 for 6 observations"),
    "infinite noise": ((X, Y), {"noise_variance": INF}, "noise_variance must be finite"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("function", [sg.condition, sg.fit])
def test_bad_data_is_refused_by_name(case, function):
    (x, y), options, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        function(MODEL, x, y, **options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: k.Matern32(variance=-1.0), "variance must be positive, got -1"),
        (lambda: k.Matern32(lengthscale=0.0), "lengthscale must be positive, got 0"),
        (lambda: k.Matern32(lengthscale="long"), "lengthscale must be a number, got 'long'"),
        (lambda: sg.likelihoods.Gaussian(variance=-0.1), "variance must be positive"),
        (lambda: sg.likelihoods.Gaussian(variance=sg.fixed(-0.1)), "variance must be positive"),
        (lambda: sg.GP(sg.GP), "kernel must be one of sg.kernels"),
        (lambda: sg.GP("matern33"), "unknown kernel 'matern33'"),
        (lambda: sg.GP(k.Matern32(), likelihood="cauchy"), "no likelihood is called 'cauchy'"),
        (lambda: sg.GP(k.Matern32(), mean="zero"), "mean must be a mean function, a number"),
        (
            lambda: sg.condition(k.Matern32(), X, Y),
            "model must be an sg.GP, an sg.AdditiveGP, .* or an sg.DeepGP, got Matern32",
        ),
        (lambda: sg.fit(MODEL, X, Y, starts=0), "starts must be a whole number of at least 1"),
        (
            lambda: sg.condition(
                sg.GP(k.Matern32(), sg.likelihoods.Gaussian(variance=sg.fixed(0.0))), X, Y
            ),
            "observations without noise",
        ),
    ],
)
def test_bad_models_are_refused_by_name(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_bad_new_points_are_refused_by_name():
    posterior = sg.condition(MODEL, X, Y)
    with pytest.raises(ValueError, match=r"x_new must be finite: x_new\[1\] is nan"):
        posterior.predict_f([0.0, NAN])
    with pytest.raises(ValueError, match="x_new must be one-dimensional"):
        posterior.predict_f(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="y_new must have one value per point, got 2 for 3"):
        posterior.log_density([0.0, 1.0, 2.0], [1.0, 2.0])


def test_lists_integers_floats_of_any_precision_and_none_are_accepted():
    expected = sg.condition(MODEL, X, np.round(4 * Y) / 4)
    for x, y in [
        (list(range(6)), list(np.round(4 * Y) / 4)),
        (X.astype(np.float32), (np.round(4 * Y) / 4).astype(np.float32)),
        (X.astype(np.uint8), (np.round(4 * Y) / 4).astype(np.float16)),
        (X.astype(np.int16), (np.round(4 * Y) / 4).astype(object)),
    ]:
        assert sg.condition(MODEL, x, y).elbo == expected.elbo
    with_none = sg.condition(MODEL, X, [0.0, None, 1.0, 0.5, None, 0.25])
    assert len(with_none.data) == 4


def test_one_observation():
    posterior = sg.condition(MODEL, [3.0], [1.0])
    mean, variance = posterior.predict_f([3.0, 3.0 + 1e-9, -50.0])
    np.testing.assert_allclose(mean[:2], 1 / 1.1, rtol=1e-6)
    np.testing.assert_allclose(variance[:2], 0.1 / 1.1, rtol=1e-6)
    np.testing.assert_allclose([mean[2], variance[2]], [0.0, 1.0], atol=1e-10)


def test_all_observations_at_one_input():
    posterior = sg.condition(MODEL, np.full(6, 2.0), Y)
    np.testing.assert_allclose(posterior.predict_f([2.0])[0], Y.sum() / (6 + 0.1), rtol=1e-10)


def test_nanosecond_timestamps_near_ten_to_the_eighteen():
    """Differences of a few nanoseconds survive, which float64 timestamps (spacing 128) lose."""
    start = 1_700_000_000_000_000_000
    steps = np.array([0, 3, 7, 8, 20, 21])
    kernel = k.Matern32(lengthscale=5.0)
    model = sg.GP(kernel, MODEL.likelihood)
    huge = sg.condition(model, start + steps, Y)
    small = sg.condition(model, steps, Y)
    assert huge.elbo == small.elbo
    mean_huge, _ = huge.predict_f(start + np.array([-4, 5, 40]))
    mean_small, _ = small.predict_f([-4, 5, 40])
    np.testing.assert_array_equal(mean_huge, mean_small)
    np.testing.assert_array_equal(huge.inducing, start + steps)


def test_integers_further_apart_than_64_bits_can_say():
    x = np.array([-(2**62) - 5, 0, 7, 2**62, 2**63 - 1])
    data = observe(x, np.zeros(5))
    np.testing.assert_array_equal(data.x, [float(int(v) - int(x[0])) for v in x])
    at = np.array([-(2**63), 2**63 - 1])
    np.testing.assert_array_equal(
        relative_inputs("x_new", at, int(x[0])), [float(int(v) - int(x[0])) for v in at]
    )
    np.testing.assert_array_equal(
        traced_inputs("x_new", at, int(x[0])), [float(int(v) - int(x[0])) for v in at]
    )


def test_integers_in_a_column_of_objects_stay_exact():
    x = np.array([10**18 + 3, 10**18 + 1, 10**18], dtype=object)
    np.testing.assert_array_equal(observe(x, np.zeros(3)).x, [0.0, 1.0, 3.0])


@pytest.mark.parametrize(
    ("name", "likelihood"),
    [
        ("y", sg.likelihoods.Gaussian()),
        ("weights", sg.likelihoods.Gaussian()),
        ("noise_variance", sg.likelihoods.Gaussian()),
        ("exposure", sg.likelihoods.Poisson()),
        ("trials", sg.likelihoods.Binomial()),
    ],
)
@pytest.mark.parametrize("wrap", [np.asarray, memoryview])
def test_the_users_arrays_may_change_afterwards(name, likelihood, wrap):
    arrays = {"y": np.ones(6), "weights": np.full(6, 2.0)}
    if likelihood.extra:
        arrays[likelihood.extra] = np.full(6, 3.0)
    given = {key: wrap(values) for key, values in arrays.items()}
    extras = {key: given[key] for key in given if key not in ("y", "weights")}
    data = observe(X, given["y"], likelihood, extras=extras, weights=given["weights"])
    before = [np.array(column) for column in (data.x, data.y, data.extra, data.weights)]
    arrays[name][:] = 7.0
    for column, old in zip((data.x, data.y, data.extra, data.weights), before, strict=True):
        np.testing.assert_array_equal(column, old)


def test_what_is_nobody_elses_is_not_copied():
    """Ones and zeros that stand in for what was not given take no room."""
    data = observe(X, Y)
    assert data.weights.strides == data.extra.strides == (0,)


def test_float_inputs_near_ten_to_the_eighteen():
    unit = 2.0**20  # a multiple of the spacing of floats there, so that x itself is exact
    x = 1e18 + unit * X
    model = sg.GP(k.Matern32(lengthscale=2 * unit), MODEL.likelihood)
    np.testing.assert_allclose(
        sg.condition(model, x, Y).elbo, sg.condition(MODEL, X, Y).elbo, rtol=1e-9
    )


def test_near_duplicate_inputs():
    x = np.array([0.0, 1e-13, 1.0, 1.0 + 2e-16, 2.0, 3.0])
    posterior = sg.condition(sg.GP(k.Matern72(lengthscale=1e3), MODEL.likelihood), x, Y)
    assert np.isfinite(posterior.elbo)
    assert np.all(posterior.predict_f(x)[1] > 0)


def test_inducing_points_follow_the_data_and_cover_its_range():
    x = np.concatenate([np.linspace(0, 1, 90), [50.0, 60.0, 100.0], np.zeros(200)])
    data = observe(x, np.zeros_like(x))
    z = place_inducing(10, data)
    assert len(z) == 10
    assert (z[0], z[-1]) == (0.0, 100.0)
    assert np.all(np.diff(z) > 0)
    assert np.sum(z <= 1) >= 8
    assert len(place_inducing(1000, data)) == len(np.unique(x))
    np.testing.assert_array_equal(place_inducing("data", data), np.unique(x))
