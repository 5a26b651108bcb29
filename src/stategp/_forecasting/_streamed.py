"""Files larger than memory: the axis of their times, and what a kernel is chosen from."""

from typing import Any

import numpy as np

from stategp._data import Summarised, has_sums
from stategp._forecasting._axis import TimeAxis
from stategp._streams import Stream
from stategp.likelihoods import Likelihood


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
    if series.stretches is None:
        raise ValueError(
            "to choose a kernel for a stream its sums are needed first: give a kernel, or state "
            "the shortest lengthscale, sg.stream(…, shortest=…)"
        )
    summary = series.summary(likelihood, progress=progress)
    points = Summarised.of(summary)
    f = likelihood.guess(np.asarray(points.y), np.asarray(points.extra))
    return axis, summary, (np.asarray(points.x) + float(points.origin), f)
