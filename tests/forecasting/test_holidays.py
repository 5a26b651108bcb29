"""Public holidays: the days that they are, and what they do to a forecast."""

import importlib.util
import sys

import numpy as np
import pandas as pd
import pytest

import stategp as sg
from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._calendar import day_numbers, occasions_of
from stategp._forecasting._effects import as_holidays

RNG = np.random.default_rng(0)
DAYS = pd.date_range("2023-12-20", "2024-12-20")
T = np.arange(len(DAYS))
PUBLIC = ["01-01", "03-29", "04-01", "05-01", "05-09", "05-20", "10-03"]
PUBLIC = pd.to_datetime(["2023-12-25", "2023-12-26", *(f"2024-{day}" for day in PUBLIC)])
Y = np.sin(T / 30) - 2.0 * np.isin(DAYS, PUBLIC) + 0.2 * RNG.standard_normal(len(T))
FRAME = pd.DataFrame({"ds": DAYS, "y": Y})


calendars = pytest.mark.skipif(
    importlib.util.find_spec("holidays") is None, reason="the package holidays is not installed"
)


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "holidays", None)
    with pytest.raises(ImportError, match=r'pip install "stategp\[forecast\]"'):
        sg.Forecaster(holidays="DE").fit(FRAME, progress=False)


def test_ways_to_ask():
    bavaria = sg.Holidays("DE", "BY")
    for given in (("DE", "BY"), bavaria, {"country": "DE", "subdivision": "BY"}, [("DE", "BY")]):
        assert as_holidays(given) == (bavaria,)
    assert as_holidays(["DE", "FR"]) == (sg.Holidays("DE"), sg.Holidays("FR"))
    assert as_holidays(()) == as_holidays(None) == ()


def test_a_day_is_that_of_the_local_clock():
    zoned = TimeAxis(True, "Europe/Berlin")  # days since 1970 in UTC
    late = np.array([22.5, 23.5]) / 24  # the first of January 1970, half past eleven and twelve
    assert day_numbers(late, zoned).tolist() == [0, 1]
    assert day_numbers(late, TimeAxis(True)).tolist() == [0, 0]


@pytest.fixture(scope="module")
def fitted():
    forecaster = sg.Forecaster("matern32(30d)", holidays="DE")
    return forecaster.fit(FRAME, progress=False)


@calendars
def test_dates():
    years = (2024, 2024)
    country = occasions_of([sg.Holidays("DE")], [], years)
    names = {occasion.name for occasion in country}
    assert {"Christmas Day", "Good Friday", "German Unity Day"} <= names
    assert "Epiphany" not in names
    state = occasions_of([sg.Holidays("DE", "BY", windows={"Epiphany": (1, 0)})], [], years)
    days = {occasion.name: occasion.days for occasion in state}
    epiphany = int(np.datetime64("2024-01-06").astype(int))
    assert epiphany in days["Epiphany"]
    assert epiphany - 1 in days["Epiphany, 1 day before"]
    good_friday = int(np.datetime64("2025-04-18").astype(int))  # after the data
    assert good_friday in days["Good Friday"]


@calendars
def test_effects_and_forecast(fitted, tmp_path):
    effects = fitted.effects().set_index("name")["effect"]
    assert len(effects) == 9
    assert np.abs(effects + 2).max() < 0.7
    parts = fitted.components()
    assert list(parts.columns[:1]) == ["ds"]
    assert np.all((np.abs(parts["holidays"]) > 1) == np.isin(DAYS, PUBLIC))
    ahead = fitted.forecast("14d").set_index("ds")["mean"]
    assert ahead["2024-12-25"] < ahead["2024-12-24"] - 1
    fitted.save(tmp_path / "model.stategp")
    again = sg.load(tmp_path / "model.stategp")  # which needs no calendar
    pd.testing.assert_series_equal(again.forecast("14d").set_index("ds")["mean"], ahead)


@calendars
def test_refused():
    with pytest.raises(ValueError, match="does not know 'XX'"):
        sg.Forecaster(holidays="XX").fit(FRAME, progress=False)
    windows = sg.Holidays("DE", windows={"Diwali": (1, 1)})
    with pytest.raises(ValueError, match="'Diwali', which is no holiday of DE"):
        sg.Forecaster(holidays=windows).fit(FRAME, progress=False)
    with pytest.raises(ValueError, match="a row every 7 days"):
        sg.Forecaster(holidays="DE").fit(FRAME[::7], progress=False)
    with pytest.raises(ValueError, match="need dates, but the times are numbers"):
        sg.Forecaster(holidays="DE").fit({"ds": T, "y": Y}, progress=False)
