"""What a table holds, and what would be fitted to it."""

from pathlib import Path
from typing import Any

import numpy as np

from stategp.command._tables import read_table
from stategp.durations import describe
from stategp.forecasting._axis import TimeAxis
from stategp.forecasting._defaults import default_kernel
from stategp.forecasting._frames import as_frame, number_column, time_column


def describe_table(path: Path, time: str, target: str) -> dict[str, Any]:
    table = as_frame(read_table(path, [time, target]))
    instants = time_column(table, time)
    axis = TimeAxis.of(instants)
    x = np.asarray(axis.numbers(instants, f"column {time!r}"), dtype=float)
    y = number_column(table, target)
    seen = np.isfinite(y)
    if not seen.any():
        raise ValueError(f"column {target!r} of {path} holds no number")
    distinct = np.unique(x)
    spacing = float(np.median(np.diff(distinct))) if len(distinct) > 1 else 0.0
    widest = float(np.max(np.diff(distinct))) if len(distinct) > 1 else 0.0

    def length(value: float) -> str:
        return describe(value) if axis.dates and value > 0 else f"{value:g}"

    first, last = (str(t) for t in axis.times(distinct[[0, -1]]))
    values = y[seen]
    whole = bool(np.all(values == np.round(values)) and values.min() >= 0)
    return {
        "rows": len(x),
        "time": f"{time}, {first} to {last}" + (f" ({axis.zone})" if axis.zone else ""),
        "usual step": length(spacing),
        "widest gap": length(widest),
        "repeated times": len(x) - len(distinct),
        "target": target,
        "missing": int((~seen).sum()),
        "smallest, median, largest": ", ".join(
            f"{v:.6g}" for v in (values.min(), np.median(values), values.max())
        ),
        "looks like": _looks_like(values, whole),
        "kernel unless given": default_kernel(x[seen], values, axis.dates),
    }


def _looks_like(values: np.ndarray, whole: bool) -> str:
    if set(np.unique(values[:1000])) <= {0.0, 1.0} and set(np.unique(values)) <= {0.0, 1.0}:
        return "yes or no: --likelihood bernoulli"
    if whole and values.max() < 1e6:
        return "counts: --likelihood poisson (or negative-binomial)"
    if values.min() > 0 and values.max() > 100 * np.median(values):
        return "positive, with a long tail: --likelihood gamma"
    return "measurements: --likelihood gaussian (or student-t, where some are far out)"
