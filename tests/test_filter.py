"""Streams: one observation after the other is the posterior of all of them."""

import dataclasses

import numpy as np
import pytest
from scipy import integrate, stats

import stategp as sg

RANDOM = np.random.default_rng(0)
X = np.sort(RANDOM.uniform(0, 20, 40))
Y = np.sin(X) + 0.3 * RANDOM.standard_normal(40)
KERNEL = sg.kernels.Matern32(variance=1.0, lengthscale=2.0) + sg.kernels.Cosine(
    variance=0.5, period=5.0
)
MODEL = sg.GP(KERNEL, sg.likelihoods.Gaussian(variance=0.1), mean=0.3)
AHEAD = np.append(X[-1], np.linspace(20, 40, 11))


@pytest.fixture(scope="module")
def start():
    return sg.condition(MODEL, X[:20], Y[:20])


@pytest.fixture(scope="module")
def whole():
    return sg.condition(MODEL, X, Y)


def same(one, other, tolerance=1e-8):
    for a, b in zip(one.predict_f(AHEAD), other.predict_f(AHEAD), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


def one_by_one(kept, x, y):
    for when, value in zip(x.tolist(), y.tolist(), strict=True):
        kept = kept.update(when, value)
    return kept


def test_one_by_one_is_the_posterior_of_all(start, whole):
    kept = one_by_one(start.filter(), X[20:], Y[20:])
    assert kept.time == X[-1]
    assert kept.observed == 20
    same(kept, whole)


def test_many_at_once_in_any_order(start, whole):
    order = RANDOM.permutation(20)
    many = start.filter().update(X[20:][order], Y[20:][order])
    same(many, whole)
    assert many.observed == 20


def test_predictions_are_those_of_the_posterior(start, whole):
    kept = start.filter().update(X[20:], Y[20:])
    np.testing.assert_allclose(kept.predict_y(AHEAD)[1], whole.predict_y(AHEAD)[1], atol=1e-8)
    np.testing.assert_allclose(kept.quantiles(AHEAD), whole.quantiles(AHEAD), atol=1e-8)
    density = whole.log_density([22.0], [0.7])[0]
    np.testing.assert_allclose(kept.log_density([22.0], [0.7]), [density], atol=1e-8)
    one = kept.log_density(22.0, 0.7)
    assert isinstance(one, float)
    np.testing.assert_allclose(one, density, atol=1e-8)
    assert np.isnan(kept.log_density([22.0], [np.nan])[0])


def test_densities_of_a_stream_add_up_to_the_evidence():
    kept, total = sg.condition(MODEL, X[:1], Y[:1]).filter(), 0.0
    for when, value in zip(X[1:].tolist(), Y[1:].tolist(), strict=True):
        total += kept.log_density(when, value)
        kept = kept.update(when, value)
    first = stats.norm.logpdf(Y[0], 0.3, np.sqrt(1.5 + 0.1))
    np.testing.assert_allclose(first + total, sg.condition(MODEL, X, Y).elbo, rtol=1e-10)


def test_a_mean_function_and_known_noise():
    line = sg.means.Linear(slope=0.1, intercept=2.0)
    model = sg.GP(KERNEL, sg.likelihoods.Gaussian(variance=0.1), mean=line)
    known = RANDOM.uniform(0.1, 1.0, 40)
    kept = sg.condition(model, X[:20], Y[:20], noise_variance=known[:20]).filter()
    for row in range(20, 40):
        kept = kept.update(float(X[row]), float(Y[row]), noise_variance=float(known[row]))
    same(kept, sg.condition(model, X, Y, noise_variance=known))


def test_from_a_sparse_posterior():
    inside = sg.condition(MODEL, X, Y, inducing=np.linspace(1, 18, 8))
    same(inside.filter(), inside)
    beyond = sg.condition(MODEL, X, Y, inducing=np.linspace(0, 21, 12)).filter()
    assert beyond.time == X[-1]
    assert np.all(np.isfinite(beyond.predict_f(AHEAD)))


def test_whole_numbers_stay_exact():
    start, step = 10**18, 10**9
    x = start + step * np.arange(12)
    model = sg.GP(sg.kernels.Matern32(lengthscale=3.0 * step), sg.likelihoods.Gaussian())
    kept = one_by_one(sg.condition(model, x[:4], Y[:4]).filter(), x[4:], Y[4:12])
    assert kept.time == start + 11 * step
    assert isinstance(kept.time, int)
    later = x[-1] + step * np.arange(1, 4)
    whole = sg.condition(model, x, Y[:12])
    np.testing.assert_allclose(kept.predict_f(later)[0], whole.predict_f(later)[0], atol=1e-8)


@pytest.mark.parametrize(
    ("likelihood", "y"),
    [
        (sg.likelihoods.Poisson(), RANDOM.poisson(np.exp(np.sin(X))).astype(float)),
        (sg.likelihoods.Bernoulli(), (np.sin(X) > 0).astype(float)),
        (sg.likelihoods.StudentT(scale=0.3), Y),
    ],
)
def test_other_observations_nearly(likelihood, y):
    model = sg.GP(sg.kernels.Matern32(variance=1.0, lengthscale=2.0), likelihood)
    kept = one_by_one(sg.condition(model, X[:20], y[:20]).filter(), X[20:], y[20:])
    whole = sg.condition(model, X, y)
    at = [X[-1], 21.0, 25.0]
    (mean, variance), (m, v) = kept.predict_f(at), whole.predict_f(at)
    assert np.max(np.abs(mean - m) / np.sqrt(v)) < 0.2
    np.testing.assert_allclose(variance, v, rtol=0.2)


COUNTS = RANDOM.poisson(np.exp(np.sin(X))).astype(float)
RATE = sg.GP(sg.kernels.Matern32(variance=1.0, lengthscale=2.0), "poisson", mean=0.3)


def test_with_a_lag_sites_are_those_of_the_posterior_of_all():
    whole = sg.condition(RATE, X, COUNTS, inducing="data")
    start = sg.condition(RATE, X[:20], COUNTS[:20], inducing="data")
    far = [
        max(float(np.max(np.abs(a - b))) for a, b in zip(kept, whole.predict_f(AHEAD), strict=True))
        for kept in (
            one_by_one(start.filter(lag=lag), X[20:], COUNTS[20:]).predict_f(AHEAD)
            for lag in (None, 4, 16)
        )
    ]
    assert far[0] > 1e-4 > far[1] > far[2]
    assert far[2] < 1e-8
    many = start.filter(lag=16).update(X[20:], COUNTS[20:])
    same(many, whole)
    assert (many.observed, many.time) == (20, X[-1])


def test_a_lag_with_all_that_observations_bring_with_them(tmp_path):
    x = np.append(X[:30], X[29:39])  # one of them twice
    exposure, weights = RANDOM.uniform(0.5, 2.0, 40), RANDOM.uniform(0.5, 2.0, 40)
    weights[30:] = 1.0
    start = sg.condition(
        RATE, x[:30], COUNTS[:30], inducing="data", exposure=exposure[:30], weights=weights[:30]
    )
    kept = start.filter(lag=16)
    same(kept, start)
    for row in range(30, 34):
        kept = kept.update(x[row], COUNTS[row], exposure=exposure[row])
    kept.save(tmp_path / "filter")
    kept = sg.load(tmp_path / "filter").update(x[34:], COUNTS[34:], exposure=exposure[34:])
    whole = sg.condition(RATE, x, COUNTS, inducing="data", exposure=exposure, weights=weights)
    same(kept, whole)


def test_a_lag_after_fewer_states_begins_at_the_end():
    start = sg.condition(RATE, X[:20], COUNTS[:20], inducing=6)
    kept = start.filter(lag=16)
    assert len(kept.recent) == 0
    same(kept, start)
    whole = sg.condition(RATE, X, COUNTS, inducing="data").predict_f(AHEAD)[0]
    np.testing.assert_allclose(
        kept.update(X[20:], COUNTS[20:]).predict_f(AHEAD)[0], whole, atol=1e-3
    )


ROBUST = sg.GP(RATE.kernels, sg.likelihoods.StudentT(scale=0.3, df=4.0))


def test_with_a_lag_sites_may_be_negative(tmp_path):
    """One of them is that of an outlier, which is taken out of the lag as well."""
    y = np.sin(X)
    y[21] = 4.0
    kept = sg.condition(ROBUST, X[:20], y[:20], inducing="data").filter(lag=8)
    kept = one_by_one(kept, X[20:30], y[20:30])
    assert kept.recent.precision.min() < 0
    kept.save(tmp_path / "filter")
    kept = one_by_one(sg.load(tmp_path / "filter"), X[30:], y[30:])
    assert kept.recent.precision.min() > 0
    same(kept, sg.condition(ROBUST, X, y, inducing="data", tolerance=1e-18))


def test_a_site_that_leaves_no_normal_distribution_stays():
    start = sg.condition(ROBUST, X[:20], np.sin(X[:20]), inducing="data")
    kept = start.filter(lag=6)
    recent, stepper = kept.recent, kept._steps
    for first in range(3):
        precision = recent.precision.copy()
        precision[first] = -1e3
        negative = dataclasses.replace(recent, precision=precision)
        assert len(negative.without_first(stepper, 3)) == len(recent) - first
        found, _ = negative.settled(stepper)  # from no sites, as a chain with these has no q
        np.testing.assert_allclose(found.precision, recent.precision, rtol=1e-8)
    # What a posterior's first negative sites leave no normal distribution of begins at the end.
    sites = tuple(dataclasses.replace(s, precision=s.precision - 1e3) for s in start.sites)
    odd = dataclasses.replace(start, sites=sites)
    assert len(odd.filter(lag=6).recent) == 0


def test_what_a_lag_is_not_for(start):
    assert start.filter(lag=5).lag is None  # Gaussian sites never move
    counts = sg.condition(RATE, X[:5], COUNTS[:5])
    with pytest.raises(ValueError, match="lag must be a number of observations"):
        counts.filter(lag=0)
    with pytest.raises(ValueError, match="give lag, forget or window"):
        counts.filter(lag=3, forget=1.0)


def test_a_site_is_the_best_normal_one():
    """One count, f standard normal before: the optimum over means and variances, by SciPy."""
    model = sg.GP(sg.kernels.Matern12(variance=1.0), sg.likelihoods.Poisson())
    before = sg.condition(model, [-1e6], [1.0]).filter()
    mean, variance = (float(v[0]) for v in before.update(0.0, 6.0).predict_f(0.0))

    def bound(mean, variance):
        deviation = np.sqrt(variance)

        def density(f):
            return stats.norm.pdf(f, mean, deviation) * stats.poisson.logpmf(6, np.exp(f))

        fit = integrate.quad(density, mean - 10 * deviation, mean + 10 * deviation)[0]
        return fit - (variance + mean**2 - 1 - np.log(variance)) / 2

    best = bound(mean, variance)
    for shift, stretch in [(1e-3, 1), (-1e-3, 1), (0, 1.01), (0, 0.99)]:
        assert bound(mean + shift, variance * stretch) < best


def test_several_latent_functions():
    model = sg.GP(KERNEL, sg.likelihoods.HeteroscedasticGaussian())
    kept = sg.condition(model, X[:30], Y[:30], inducing=12).filter().update(X[30:], Y[30:])
    mean, variance = kept.predict_f(AHEAD)
    assert mean.shape == variance.shape == (len(AHEAD), 2)
    whole = sg.condition(model, X, Y, inducing=12)
    np.testing.assert_allclose(mean[:, 0], whole.predict_f(AHEAD)[0][:, 0], atol=0.3)


def test_forgetting_discounts_precision():
    """A level that never changes, of variance 4: its precision is known in closed form."""
    model = sg.GP(sg.kernels.Constant(variance=4.0), sg.likelihoods.Gaussian(variance=0.5))
    kept = sg.condition(model, [0.0], [1.0]).filter(forget=10.0)
    x, y = np.array([0.0, 3.0, 4.0, 12.0]), np.array([1.0, 2.0, -1.0, 0.5])
    kept = one_by_one(kept, x[1:], y[1:])
    share = np.exp(-(14.0 - x) / 10.0)
    precision = 1 / 4.0 + np.sum(share / 0.5)
    mean, variance = kept.predict_f(14.0)
    np.testing.assert_allclose(variance, [1 / precision], rtol=1e-12)
    np.testing.assert_allclose(mean, [np.sum(share * y / 0.5) / precision], rtol=1e-12)
    far = kept.predict_f([13.0, 1000.0])
    np.testing.assert_allclose(far[1][1], 4.0, rtol=1e-12)


def test_forgetting_little_changes_little(start, whole):
    kept = one_by_one(start.filter(forget=1e12), X[20:], Y[20:])
    same(kept, whole)


def test_a_window_drops_what_is_old():
    x, y = np.arange(60.0), np.sin(np.arange(60.0))
    kept = sg.condition(MODEL, x[:10], y[:10]).filter(window=8.0)
    kept = one_by_one(kept, x[10:], y[10:])
    dropped = kept.young_since - 8.0  # what is used began when the last window did
    assert 8.0 <= kept.time - dropped <= 16.0
    recent = x >= dropped
    expected = sg.condition(MODEL, x[recent], y[recent])
    for a, b in zip(kept.predict_f([60.0, 63.0]), expected.predict_f([60.0, 63.0]), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-8)


def test_missing_observations_change_nothing(start):
    kept = start.filter()
    assert kept.update(30.0, np.nan) is kept
    assert kept.update([], []) is kept
    some = kept.update([X[20], X[21]], [np.nan, 1.0])
    assert (some.time, some.observed) == (X[21], 1)


def test_several_at_one_time(start):
    kept = start.filter().update(X[20], 1.0).update(X[20], 2.0)
    whole = sg.condition(MODEL, np.append(X[:21], X[20]), np.append(Y[:20], [1.0, 2.0]))
    same(kept, whole)


def test_the_last_time_again_although_it_was_rounded():
    x = np.array([-1e6, 0.1, 0.3])
    kept = sg.condition(MODEL, x, Y[:3]).filter()
    assert kept.update(0.3, 1.0).update([0.3], [1.0]).observed == 2
    assert np.isfinite(kept.log_density(0.3, 1.0))
    assert len(kept.predict_f([0.3])[0]) == 1
    assert len(kept.predict_f([])[0]) == 0
    with pytest.raises(ValueError, match="lies before"):
        kept.update(0.299, 1.0)


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (1.0, 2.0, "lies before the last observation, at .*posterior.update"),
        ([30.0, 1.0], [1.0, 2.0], r"x\[1\] = 1.0 lies before"),
        (np.nan, 2.0, "x must be finite"),
        (30.0, np.inf, "y must be finite"),
        ("later", 1.0, "x must hold numbers"),
        (30.0, "much", "y must hold numbers"),
        ([30.0, 31.0], [1.0], "equal lengths, got 2 and 1"),
    ],
)
def test_errors_say_what_was_wrong(start, x, y, words):
    with pytest.raises(ValueError, match=words):
        start.filter().update(x, y)


def test_what_else_is_refused(start):
    kept = start.filter()
    with pytest.raises(ValueError, match=r"x_new\[0\] = 3.0 lies before"):
        kept.predict_f([3.0])
    with pytest.raises(ValueError, match="exposure has no meaning"):
        kept.update(30.0, 1.0, exposure=2.0)
    with pytest.raises(ValueError, match="forget must be a positive number"):
        start.filter(forget=-1.0)
    with pytest.raises(ValueError, match="give one of them"):
        start.filter(forget=1.0, window=1.0)
    silent = sg.GP(KERNEL, sg.likelihoods.Gaussian(variance=sg.fixed(0.0)))
    known = sg.condition(silent, X[:5], Y[:5], noise_variance=0.1).filter()
    assert known.update(30.0, 1.0, noise_variance=0.1).observed == 1
    with pytest.raises(ValueError, match="observations without noise"):
        known.update(30.0, 1.0)
    counts = sg.GP(sg.kernels.Matern32(), sg.likelihoods.Poisson())
    with pytest.raises(ValueError, match="Poisson"):
        sg.condition(counts, X[:5], np.ones(5)).filter().update(30.0, -1.0)


@pytest.mark.parametrize("options", [{}, {"forget": 30.0}, {"window": 5.0}])
def test_it_is_saved_and_goes_on(start, options, tmp_path):
    kept = start.filter(**options).update(X[20:30], Y[20:30])
    kept.save(tmp_path / "filter")
    again = sg.load(tmp_path / "filter")
    assert (tmp_path / "filter").stat().st_size < 20_000
    same(one_by_one(again, X[30:], Y[30:]), one_by_one(kept, X[30:], Y[30:]), 0)
