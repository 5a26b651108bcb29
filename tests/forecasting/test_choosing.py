"""The default forecaster: models compared, patterns, months, averages of quantiles."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

import stategp as sg
from stategp._forecasting._averages import Average, Part
from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._candidates import Outline, usual_slope
from stategp._forecasting._choosing import Standing, weigh
from stategp._forecasting._foresight import AHEAD, foreseen, mean_miss
from stategp._forecasting._instants import read_times
from stategp._forecasting._learning import Series
from stategp._forecasting._patterns import exact_pattern
from stategp._forecasting._scales import Scale, scales_of
from stategp._story import component_panels
from stategp.parameters import Parameter, all_parameters, map_parameters


def test_one_normal_model_is_averaged_with_itself() -> None:
    there = Average((Part(0.3, False, np.ones(2), np.full(2, 2.0)),) * 3 + (
        Part(0.1, False, np.ones(2), np.full(2, 2.0)),
    ))  # fmt: skip
    theirs = stats.norm(1, 2)
    y = np.array([-1.0, 4.0])
    np.testing.assert_allclose(there.quantiles([0.1, 0.5])[:, 0], theirs.ppf([0.1, 0.5]))
    np.testing.assert_allclose(there.log_density(y), theirs.logpdf(y))
    np.testing.assert_allclose(there.cdf(y), theirs.cdf(y))
    np.testing.assert_allclose(there.moments(), [[1, 1], [4, 4]])
    assert there.normal


def test_scores_of_an_average_of_y_and_of_its_logarithm() -> None:
    there = Average(
        (
            Part(0.6, False, np.array([3.0]), np.array([0.7])),
            Part(0.4, True, np.array([1.2]), np.array([0.3])),
        )
    )

    def density(y: float) -> float:
        return float(np.exp(there.log_density(np.array([y]))[0]))

    def below(y: float) -> float:
        return float(there.cdf(np.array([y]))[0])

    whole, mean, second = (
        integrate.quad(lambda y, k=k: y**k * density(y), -3, 15, limit=200)[0] for k in (0, 1, 2)
    )
    assert whole == pytest.approx(1, abs=1e-7)
    np.testing.assert_allclose(there.moments()[0], mean, rtol=1e-6)
    np.testing.assert_allclose(there.moments()[1], second - mean**2, rtol=1e-5)
    # Means of the parts, by their own formulas.
    assert mean == pytest.approx(0.6 * 3.0 + 0.4 * stats.lognorm(0.3, scale=np.exp(1.2)).mean())
    score = integrate.quad(lambda u: (below(u) - (u >= 2.5)) ** 2, -3, 15, points=[2.5], limit=200)
    np.testing.assert_allclose(there.crps(np.array([2.5])), score[0], rtol=2e-3)
    levels = [0.01, 0.5, 0.99]
    back = [below(float(q)) for q in there.quantiles(levels)[:, 0]]
    np.testing.assert_allclose(back, levels, atol=1e-9)


def test_means_lie_within_intervals() -> None:
    """Also where a model has learned far more of a spread than it is given for the interval."""
    narrow = stats.lognorm(0.01)
    there = Average((Part(1.0, True, np.zeros(1), np.array([0.01]), learned=np.array([0.4])),))
    assert there.moments()[0] == pytest.approx(narrow.ppf(0.975))
    wide = Average((Part(1.0, True, np.zeros(1), np.array([0.3]), learned=np.array([0.2])),))
    assert wide.moments()[0] == pytest.approx(np.exp(0.2**2 / 2))


def test_a_pattern_is_found_beside_a_trend_and_noise() -> None:
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 60, 500))
    pattern = 3 * np.cos(2 * np.pi * x / 7) + np.sin(2 * np.pi * 5 * x / 7)
    y = 0.5 * x + pattern + 0.3 * rng.standard_normal(500)
    series, values, spent = exact_pattern(x, y, 7.0, 12)
    found = values - float(series.level)
    np.testing.assert_allclose(found - found.mean(), pattern - pattern.mean(), atol=0.25)
    np.testing.assert_allclose(np.asarray(series(jnp.asarray(x))), values, atol=1e-9)
    assert 4 <= spent <= 16  # two waves, and what noise looks like by chance
    nothing, _, _ = exact_pattern(x, rng.standard_normal(500), 7.0, 12)
    assert float(np.abs(nothing.cosines.value).max()) < 0.25


@pytest.mark.parametrize(("freq", "even"), [("MS", 1e-9), ("ME", 0.5), ("QS", 1e-9), ("YS", 1e-9)])
def test_months_count_as_equally_long(freq, even) -> None:
    dates = pd.date_range("1957-03-01", periods=70, freq=freq).to_numpy().astype("datetime64[us]")
    instants = read_times(dates, "times")
    axis = dataclasses.replace(TimeAxis.of(instants), even_months=True)
    numbers = axis.numbers(instants, "times")
    np.testing.assert_array_equal(axis.times(numbers), dates)
    assert np.ptp(np.diff(numbers)) < even
    years = (dates[-1] - dates[0]) / np.timedelta64(1, "D")
    assert numbers[-1] - numbers[0] == pytest.approx(years, abs=3)


def test_seasons_that_the_data_have_room_for() -> None:
    y = np.random.default_rng(0).standard_normal(1000)
    hours, days = np.arange(1000) / 24, np.arange(1000.0)
    assert [s.name for s in Outline.of(hours, y, True).seasons] == ["daily", "weekly"]
    assert [s.name for s in Outline.of(days, y, True).seasons] == ["weekly", "yearly"]
    assert Outline.of(days[:20], y[:20], True).seasons[0].steps == pytest.approx(7)
    assert Outline.of(days, y, False).seasons == ()
    repeating = Outline.of(days, np.cos(2 * np.pi * days / 24) + 0.1 * y, False)
    assert repeating.seasons[0].period == pytest.approx(24, rel=0.01)


def test_logarithms_are_for_positive_numbers() -> None:
    y = np.linspace(-1, 5, 30)
    assert scales_of(y, None, None) == (Scale(),)
    assert scales_of(y + 2, None, None) == (Scale(), Scale(True))
    assert scales_of(np.tile([1.0, 9.0], 15), None, None) == (Scale(),)  # changes by a large share


def test_widening_moves_no_mean() -> None:
    """The mean of log y is that of a normal as learned; quantiles and variance are wider."""
    ones = np.ones(1)
    there = Average((Part(1.0, True, ones, 0.8 * ones, learned=0.4 * ones),))
    wide = stats.lognorm(0.8, scale=np.e)
    mean, variance = there.moments()
    np.testing.assert_allclose(mean, stats.lognorm(0.4, scale=np.e).mean(), rtol=1e-6)
    np.testing.assert_allclose(variance, wide.var(), rtol=1e-6)
    np.testing.assert_allclose(there.quantiles([0.025, 0.9])[:, 0], wide.ppf([0.025, 0.9]))


def test_one_time_is_no_series() -> None:
    frame = pd.DataFrame({"ds": pd.to_datetime(["2024-01-01"] * 6), "y": np.arange(6.0)})
    forecaster = sg.Forecaster().fit(frame, progress=False)
    assert "given, or is the default" in forecaster.explain()


@pytest.fixture(scope="module")
def monthly():
    """Grows by a percent a month, with a season and noise that grow along."""
    rng = np.random.default_rng(1)
    month = np.arange(60)
    log_y = 3 + 0.01 * month + 0.2 * np.cos(2 * np.pi * month / 12) + 0.03 * rng.normal(size=60)
    dates = pd.date_range("2019-01-01", periods=60, freq="MS")
    frame = pd.DataFrame({"ds": dates, "y": np.exp(log_y)})
    return frame, sg.Forecaster().fit(frame[:48], progress=False)


def test_growth_goes_on(monthly) -> None:
    frame, forecaster = monthly
    ahead = forecaster.forecast("12mo")
    assert list(ahead.columns) == ["ds", "mean", "median", "lower_95", "upper_95"]
    assert list(ahead.ds) == list(frame.ds[48:])
    assert np.max(np.abs(ahead["median"] / frame.y[48:].to_numpy() - 1)) < 0.15
    inside = (ahead.lower_95 <= frame.y[48:].to_numpy()) & (
        frame.y[48:].to_numpy() <= ahead.upper_95
    )
    assert inside.mean() >= 0.8
    assert forecaster.fitted.choices[0].log
    assert "log y" in forecaster.explain()
    assert sum(choice.weight for choice in forecaster.fitted.choices) == pytest.approx(1)


def test_a_steady_rise_goes_on() -> None:
    """Of few values, which change by chance much less than they rise."""
    years, chance = np.arange(26.0), np.random.default_rng(0).normal(size=26)
    y = 50 + 10 * years + chance
    assert usual_slope(years, y) == pytest.approx(10, abs=0.1)
    assert usual_slope(years[:1], y[:1]) == 0
    dates = pd.date_range("1990-01-01", periods=20, freq="YS")
    forecaster = sg.Forecaster().fit(pd.DataFrame({"ds": dates, "y": y[:20]}), progress=False)
    ahead = forecaster.forecast("6y")
    np.testing.assert_allclose(ahead["mean"], y[20:], rtol=0.05)  # log y counts, too
    assert np.all((ahead["lower_95"] < y[20:]) & (y[20:] < ahead["upper_95"]))

    line = 100 + 5 * np.arange(120.0)
    y = line[:100] + np.random.default_rng(0).normal(size=100) / 10
    dates = pd.date_range("1990-01-01", periods=100)
    forecaster = sg.Forecaster().fit(pd.DataFrame({"ds": dates, "y": y}), progress=False)
    # Half of a day's rise; it is 17 of them where slopes are taken for as small as the changes.
    np.testing.assert_allclose(forecaster.forecast("20d")["mean"], line[100:], atol=2.5)


def test_means_are_those_that_models_learned(monthly) -> None:
    """Intervals are wider than what models know by themselves; means are not moved by that."""
    _, forecaster = monthly
    ahead = forecaster.forecast("12mo")
    choices = forecaster.fitted.choices
    x = forecaster._numbers(ahead)[0]
    means = sum(c.weight * np.asarray(c.posterior.predict_y(x)[0]) for c in choices)
    np.testing.assert_allclose(ahead["mean"], means, rtol=1e-3)
    upper = sum(c.weight * np.asarray(c.posterior.quantiles(x, [0.975])[0]) for c in choices)
    assert np.all(ahead["upper_95"] > upper)


def test_every_door_tells_the_same(monthly, tmp_path) -> None:
    frame, forecaster = monthly
    ahead = forecaster.forecast("6mo")
    story = forecaster.story(horizon="6mo", points=50)
    np.testing.assert_allclose(story.forecast.mean, ahead["mean"])
    np.testing.assert_allclose(story.forecast.intervals[0.95][1], ahead.upper_95)
    assert story.modelled == "log y"
    assert component_panels(story)[0].up.label == "Contribution to log y"
    forecaster.save(tmp_path / "model.stategp")
    same = sg.load(tmp_path / "model.stategp").forecast("6mo")
    pd.testing.assert_frame_equal(same, ahead)
    drawn = forecaster.sample(ahead.ds, num_samples=200).drop(columns="ds").to_numpy()
    assert drawn.shape == (6, 200)
    np.testing.assert_allclose(np.median(drawn, axis=1), ahead["median"], rtol=0.05)
    parts = forecaster.components(frame.ds[:3])
    assert {"trend", "yearly"} <= set(parts.columns)
    spread = (parts["trend_upper_95"] - parts["trend_lower_95"]).to_numpy()
    assert np.all(spread < 0.2)  # of log y: the data show their trend, not a line beside a level
    assert forecaster.outliers(frame[:48]).outlier.sum() <= 1


def test_models_of_the_likelier_scale_come_first() -> None:
    """Of two scales the other keeps a third; within one a twentieth of the log evidence counts."""
    found = weigh([[Standing(-3.0)], [Standing(0.0), Standing(-5.0)]], best=1)
    weights = {(scale, number): weight for weight, scale, number in found}
    share = 2 / 3 - 1 / 3 / (1 + np.exp(3.0))
    assert weights[0, 0] == pytest.approx(1 - share)
    assert weights[1, 1] / weights[1, 0] == pytest.approx(np.exp(-0.25))
    assert [scale for _, scale, _ in found] == [1, 1, 0]


def test_models_that_would_have_missed_by_less_have_more_weight() -> None:
    """Half as much again and a weight 1.5⁻⁸ times as large; twice as much, and none."""
    missed = [[2.0, 3.0], [4.0]]
    found = weigh([[Standing(-3.0, missed=one) for one in some] for some in missed], best=1)
    assert [(scale, number) for _, scale, number in found] == [(0, 0), (0, 1)]
    np.testing.assert_allclose(found[1][0] / found[0][0], 1.5**-8)
    assert found[0][0] + found[1][0] == pytest.approx(1.0)
    evident = [[Standing(-3.0)], [Standing(0.0), Standing(-1.0)]]
    unknown = [evident[0], [one._replace(missed=1.0) for one in evident[1]]]
    assert weigh(unknown, best=1) == weigh(evident, best=1)


def test_what_a_model_would_have_forecast_is_what_it_forecasts_from_there() -> None:
    """From each of the latest observations on, irregular and weighted, as if fitted up to it."""
    rng = np.random.default_rng(0)
    x = np.cumsum(rng.choice([1.0, 2.0], 40))
    y = 5.0 + np.cumsum(rng.standard_normal(40))
    series = Series.of(x, y, rng.uniform(0.5, 2.0, 40), dates=False, robust=False)
    candidate = series.candidates()[0][0]
    values = y - candidate.fitted
    kernel, noise = candidate.kernel, float(candidate.likelihood.variance.value)
    found = foreseen(kernel, x, values, series.counts / noise)
    model = sg.GP(kernel, candidate.likelihood)
    misses = []
    for origin in range(19, 39):
        seen = slice(0, origin + 1)
        weights = series.counts[seen]
        posterior = sg.condition(model, x[seen], values[seen], weights=weights, inducing="data")
        ahead = slice(origin + 1, origin + 1 + AHEAD)
        expected = np.asarray(posterior.predict_f(x[ahead])[0])
        diagonal = [found[k, origin + 1 + k] for k in range(len(expected))]
        # A filter from levels that are vague, 10⁵ changes squared, loses some digits.
        np.testing.assert_allclose(diagonal, expected, rtol=0, atol=1e-7)
        misses += np.abs(values[ahead] - expected).tolist()
    assert np.isnan(found[2, :3]).all()
    assert mean_miss(kernel, noise, candidate, series) == pytest.approx(np.mean(misses), rel=1e-7)
    few = Series.of(x[:12], y[:12], None, dates=False, robust=False)
    assert np.isnan(mean_miss(kernel, noise, few.candidates()[0][0], few))


def test_a_search_goes_on_from_what_was_learned_before() -> None:
    series = Series.of(np.arange(30.0), np.sin(np.arange(30.0)), None, dates=False, robust=True)
    (first, *_), *_ = series.candidates()

    def doubled(one: Parameter) -> Parameter:
        return dataclasses.replace(one, value=2 * one.value) if one.learned else one

    learned = map_parameters(doubled, first.model)
    begun = first.starting_at(learned).model
    for now, then, before in zip(*map(all_parameters, (begun, learned, first.model)), strict=True):
        assert now.value == then.value
        assert now.prior is before.prior
