"""Answers for many series, as one long frame."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._frames import time_column, times_series
from stategp._forecasting._long import Key, Long, long_frame, read_long, shown_key
from stategp._forecasting._reading import LongForm
from stategp._forecasting._steps import continued
from stategp._story import user_units

Answer = tuple[np.ndarray, dict[str, np.ndarray]]  # times as numbers, and columns


def answer_frame(
    form: LongForm,
    keys: Sequence[Key],
    answers: dict[int, Answer],
    rows: dict[int, np.ndarray] | None = None,
) -> Any:
    """A long frame of answers by the number of the series.

    They stand in the rows that are given for each series, or one series after another.
    """
    xs = [x for x, _ in answers.values()]
    if rows is None:
        cuts = np.cumsum([0, *map(len, xs)])
        rows = {n: np.arange(*cuts[i : i + 2]) for i, n in enumerate(answers)}
    count = sum(len(where) for where in rows.values())
    whole = bool(xs) and all(np.asarray(x).dtype.kind == "i" for x in xs)
    times = np.zeros(count, dtype=np.int64 if whole else float)
    each = [keys[0]] * count
    columns: dict[str, np.ndarray] = {}
    for number, (x, found) in answers.items():
        times[rows[number]] = x
        for row in rows[number].tolist():
            each[row] = keys[number]
        for name, values in found.items():
            columns.setdefault(name, np.full(count, np.nan))[rows[number]] = values
    series = times_series(form.kind, form.axis, form.time, times)
    return long_frame(form.kind, form.by, each, [series], columns)


def asked_rows(form: LongForm, frame: Any) -> tuple[Long, np.ndarray]:
    """The series of a frame for which something is asked, and its times as numbers."""
    long = read_long(frame, form.by, form.time, form.target)
    instants = time_column(long.table, form.time, form.axis.zone, form.axis.layout)
    return long, form.axis.numbers(instants, f"column {form.time!r}")


def each_ahead(
    keys: Sequence[Key], numbers: Iterable[int], look: Callable[[int], Any], depth: int
) -> dict[int, Any]:
    """What is found for each series; a warning tells of those for which there is nothing.

    It names the line that is `depth` calls up.
    """
    found, problems = {}, []
    for number in numbers:
        try:
            found[number] = look(number)
        except ValueError as error:
            problems.append((shown_key(keys[number]), str(error)))
    if problems and not found:
        raise ValueError(problems[0][1])
    if problems:
        key, words = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        warnings.warn(f"no forecast for series {key!r}{more}: {words}", stacklevel=depth + 1)
    return found


def after(
    x: np.ndarray, origin: int | float, axis: TimeAxis, horizon: Any, every: Any
) -> np.ndarray:
    """Times after the last of x (ordered, distinct, measured from the origin) up to a horizon."""
    if axis.dates:
        return continued(x + float(origin), axis, horizon, every)
    # Of numbers only differences matter here, and whole numbers stay what they are.
    steps = continued(x, axis, horizon, every)
    return user_units(steps, origin, len(steps) if np.all(steps % 1 == 0) else 0)
