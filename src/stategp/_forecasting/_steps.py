"""The times of a forecast: the data's own rhythm, continued."""

import calendar
import dataclasses
import datetime
import zoneinfo
from typing import Any

import numpy as np

from stategp._durations import days, describe
from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._instants import Instants, as_zone

_MONTH = days("1mo")
_MOST = 1_000_000
_LOOKED_AT = 24  # times from which a calendar rhythm is read


def continued(x: np.ndarray, axis: TimeAxis, horizon: Any, every: Any) -> np.ndarray:
    """Times after the last of x (ordered, distinct), up to a horizon, as numbers.

    The horizon is a length of time, or a date, which is the last that can come. Steps of months,
    and of days where there is a time zone, are the calendar's.
    """
    until = axis.date(horizon)
    if until is None:
        length = axis.length("horizon", horizon)
    else:
        length = _length_until(until, x, axis, horizon)
    if every is not None:
        spacing = axis.length("every", every)
        if axis.business and not _whole(spacing / 7):
            spacing *= 7 / 5  # so many business days
        months = _whole(spacing / _MONTH) if axis.dates else 0
    else:
        spacing = axis.ticks(float(np.median(np.diff(x)))) if len(x) > 1 else length
        months = months_apart(x[-_LOOKED_AT:], axis)
    # A horizon of so many months has so many steps, however long these months are.
    by_months = _whole(length / _MONTH) if months and until is None else 0
    # One more than fits: months and days are of several lengths, and only those within are kept.
    count = int(length / spacing * (1 + 1e-9)) + bool(months or until is not None)
    count = by_months // months if by_months else count
    if count > _MOST:
        raise ValueError(
            f"a forecast over {horizon!r} in steps of {_shown(spacing, axis)} has {count:,} rows; "
            f"give `every` to make it at most {_MOST:,}"
        )
    if months:
        times = _by_months(x[-_LOOKED_AT:], axis, months, count)
    elif (
        axis.zone is not None
        and not axis.business
        and _whole(spacing)
        and _same_clock(x[-_LOOKED_AT:], axis, every)
    ):
        times = _by_days(float(x[-1]), axis, _whole(spacing), count)
    elif axis.clock and not axis.business:  # hours are all equally long
        times = axis.after_elapsed(axis.elapsed(x[-1:]) + spacing * np.arange(1, count + 1))
    else:
        times = x[-1] + spacing * np.arange(1, count + 1)
    if until is not None or (months and not by_months):
        times = times[times <= x[-1] + length * (1 + 1e-9)]
    if len(times) == 0:
        raise ValueError(
            f"the horizon {horizon!r} is shorter than one step of {_shown(spacing, axis)}; "
            "give a longer one, or a smaller `every`"
        )
    return times


def _length_until(until: float, x: np.ndarray, axis: TimeAxis, horizon: Any) -> float:
    if until <= x[-1]:
        last = str(local_times(x[-1:], axis)[0])
        raise ValueError(f"the data end at {last}; {horizon!s} is not after that")
    return float(until - x[-1])


def _whole(number: float) -> int:
    """The number if it is whole and positive, else 0."""
    return round(number) if number > 0.5 and abs(number - round(number)) < 1e-9 else 0


def _shown(spacing: float, axis: TimeAxis) -> str:
    return describe(spacing) if axis.dates else f"{spacing:g}"


def shown_time(number: float, axis: TimeAxis) -> str:
    """A time as people write it: a number, a date, or a date and a time of day."""
    if not axis.dates:
        return f"{number:.10g}"
    (moment,) = local_times(np.array([number]), axis)
    return f"{moment:%Y-%m-%d}" if moment.time() == datetime.time() else f"{moment:%Y-%m-%d %H:%M}"


def local_times(x: np.ndarray, axis: TimeAxis) -> list[datetime.datetime]:
    """Times as a clock in the zone shows them."""
    moments: list[datetime.datetime] = axis.times(x).astype("datetime64[us]").tolist()
    if axis.zone is None:
        return moments
    zone = as_zone(axis.zone)
    return [m.replace(tzinfo=datetime.UTC).astimezone(zone).replace(tzinfo=None) for m in moments]


def _numbers(local: list[datetime.datetime], axis: TimeAxis, last: float) -> np.ndarray:
    """The way back; `last` gives what a clock of microseconds does not show."""
    if axis.zone is not None:
        zone = as_zone(axis.zone)
        moments = [m.replace(tzinfo=zone).astimezone(datetime.UTC) for m in local]
        local = [m.replace(tzinfo=None) for m in moments]
    if axis.even_months or axis.business or axis.clock:
        origin = np.array([axis.origin]).astype(f"datetime64[{axis.unit}]")
        since = np.array(local, dtype="datetime64[us]") - origin
        return axis.after_elapsed(since / np.timedelta64(1, "D"))
    before = axis.times(np.array([last])).astype("datetime64[us]")
    since = np.array(local, dtype="datetime64[us]") - before
    return last + since / np.timedelta64(1, "D")


def _same_clock(x: np.ndarray, axis: TimeAxis, every: Any) -> bool:
    return every is not None or len({moment.time() for moment in local_times(x, axis)}) == 1


def fitting_axis(instants: Instants) -> TimeAxis:
    """The axis on which the steps of these times are as alike as their calendar allows."""
    axis = TimeAxis.of(instants)
    if axis.unit != "us" or not axis.dates:
        return axis
    zone = None if axis.zone in (None, "UTC") else as_zone(str(axis.zone))
    axis = dataclasses.replace(axis, clock=isinstance(zone, zoneinfo.ZoneInfo))
    x = np.unique(axis.numbers(instants, "times"))
    monthly = axis.zone is None and months_apart(x, axis) > 0
    business = not monthly and only_business_days(x, axis)
    return dataclasses.replace(axis, even_months=monthly, business=business)


def months_apart(x: np.ndarray, axis: TimeAxis) -> int:
    """How many months lie between neighbours, if that is what they have in common; else 0."""
    if not axis.dates or len(x) < 4 or np.median(np.diff(x)) < 27:
        return 0
    local = local_times(x, axis)
    same_day = len({m.day for m in local}) == 1 and local[0].day <= 28
    if len({m.time() for m in local}) > 1 or not (same_day or all(map(_ends_month, local))):
        return 0
    return int(np.median(np.diff([12 * m.year + m.month for m in local])))


def only_business_days(x: np.ndarray, axis: TimeAxis) -> bool:
    """Whether these are days of which none lies at a weekend, over two weeks or more."""
    if not axis.dates or len(x) < 10 or abs(np.median(np.diff(x)) - 1) > 1e-9:
        return False
    local = local_times(x, axis)
    usual = all(moment.weekday() < 5 for moment in local)
    return usual and len({moment.time() for moment in local}) == 1


def _ends_month(moment: datetime.datetime) -> bool:
    return moment.day == calendar.monthrange(moment.year, moment.month)[1]


def _by_months(x: np.ndarray, axis: TimeAxis, months: int, count: int) -> np.ndarray:
    """Months after the last of x: on its day of the month, or at the end if all of x are there."""
    local = local_times(x, axis)
    start, ends = local[-1], all(map(_ends_month, local))
    dates = []
    for step in range(1, count + 1):
        year, month = divmod(12 * start.year + start.month - 1 + step * months, 12)
        if year > datetime.MAXYEAR:
            raise ValueError(f"the forecast goes beyond the year {datetime.MAXYEAR}")
        longest = calendar.monthrange(year, month + 1)[1]
        day = longest if ends else min(start.day, longest)
        dates.append(start.replace(year=year, month=month + 1, day=day))
    return _numbers(dates, axis, float(x[-1]))


def _by_days(last: float, axis: TimeAxis, step: int, count: int) -> np.ndarray:
    start = local_times(np.array([last]), axis)[0]
    try:
        dates = [start + datetime.timedelta(days=step * i) for i in range(1, count + 1)]
    except OverflowError:
        raise ValueError(f"the forecast goes beyond the year {datetime.MAXYEAR}") from None
    return _numbers(dates, axis, last)
