"""Days on which something happens: public holidays, and events of the user's own."""

import dataclasses
import datetime
from collections.abc import Iterable
from typing import Any

import numpy as np

from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._effects import Event, Holidays
from stategp._forecasting._steps import local_times

HOLIDAYS = "holidays"  # the component that all of them make
_AHEAD = 20  # years after the data for which holidays are looked up
_EPOCH = datetime.date(1970, 1, 1).toordinal()


@dataclasses.dataclass(frozen=True, eq=False)
class Occasion:
    """Days that share an effect, as numbers of days since 1970."""

    component: str
    name: str
    days: np.ndarray


def occasions_of(
    holidays: Iterable[Holidays], events: Iterable[Event], years: tuple[int, int]
) -> tuple[Occasion, ...]:
    """Every effect of a day: that of each holiday and event, and of each day around them.

    `years` are the first and the last of the data.
    """
    days: dict[tuple[str, str], set[int]] = {}
    for calendar in holidays:
        names = _names(calendar, years)
        _check_windows(calendar, names)
        for name, dates in names.items():
            before, after = calendar.windows.get(name, (calendar.before, calendar.after))
            _add(days, HOLIDAYS, name, dates, before, after)
    for event in events:
        dates = [int(np.datetime64(date, "D").astype(np.int64)) for date in event.dates]
        _add(days, event.name, event.name, dates, event.before, event.after)
    return tuple(
        Occasion(component, name, np.array(sorted(found), dtype=np.int64))
        for (component, name), found in days.items()
    )


def _add(
    days: dict[tuple[str, str], set[int]],
    component: str,
    name: str,
    dates: Iterable[int],
    before: int,
    after: int,
) -> None:
    for away in range(-before, after + 1):
        count = f"{abs(away)} day{'s' * (abs(away) > 1)}"
        label = name if away == 0 else f"{name}, {count} {'before' if away < 0 else 'after'}"
        days.setdefault((component, label), set()).update(date + away for date in dates)


def _names(calendar: Holidays, years: tuple[int, int]) -> dict[str, list[int]]:
    """The dates of each holiday by its name."""
    library = _library()
    every = range(years[0] - 1, years[1] + _AHEAD + 1)
    try:
        found = library.country_holidays(
            calendar.country, subdiv=calendar.subdivision, years=every, language="en_US"
        )
    except NotImplementedError as error:
        raise ValueError(
            f"the package holidays does not know {calendar.country!r}"
            + (f", {calendar.subdivision!r}" if calendar.subdivision else "")
            + f": {error}"
        ) from None
    names: dict[str, list[int]] = {}
    for date, text in sorted(found.items()):
        for name in text.split("; "):
            names.setdefault(name, []).append(date.toordinal() - _EPOCH)
    return names


def _check_windows(calendar: Holidays, names: Iterable[str]) -> None:
    unknown = [name for name in calendar.windows if name not in names]
    if unknown:
        raise ValueError(
            f"windows names {unknown[0]!r}, which is no holiday of {calendar.country}; its "
            f"holidays are {', '.join(names)}"
        )


def _library() -> Any:
    try:
        import holidays
    except ImportError:
        raise ImportError(
            'public holidays need the package holidays: pip install "stategp[forecast]" '
            "(or give their dates as events)"
        ) from None
    return holidays


def day_numbers(x: np.ndarray, axis: TimeAxis) -> np.ndarray:
    """The local days of times, as days since 1970."""
    if axis.zone is None:
        times = axis.times(np.asarray(x, dtype=float))
    else:
        times = np.array(local_times(x, axis), dtype="datetime64[us]")
    return times.astype("datetime64[D]").astype(np.int64)
