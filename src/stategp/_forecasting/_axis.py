"""How times become the numbers that the model sees.

Dates become days since an origin; numbers stay as they are. The origin is fixed by the first fit,
so that a date means the same number for ever after. Where data are monthly, months count as
equally long: what happens every March then repeats exactly, and steps are alike.
"""

import dataclasses
import datetime
import re
from typing import Any

import numpy as np

from stategp._arguments import as_number
from stategp._durations import days
from stategp._forecasting._instants import Instants, read_times

_PER_DAY = {"us": 86_400 * 10**6, "ns": 86_400 * 10**9}
# In which every library can write a date.
_YEARS = {"us": (1, 9999), "ns": (1678, 2262)}
# A date where a length of time could stand.
_DATE = re.compile(r"\d{4}[-/]\d|\d{1,2}([-/.])\d{1,2}\1\d{4}")


_MONTH = 365.25 / 12
_PER_DAY_ROUNDED = 86_400_000  # what is left of a day after going to months and back


def evened(days: np.ndarray) -> np.ndarray:
    """Days since 1970, as they would be if all months were equally long."""
    months = np.floor(days).astype(np.int64).astype("datetime64[D]").astype("datetime64[M]")
    start, length = _month(months)
    return (months.astype(np.int64) + (days - start) / length) * _MONTH


def uneven(days: np.ndarray) -> np.ndarray:
    """The way back."""
    whole = np.floor(days / _MONTH + 1e-9)
    start, length = _month(whole.astype(np.int64).astype("datetime64[M]"))
    found = start + np.maximum(days / _MONTH - whole, 0.0) * length
    return np.round(found * _PER_DAY_ROUNDED) / _PER_DAY_ROUNDED


def _month(months: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Their first days, since 1970, and their lengths."""
    start = months.astype("datetime64[D]").astype(np.int64)
    return start, (months + 1).astype("datetime64[D]").astype(np.int64) - start


@dataclasses.dataclass(frozen=True)
class TimeAxis:
    """How times become numbers and numbers times."""

    dates: bool
    zone: str | None = None
    origin: int = 0  # units since 1970; dates only
    unit: str = "us"
    layout: str | None = None  # how texts are read that could be read in several ways
    even_months: bool = False  # whether a month is a twelfth of a year

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
        if not self.even_months:
            return since
        first = self.origin / ours
        return evened(first + since) - evened(np.array([first]))

    def times(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers as datetime64 (UTC, or local if the data had no zone), or as they are."""
        if not self.dates:
            return np.asarray(numbers)
        per_day = _PER_DAY[self.unit]
        if self.even_months:
            first_day = self.origin / per_day
            numbers = uneven(numbers + evened(np.array([first_day]))) - first_day
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

    def date(self, value: Any) -> float | None:
        """The number of a date ("2025-12-01", a datetime, a Timestamp), or None if it is none."""
        if isinstance(value, str):
            if not _DATE.match(value.strip()):
                return None
        elif not isinstance(value, datetime.date | np.datetime64):
            return None
        if not self.dates:
            raise ValueError(f"{value!r} is a date, but the times are numbers: give a number")
        instants = read_times([value], "the horizon", self.zone, self.layout)
        return float(self.numbers(instants, "the horizon")[0])
