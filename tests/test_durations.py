"""Durations: what they are in days, how they are written, and where kernels take them."""

import datetime
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stategp as sg
from stategp._durations import days, describe


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30d", 30.0),
        ("1.5h", 0.0625),
        ("90min", 0.0625),
        ("12h", 0.5),
        ("52w", 364.0),
        ("1y", 365.25),
        ("1mo", 30.4375),
        ("1month", 30.4375),
        ("2 weeks", 14.0),
        ("1 day", 1.0),
        ("3 hours", 0.125),
        ("1d12h", 1.5),
        ("1 day, 12 hours", 1.5),
        (" 2W ", 14.0),
        (".5d", 0.5),
        ("1e1d", 10.0),
    ],
)
def test_days(text: str, expected: float) -> None:
    assert days(text) == expected


@pytest.mark.parametrize(
    ("text", "delta"),
    [
        ("10s", datetime.timedelta(seconds=10)),
        ("250ms", datetime.timedelta(milliseconds=250)),
        ("5us", datetime.timedelta(microseconds=5)),
        ("5µs", datetime.timedelta(microseconds=5)),
        ("1h30min15s", datetime.timedelta(hours=1, minutes=30, seconds=15)),
    ],
)
def test_short_durations(text: str, delta: datetime.timedelta) -> None:
    assert days(text) == pytest.approx(delta / datetime.timedelta(days=1), rel=1e-15)
    assert days("1ns") == pytest.approx(days("1us") / 1000, rel=1e-15)


@pytest.mark.parametrize(
    "text",
    ["3 fortnights", "", "d", "30", "1d 2d", "1h 1d", "d30", "1d!", "one day", "1__d", "9" * 200],
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration; write a number and a unit: 30d, 12h"):
        days(text)


def test_errors_name_what_was_given() -> None:
    expected = (
        "'3 fortnights' is not a duration; write a number and a unit: 30d, 12h, 15min, 2w, 1y"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        days("3 fortnights")
    with pytest.raises(ValueError, match="'5m' could be minutes or months: write 5min or 5mo"):
        days("5m")
    with pytest.raises(ValueError, match="could be minutes or months"):
        days("1d 5M")


@pytest.mark.parametrize("text", ["0d", "-3d", "- 3 days", "1e999d", "1e-999d", "0h0min"])
def test_durations_are_positive_and_finite(text: str) -> None:
    with pytest.raises(ValueError, match="a duration must be positive"):
        days(text)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0.5, "12h"),
        (1.0, "1d"),
        (7.0, "1w"),
        (14, "2w"),
        (10.0, "10d"),
        (30.4375, "1mo"),
        (365.0, "365d"),
        (365.25, "1y"),
        (364.0, "52w"),
        (3.217, "3.22d"),
        (2.5, "2.5d"),
        (500.0, "500d"),
        (1234.5, "3.38y"),
        (0.99999, "1d"),
        (999.9996 / 1440 / 60, "16.7min"),
        (1 / 96, "15min"),
        (0.25 / 86_400, "250ms"),
        (5 / 86_400e6, "5us"),
        (365.25e7, "10000000y"),
    ],
)
def test_describe(number: float | int, expected: str) -> None:
    assert describe(number) == expected


@pytest.mark.parametrize("number", [0.0, -1.0, math.nan, math.inf])
def test_describe_refuses_what_is_no_duration(number: float) -> None:
    with pytest.raises(ValueError, match="must be positive and finite"):
        describe(number)


@given(st.floats(1e-20, 1e20), st.sampled_from([3, 6, 12]))
def test_what_describe_writes_can_be_read(number: float, digits: int) -> None:
    assert days(describe(number, digits)) == pytest.approx(number, rel=0.51 * 10.0 ** (1 - digits))


# --- in kernels ------------------------------------------------------------------------------


def test_kernels_take_durations() -> None:
    assert float(sg.kernels.Matern52(lengthscale="30d").lengthscale) == 30.0
    assert float(sg.kernels.Cosine(period="12h").period) == 0.5
    kernel = sg.kernels.QuasiPeriodic(period=sg.fixed("1y"), decay=sg.parameter("10 years"))
    assert repr(kernel.period) == "fixed(365.25)"
    assert (kernel.period.role, kernel.decay.role) == ("period", "decay")
    assert float(kernel.decay) == 3652.5
    assert kernel.decay.learned


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sg.kernels.Constant(variance="1d"), "variance must be a number, got '1d'"),
        (
            lambda: sg.kernels.Constant(variance=sg.fixed("1d")),
            "variance must be a number, got a duration of 1 days",
        ),
        # The lengthscale of a periodic kernel is relative to the period.
        (lambda: sg.kernels.Periodic(lengthscale="1d"), "lengthscale must be a number, got '1d'"),
        (lambda: sg.kernels.Matern32(lengthscale="5m"), "lengthscale .* minutes or months"),
        (lambda: sg.kernels.Matern32(lengthscale="3 moons"), "'3 moons' is not a duration"),
        (lambda: sg.kernels.Matern32(lengthscale="long"), "got 'long' .or a duration, such as"),
        (lambda: sg.fixed("2.0"), "value must be a number or a duration: '2.0' is not"),
    ],
)
def test_kernels_refuse_in_words(make, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()
