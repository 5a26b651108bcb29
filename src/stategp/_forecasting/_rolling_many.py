"""Rolling origins of many series: all origins of all of them are fitted side by side."""

import dataclasses
import warnings
from typing import Any, NamedTuple

import numpy as np

from stategp._arguments import whole_number
from stategp._fitting import NotConvergedWarning
from stategp._forecasting._answers import as_levels, bound_names
from stategp._forecasting._frames import column_of, frames, names_in, time_column, times_series
from stategp._forecasting._long import Key, Long, failure_frame, long_frame, read_long, taken
from stategp._forecasting._panel import Panel
from stategp._forecasting._rolling import (
    NAMES,
    Series,
    forecasts_of,
    read_series,
    score_rows,
    scores_of,
    scores_there,
    usual_season_of,
    windows_of,
)
from stategp._forecasting._scores import coverage, seasonal_scale


class ManyScores(NamedTuple):
    """How good the forecasts of many series were, as frames.

    `series` has the scores of each series over all origins, `overall` those of all observations
    together, `horizons` those of each step ahead, `forecasts` a row for each observation and
    origin, and `failures` the series (or origins) that could not be fitted, and why.
    """

    series: Any
    overall: Any
    horizons: Any
    forecasts: Any
    failures: Any


@dataclasses.dataclass(frozen=True)
class Fold:
    """One origin of one series: what is fitted, and what is forecast."""

    number: int  # of the series
    fold: int
    data: Series
    origin: float
    known: np.ndarray  # rows of the whole frame, up to the horizon
    before: np.ndarray  # and up to the origin
    test: np.ndarray  # and those that are forecast
    found: dict[str, np.ndarray]  # what the scores need of them


def cross_validate_many(
    forecaster: Any,
    frame: Any,
    time: str,
    target: str,
    *,
    by: Any,
    horizon: Any,
    folds: int,
    every: Any,
    level: Any,
    season: int | None,
    progress: Any,
    **options: Any,
) -> ManyScores:
    """`cross_validate` of every series of a long frame."""
    time, target = names_in(frame, time, target)
    long = read_long(frame, by, time, target)
    count, (level,) = whole_number("folds", folds, least=1), as_levels(level)
    problems: list[tuple[Key, str]] = []
    parts: list[Fold] = []
    for number, (key, rows) in enumerate(long):
        try:
            data = read_series(long.part(number), time, target, options.get("date_format"))
            windows = windows_of(data, horizon, count, every)
        except ValueError as error:
            problems.append((key, str(error)))
            continue
        unit = usual_season_of(data) if season is None else whole_number("season", season, least=1)
        for fold, window in enumerate(windows):
            parts.append(_fold(number, fold, data, rows, window, unit))
    if not parts:
        raise ValueError(f"no series can be scored; of the first: {problems[0][1]}")
    together, parts = _together(parts, options.get("share", "none")), []
    for some in together:
        panel = _fitted(forecaster, long, some, time, target, progress, options)
        parts += _forecast(panel, long, some, level, problems)
    parts.sort(key=lambda part: (part.number, part.fold))
    if not parts:
        raise ValueError(f"no series could be fitted; the first: {problems[0][1]}")
    found = {name: np.concatenate([part.found[name] for part in parts]) for name in parts[0].found}
    inside = coverage(found["y"], found["lower"], found["upper"])
    forecaster.scored = (float(inside), level, len(found["y"]))
    return _frames(long, parts, found, level, problems, (time, target))


def _together(parts: list[Fold], share: str) -> list[list[Fold]]:
    """The origins that are fitted at once: all, unless later ones would teach earlier ones."""
    if share == "none":
        return [parts]
    folds = sorted({part.fold for part in parts})
    return [[part for part in parts if part.fold == fold] for fold in folds]


def _fold(
    number: int,
    fold: int,
    data: Series,
    rows: np.ndarray,
    window: tuple[float, float],
    season: int,
) -> Fold:
    x, y = data.x, data.y
    before, within = x <= window[0], (x > window[0]) & (x <= window[1])
    after = within & np.isfinite(y)
    history = y[before][np.argsort(x[before], kind="stable")]
    found = {
        "number": np.full(int(after.sum()), number),
        "y": y[after],
        "step": np.searchsorted(np.unique(x[within]), x[after]) + 1,
        "scale": np.full(int(after.sum()), seasonal_scale(history, season)),
    }
    known = rows[x <= window[1]]
    return Fold(number, fold, data, window[0], known, rows[before], rows[after], found)


def _fitted(
    forecaster: Any,
    long: Long,
    parts: list[Fold],
    time: str,
    target: str,
    progress: Any,
    options: dict[str, Any],
) -> Panel:
    """All origins of all series, as series of their own."""
    fold = _new_name("fold", long.table.columns)
    rows = np.concatenate([part.before for part in parts])
    numbers = np.repeat([part.fold for part in parts], [len(part.before) for part in parts])
    train = taken(long.table, rows).with_columns(column_of(long.kind, fold, numbers))
    fresh = dataclasses.replace(forecaster, fitted=None, panel=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)  # of each of many series
        keys = [*long.by, fold]
        fresh.fit(train.to_native(), time, target, by=keys, progress=progress, **options)
    panel: Panel = fresh.panel
    return panel


def _new_name(name: str, taken_names: Any) -> str:
    while name in taken_names:
        name += "_"
    return name


def _forecast(
    panel: Panel, long: Long, parts: list[Fold], level: float, problems: list[tuple[Key, str]]
) -> list[Fold]:
    """What each of them forecasts; those that could not be fitted are named and left out."""
    good: list[tuple[int, Fold]] = []
    for part in parts:
        number = panel.numbers[(*long.keys[part.number], part.fold)]
        if panel.problems[number]:
            reason = f"origin {part.fold + 1}: {panel.problems[number]}"
            problems.append((long.keys[part.number], reason))
        else:
            good.append((number, part))
    asked = {n: _inputs(panel, long, p) for n, p in good if n not in panel.alone and len(p.test)}
    together = panel.distributions(asked)
    for number, part in good:
        y = part.found["y"]
        if len(y) == 0:
            part.found.update({name: np.zeros(0) for name in NAMES})
        elif number in together:
            part.found.update(scores_there(together[number], y, level))
        else:
            one = panel.alone[number]
            fitted = one._knowing(taken(long.table, part.known).to_native(), None)
            test = taken(long.table, part.test).to_native()
            part.found.update(forecasts_of(one, fitted, test, y, level))
    return [part for _, part in good]


def _inputs(panel: Panel, long: Long, part: Fold) -> np.ndarray:
    """The times that are forecast, as the panel counts them."""
    form = panel.form
    instants = time_column(taken(long.table, part.test), form.time, layout=form.axis.layout)
    x: np.ndarray = form.axis.numbers(instants, f"column {form.time!r}")
    return x


def _frames(
    long: Long,
    parts: list[Fold],
    found: dict[str, np.ndarray],
    level: float,
    problems: list[tuple[Key, str]],
    names: tuple[str, str],
) -> ManyScores:
    kind, by = long.kind, long.by
    numbers = np.unique([part.number for part in parts])
    keys = [long.keys[number] for number in numbers]
    origins = np.bincount([part.number for part in parts])[numbers]
    each = {"origins": origins} | score_rows(found, "number", numbers, level)
    steps = np.unique(found["step"])
    ahead = {"step": steps} | score_rows(found, "step", steps, level)
    whole = {"series": len(keys)} | scores_of(found, level)
    failed = failure_frame(kind, by, [key for key, _ in problems], [why for _, why in problems])
    return ManyScores(
        long_frame(kind, by, keys, [], each),
        _plain(kind, {name: np.array([value]) for name, value in whole.items()}),
        _plain(kind, ahead),
        _forecast_frame(long, parts, found, level, names),
        failed,
    )


def _plain(kind: str, columns: dict[str, np.ndarray]) -> Any:
    first, *others = (column_of(kind, name, values) for name, values in columns.items())
    return first.to_frame().with_columns(*others).to_native()


def _forecast_frame(
    long: Long,
    parts: list[Fold],
    found: dict[str, np.ndarray],
    level: float,
    names: tuple[str, str],
) -> Any:
    """A row for each observation and origin: keys, origin, time, what came, mean and interval."""
    columns = ["mean", *bound_names(level)]
    taken_names = [*long.by, "origin", *names, *columns]
    if len(set(taken_names)) < len(taken_names):
        raise ValueError(
            f"the result would have two columns of the same name, its columns being {taken_names}: "
            "rename those of the frame"
        )
    kind = long.kind
    origins = [  # each series counts time from its own beginning
        times_series(kind, part.data.axis, "origin", np.full(len(part.test), part.origin))
        for part in parts
    ]
    first = frames().concat([series.to_frame() for series in origins])["origin"]
    rows = np.concatenate([part.test for part in parts])
    scored = zip(columns, (found[name] for name in ("mean", "lower", "upper")), strict=True)
    arrays = [column_of(kind, name, values) for name, values in scored]
    table = taken(long.table, rows).select(*long.by, *names)
    return table.with_columns(first, *arrays).select(*taken_names).to_native()
