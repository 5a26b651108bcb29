"""Times as people write them become the right numbers, and numbers the right times."""

import datetime
import zoneinfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._frames import as_frame, number_column, time_column, times_of
from stategp._forecasting._instants import Instants, as_zone, read_times
from stategp._forecasting._steps import continued

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


def numbers(values, zone=None):
    instants = read_times(values, "times", zone)
    return TimeAxis.of(instants).numbers(instants, "times")


@pytest.mark.parametrize(
    "values",
    [
        ["2024-03-01", "2024-03-02 12:00"],
        ["2024-03-01T00:00:00Z", "2024-03-02T13:00:00+01:00"],
        [datetime.datetime(2024, 3, 1), datetime.datetime(2024, 3, 2, 12)],
        [datetime.date(2024, 3, 1), datetime.datetime(2024, 3, 2, 12)],
        np.array(["2024-03-01T00", "2024-03-02T12"], dtype="datetime64[h]"),
        np.array(["2024-03-01T00", "2024-03-02T12"], dtype="datetime64[ns]"),
        ["0900-01-01", "0900-01-02 12:00"],
        [pd.Timestamp("2024-03-01"), pd.Timestamp("2024-03-02 12:00")],
    ],
)
def test_dates_are_days_since_the_first(values):
    np.testing.assert_array_equal(numbers(values), [0.0, 1.5])


def test_numbers_stay_as_they_are():
    large = np.array([2**60 + 1, 2**60 + 3])
    assert numbers(large).tolist() == large.tolist()
    assert numbers([0.5, -3.0]).tolist() == [0.5, -3.0]


def test_a_change_of_the_clock_is_an_hour_of_time():
    # On 31 March 2024 clocks in Berlin went from 2 to 3.
    before, after = (datetime.datetime(2024, 3, 31, h, tzinfo=BERLIN) for h in (1, 3))
    np.testing.assert_allclose(numbers([before, after]), [0, 1 / 24], rtol=1e-15)
    texts = read_times(["2024-03-31 01:00", "2024-03-31 03:00"], "times", "Europe/Berlin")
    assert np.diff(texts.values) == 3600 * 10**6
    assert texts.zone == "Europe/Berlin"


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_there_and_back(unit):
    start = np.datetime64("1931-05-06T07:08:09.123456", unit)
    times = start + np.arange(0, 7 * 10**9, 10**9 // 3).astype(f"timedelta64[{unit}]")
    instants = read_times(times, "times")
    axis = TimeAxis.of(instants)
    assert axis.unit == unit
    back = axis.times(axis.numbers(instants, "times"))
    assert back.dtype == times.dtype
    np.testing.assert_array_equal(back, times)


def test_nanoseconds_are_kept_only_where_there_are_some():
    times = np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[ns]")
    assert TimeAxis.of(read_times(times, "times")).unit == "us"
    fine = TimeAxis.of(read_times(times + np.timedelta64(7, "ns"), "times"))
    coarse = fine.numbers(read_times(["2024-01-02"], "times"), "times")
    np.testing.assert_allclose(coarse, 1 - 7 / 86_400e9, rtol=1e-15)


def test_dates_that_no_library_can_write():
    with pytest.raises(ValueError, match="outside the years between 1 and 9999"):
        TimeAxis(True).times(np.array([1e9]))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["May 1"], "row 0 is 'May 1', which cannot be read as a date"),
        (["2024-01-01", None], "row 1 has none"),
        ([pd.NaT], "row 0 has none"),
        (np.array(["2024-01-01", "NaT"], dtype="datetime64[us]"), "row 1 has no date"),
        ([1.0, np.nan], "row 1 is nan"),
        ([1.0, None], "row 1 is nan"),
        ([True], "got bool"),
        (np.zeros((2, 2)), "one column, got shape"),
        (["2024-01-01T00:00Z", "2024-01-01"], "with and without a time zone"),
        ([{1}], "row 0 is {1}"),
    ],
)
def test_what_is_no_time_is_named(values, words):
    with pytest.raises(ValueError, match=words):
        read_times(values, "times")


def test_kinds_of_time_do_not_mix():
    dates, aware, plain = (read_times(v, "t") for v in (["2024-01-01"], ["2024-01-01T00:00Z"], [1]))
    for own, other, words in [
        (dates, plain, "holds numbers, but the model was fitted to times in dates"),
        (plain, dates, "holds dates, but the model was fitted to times in numbers"),
        (dates, aware, "with a time zone, but the model was fitted to dates without one"),
        (aware, dates, r"without a time zone, but .* with one \(UTC\)"),
    ]:
        with pytest.raises(ValueError, match=words):
            TimeAxis.of(own).numbers(other, "times")
    assert len(TimeAxis.of(dates).numbers(Instants(np.zeros(0), None), "times")) == 0


@pytest.mark.parametrize(
    "value",
    ["36h", 1.5, datetime.timedelta(hours=36), np.timedelta64(36, "h"), pd.Timedelta("36h")],
)
def test_lengths_of_time(value):
    assert TimeAxis(True).length("horizon", value) == 1.5


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("7", "is not a duration"),
        ("1m", "minutes or months"),
        (0, "must be positive"),
        (np.nan, "must be positive"),
        (None, "such as '30d', got None"),
        (True, "such as '30d', got True"),
    ],
)
def test_what_is_no_length_of_time(value, words):
    with pytest.raises(ValueError, match=words):
        TimeAxis(True).length("horizon", value)


@pytest.mark.parametrize("value", ["7d", datetime.timedelta(days=7)])
def test_durations_need_dates(value):
    with pytest.raises(ValueError, match="the times are numbers: give horizon as a number too"):
        TimeAxis(False).length("horizon", value)


def test_zones_by_name_and_by_distance():
    assert as_zone("UTC+01:30").utcoffset(None) == datetime.timedelta(minutes=90)
    assert as_zone("-0200").utcoffset(None) == datetime.timedelta(hours=-2)
    assert as_zone("Europe/Berlin") == BERLIN
    with pytest.raises(ValueError, match="unknown time zone 'Mars'"):
        as_zone("Mars")


def in_zone(days, zone):
    return pd.Series(days).dt.tz_localize(zone)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "+01:00"])
def test_columns_and_indices_of_every_library(zone):
    days = pd.date_range("2024-03-30", periods=3)
    column = in_zone(days, zone)
    expected = column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy().astype("datetime64[us]")
    for values in (column, pd.Index(column), pl.from_pandas(column), pa.Array.from_pandas(column)):
        found = times_of(values)
        np.testing.assert_array_equal(found.values.astype(f"datetime64[{found.unit}]"), expected)
        assert found.zone is not None
    for values in (days, pl.Series(days.to_list()), [d.date() for d in days]):
        assert times_of(values).zone is None


@pytest.mark.parametrize("dtype", [pl.Date, pl.Datetime("ms"), pl.Datetime("ns")])
def test_precisions_of_dates(dtype):
    frame = pl.DataFrame({"ds": pl.Series([datetime.date(1960, 1, 1)]).cast(dtype)})
    found = time_column(as_frame(frame), "ds")
    assert TimeAxis.of(found).times(np.zeros(1)) == np.datetime64("1960-01-01")


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ([1.0, "x"], "row 1 is 'x'"),
        ([None, "1.5", "abc"], "row 2 is 'abc'"),
        ([1.0, np.inf], "must be finite: row 1 is inf"),
        (pd.date_range("2024-01-01", periods=2), "must hold numbers, got datetime64"),
    ],
)
def test_what_is_no_number_is_named(column, words):
    with pytest.raises(ValueError, match=words):
        number_column(as_frame(pd.DataFrame({"y": column})), "y")


@pytest.mark.parametrize(
    "column",
    [[1, None], [1.0, np.nan], ["1", None], pd.array([1, None], dtype="Int64"), [True, None]],
)
def test_missing_numbers_become_nan(column):
    np.testing.assert_array_equal(
        number_column(as_frame(pd.DataFrame({"y": column})), "y"), [1, np.nan]
    )


# ---- how a forecast goes on -----------------------------------------------------------------


def goes_on(times, horizon, every=None):
    """The dates that follow, as texts."""
    instants = times_of(times)
    axis = TimeAxis.of(instants)
    x = axis.numbers(instants, "times")
    found = axis.times(continued(x, axis, horizon, every))
    if axis.zone is None:
        return [str(pd.Timestamp(t)) for t in found]
    return [str(pd.Timestamp(t, tz="UTC").tz_convert(axis.zone)) for t in found]


def test_the_usual_spacing_goes_on():
    times = ["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-09"]
    assert goes_on(times, "2d") == ["2024-01-10 00:00:00", "2024-01-11 00:00:00"]
    assert len(goes_on(times, "2d", every="6h")) == 8
    assert goes_on(times[:1], "2d") == ["2024-01-03 00:00:00"]


@pytest.mark.parametrize(
    ("freq", "horizon", "last", "count"),
    [
        ("MS", "6mo", "2025-06-01 00:00:00", 6),
        ("MS", "1y", "2025-12-01 00:00:00", 12),
        ("MS", "100d", "2025-03-01 00:00:00", 3),
        ("ME", "2mo", "2025-02-28 00:00:00", 2),
        ("QS", "1y", "2025-10-01 00:00:00", 4),
        ("YS", "4y", "2028-01-01 00:00:00", 4),
    ],
)
def test_months_are_the_calendars(freq, horizon, last, count):
    times = pd.date_range("2010-01-01", "2024-12-31", freq=freq)
    found = goes_on(times, horizon)
    assert (found[-1], len(found)) == (last, count)


def test_a_year_of_months_has_twelve_also_if_it_is_long():
    # From 1 March 2023 the year has 366 days, more than the average "1y".
    times = pd.date_range("2022-01-01", "2023-03-01", freq="MS")
    assert goes_on(times, "1y")[-1] == "2024-03-01 00:00:00"
    days = pd.date_range("2023-02-01", "2023-03-31")
    assert goes_on(days, "3mo", every="1mo") == [
        "2023-04-30 00:00:00", "2023-05-31 00:00:00", "2023-06-30 00:00:00"
    ]  # fmt: skip


def test_days_are_the_calendars_where_clocks_change():
    midnights = in_zone(pd.date_range("2024-03-25", "2024-03-30"), "Europe/Berlin")
    assert goes_on(midnights, "3d") == [
        "2024-03-31 00:00:00+01:00", "2024-04-01 00:00:00+02:00", "2024-04-02 00:00:00+02:00"
    ]  # fmt: skip
    hours = midnights.iloc[-1] + pd.to_timedelta(range(20, 24), unit="h")
    assert goes_on(hours, "5h")[2:4] == ["2024-03-31 03:00:00+02:00", "2024-03-31 04:00:00+02:00"]


@pytest.mark.parametrize(
    ("freq", "until", "last", "count"),
    [
        ("D", "2025-01-03", "2025-01-03 00:00:00", 3),
        ("D", "2025-01-03 12:00", "2025-01-03 00:00:00", 3),
        ("D", datetime.date(2025, 1, 3), "2025-01-03 00:00:00", 3),
        ("D", pd.Timestamp("2025-01-03"), "2025-01-03 00:00:00", 3),
        ("D", np.datetime64("2025-01-03"), "2025-01-03 00:00:00", 3),
        ("D", "31.01.2025", "2025-01-31 00:00:00", 31),
        ("MS", "2025-12-01", "2025-12-01 00:00:00", 12),
        ("MS", "2025-11-30", "2025-11-01 00:00:00", 11),
        ("ME", "2025-02", "2025-01-31 00:00:00", 1),
    ],
)
def test_until_a_date(freq, until, last, count):
    times = pd.date_range("2020-01-01", "2024-12-31", freq=freq)
    found = goes_on(times, until)
    assert (found[-1], len(found)) == (last, count)


def test_until_a_date_where_clocks_change():
    midnights = in_zone(pd.date_range("2024-03-25", "2024-03-30"), "Europe/Berlin")
    assert goes_on(midnights, "2024-04-02")[-1] == "2024-04-02 00:00:00+02:00"
    assert goes_on(midnights, "2024-04-01T22:00Z")[-1] == "2024-04-02 00:00:00+02:00"


def test_a_date_where_times_are_numbers():
    with pytest.raises(ValueError, match="'2025-12-01' is a date, but the times are numbers"):
        goes_on([1, 2], "2025-12-01")


@pytest.mark.parametrize(
    ("horizon", "every", "words"),
    [
        ("2024-01-02", None, "end at 2024-01-02 00:00:00; 2024-01-02 is not after that"),
        ("2024-01-02 06:00", None, "shorter than one step of 1d"),
        ("2025-13-01", None, "not a valid date"),
        ("12h", None, "shorter than one step of 1d"),
        ("1y", "1s", "31,557,600 rows"),
        ("9000y", "1y", "beyond the year 9999"),
        ("7d", "0d", "must be positive"),
    ],
)
def test_horizons_that_make_no_sense(horizon, every, words):
    with pytest.raises(ValueError, match=words):
        goes_on(["2024-01-01", "2024-01-02"], horizon, every)
