"""How times become the numbers that the model sees.

Dates become days since an origin; numbers stay as they are. The origin is fixed by the first fit,
so that a date means the same number for ever after. Where data are monthly, months count as
equally long: what happens every March then repeats exactly, and steps are alike. Where data leave
out weekends, business days take all of the week. In a time zone, days are those of its clock.
"""

import dataclasses
import datetime
import re
from typing import Any

import numpy as np

from stategp._arguments import as_number
from stategp._durations import days
from stategp._forecasting._evening import (
    Clock,
    at_weekend,
    evened,
    uneven,
    with_weekends,
    without_weekends,
)
from stategp._forecasting._instants import Instants, read_times

_PER_DAY = {"us": 86_400 * 10**6, "ns": 86_400 * 10**9}
# In which every library can write a date.
_YEARS = {"us": (1, 9999), "ns": (1678, 2262)}
# A date where a length of time could stand.
_HORIZON = "the horizon"
_DATE = re.compile(r"\d{4}[-/]\d|\d{1,2}([-/.])\d{1,2}\1\d{4}")


@dataclasses.dataclass(frozen=True)
class TimeAxis:
    """How times become numbers and numbers times."""

    dates: bool
    zone: str | None = None
    origin: int = 0  # units since 1970; dates only
    unit: str = "us"
    layout: str | None = None  # how texts are read that could be read in several ways
    even_months: bool = False  # whether a month is a twelfth of a year
    business: bool = False  # whether weekends are left out
    clock: bool = False  # whether days are those of the clock in the zone

    @classmethod
    def of(cls, instants: Instants) -> "TimeAxis":
        """The axis on which the first of these times is zero."""
        if instants.unit is None:
            return cls(False)
        first = int(instants.values.min()) if len(instants.values) else 0
        # Nanoseconds span 600 years only: they are kept where the data has some.
        if instants.unit == "ns" and np.all(instants.values % 1000 == 0):
            return cls(True, instants.zone, first // 1000, layout=instants.layout)
        return cls(True, instants.zone, first, instants.unit, instants.layout)

    def takes(self, instants: Instants) -> bool:
        """Whether times of this kind lie on the axis."""
        return instants.dates == self.dates and (instants.zone is None) == (self.zone is None)

    def numbers(self, instants: Instants, name: str) -> np.ndarray:
        """What the model sees."""
        if len(instants.values) == 0:
            return np.zeros(0)
        if instants.dates != self.dates:
            got, expected = ("dates", "numbers") if instants.dates else ("numbers", "dates")
            raise ValueError(f"{name} holds {got}, but the model was fitted to times in {expected}")
        if instants.unit is None:
            return instants.values
        if not self.takes(instants):
            one, other = ("without", "with") if instants.zone is None else ("with", "without")
            raise ValueError(
                f"{name} holds dates {one} a time zone, but the model was fitted to dates {other} "
                f"one{'' if self.zone is None else f' ({self.zone})'}; convert them first"
            )
        theirs, ours = _PER_DAY[instants.unit], _PER_DAY[self.unit]
        origin, rest = divmod(self.origin * theirs, ours)
        since = (instants.values - np.int64(origin)) / theirs - rest / (ours * theirs)
        found = self.after_elapsed(since)
        return self._before_weekends(since, found, name) if self.business else found

    def after_elapsed(self, since: np.ndarray) -> np.ndarray:
        """The numbers of instants, from the days that have elapsed since the origin."""
        first = self.origin / _PER_DAY[self.unit]
        if self.clock:
            clock = self._clock(since + first)
            ahead = float(clock.shift(np.array([first]))[0])
            since = since + (clock.shift(first + since) - ahead)
            first += ahead
        if not (self.even_months or self.business):
            return since
        there = evened if self.even_months else without_weekends
        return there(first + since) - there(np.array([first]))

    def elapsed(self, numbers: np.ndarray) -> np.ndarray:
        """The days that have elapsed since the origin: the way back."""
        first, ahead = self.origin / _PER_DAY[self.unit], 0.0
        if self.clock:
            ahead = float(self._clock(np.array([first])).shift(np.array([first]))[0])
        shown = first + ahead
        if self.even_months:
            numbers = uneven(numbers + evened(np.array([shown]))) - shown
        elif self.business:
            numbers = with_weekends(numbers + without_weekends(np.array([shown]))) - shown
        if not self.clock or len(numbers) == 0:
            return numbers
        clock = self._clock(numbers + shown)
        return numbers - (clock.shift_back(numbers + shown) - ahead)

    def _clock(self, days: np.ndarray) -> Clock:
        """That of the zone, for days since 1970 and the origin."""
        first = self.origin / _PER_DAY[self.unit]
        least, most = (self._number_of(year) + first for year in _YEARS["us"])
        ends = np.clip([min(days.min(), first), max(days.max(), first)], least, most)
        return Clock.of(str(self.zone), float(ends[0]), float(ends[1]))

    def _before_weekends(self, since: np.ndarray, found: np.ndarray, name: str) -> np.ndarray:
        """A horizon at a weekend lies before the Monday; elsewhere weekends are errors."""
        days = since + self.origin / _PER_DAY[self.unit]
        if self.clock:
            days = days + self._clock(days).shift(days)
        lost = at_weekend(days)
        if np.any(lost) and name != _HORIZON:
            date = np.datetime64(int(np.floor(days[lost][0] + 1e-9)), "D")
            raise ValueError(
                f"{name} holds {date}, a Saturday or Sunday, but the model was fitted to business "
                "days: leave weekends out"
            )
        return found - 0.5 * lost

    def times(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers as datetime64 (UTC, or local if the data had no zone), or as they are."""
        if not self.dates:
            return np.asarray(numbers)
        per_day = _PER_DAY[self.unit]
        numbers = self.elapsed(np.asarray(numbers, dtype=float))
        first, last = (self._number_of(year) for year in _YEARS[self.unit])
        if not np.all((numbers >= first) & (numbers <= last)):
            between = " and ".join(map(str, _YEARS[self.unit]))
            raise ValueError(f"these dates lie outside the years between {between}")
        # Whole days and parts of them apart, so that far dates keep their last digits.
        whole = np.floor(numbers)
        rest = np.round((numbers - whole) * per_day).astype(np.int64)
        counts = np.int64(self.origin) + whole.astype(np.int64) * per_day + rest
        return counts.astype(f"datetime64[{self.unit}]")

    def _number_of(self, year: int) -> float:
        days_since_1970 = int(np.datetime64(f"{year:04}-01-01", "D").astype(np.int64))
        return days_since_1970 - self.origin / _PER_DAY[self.unit]

    def length(self, name: str, value: Any) -> float:
        """A stretch of time: "30d" where times are dates, a number where they are numbers."""
        if isinstance(value, str | datetime.timedelta | np.timedelta64):
            if not self.dates:
                raise ValueError(
                    f"{name} is {value!r}, but the times are numbers: give {name} as a number too"
                )
            if isinstance(value, str):
                value = days(value)
            else:
                value = np.timedelta64(value) / np.timedelta64(1, "D")
        length = as_number(value)
        if length is None:
            example = "a length of time such as '30d'" if self.dates else "a number"
            raise ValueError(f"{name} must be {example}, got {value!r}")
        if not (np.isfinite(length) and length > 0):
            raise ValueError(f"{name} must be positive and finite, got {value}")
        return length

    def ticks(self, length: float) -> float:
        """A stretch of time without the rounding of the times that it lies between."""
        per_day = _PER_DAY[self.unit]
        whole = round(length * per_day) / per_day
        return whole if self.dates and whole > 0 else length

    def date(self, value: Any) -> float | None:
        """The number of a date ("2025-12-01", a datetime, a Timestamp), or None if it is none."""
        if isinstance(value, str):
            if not _DATE.match(value.strip()):
                return None
        elif not isinstance(value, datetime.date | np.datetime64):
            return None
        if not self.dates:
            raise ValueError(f"{value!r} is a date, but the times are numbers: give a number")
        instants = read_times([value], _HORIZON, self.zone, self.layout)
        return float(self.numbers(instants, _HORIZON)[0])
