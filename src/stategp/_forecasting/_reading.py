"""Series out of long frames, dictionaries and lists; what is wrong with one stays with that one."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._frames import installed_kind, number_column, time_column
from stategp._forecasting._instants import Instants
from stategp._forecasting._long import Key, Long, taken
from stategp._forecasting._steps import fitting_axis


class LongForm(NamedTuple):
    """The columns that series came from, for answers in the same form."""

    by: tuple[str, ...]
    time: str
    target: str
    kind: str  # of data frame, by the name of its library; "" if none is installed
    axis: TimeAxis


class Raw(NamedTuple):
    """A series as it came, or what is wrong with it."""

    key: Key
    x: Any = None
    y: Any = None
    extras: dict[str, Any] = {}  # noqa: RUF012, never changed
    problem: str = ""


def read_series(
    long: Long,
    time: str,
    target: str,
    columns: dict[str, str | None],
    layout: str | None,
    axis: TimeAxis | None = None,
    *,
    business: bool = False,
) -> tuple[LongForm, list[Raw]]:
    """The series of a long frame; `columns` are others to read, by what they are for.

    The axis is that of all series, unless one is given; with `business` it leaves weekends out if
    no series has any.
    """
    named = {name: column for name, column in columns.items() if column is not None}
    for name in (time, target, *named.values()):
        if name not in long.table.columns:
            number_column(long.table, name)  # says which columns there are
    instants = _each(long, lambda table: time_column(table, time, layout=layout))
    axis = axis or _axis([found for found in instants if isinstance(found, Instants)], business)
    y = _each(long, partial(_numbers, target))
    extras = {name: _each(long, partial(_numbers, column)) for name, column in named.items()}
    found = []
    for number, key in enumerate(long.keys):
        parts = {name: values[number] for name, values in extras.items()}
        found.append(_raw(key, axis, time, instants[number], y[number], parts))
    return LongForm(long.by, time, target, long.kind, axis), found


def _numbers(name: str, table: Any) -> np.ndarray:
    return number_column(table, name)


def _raw(key: Key, axis: TimeAxis, time: str, instants: Any, y: Any, extras: dict[str, Any]) -> Raw:
    for part in (instants, y, *extras.values()):
        if isinstance(part, str):
            return Raw(key, problem=part)
    try:
        x = axis.numbers(instants, f"column {time!r}")
    except ValueError as error:
        return Raw(key, problem=str(error))
    return Raw(key, x, y, extras)


def _axis(instants: list[Instants], business: bool) -> TimeAxis:
    """One for all series: a date is the same number in each of them.

    Months are even, or weekends left out, where that suits all series that are long enough to tell.
    """
    if not instants:
        return TimeAxis(False)
    first = min(instants, key=lambda one: one.values.min() if len(one.values) else np.inf)
    axis = TimeAxis.of(first)
    like = [one for one in instants if axis.takes(one)]

    def suits(flag: str, fewest: int) -> bool:
        telling = [one for one in like if len(one.values) >= fewest]
        return bool(telling) and all(getattr(fitting_axis(one), flag) for one in telling)

    even = suits("even_months", 4)
    clock = bool(like) and fitting_axis(like[0]).clock
    without = business and not even and suits("business", 10)
    return dataclasses.replace(axis, even_months=even, business=without, clock=clock)


def _each(long: Long, read: Callable[[Any], Any]) -> list[Any]:
    """What is read of every series, or what is wrong with it: all at once, if nothing is."""
    try:
        whole = read(long.table)
    except ValueError:
        return [_try(read, taken(long.table, rows)) for rows in long.rows]
    if isinstance(whole, Instants):
        return [whole._replace(values=whole.values[rows]) for rows in long.rows]
    return [whole[rows] for rows in long.rows]


def _try(read: Callable[[Any], Any], part: Any) -> Any:
    try:
        return read(part)
    except ValueError as error:
        return str(error)


def read_pairs(data: Any) -> tuple[LongForm, list[Raw]]:
    """The series of a dictionary or list of pairs (x, y)."""
    if isinstance(data, Mapping):
        pairs = list(data.items())
    elif isinstance(data, Sequence) and not isinstance(data, str):
        pairs = list(enumerate(data))
    else:
        raise ValueError(
            "give a data frame and `by`, the column that tells series apart; or a dictionary or a "
            f"list of pairs (x, y); got {type(data).__name__}"
        )
    if not pairs:
        raise ValueError("there are no series: nothing to fit")
    found = []
    for key, pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            hint = "; for a frame of columns give `by`" if isinstance(data, Mapping) else ""
            got = type(pair).__name__
            raise ValueError(f"series {key!r} must be a pair (x, y), got {got}{hint}")
        found.append(Raw(key if isinstance(key, tuple) else (key,), *pair))
    names = tuple(f"series_{n}" for n in range(len(found[0].key)))
    by = names if len(names) > 1 else ("series",)
    if any(len(raw.key) != len(by) for raw in found):
        raise ValueError("keys must all be single values, or all tuples of the same length")
    return LongForm(by, "x", "y", installed_kind(), TimeAxis(False)), found
