"""Many series, in this process or divided among those of joblib's backends."""

from typing import Any

import numpy as np

from stategp._arguments import whole_number
from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._long import Long, read_long
from stategp._forecasting._panel import Panel, merged
from stategp._forecasting._panel_fitting import PanelFit
from stategp._forecasting._reading import read_series
from stategp._forecasting._single import Wish


def fit_panel(forecaster: Any, frame: Any, by: Any, wish: Wish, n_jobs: Any) -> Panel:
    """What a forecaster learns of every series of a long frame."""
    if n_jobs is not None and whole_number("n_jobs", n_jobs) == 0:
        raise ValueError("n_jobs must not be 0: give a number of jobs, or -1 for one per core")
    long = read_long(frame, by, wish.time, wish.target)
    if n_jobs is None or len(long.keys) < 2:
        return PanelFit(forecaster, long, wish, None).panel
    jobs, parallel, delayed = _joblib(n_jobs)
    form, _ = read_series(
        long, wish.time, wish.target, wish.columns, wish.date_format,
        business=forecaster.kernel is None,
    )  # fmt: skip
    parts = np.array_split(np.arange(len(long.keys)), min(2 * jobs, len(long.keys)))
    quiet = wish._replace(progress=False)
    return merged(
        parallel(
            delayed(_fit_part)(forecaster, _some(long, numbers), by, quiet, form.axis)
            for numbers in parts
        )
    )


def _some(long: Long, numbers: np.ndarray) -> Any:
    """The rows of some series."""
    rows = np.concatenate([long.rows[number] for number in numbers])
    return long.table[rows.tolist()].to_native()


def _fit_part(forecaster: Any, frame: Any, by: Any, wish: Wish, axis: TimeAxis) -> Panel:
    long = read_long(frame, by, wish.time, wish.target)
    return PanelFit(forecaster, long, wish, axis).panel


def _joblib(n_jobs: int) -> tuple[int, Any, Any]:
    """How many jobs run at once by the backend that is registered, and how to run them."""
    try:
        import joblib
    except ImportError:
        raise ImportError(
            'n_jobs needs joblib: pip install "stategp[parallel]"; without n_jobs series are '
            "fitted side by side in this process"
        ) from None
    return int(joblib.effective_n_jobs(n_jobs)), joblib.Parallel(n_jobs=n_jobs), joblib.delayed
