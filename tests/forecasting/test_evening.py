"""Calendars in which steps are alike: business days, clocks that are changed."""

import datetime
import zoneinfo

import numpy as np
import pandas as pd
import pytest

import stategp as sg
from stategp._forecasting._evening import Clock, at_weekend, with_weekends, without_weekends
from stategp._forecasting._instants import read_times
from stategp._forecasting._steps import continued, fitting_axis


def axis_of(dates):
    values = dates.to_pydatetime() if dates.tz is not None else dates.to_numpy()
    instants = read_times(np.asarray(values), "times")
    axis = fitting_axis(instants)
    return axis, axis.numbers(instants, "times")


def shown(times, axis):
    found = pd.DatetimeIndex(axis.times(times))
    return found if axis.zone is None else found.tz_localize("UTC").tz_convert(axis.zone)


def test_weeks_of_business_days() -> None:
    days = pd.date_range("1969-12-20", "1970-02-10", freq="D")
    numbers = (days - pd.Timestamp("1970-01-01")).days.to_numpy().astype(float)
    np.testing.assert_array_equal(at_weekend(numbers), days.day_of_week >= 5)
    business = numbers[days.day_of_week < 5]
    even = without_weekends(business)
    np.testing.assert_allclose(np.diff(even), 1.4)
    np.testing.assert_array_equal(with_weekends(even), business)
    half = business + 0.5
    np.testing.assert_array_equal(with_weekends(without_weekends(half)), half)


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_a_monday_follows_a_friday(zone) -> None:
    dates = pd.bdate_range("2024-01-01", "2024-04-19", tz=zone)  # a Friday; clocks change in it
    axis, x = axis_of(dates)
    assert axis.business
    np.testing.assert_allclose(np.diff(x), 1.4)
    assert list(shown(x, axis)) == list(dates)
    ahead = shown(continued(x, axis, "2w", None), axis)
    assert list(ahead) == list(pd.bdate_range("2024-04-22", periods=10, tz=zone))
    assert list(shown(continued(x, axis, "2024-04-28", None), axis)) == list(ahead[:5])  # a Sunday
    assert list(shown(continued(x, axis, "1w", "1d"), axis)) == list(ahead[:5])
    assert list(shown(continued(x, axis, "2w", "1w"), axis)) == [ahead[4], ahead[9]]
    weekend = read_times([datetime.datetime(2024, 4, 20)], "times", zone)
    with pytest.raises(ValueError, match="times holds 2024-04-20, a Saturday or Sunday"):
        axis.numbers(weekend, "times")


def test_all_days_are_no_business_days() -> None:
    assert not axis_of(pd.date_range("2024-01-01", periods=30))[0].business
    assert not axis_of(pd.bdate_range("2024-01-01", periods=5))[0].business
    assert not axis_of(pd.date_range("2024-01-01", periods=30, freq="W-MON"))[0].business


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
def test_clocks_that_are_changed(zone) -> None:
    """Away from the changes, numbers are those that the clock shows, by Python's own zones."""
    instants = pd.date_range("2023-01-01", "2025-01-01", freq="h", tz="UTC")
    days = ((instants - pd.Timestamp("1970-01-01", tz="UTC")) / pd.Timedelta("1D")).to_numpy()
    clock = Clock.of(zone, days[0], days[-1])
    ahead = clock.shift(days)
    local = zoneinfo.ZoneInfo(zone)
    theirs = np.array([m.astimezone(local).utcoffset().total_seconds() for m in instants]) / 86400
    assert np.sum(np.abs(ahead - theirs) > 1e-12) <= 4 * 3
    assert np.all(np.diff(days + ahead) > 0)
    np.testing.assert_allclose(clock.shift_back(days + ahead), ahead, atol=1e-12)


def test_days_follow_the_clock() -> None:
    dates = pd.date_range("2024-03-20", "2024-11-10", freq="h", tz="Europe/Berlin")
    axis, x = axis_of(dates)
    assert axis.clock
    assert list(shown(x, axis)) == list(dates)
    noon = dates.hour == 12
    np.testing.assert_allclose(np.diff(x[noon]), 1.0)
    before = x[: 24 * 10]  # clocks change on the 31st of March
    ahead = shown(continued(before, axis, "3d", None), axis)
    assert list(ahead) == list(dates[24 * 10 : 24 * 13])
    assert not axis_of(dates.tz_convert("UTC"))[0].clock


def test_a_daily_season_keeps_its_hour_when_clocks_change() -> None:
    dates = pd.date_range("2024-03-16", "2024-04-02 23:00", freq="h", tz="Europe/Berlin")
    y = 10.0 * ((dates.hour >= 8) & (dates.hour < 18))
    frame = pd.DataFrame({"ds": dates, "y": y})
    forecaster = sg.Forecaster("daily: periodic(1d, order=6)", inducing=40)
    forecaster.fit(frame[: 24 * 14], progress=False)  # up to the evening before
    ahead = forecaster.predict(dates[24 * 16 :])["mean"].to_numpy()
    assert np.corrcoef(ahead, y[24 * 16 :])[0, 1] > 0.95
