"""Dates and numbers as people write them; what could be read in two ways is refused."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from stategp._forecasting._date_texts import read_dates
from stategp._forecasting._frames import as_frame, number_column, time_column
from stategp._forecasting._instants import read_times
from stategp._forecasting._number_texts import looks_like_number, read_numbers
from stategp._forecasting._sources import Source

COLUMN = Source("column 'c'")


@pytest.mark.parametrize(
    ("texts", "first", "words"),
    [
        (["2024-03-01 12:30"], "2024-03-01 12:30:00", ""),
        (["2024-03-01 12:30:00 +0100"], "2024-03-01 12:30:00+01:00", ""),
        (["2024-03-01 12:30:00 UTC"], "2024-03-01 12:30:00+00:00", ""),
        (["2024-3-1"], "2024-03-01 00:00:00", "dates as year-month-day"),
        (["2024/03/01"], "2024-03-01 00:00:00", "dates as year/month/day"),
        (["31/12/2025", "01/02/2026"], "2025-12-31 00:00:00", "dates as day/month/year"),
        (["03/04/2025", "13/04/2025"], "2025-04-03 00:00:00", "dates as day/month/year"),
        (["03/04/2025", "04/13/2025"], "2025-03-04 00:00:00", "dates as month/day/year"),
        (["1/13/2025 12:05 AM"], "2025-01-13 00:05:00", "dates as month/day/year"),
        (["1/13/2025 1:00:02.5 p.m."], "2025-01-13 13:00:02.500000", "dates as month/day/year"),
        (["03.04.2025 14:30"], "2025-04-03 14:30:00", "dates as day.month.year"),
        (["31-12-2025"], "2025-12-31 00:00:00", "dates as day-month-year"),
        (["2015-01"], "2015-01-01 00:00:00", "dates as year-month (its first day)"),
        (["07/2015"], "2015-07-01 00:00:00", "dates as month/year (its first day)"),
        (["2015Q2"], "2015-04-01 00:00:00", "dates as year, quarter (its first day)"),
        (["Q4 2015"], "2015-10-01 00:00:00", "dates as quarter, year (its first day)"),
        (["31 Dec 2025"], "2025-12-31 00:00:00", "dates as day month year"),
        (["1-Sept-2025"], "2025-09-01 00:00:00", "dates as day month year"),
        (["December 31st, 2025"], "2025-12-31 00:00:00", "dates as month day, year"),
        (["May 2025"], "2025-05-01 00:00:00", "dates as month year (its first day)"),
    ],
)
def test_dates_that_can_be_read_in_one_way(texts, first, words):
    dates = read_dates(texts, COLUMN)
    assert str(dates.moments[0]) == first
    assert (len(dates.moments), dates.words) == (len(texts), words)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["03/04/2025", "05/06/2025"], "row 0 is '03/04/2025': day or month first"),
        (["13/01/2025", "01/13/2025"], "row 1 is '01/13/2025', but '13/01/2025' has the month"),
        (["31/12/25"], "with a two-digit year.*date_format='%d/%m/%y'"),
        (["31/12/2025", "soon"], "row 1 is 'soon', which does not have the format of '31/12/2025'"),
        (["31/02/2025"], "not a valid date"),
        (["1/13/2025 13:00 pm"], "not a valid date"),
        (["12 Brumaire 1799"], "not a valid date"),
        (["2024-01-01", "31/12/2025"], "row 1 is '31/12/2025', which cannot be read as a date"),
        (["x" * 99], "x…', which cannot be read as a date"),
    ],
)
def test_dates_that_cannot(texts, words):
    with pytest.raises(ValueError, match=words):
        read_dates(texts, COLUMN)


def test_a_format_decides():
    assert read_dates(["03/04/25"], COLUMN, "%d/%m/%y").moments == [datetime.datetime(2025, 4, 3)]
    iso = read_dates(["2025-04-03"], COLUMN, "%d/%m/%y")  # as good as any format
    assert (iso.moments, iso.words) == ([datetime.datetime(2025, 4, 3)], "")
    with pytest.raises(ValueError, match="row 1 is 'x', which is not of the form date_format='%Y"):
        read_dates(["2025", "x"], COLUMN, "%Y")
    with pytest.raises(ValueError, match="is not of the form"):
        read_dates(["2025"], COLUMN, "%Q")


def test_what_decided_for_one_column_decides_for_the_next():
    training = read_times(["03/04/2025", "13/04/2025"], "times")
    later = read_times(["01/05/2025"], "times", layout=training.layout)
    assert later.values.astype("datetime64[us]") == np.datetime64("2025-05-01")


@pytest.mark.parametrize(
    ("texts", "values", "words"),
    [
        (["1.5", "-2", "+3e2", "−4"], [1.5, -2, 300, -4], []),
        (["1,5", "0,25"], [1.5, 0.25], ["decimal comma"]),
        (["1.234,5", "12"], [1234.5, 12], ["decimal comma"]),
        (["1,234.50", "1,234,567"], [1234.5, 1234567], ["',' between thousands"]),
        (["1.234.567"], [1234567], ["decimal comma"]),
        (["1,234", "0,5"], [1.234, 0.5], ["decimal comma"]),
        (["1 234,5", "12\u00a0345,0"], [1234.5, 12345], ["decimal comma"]),
        (["1'234.5", "2’000"], [1234.5, 2000], []),
        (["$5", "-$1.50", "($2)", "7"], [5, -1.5, -2, 7], ["'$' dropped"]),
        (["3,50 €"], [3.5], ["decimal comma", "'€' dropped"]),
        (["12 %", "5%"], [12, 5], ["'%' dropped"]),
        (["-", "N/A", "", None, "1"], [np.nan] * 4 + [1], ["'-', 'N/A' as missing (2 rows)"]),
    ],
)  # fmt: skip
def test_numbers_that_can_be_read_in_one_way(texts, values, words):
    numbers = read_numbers(texts, COLUMN)
    np.testing.assert_array_equal(numbers.values, values)
    assert list(numbers.words) == words


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["1,234"], "row 0 is '1,234': thousands or decimals"),
        (["1.5", "1,5"], "row 1 is '1,5', but '1.5' has another decimal separator"),
        (["€1", "$1"], r"row 1 is '\$1', but '€1' is in another unit"),
        (["12%", "0.3"], "row 1 is '0.3', but '12%' is in per cent"),
        (["1", "many"], "row 1 is 'many', which cannot be read as a number"),
        *[([text], "cannot be read as a number") for text in (
            "1,2,3", "12,34.5", "--5", "(-5)", "$", "5$$", "0x1f", "1_000", "inf", "1e"
        )],
    ],
)  # fmt: skip
def test_numbers_that_cannot(texts, words):
    with pytest.raises(ValueError, match=words):
        read_numbers(texts, COLUMN)


def test_the_user_decides_about_decimals():
    np.testing.assert_array_equal(read_numbers(["1,234"], COLUMN, ",").values, [1.234])
    np.testing.assert_array_equal(read_numbers(["1,234"], COLUMN, ".").values, [1234])
    np.testing.assert_array_equal(read_numbers(["1.234"], COLUMN).values, [1.234])
    with pytest.raises(ValueError, match="thousands or decimals"):
        read_numbers(["1.234"], COLUMN, doubtful=",.")
    with pytest.raises(ValueError, match="with decimal ','"):
        read_numbers(["1.5"], COLUMN, ",")
    assert looks_like_number(" 1,5 ")
    assert not looks_like_number("31/12/2025")


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_frames_with_texts_are_read_the_same_way(kind):
    frame = as_frame(kind({"ds": ["31.12.2025", "01.01.2026"], "y": ["1.234,5", "-"]}))
    assert np.diff(time_column(frame, "ds").values) == 86_400e6
    np.testing.assert_array_equal(number_column(frame, "y"), [1234.5, np.nan])
    with pytest.raises(ValueError, match=r"'y'.*row 0 is 'a', which cannot be read as a number"):
        number_column(as_frame(kind({"y": ["a", "b"]})), "y")


@pytest.mark.parametrize(
    ("texts", "zone"),
    [
        (["2024-01-01T00:00+01:00", "2024-06-01T00:00+01:00"], "+01:00"),
        (["2024-01-01T00:00-03:30"], "-03:30"),
        (["2024-01-01T00:00Z"], "UTC"),
        (["2024-01-01T00:00+01:00", "2024-06-01T00:00+02:00"], "UTC"),
        (["2024-01-01T00:00"], None),
    ],
)
def test_an_offset_that_all_share_is_the_zone(texts, zone):
    assert read_times(texts, "times").zone == zone
