"""What forecasters say they found, and what speaks against trusting them."""

import warnings

import numpy as np
import pandas as pd
import pytest

import stategp as sg
from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._cautions import caution_of_scores, cautions_about
from stategp._forecasting._changes import level_changes
from stategp._forecasting._findings import _deviations, deviation_of_change
from stategp._forecasting._learning import Series


def cautions(x, y) -> str:
    series = Series.of(np.asarray(x, dtype=float), np.asarray(y, dtype=float), None,
                       dates=True, robust=True)  # fmt: skip
    return "; ".join(cautions_about(series, TimeAxis(True), level_changes(series)))


def test_series_that_say_too_little() -> None:
    rng = np.random.default_rng(0)
    days, noise = np.arange(60), rng.normal(size=60)
    assert cautions(days[:20], noise[:20]) == ""
    assert "only 8 observations" in cautions(days[:8], noise[:8])
    assert "less than two periods of a weekly season" in cautions(days[:12], noise[:12])
    months = days * 365.25 / 12
    assert "span 17mo, less than two periods of a yearly" in cautions(months[:18], noise[:18])
    assert cautions(months, noise) == ""
    assert "all observations are equal" in cautions(days[:20], np.full(20, 3.5))


def test_counts_are_noticed() -> None:
    rng = np.random.default_rng(0)
    days = np.arange(20)
    assert 'likelihood="poisson"' in cautions(days, rng.poisson(4, 20))
    assert 'likelihood="bernoulli"' in cautions(days, rng.integers(0, 2, 20))
    assert cautions(days, 1000 + rng.integers(0, 90, 20)) == ""  # as good as measurements
    assert cautions(days, rng.poisson(4, 20) - 3.0) == ""  # some are negative
    assert cautions(days, rng.poisson(4, 20) / 2) == ""


def test_a_recent_change_of_level() -> None:
    y = np.random.default_rng(0).normal(size=60)
    y[55:] += 60
    said = cautions(np.arange(60), y)
    assert "changed suddenly by +60" in said
    assert "only 5 observations before the end" in said
    y[30:] += 60
    assert "+6" not in cautions(np.arange(60), np.roll(y, 25)).split("only")[0]


@pytest.mark.parametrize(
    ("inside", "count", "said"),
    [(0.94, 200, ""), (0.7, 10, ""), (0.8, 200, "too narrow"), (1.0, 500, "too wide")],
)
def test_scores_of_cross_validation(inside, count, said) -> None:
    found = caution_of_scores(inside, 0.95, count)
    assert found == [] if not said else said in found[0]


def test_how_sure_of_a_change() -> None:
    """The deviation of a sum of components between two times, against a dense GP."""
    rng = np.random.default_rng(0)
    x = np.cumsum(rng.uniform(0.5, 1.5, 40))
    parts = {
        "trend": sg.kernels.Linear(slope=0.01, start=1e3),
        "level": sg.kernels.Wiener(diffusivity=0.2, start=1e2),
        "season": sg.kernels.Cosine(variance=2.0, period=7.0) * sg.kernels.Matern12(lengthscale=90),
    }
    noise = sg.likelihoods.Gaussian(variance=0.5)
    posterior = sg.condition(
        sg.GP(sg.kernels.Sum(**parts), noise), x, rng.normal(size=40), inducing="data"
    )
    K = {name: np.asarray(part(x, x)) for name, part in parts.items()}
    total = sum(K.values()) + 0.5 * np.eye(40)
    for names in (("trend", "level"), ("season",)):
        prior = sum(K[name] for name in names)
        left = prior - prior @ np.linalg.solve(total, prior)
        for first, last in ((0, 39), (12, 13), (20, 39)):
            change = left[first, first] + left[last, last] - 2 * left[first, last]
            found = deviation_of_change(posterior, names, first, last)
            assert found == pytest.approx(np.sqrt(change), rel=1e-6)
    deviations = _deviations(posterior, "season", np.array([3, 30]))
    np.testing.assert_allclose(deviations, np.sqrt(np.diag(left)[[3, 30]]), rtol=1e-8)


@pytest.fixture(scope="module")
def monthly():
    rng = np.random.default_rng(0)
    month = np.arange(48)
    y = 50 + 0.5 * month + 5 * np.cos(2 * np.pi * month / 12) + 0.5 * rng.normal(size=48)
    frame = pd.DataFrame({"ds": pd.date_range("2019-01-01", periods=48, freq="MS"), "y": y - 70})
    return frame, sg.Forecaster().fit(frame, progress=False)


def test_the_story_in_words(monthly) -> None:
    _, forecaster = monthly
    said = forecaster.explain().splitlines()
    assert said[0].startswith("trend: rises by ")
    assert float(said[0].split()[3]) == pytest.approx(6, rel=0.25)  # in a year
    told, between = said[0].split(" (between ")
    assert told.endswith("over the last year")
    low, high = map(float, between.rstrip(")").split(" and "))
    assert 4 < low < 6 < high < 8
    assert said[1].startswith("yearly season: from -")
    low, high = float(said[1].split()[3]), float(said[1].split()[7])
    assert (low, high) == (pytest.approx(-5, rel=0.25), pytest.approx(5, rel=0.25))
    assert 0.05 < float(said[1].split("(each ± ")[1].rstrip(")")) < 1.5
    assert "July" in said[1]
    assert "January" in said[1]
    assert said[2].startswith("noise: ")
    first, x = forecaster.fitted.choices[0], 48 * 365.25 / 12  # a month after the data
    wider = 100 * abs(np.sqrt(first.widening(np.array([x])))[0] - 1)
    assert float(said[3].removeprefix("intervals: ").split()[0]) == pytest.approx(wider, abs=0.6)
    assert " % wider one step ahead and " in said[3]
    assert said[3].endswith("for what was estimated and by the latest errors")
    assert forecaster.cautions == ()
    story = forecaster.story(points=50)
    assert story.notes[0].startswith("Trend: rises by ")


def test_forecasts_longer_than_the_data(monthly) -> None:
    _, forecaster = monthly
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        forecaster.forecast("36mo")
    with pytest.warns(sg.ForecastWarning, match="goes 5y ahead, but the data span only 47mo"):
        forecaster.forecast("60mo")


def test_poor_scores_are_remembered(monthly) -> None:
    frame, forecaster = monthly
    kernel = sg.kernels.Matern12(variance=sg.fixed(1e-2), lengthscale=sg.fixed(1.0))
    noise = sg.likelihoods.Gaussian(variance=sg.fixed(1e-2))
    narrow = sg.Forecaster(kernel, noise, inducing="data")
    narrow.cross_validate(frame, horizon="8mo", folds=3)
    assert narrow.scored[2] == 24
    narrow.fit(frame, progress=False)
    assert "intervals are too narrow" in narrow.explain()
    assert narrow.story(points=50).remarks[-1].text.startswith("In cross-validation")
    assert forecaster.scored is None
