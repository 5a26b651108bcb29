"""How good are the forecasts? Fit up to an origin, forecast, compare; several origins."""

import dataclasses
import sys
import warnings
from typing import Any

import numpy as np

from stategp._arguments import whole_number
from stategp._fitting import NotConvergedWarning
from stategp._forecasting._answers import as_levels
from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._frames import (
    as_frame,
    frame_of,
    kind_of,
    names_in,
    number_column,
    time_column,
    times_series,
)
from stategp._posteriors import Posterior, marginals_at


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
    progress: Any = None,
    **options: Any,
) -> Any:
    """A frame with a row for each origin: the scores of the forecast from there.

    The last origin lies one horizon before the end of the data, the others at distances `every` (by
    default one horizon) before it. For each origin the model is fitted to the data up to it and
    scored on the observations within the horizon: mean log density, CRPS, root mean squared error,
    and the share of observations inside the interval of that level. Options are those of `fit`.
    """
    time, target = names_in(frame, time, target)
    table = as_frame(frame, time, target)
    instants = time_column(table, time, layout=options.get("date_format"))
    axis = TimeAxis.of(instants)
    x = np.asarray(axis.numbers(instants, f"column {time!r}"), dtype=float)
    y = number_column(table, target)
    length = axis.length("horizon", horizon)
    step = length if every is None else axis.length("every", every)
    folds = whole_number("folds", folds, least=1)
    seen = np.isfinite(y)
    if not seen.any():
        raise ValueError(f"column {target!r} has no numbers: nothing to score")
    first, last = float(x[seen].min()), float(x[seen].max())
    origins = last - length - step * np.arange(folds)[::-1]
    if origins[0] - first < length:
        most = int(max((last - length - first - length) / step + 1, 0))
        raise ValueError(
            f"{folds} origins, a horizon of {horizon!r} apart, leave too little data to fit the "
            f"first one; at most {most} are possible (or give a shorter horizon)"
        )
    (level,) = as_levels(level)
    show = sys.stderr.isatty() if progress is None else progress
    rows = []
    for number, origin in enumerate(origins):
        if show:
            print(f"origin {number + 1} of {folds}", file=sys.stderr)
        before, after = x <= origin, seen & (x > origin) & (x <= origin + length)
        fresh = dataclasses.replace(forecaster, fitted=None)
        keep, test = (table.filter(rows_.tolist()).to_native() for rows_ in (before, after))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", NotConvergedWarning)
            fresh.fit(keep, time, target, progress=show, **options)
        # Regressors are known beforehand.
        posterior = fresh._knowing(table.filter((x <= origin + length).tolist()).to_native(), None)
        scores: dict[str, Any] = {"observations": int(after.sum())}
        scores |= _scores(fresh, posterior, test, y[after], level)
        scores["converged"] = not any(issubclass(w.category, NotConvergedWarning) for w in caught)
        rows.append(scores)
    kind = kind_of(table)
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return frame_of(kind, times_series(kind, axis, "origin", origins), columns)


def _scores(
    forecaster: Any, posterior: Posterior, frame: Any, y: np.ndarray, level: float
) -> dict[str, Any]:
    names = ("log_density", "crps", "rmse", f"coverage_{100 * level:.6g}")
    if len(y) == 0:
        return dict.fromkeys(names, float("nan"))
    x, extras = forecaster._numbers(frame)
    there = marginals_at(posterior, x, **extras)
    mean, _ = there.moments()
    lower, upper = there.quantiles([0.5 - level / 2, 0.5 + level / 2])
    inside = (np.asarray(lower) <= y) & (y <= np.asarray(upper))
    scores = (
        np.mean(there.log_density(y)),
        np.mean(there.crps(y)),
        np.sqrt(np.mean((np.asarray(mean) - y) ** 2)),
        np.mean(inside),
    )
    return dict(zip(names, map(float, scores), strict=True))
