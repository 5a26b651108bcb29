"""Outliers get little weight; steps and seasons are none."""

import numpy as np
import pandas as pd
import pytest

import stategp as sg
from stategp._forecasting._candidates import Outline
from stategp._forecasting._changes import level_changes
from stategp._forecasting._learning import Series
from stategp._forecasting._outliers import gross, unexpected


@pytest.fixture
def months():
    """Days, and a trend with a season and noise."""
    rng = np.random.default_rng(0)
    month = np.arange(60)
    y = 50 + 0.2 * month + 5 * np.cos(2 * np.pi * month / 12) + rng.normal(size=60)
    return month * 365.25 / 12, y


def found(x: np.ndarray, y: np.ndarray) -> list[int]:
    return np.flatnonzero(gross(x, y, Outline.of(x, y, True)).outliers).tolist()


@pytest.mark.parametrize("row", [0, 1, 30, 58, 59])
def test_gross_outliers_are_found_wherever_they_are(months, row) -> None:
    x, y = months
    y[row] = 1e6
    assert found(x, y) == [row]
    y[row] = -999.0
    assert found(x, y) == [row]


def test_what_is_usual_is_no_outlier(months) -> None:
    x, y = months
    assert found(x, y) == []
    assert found(x, np.exp(y / 5)) == []
    assert found(x, np.where(np.arange(60) % 12 == 11, y + 80, y)) == []  # every December
    assert found(x, np.where(np.arange(60) >= 30, y + 100, y)) == []  # a step
    assert found(x, np.where(np.arange(60) >= 57, y + 40, y)) == []  # a late one
    assert found(x, np.where(np.arange(60) % 9 == 0, y + 100, y)) == []  # too many
    assert found(x[:9], np.array([0.0, 0, 0, 0, 1e6, 0, 0, 0, 0])) == []  # too few
    assert found(x, np.full(60, 3.0)) == []
    growing = 2.0 ** np.arange(60)
    assert found(x, growing) == []


def test_models_confirm_outliers_or_do_not(months) -> None:
    x, y = months
    outline = Outline.of(x, y, True)
    expected, scores = y.copy(), np.zeros(60)
    y[20] += 12
    scores[20], scores[40] = 12, 3
    assert np.flatnonzero(unexpected(x, y, expected, scores, outline).outliers).tolist() == [20]
    series = Series.of(x, y, None, dates=True, robust=True)
    doubting = series.doubting(unexpected(x, y, expected, scores, outline))
    assert doubting.shares[20] == pytest.approx(1 / 144)
    assert np.all(np.delete(doubting.shares, 20) == 1)
    assert doubting.cleaned[20] == expected[20]


def test_steps_are_changes_of_level(months) -> None:
    x, y = months
    series = Series.of(x, np.where(np.arange(60) >= 30, y + 100, y), None, dates=True, robust=True)
    (change,) = level_changes(series)
    assert change.row == 30
    assert change.size == pytest.approx(100, rel=0.1)
    assert level_changes(Series.of(x, y, None, dates=True, robust=True)) == []


@pytest.fixture(scope="module")
def spoilt():
    """A series with two absurd values, and forecasters that doubt and keep them."""
    rng = np.random.default_rng(0)
    month = np.arange(60)
    y = 50 + 0.2 * month + 5 * np.cos(2 * np.pi * month / 12) + rng.normal(size=60)
    dates = pd.date_range("2019-01-01", periods=60, freq="MS")
    clean = pd.DataFrame({"ds": dates, "y": y})
    frame = pd.DataFrame({"ds": dates[:48], "y": y[:48]})
    frame.loc[[20, 30], "y"] = [1e6, -999.0]
    return clean, frame, sg.Forecaster().fit(frame, progress=False)


def test_outliers_do_not_spoil_forecasts(spoilt) -> None:
    clean, frame, forecaster = spoilt
    ahead = forecaster.forecast("12mo")
    middle = ahead["median" if "median" in ahead else "mean"]
    assert np.mean(np.abs(middle - clean.y[48:].to_numpy())) < 2.5
    assert np.mean(ahead.upper_95 - ahead.lower_95) < 20
    assert "2020-09-01, 2021-07-01" in forecaster.explain()
    assert "robust=False" in forecaster.explain()
    rows = forecaster.outliers(frame)
    assert np.flatnonzero(rows.outlier).tolist() == [20, 30]
    assert len(rows) == 48
    assert forecaster.outliers().outlier.sum() >= 1


def test_outliers_can_be_kept(spoilt, tmp_path) -> None:
    _, frame, forecaster = spoilt
    keeping = sg.Forecaster(robust=False).fit(frame, progress=False)
    assert "outliers" not in keeping.explain()
    assert repr(keeping) == "Forecaster(robust=False)"
    assert keeping.forecast("3mo").upper_95.max() > 1000
    forecaster.save(tmp_path / "model.stategp")
    same = sg.load(tmp_path / "model.stategp")
    assert same.explain() == forecaster.explain()
    assert same.fitted.doubted == forecaster.fitted.doubted
