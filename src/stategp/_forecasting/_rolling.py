"""How good are the forecasts? Fit up to an origin, forecast, compare; several origins."""

import dataclasses
import sys
import warnings
from typing import Any

import numpy as np

from stategp._arguments import whole_number
from stategp._fitting import NotConvergedWarning
from stategp._forecasting._answers import as_levels, bound_names
from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._frames import (
    as_frame,
    column_of,
    frame_of,
    kind_of,
    names_in,
    number_column,
    time_column,
    times_series,
)
from stategp._forecasting._scores import (
    coverage,
    interval_score,
    pinball,
    seasonal_scale,
    smape,
    usual_season,
)
from stategp._forecasting._steps import months_apart

_ROWS = ("origin", "horizon", "observation")
NAMES = ("mean", "lower", "median", "upper", "log_density", "crps")  # what scores need
_MONTHS = 4.0  # days that so many months may be longer or shorter than on average


def cross_validate(
    forecaster: Any,
    frame: Any,
    time: str = "ds",
    target: str = "y",
    *,
    horizon: Any,
    folds: int = 5,
    every: Any = None,
    level: Any = 0.95,
    season: int | None = None,
    by: Any = "origin",
    progress: Any = None,
    **options: Any,
) -> Any:
    """Forecasts from several origins against what came, as a frame.

    The last origin lies one horizon before the end of the data, the others at distances `every` (by
    default one horizon) before it. For each origin the model is fitted to the data up to it and
    forecasts the observations within the horizon. Options are those of `fit`.

    Arguments:
        level: the probability of the interval that is scored.
        season: for MASE and MSIS, how many rows apart observations are whose differences are the
            unit of error; by default 24 for hours, 12 for months, 4 for quarters, 1 for others.
        by: "origin" for scores in a row for each origin; "horizon" for a row for each step ahead,
            over all origins; "observation" for the forecasts themselves, a row for each
            observation and origin. Or the column (or a list of columns) that tells many series of a
            long frame apart, `by="unique_id"`: the answer then has several frames, `series` (the
            scores of each series), `overall`, `horizons`, `forecasts` and `failures`. All series
            and origins are fitted side by side where `fit(frame, by=…)` can do that, and each
            series has origins from its own end.

    The scores are the mean log density (larger is better), CRPS, root mean squared error, MASE,
    sMAPE, MSIS, the pinball loss (the mean over both ends of the interval and the median), and the
    share of observations inside the interval. `sg.metrics` defines them.

    >>> import numpy as np, pandas as pd, stategp as sg
    >>> days, t = pd.date_range("2024-01-01", periods=60), np.arange(60)
    >>> frame = pd.DataFrame({"ds": days, "y": np.sin(t / 9) + 0.1 * np.cos(17 * t)})
    >>> forecaster = sg.Forecaster("matern52(10d)", inducing=8)
    >>> found = forecaster.cross_validate(frame, horizon="7d", folds=1, by="observation")
    >>> list(found.columns)
    ['origin', 'ds', 'y', 'mean', 'lower_95', 'upper_95']
    """
    if by not in _ROWS:
        _check_by(by, as_frame(frame, *names_in(frame, time, target)).columns)
        from stategp._forecasting._rolling_many import cross_validate_many

        asked = {"horizon": horizon, "folds": folds, "every": every, "level": level}
        asked |= {"season": season, "progress": progress, "by": by}
        return cross_validate_many(forecaster, frame, time, target, **asked, **options)
    if options.get("n_jobs") is not None:
        raise ValueError("n_jobs is for many series: give by, the column that tells them apart")
    data = read_series(frame, time, target, options.get("date_format"))
    folds = whole_number("folds", folds, least=1)
    windows = windows_of(data, horizon, folds, every)
    (level,) = as_levels(level)
    season = usual_season_of(data) if season is None else whole_number("season", season, least=1)
    show = sys.stderr.isatty() if progress is None else progress
    parts, converged = [], []
    for number, window in enumerate(windows):
        if show:
            print(f"origin {number + 1} of {folds}", file=sys.stderr)
        found, well = _fold(forecaster, data, window, level, season, progress=show, **options)
        parts.append(found | {"fold": np.full(len(found["y"]), number)})
        converged.append(well)
    together = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    origins = np.array([origin for origin, _ in windows])
    inside = coverage(together["y"], together["lower"], together["upper"])
    forecaster.scored = (float(inside), level, len(together["y"]))
    if by == "observation":
        return _observations(data, origins, together, level)
    if by == "horizon":
        steps = np.unique(together["step"])
        first = column_of(data.kind, "step", steps)
        return frame_of(data.kind, first, score_rows(together, "step", steps, level))
    columns = score_rows(together, "fold", np.arange(folds), level)
    first = times_series(data.kind, data.axis, "origin", origins)
    return frame_of(data.kind, first, columns | {"converged": np.array(converged)})


def _check_by(by: Any, columns: list[str]) -> None:
    if isinstance(by, str) and by not in columns:
        raise ValueError(
            f"by must be {', '.join(map(repr, _ROWS))}, got {by!r}; or, for many series, the "
            f"column that tells them apart, one of {', '.join(columns)}"
        )


@dataclasses.dataclass(frozen=True)
class Series:
    """The columns of a frame that matter here, times as numbers."""

    table: Any
    time: str
    target: str
    axis: TimeAxis
    x: np.ndarray
    y: np.ndarray

    @property
    def kind(self) -> str:
        """Of data frame, by the name of its library."""
        return kind_of(self.table)


def read_series(frame: Any, time: str, target: str, layout: str | None) -> Series:
    """Times and observations of a frame."""
    time, target = names_in(frame, time, target)
    table = as_frame(frame, time, target)
    instants = time_column(table, time, layout=layout)
    axis = TimeAxis.of(instants)
    x = np.asarray(axis.numbers(instants, f"column {time!r}"), dtype=float)
    y = number_column(table, target)
    if not np.isfinite(y).any():
        raise ValueError(f"column {target!r} has no numbers: nothing to score")
    return Series(table, time, target, axis, x, y)


def windows_of(data: Series, horizon: Any, folds: int, every: Any) -> list[tuple[float, float]]:
    """Each origin, and where the forecast from there ends."""
    axis = data.axis
    length = axis.length("horizon", horizon)
    step = length if every is None else axis.length("every", every)
    times = np.unique(data.x[np.isfinite(data.y)])
    first, last = float(times[0]), float(times[-1])
    origins = last - length - step * np.arange(folds)[::-1]
    if origins[0] - first < length:
        most = int(max((last - length - first - length) / step + 1, 0))
        raise ValueError(
            f"{folds} origins, a horizon of {horizon!r} apart, leave too little data to fit the "
            f"first one; at most {most} are possible (or give a shorter horizon)"
        )
    # Rounding puts a time no earlier or later; nor do months, which are of several lengths.
    near = _MONTHS if months_apart(times, axis) else 1e-6 * float(np.median(np.diff(times)))

    def at(time: float) -> float:
        closest = float(times[np.argmin(np.abs(times - time))])
        return closest if abs(closest - time) <= near else time

    return [(at(float(origin)), at(float(origin) + length)) for origin in origins]


def usual_season_of(data: Series) -> int:
    times = np.unique(data.x)
    steps = np.diff(times)
    return usual_season(float(np.median(steps))) if data.axis.dates and len(steps) else 1


def _fold(
    forecaster: Any,
    data: Series,
    window: tuple[float, float],
    level: float,
    season: int,
    **options: Any,
) -> tuple[dict[str, np.ndarray], bool]:
    """The forecasts from one origin beside what came, and whether the fit converged."""
    x, y = data.x, data.y
    before, within = x <= window[0], (x > window[0]) & (x <= window[1])
    after = within & np.isfinite(y)
    keep, test = (data.table.filter(rows.tolist()).to_native() for rows in (before, after))
    fresh = dataclasses.replace(forecaster, fitted=None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NotConvergedWarning)
        fresh.fit(keep, data.time, data.target, **options)
    history = y[before][np.argsort(x[before], kind="stable")]
    found = {
        "x": x[after],
        "y": y[after],
        "step": np.searchsorted(np.unique(x[within]), x[after]) + 1,
        "scale": np.full(int(after.sum()), seasonal_scale(history, season)),
    }
    # Regressors are known beforehand.
    fitted = fresh._knowing(data.table.filter((x <= window[1]).tolist()).to_native(), None)
    found |= forecasts_of(fresh, fitted, test, y[after], level)
    return found, not any(issubclass(w.category, NotConvergedWarning) for w in caught)


def forecasts_of(
    forecaster: Any, fitted: Any, frame: Any, y: np.ndarray, level: float
) -> dict[str, np.ndarray]:
    if len(y) == 0:
        return {name: np.zeros(0) for name in NAMES}
    x, extras = forecaster._numbers(frame)
    return scores_there(fitted.distribution(x, extras), y, level)


def scores_there(there: Any, y: np.ndarray, level: float) -> dict[str, np.ndarray]:
    """What scores need of a distribution at the times of observations."""
    mean, _ = there.moments()
    quantiles = there.quantiles([0.5 - level / 2, 0.5, 0.5 + level / 2])
    values = (mean, *quantiles, there.log_density(y), there.crps(y))
    return {name: np.asarray(v) for name, v in zip(NAMES, values, strict=True)}


def score_rows(
    found: dict[str, np.ndarray], name: str, wanted: np.ndarray, level: float
) -> dict[str, np.ndarray]:
    """Scores of the forecasts that have the same fold, or the same step, as columns."""
    which = found[name]
    rows = [scores_of({n: v[which == one] for n, v in found.items()}, level) for one in wanted]
    return {score: np.array([row[score] for row in rows]) for score in rows[0]}


def scores_of(found: dict[str, np.ndarray], level: float) -> dict[str, Any]:
    """Of some of the forecasts; NaN if there are none."""
    y, mean, scale = found["y"], found["mean"], found["scale"]
    lower, median, upper = found["lower"], found["median"], found["upper"]
    sides = ((lower, 0.5 - level / 2), (median, 0.5), (upper, 0.5 + level / 2))
    return {
        "observations": len(y),
        "log_density": _mean(found["log_density"]),
        "crps": _mean(found["crps"]),
        "rmse": float(np.sqrt(_mean((mean - y) ** 2))),
        "mase": _mean(np.abs(mean - y) / scale),
        "smape": smape(y, mean),
        "msis": interval_score(y / scale, lower / scale, upper / scale, level),
        "pinball": float(np.mean([pinball(y, quantile, share) for quantile, share in sides])),
        f"coverage_{100 * level:.6g}": coverage(y, lower, upper),
    }


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def _observations(
    data: Series, origins: np.ndarray, found: dict[str, np.ndarray], level: float
) -> Any:
    """The frame of all forecasts: origin, time, what came, mean and interval."""
    names = ["origin", data.time, data.target, "mean", *bound_names(level)]
    if len(set(names)) < len(names):
        raise ValueError(
            f"the result would have two columns of the same name, its columns being {names}: "
            f"rename {data.time!r} or {data.target!r}"
        )
    order = np.lexsort((found["x"], found["fold"]))
    values = (found[name][order] for name in ("y", "mean", "lower", "upper"))
    first, times = (
        times_series(data.kind, data.axis, name, x)
        for name, x in (("origin", origins[found["fold"][order]]), (data.time, found["x"][order]))
    )
    return frame_of(data.kind, first, dict(zip(names[2:], values, strict=True)), times)
