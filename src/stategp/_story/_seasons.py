"""Components that repeat, drawn as people expect them: over one period.

A pattern that repeats exactly is the same in every period, so one of them shows it all. One that
changes is shown at the beginning and at the end of the data. Where x is a date and the period a
day, a week or a year, the period starts when the calendar says.
"""

import dataclasses
import datetime
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from stategp._story._charts import Ticks
from stategp.kernels import (
    Constant,
    Cosine,
    DivergenceFreeOscillator,
    Harmonic,
    Kernel,
    Periodic,
    Product,
    QuasiPeriodic,
    Sum,
)

_FEWEST = 3  # periods in the data: fewer are better seen one after the other
_POINTS = 241
_DAY = 86_400e6  # microseconds
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun", "Mon")


class Cycle(NamedTuple):
    """How long a kernel takes to repeat, and whether the pattern changes meanwhile."""

    period: float
    changes: bool


class Calendar(NamedTuple):
    """A period that people have a name for."""

    name: str
    days: float
    label: str
    unit: float  # of the axis, in days
    ticks: Ticks


def _month_ticks() -> Ticks:
    starts = [datetime.date(2023, month, 1).timetuple().tm_yday - 1 for month in range(1, 13)]
    return tuple((float(day), name) for day, name in zip(starts, _MONTHS, strict=True))


_CALENDARS = (
    Calendar(
        "hour", 1 / 24, "Minute", 1 / 1440, tuple((float(m), str(m)) for m in range(0, 61, 10))
    ),
    Calendar(
        "day", 1.0, "Time of day", 1 / 24, tuple((float(h), f"{h:02}:00") for h in range(0, 25, 4))
    ),
    Calendar(
        "week",
        7.0,
        "Day of the week",
        1.0,
        tuple((float(day), name) for day, name in enumerate(_WEEKDAYS)),
    ),
    Calendar("year", 365.2425, "Month", 1.0, _month_ticks()),
)
_UNITS = (("days", 1.0), ("hours", 1 / 24), ("minutes", 1 / 1440), ("seconds", 1 / 86_400))


@dataclasses.dataclass(frozen=True)
class Plan:
    """Where a season is computed and how its axis is written."""

    starts: tuple[float, ...]  # of the periods shown, measured from the origin
    period: float
    names: tuple[str, ...]  # of these periods; one without a name stands for all
    noun: str  # day, week, year or period
    label: str
    phase: np.ndarray  # in the unit of the axis
    ticks: Ticks | None

    @property
    def x(self) -> np.ndarray:
        """Where the component is needed, one period after the other."""
        along = np.linspace(0.0, self.period, _POINTS)
        return np.concatenate([start + along for start in self.starts])

    @property
    def about(self) -> str:
        """What is shown, in a sentence."""
        if len(self.starts) == 1:
            return f"One {self.noun}: the pattern repeats."
        return f"The first and the last {self.noun} of the data: the pattern changes."


def cycle_of(kernel: Kernel) -> Cycle | None:
    """How a kernel repeats; None if it does not.

    >>> import stategp as sg
    >>> cycle_of(sg.kernels.Cosine(period=7.0) + sg.kernels.Cosine(period=3.5))
    Cycle(period=7.0, changes=False)
    """
    if isinstance(kernel, Cosine | Periodic):
        return Cycle(float(kernel.period), False)
    if isinstance(kernel, QuasiPeriodic | DivergenceFreeOscillator):
        return Cycle(float(kernel.period), True)
    if isinstance(kernel, Harmonic):
        return Cycle(1 / float(kernel.frequency), True)
    if isinstance(kernel, Sum):
        return _together([cycle_of(part) for part in kernel.kernels if not _constant(part)])
    if isinstance(kernel, Product):
        sides = (cycle_of(kernel.left), cycle_of(kernel.right))
        if sides[0] is not None and sides[1] is not None:
            return _together(list(sides))
        one = sides[0] or sides[1]
        other = kernel.right if sides[0] is not None else kernel.left
        return None if one is None else Cycle(one.period, one.changes or not _constant(other))
    return None


def _together(cycles: list[Cycle | None]) -> Cycle | None:
    """Of several that repeat: the longest, if the others fit into it."""
    known = [cycle for cycle in cycles if cycle is not None]
    if not known or len(known) < len(cycles):
        return None
    longest = max(cycle.period for cycle in known)
    times = np.array([longest / cycle.period for cycle in known])
    if np.any(np.abs(times - np.rint(times)) > 1e-3):
        return None
    return Cycle(longest, any(cycle.changes for cycle in known))


def _constant(kernel: Kernel) -> bool:
    return isinstance(kernel, Constant)


def plan_season(
    cycle: Cycle | None,
    ends: tuple[float, float],
    origin: int | float,
    to_time: Callable[[np.ndarray], np.ndarray] | None,
    x_label: str,
) -> Plan | None:
    """How to draw a component over one period; None where that is not what people expect.

    `ends` are those of the data, measured from the origin; `to_time` makes dates of such numbers.
    """
    if cycle is None or not ends[1] - ends[0] >= _FEWEST * cycle.period:
        return None
    if to_time is None:
        return _with_numbers(cycle, ends, float(origin), x_label)
    first, last = (at.astype("datetime64[us]") for at in to_time(np.array(ends)))
    scale = float((last - first) / np.timedelta64(1, "us")) / _DAY / (ends[1] - ends[0])
    days = cycle.period * scale  # scale: days in a unit of x
    cycles = (ends[1] - ends[0]) / cycle.period
    for calendar in _CALENDARS:
        if abs(days - calendar.days) * cycles < 0.05 * calendar.days:
            return _with_calendar(cycle, ends, to_time, scale, calendar)
    starts = _starts(cycle, ends[0], ends)
    dates = to_time(np.array(starts)).astype("datetime64[us]")
    unit, length = next(((u, n) for u, n in _UNITS if days >= 2 * n), _UNITS[-1])
    return Plan(
        starts,
        cycle.period,
        tuple(f"from {_day(date)}" for date in dates) if cycle.changes else ("",),
        "period",
        f"{unit.capitalize()} into the period",
        np.linspace(0.0, days / length, _POINTS),
        None,
    )


def _with_numbers(cycle: Cycle, ends: tuple[float, float], origin: float, x_label: str) -> Plan:
    """Periods start at multiples of their length, as the user counts."""
    period = cycle.period
    begin = np.ceil((ends[0] + origin) / period - 1e-9) * period - origin
    starts = _starts(cycle, begin, ends)
    between = [f"{start + origin:.6g} to {start + origin + period:.6g}" for start in starts]
    return Plan(
        starts,
        period,
        tuple(between) if cycle.changes else ("",),
        "period",
        f"{x_label} within a period of {period:.5g}",
        np.linspace(0.0, period, _POINTS),
        None,
    )


def _with_calendar(
    cycle: Cycle,
    ends: tuple[float, float],
    to_time: Callable[[np.ndarray], np.ndarray],
    scale: float,
    calendar: Calendar,
) -> Plan:
    """Periods start at midnight, on Mondays, in January."""

    def aligned(at: float, up: bool) -> float:
        date = to_time(np.array([at])).astype("datetime64[us]")[0]
        start = _floor(date, calendar.name)
        if up and start < date:
            start = _floor(
                start + np.timedelta64(int(1.01 * calendar.days * _DAY), "us"), calendar.name
            )
        return at + float((start - date) / np.timedelta64(1, "us")) / _DAY / scale

    last = aligned(ends[1] - cycle.period, up=False)
    first = aligned(ends[0], up=True)
    starts = (first, last) if cycle.changes and first + cycle.period <= last else (last,)
    dates = to_time(np.array(starts)).astype("datetime64[us]")
    words = [_period_name(date, calendar.name) for date in dates]
    return Plan(
        starts,
        cycle.period,
        tuple(words) if len(starts) > 1 else ("",),
        calendar.name,
        calendar.label,
        np.linspace(0.0, calendar.days / calendar.unit, _POINTS),
        calendar.ticks,
    )


def _starts(cycle: Cycle, first: float, ends: tuple[float, float]) -> tuple[float, ...]:
    """The last whole period of the data, and the first if that looks different."""
    last = first + np.floor((ends[1] - first) / cycle.period - 1 + 1e-9) * cycle.period
    return (first, float(last)) if cycle.changes and last > first else (float(last),)


def _floor(date: np.datetime64, name: str) -> np.datetime64:
    if name == "week":  # 1970 began on a Thursday
        days = int(date.astype("datetime64[D]").astype(np.int64))
        return np.datetime64(days - (days + 3) % 7, "D").astype("datetime64[us]")
    unit = {"hour": "h", "day": "D", "year": "Y"}[name]
    return date.astype(f"datetime64[{unit}]").astype("datetime64[us]")


def _period_name(date: np.datetime64, name: str) -> str:
    if name == "year":
        return str(date.astype("datetime64[Y]"))
    if name == "hour":
        return f"{_day(date)} {str(date.astype('datetime64[m]'))[-5:]}"
    # near midnight, rounding must not name the day before
    rounded = _day(date + np.timedelta64(1, "h"))
    return f"week of {rounded}" if name == "week" else rounded


def _day(date: np.datetime64) -> str:
    year, month, day = str(date.astype("datetime64[D]")).rsplit("-", 2)
    return f"{int(day)} {_MONTHS[int(month) - 1]} {year}"
