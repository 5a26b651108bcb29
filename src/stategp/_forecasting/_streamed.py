"""Files larger than memory: the axis of their times, and what a kernel is chosen from."""

from typing import Any

import numpy as np

from stategp._data import PER_PERIOD, Stretches, Summarised, Summary, has_sums
from stategp._fitting import usual_stretches
from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._defaults import SEASONS
from stategp._inference import fastest_rate
from stategp._models import GP
from stategp._streams import Stream
from stategp.likelihoods import Likelihood

_MOST = 2**18  # stretches that a kernel is chosen from: enough for days of twenty years


def read_stream(
    series: Stream, likelihood: Likelihood, kernel_known: bool, progress: Any
) -> tuple[TimeAxis, Any, tuple[np.ndarray, np.ndarray]]:
    """The axis, what to fit, and points (x, f) to choose a kernel from, none if it is known."""
    dates, zone = series.calendar
    axis = TimeAxis(dates, zone)
    if kernel_known:
        return axis, series, (np.zeros(0), np.zeros(0))
    if not has_sums(likelihood):
        raise ValueError(
            f"to choose a kernel for a stream its sums are needed, and a "
            f"{type(likelihood).__name__} likelihood has none: give a kernel"
        )
    stretches = series.stretches or _to_choose_from(series, dates)
    summary = series.summary(likelihood, stretches=stretches, progress=progress)
    points = Summarised.of(summary)
    f = likelihood.guess(np.asarray(points.y), np.asarray(points.extra))
    return axis, summary, (np.asarray(points.x) + float(points.origin), f)


def _to_choose_from(series: Stream, dates: bool) -> Stretches:
    """Stretches that show all seasons a kernel is chosen from, unless these would be too many."""
    first, last = series.ends()
    stretches = usual_stretches(first, last)
    for season in sorted(SEASONS.values() if dates else ()):
        width = season / PER_PERIOD
        if 2 * season <= last - first <= _MOST * width:
            return Stretches(0, min(width, stretches.width))
    return stretches


def fine_enough(series: Stream, summary: Any, model: GP) -> Any:
    """The sums that a kernel was chosen from; if it is faster than they are, the stream again."""
    if not isinstance(summary, Summary) or series.stretches is not None:
        return summary
    return summary if fastest_rate(model) <= summary.stretches.fastest else series
