"""Between frames and effects: which values of regressors are known, and what is said of others."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._calendar import occasions_of
from stategp._forecasting._design import SLOPES, Design
from stategp._forecasting._effects import Effect, Event, Holidays
from stategp._forecasting._frames import as_frame, is_frame, number_column, time_column
from stategp._forecasting._regression_posterior import RegressionPosterior
from stategp._forecasting._steps import local_times, shown_time
from stategp._posteriors import Posterior

_DAILY = 1.5  # days between rows up to which a day can be told from its neighbours
_SHOWN = 8  # names in a sentence
_SHARES = (0.1, 0.5, 0.9)  # of the values of a column, at which its smooth effect is given


def make_design(
    asked: tuple[
        tuple[Effect, ...], tuple[Holidays, ...], tuple[Event, ...], tuple[str | float, ...]
    ],
    table: Any,
    axis: TimeAxis,
    rows: tuple[np.ndarray, np.ndarray],
    target: str,
) -> tuple[Design | None, np.ndarray]:
    """The columns that were asked for (None if there are none), and which rows can be used.

    Rows before the first lag are not: what acted there is unknown.
    """
    effects, holidays, events, changepoints = asked
    x, y = rows
    seen = np.isfinite(y)
    if not any(asked):
        return None, seen
    _check_days(axis, x[seen], holidays, events)
    years = _years(x[seen], axis) if holidays else (0, 0)
    values = values_in(table, effects)
    for number, effect in enumerate(effects):
        if effect.column == target:
            raise ValueError(f"column {target!r} is the target, and cannot be a regressor too")
        empty = seen & np.isnan(values[:, number])
        if empty.any():
            raise ValueError(
                f"column {effect.column!r} is empty in row {int(np.argmax(empty))}, where "
                f"{target!r} is given ({int(empty.sum())} such rows): fill it in, or drop the rows"
            )
    design = Design.of(axis, effects, occasions_of(holidays, events, years), (x, values), seen)
    design = design.bending(_bends(changepoints, axis), x[seen])
    for missing in design.unknown(x[seen]).values():
        seen = seen & ~np.isin(x, missing)
    if not seen.any():
        raise ValueError("no row has all values of regressors: give fewer lags")
    return design, seen


def _check_days(
    axis: TimeAxis, x: np.ndarray, holidays: Sequence[Holidays], events: Sequence[Event]
) -> None:
    if (holidays or events) and not axis.dates:
        raise ValueError("holidays and events need dates, but the times are numbers")
    spacing = float(np.median(np.diff(np.unique(x)))) if len(np.unique(x)) > 1 else 0.0
    if holidays and spacing > _DAILY:
        raise ValueError(
            f"holidays are effects of single days, but the data have a row every {spacing:g} days; "
            "give a column with the number of holidays in each as a regressor"
        )


def _bends(changepoints: tuple[str | float, ...], axis: TimeAxis) -> tuple[float, ...]:
    """The times at which slopes change, as numbers, in order."""
    found = set()
    for one in changepoints:
        time = axis.date(one) if isinstance(one, str) or axis.dates else one
        if time is None:
            raise ValueError(
                f"changepoints must be dates, as the times are ('2025-03-01'); got {one!r}"
            )
        found.add(float(time))
    return tuple(sorted(found))


def _years(x: np.ndarray, axis: TimeAxis) -> tuple[int, int]:
    first, last = local_times(np.array([x.min(), x.max()]), axis)
    return first.year, last.year


def values_in(table: Any, effects: Sequence[Effect], *, partly: bool = False) -> np.ndarray:
    """The values of the regressors, a row for each of the frame; `partly`: of those it has."""
    columns = [
        np.full(len(table), np.nan)
        if partly and effect.column not in table.columns
        else number_column(table, effect.column)
        for effect in effects
    ]
    return np.stack(columns, axis=1) if columns else np.zeros((len(table), 0))


def remark_on(design: Design, x: np.ndarray) -> str:
    """What to say of effects that the data do not show; "" if they show all."""
    matrix = design.matrix(x)
    hidden = np.ptp(matrix, axis=0) == 0 if len(matrix) else np.ones(len(design.columns), bool)
    names = list(dict.fromkeys(c.name for c, h in zip(design.columns, hidden, strict=True) if h))
    if not names:
        return ""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (
        f"not in the data, so that only the prior is known of their effects: "
        f"{'; '.join(names[:_SHOWN])}{more}"
    )


def say(design: Design, x: np.ndarray, progress: Any) -> None:
    """Print the remark, unless nothing is to be printed."""
    remark = remark_on(design, x)
    if remark and progress is not False:
        print(remark, file=sys.stderr)


def knowing(
    posterior: Posterior, axis: TimeAxis, time: str, frame: Any, x: np.ndarray | None
) -> Posterior:
    """The posterior with the values of regressors in a frame, which must suffice for x."""
    if not isinstance(posterior, RegressionPosterior):
        return posterior
    design = posterior.design
    if frame is not None and is_frame(frame) and design.effects:
        table = as_frame(frame, time)
        instants = time_column(table, time, axis.zone, axis.layout)
        numbers = axis.numbers(instants, f"column {time!r}")
        values = values_in(table, design.effects, partly=True)
        design = design.knowing(np.asarray(numbers), values)
    missing = {} if x is None else design.unknown(x)
    if missing:
        raise ValueError(_unknown(missing, axis, time))
    return posterior.knowing(design)


def without_unknown(posterior: Posterior, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Observations, NaN where a regressor is not known, as it is not before the first lag."""
    if isinstance(posterior, RegressionPosterior):
        for missing in posterior.design.unknown(x).values():
            y = np.where(np.isin(x, missing), np.nan, y)
    return y


def _unknown(missing: dict[str, np.ndarray], axis: TimeAxis, time: str) -> str:
    columns = ", ".join(map(repr, missing))
    times = np.unique(np.concatenate(list(missing.values())))
    shown = [shown_time(number, axis) for number in times[[0, -1]]]
    when = shown[0] if len(times) == 1 else f"{len(times)} times from {shown[0]} to {shown[1]}"
    return (
        f"the values of {columns} are not known at {when}: give a table with {time!r} and these "
        "columns (`future` of a forecast), with earlier rows too if there are lags"
    )


def _varies(design: Design, column: int, group: int) -> bool:
    """Whether a column is one of the waves of a season, of which `effects` has the average."""
    inside = design.columns[column]
    season = design.effects[group].season
    return inside.group == group and inside.name.endswith(f", over {season}")


def effect_rows(posterior: Posterior, level: float) -> dict[str, np.ndarray]:
    """Each effect: of a day, of one unit of a column, or of a value of it if it is smooth."""
    if not isinstance(posterior, RegressionPosterior):
        raise ValueError(
            "this Forecaster was fitted without regressors, holidays, events and changepoints"
        )
    design = posterior.design
    names: list[str] = []
    rows: list[np.ndarray] = []
    units = np.eye(len(design.columns))
    column = 0
    for number, (effect, scaling) in enumerate(zip(design.effects, design.scalings, strict=True)):
        for _ in effect.lags:
            name, width = design.columns[column].name, scaling.width
            if len(scaling.knots) == 0:
                names.append(name)
                rows.append(units[column] / scaling.deviation)
            else:
                known = design.values[:, number]
                for value in np.quantile(known[np.isfinite(known)], _SHARES):
                    names.append(f"{name} = {value:.4g}")
                    values = scaling.columns(np.array([value]))[0]
                    rows.append(values @ units[column : column + width])
            column += width
            while column < len(design.columns) and _varies(design, column, number):
                column += 1
    for at in range(column, len(design.columns)):
        if np.any(posterior.responses[at] != 0):  # else nothing is known but the prior
            names.append(design.columns[at].name)
            rows.append(units[at] / (design.unit if design.columns[at].group == SLOPES else 1.0))
    matrix = np.stack(rows) if rows else units[:0]
    mean = matrix @ posterior.effect_mean
    variance = np.sum((matrix @ posterior.effect_covariance) * matrix, axis=1)
    reach = ndtri(0.5 + level / 2) * np.sqrt(variance)
    return {
        "name": np.array(names, dtype=object),
        "effect": mean,
        "lower": mean - reach,
        "upper": mean + reach,
    }
