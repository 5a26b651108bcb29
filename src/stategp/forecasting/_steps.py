"""The times of a forecast: the data's own rhythm, continued."""

import datetime
import zoneinfo
from typing import Any

import numpy as np

from stategp.forecasting._axis import TimeAxis

_MOST = 1_000_000
_LOOKED_AT = 24  # times from which a calendar rhythm is read


def continued(x: np.ndarray, axis: TimeAxis, horizon: Any, every: Any) -> np.ndarray:
    """Times after the last of x (ordered, distinct), up to a horizon, as numbers."""
    length = axis.length("horizon", horizon)
    last = float(x[-1])
    months = 0 if every is not None else _months_apart(x[-_LOOKED_AT:], axis)
    if every is None:
        spacing = float(np.median(np.diff(x))) if len(x) > 1 else length
    else:
        spacing = axis.length("every", every)
    count = int(length / spacing * (1 + 1e-9))
    if count < 1:
        raise ValueError(
            f"the horizon {horizon!r} is shorter than one step of {spacing:g}"
            f"{' days' if axis.dates else ''}; give a longer one, or a smaller `every`"
        )
    if count > _MOST:
        raise ValueError(
            f"a forecast over {horizon!r} in steps of {spacing:g}{' days' if axis.dates else ''} "
            f"has {count:,} rows; give `every` to make it at most {_MOST:,}"
        )
    if months:
        return _calendar(last, axis, months, length)
    return last + spacing * np.arange(1, count + 1)


def _local(x: np.ndarray, axis: TimeAxis) -> list[datetime.datetime]:
    moments = [moment.item() for moment in axis.times(x)]
    if axis.zone is None:
        return moments
    zone = zoneinfo.ZoneInfo(axis.zone)
    return [m.replace(tzinfo=datetime.UTC).astimezone(zone).replace(tzinfo=None) for m in moments]


def _months_apart(x: np.ndarray, axis: TimeAxis) -> int:
    """How many months lie between neighbours, if that is what they have in common; else 0."""
    if not axis.dates or len(x) < 4 or np.median(np.diff(x)) < 27:
        return 0
    local = _local(x, axis)
    if len({(m.day, m.time()) for m in local}) > 1 or local[0].day > 28:
        return 0
    months = np.diff([12 * m.year + m.month for m in local])
    return int(np.median(months))


def _calendar(last: float, axis: TimeAxis, months: int, length: float) -> np.ndarray:
    start = _local(np.array([last]), axis)[0]
    zone = None if axis.zone is None else zoneinfo.ZoneInfo(axis.zone)
    found = []
    for step in range(1, int(length / (27 * months)) + 2):
        month = start.month - 1 + step * months
        moment = start.replace(year=start.year + month // 12, month=month % 12 + 1)
        if zone is not None:
            moment = moment.replace(tzinfo=zone).astimezone(datetime.UTC).replace(tzinfo=None)
        since = np.datetime64(moment, "us").astype(np.int64) - np.int64(axis.origin)
        found.append(int(since) / (86_400 * 10**6))
    times = np.array(found)
    kept = times[times <= last + length * (1 + 1e-9)]
    return kept if len(kept) else times[:1]
