"""Many series, in this process or divided among those of joblib's backends.

With a checkpoint they are fitted in this process part by part, and a file remembers which are
finished.
"""

import dataclasses
from typing import Any

import numpy as np

from stategp._data import Bundle
from stategp._fitting import (
    NOT_BEGUN,
    TOGETHER,
    Checkpoints,
    InParts,
    check_share,
    table_checkpoints,
)
from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._long import Long, read_long
from stategp._forecasting._panel import Panel, merged
from stategp._forecasting._panel_fitting import PanelFit
from stategp._forecasting._reading import LongForm, Raw, read_series
from stategp._forecasting._single import Wish
from stategp._models import as_likelihood
from stategp._runtime import check_jobs, in_jobs
from stategp.likelihoods import Gaussian


def fit_panel(forecaster: Any, frame: Any, by: Any, wish: Wish, n_jobs: Any) -> Panel:
    """What a forecaster learns of every series of a long frame."""
    check_jobs(n_jobs)
    # What the default models share is learned first, in this process.
    check_share(wish.share, None if forecaster.kernel is None else n_jobs)
    options, checkpoints = table_checkpoints(wish.options, wish.share, n_jobs)
    wish = wish._replace(options=options)
    long = read_long(frame, by, wish.time, wish.target)
    if checkpoints is not None:
        return _remembering(checkpoints, forecaster, long, by, wish)
    alone = n_jobs is None or len(long.keys) < 2
    if alone or wish.share != "none":
        first = PanelFit(forecaster, long, wish, None)
        if not first.learn_first() or alone:
            return first.panel()
        wish = first.wish
    form, _ = _read(forecaster, long, wish)
    quiet = wish._replace(progress=False)

    def given(numbers: np.ndarray) -> tuple[Any, ...]:
        return forecaster, rows_of(long, numbers), by, quiet, form.axis

    return merged(in_jobs(n_jobs, len(long.keys), fit_part, given))


def _read(forecaster: Any, long: Long, wish: Wish) -> tuple[LongForm, list[Raw]]:
    return read_series(
        long, wish.time, wish.target, wish.columns, wish.date_format,
        business=forecaster.kernel is None,
    )  # fmt: skip


def _remembering(
    checkpoints: Checkpoints, forecaster: Any, long: Long, by: Any, wish: Wish
) -> Panel:
    """All series, of which a file remembers those that are finished."""
    form, raws = _read(forecaster, long, wish)
    quiet = wish._replace(progress=False)
    blank = dataclasses.replace(forecaster, fitted=None, panel=None, joint=None)

    def fit_some(numbers: np.ndarray) -> Panel:
        return fit_part(forecaster, rows_of(long, numbers), by, quiet, form.axis)

    def not_begun(numbers: np.ndarray) -> Panel:
        keys = tuple(long.keys[number] for number in numbers.tolist())
        problems, nothing = (NOT_BEGUN,) * len(keys), Bundle.of([None] * len(keys))
        return Panel(form, keys, problems, (), ((),) * len(keys), nothing, {}, "")

    in_parts = InParts(checkpoints, blank, fit_some, merged, Panel.interrupted, not_begun)
    parts = {
        "the forecaster": repr(blank),
        "the data": raws,
        "the options": (wish.columns, wish.options),
    }
    size = TOGETHER if _mostly_together(forecaster, wish) else 1
    return in_parts(len(raws), size, parts, wish.progress)


def _mostly_together(asked: Any, wish: Wish) -> bool:
    """Whether series are fitted side by side, but for few."""
    beside = asked.regressors, asked.holidays, asked.events, asked.changepoints
    columns = [name for name, column in wish.columns.items() if column and name != "weights"]
    limited = asked.floor is not None or asked.cap is not None
    gaussian = isinstance(as_likelihood(asked.likelihood), Gaussian)
    return gaussian and not (any(beside) or columns or limited or wish.options)


def rows_of(long: Long, numbers: np.ndarray) -> Any:
    """The rows of some series."""
    rows = np.concatenate([long.rows[number] for number in numbers])
    return long.table[rows.tolist()].to_native()


def fit_part(forecaster: Any, frame: Any, by: Any, wish: Wish, axis: TimeAxis) -> Panel:
    """What it learns of the series of a frame, whose times are those of an axis."""
    long = read_long(frame, by, wish.time, wish.target)
    return PanelFit(forecaster, long, wish, axis).panel()
