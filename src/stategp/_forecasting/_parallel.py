"""Many series, in this process or divided among those of joblib's backends."""

from typing import Any

import numpy as np

from stategp._fitting import check_share
from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._long import Long, read_long
from stategp._forecasting._panel import Panel, merged
from stategp._forecasting._panel_fitting import PanelFit
from stategp._forecasting._reading import read_series
from stategp._forecasting._single import Wish
from stategp._runtime import check_jobs, in_jobs


def fit_panel(forecaster: Any, frame: Any, by: Any, wish: Wish, n_jobs: Any) -> Panel:
    """What a forecaster learns of every series of a long frame."""
    check_jobs(n_jobs)
    # What the default models share is learned first, in this process.
    check_share(wish.share, None if forecaster.kernel is None else n_jobs)
    long = read_long(frame, by, wish.time, wish.target)
    alone = n_jobs is None or len(long.keys) < 2
    if alone or wish.share != "none":
        first = PanelFit(forecaster, long, wish, None)
        if not first.learn_first() or alone:
            return first.panel()
        wish = first.wish
    form, _ = read_series(
        long, wish.time, wish.target, wish.columns, wish.date_format,
        business=forecaster.kernel is None,
    )  # fmt: skip
    quiet = wish._replace(progress=False)

    def given(numbers: np.ndarray) -> tuple[Any, ...]:
        return forecaster, _some(long, numbers), by, quiet, form.axis

    return merged(in_jobs(n_jobs, len(long.keys), _fit_part, given))


def _some(long: Long, numbers: np.ndarray) -> Any:
    """The rows of some series."""
    rows = np.concatenate([long.rows[number] for number in numbers])
    return long.table[rows.tolist()].to_native()


def _fit_part(forecaster: Any, frame: Any, by: Any, wish: Wish, axis: TimeAxis) -> Panel:
    long = read_long(frame, by, wish.time, wish.target)
    return PanelFit(forecaster, long, wish, axis).panel()
