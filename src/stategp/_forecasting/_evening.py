"""Calendars in which steps are alike: equal months, weeks of business days, clocks as they show.

Each has a way there and back, for days (with fractions) since 1970.
"""

import datetime
import functools
from typing import NamedTuple

import numpy as np

from stategp._forecasting._instants import as_zone

_MONTH = 365.25 / 12
_PER_DAY_ROUNDED = 86_400_000  # what is left of a day after going to months and back
_MONDAY = 3  # days from one to the first of January 1970, a Thursday
_BUSINESS = 5  # days of a week
_ROUNDING = 1e-9  # days
_WEEKS = 52  # between which two changes of a clock in the same year are looked for
_DAY = datetime.timedelta(days=1)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


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


def at_weekend(days: np.ndarray) -> np.ndarray:
    """Whether days lie on a Saturday or Sunday."""
    return np.asarray((np.floor(days + _ROUNDING) + _MONDAY) % 7 >= _BUSINESS)


def without_weekends(days: np.ndarray) -> np.ndarray:
    """Days since 1970, as they would be if business days took all of a week; weekends take none."""
    week, within = np.divmod(days + _MONDAY, 7)
    return 7 * week + np.minimum(within, _BUSINESS) * (7 / _BUSINESS)


def with_weekends(days: np.ndarray) -> np.ndarray:
    """The way back, to business days."""
    week = np.floor(days / 7 + _ROUNDING)
    found = 7 * week + np.maximum(days - 7 * week, 0.0) * (_BUSINESS / 7) - _MONDAY
    return np.round(found * _PER_DAY_ROUNDED) / _PER_DAY_ROUNDED


class Clock(NamedTuple):
    """How much the clock of a zone is ahead of UTC, in days, between some instants.

    Where clocks are changed, the step is spread over as long before and after, so that the time
    that they show goes on without jumps and never back.
    """

    instants: np.ndarray  # days since 1970, UTC
    ahead: np.ndarray

    @staticmethod
    def of(zone: str, first: float, last: float) -> "Clock":
        """Of a zone, for instants within some days."""
        years = range(_year(first) - 1, _year(last) + 2)
        knots = [knot for year in years for knot in _changes(zone, year)]
        start = _ahead(zone, _instant(_first_day(years[0])))
        return Clock(
            np.array([_first_day(years[0]), *(at for at, _ in knots)]),
            np.array([start, *(ahead for _, ahead in knots)]),
        )

    def shift(self, days: np.ndarray) -> np.ndarray:
        """How much it is ahead at some instants."""
        return np.interp(days, self.instants, self.ahead)

    def shift_back(self, shown: np.ndarray) -> np.ndarray:
        """How much it is ahead when it shows some times."""
        return np.interp(shown, self.instants + self.ahead, self.ahead)


@functools.lru_cache(maxsize=4096)
def _changes(zone: str, year: int) -> tuple[tuple[float, float], ...]:
    """Before and after each change of a clock in a year: the instant, and how much it is ahead."""
    knots: list[tuple[float, float]] = []
    steps = np.linspace(_first_day(year), _first_day(year + 1), _WEEKS + 1)
    known = [_ahead(zone, _instant(day)) for day in steps]
    for number in np.flatnonzero(np.diff(known)):
        low, high = float(steps[number]), float(steps[number + 1])
        before, after = known[number], known[number + 1]
        while high - low > 1e-6:  # a tenth of a second; changes are at whole minutes
            middle = (low + high) / 2
            low, high = (
                (middle, high) if _ahead(zone, _instant(middle)) == before else (low, middle)
            )
        at, width = round(high * 1440) / 1440, abs(after - before)
        knots += [(at - width, before), (at + width, after)]
    return tuple(knots)


def _ahead(zone: str, moment: datetime.datetime) -> float:
    offset = moment.astimezone(as_zone(zone)).utcoffset()
    return 0.0 if offset is None else offset / _DAY


def _instant(day: float) -> datetime.datetime:
    return _EPOCH + datetime.timedelta(days=day)


def _first_day(year: int) -> float:
    bounded = min(max(year, 2), 9998)
    return float(np.datetime64(f"{bounded:04}-01-01", "D").astype(np.int64))


def _year(day: float) -> int:
    years = np.datetime64(int(np.floor(day)), "D").astype("datetime64[Y]")
    return int(years.astype(np.int64)) + 1970
