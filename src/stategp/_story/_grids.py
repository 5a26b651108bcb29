"""Where curves are computed: a grid over the data and the forecast, and rows for a table."""

from typing import Any

import numpy as np

from stategp._data import relative_inputs
from stategp.parameters import all_parameters


def forecast_end(until: Any, x: np.ndarray, origin: int | float) -> float:
    """Where the forecast ends, measured from the origin."""
    if until is None:
        return float(x[-1])
    if not np.isfinite(until):
        raise ValueError(f"until must be a finite input in the units of x, got {until!r}")
    return max(float(until - origin), float(x[-1]))


_FEWEST, _MOST = 400, 12_000  # points of the grid


def make_grid(
    posterior: Any, x: np.ndarray, until: float, points: Any
) -> tuple[np.ndarray, list[str]]:
    """Where the curves are computed: fine enough for the shortest period, if points allow it."""
    start, end = float(x[0]), float(x[-1])
    step = _finest(posterior)
    if until == start:  # a single input, no forecast: show its surroundings
        around = 24 * step if np.isfinite(step) else 1.0
        start, until = start - around, start + around
    needed = (until - start) / step + 1
    if points is not None and points < 2:
        raise ValueError(f"points must be 2 or more, got {points}")
    count = int(np.clip(needed, _FEWEST, _MOST)) if points is None else int(points)
    if needed <= 3 * count:
        return np.linspace(start, until, count), []
    # Too long for its shortest period: uneven steps, so that the season shows as what it
    # covers and never as a slower wave, and a third of the points close together at the end.
    overall = count - count // 3
    uneven = np.arange(overall) + np.random.default_rng(0).uniform(0, 1, overall)
    coarse = np.interp(uneven, uneven[[0, -1]], [start, until])
    stretch = step * (count - overall)
    begin = min(max(end - stretch / 2, start), until - stretch)
    fine = np.linspace(begin, begin + stretch, count - overall)
    outside = coarse[(coarse < fine[0]) | (coarse > fine[-1])]
    note = (
        "The series is long for its shortest period: curves follow it closely around the end of "
        "the data only, and elsewhere show the range it covers."
    )
    return np.sort(np.concatenate([outside, fine])), [note]


def _finest(posterior: Any) -> float:
    """The distance between points at which nothing of the kernel is lost to the eye."""
    steps = [np.inf]
    for parameter in all_parameters(posterior.model.kernels):
        value = float(np.min(np.asarray(parameter.value)))
        share = {"period": value / 32, "frequency": 1 / (32 * value), "lengthscale": value / 6}
        steps.append(share.get(parameter.role, np.inf) if value > 0 else np.inf)
    return min(steps)


_ROWS = 12  # where the data have no step of their own
_MOST_ROWS = 10_000


def forecast_rows(
    x: np.ndarray, until: float, wanted: Any, origin: int | float
) -> tuple[np.ndarray, list[str]]:
    """Inputs of the forecast: every step of the data where those are evenly spaced, and a note."""
    if wanted is not None:
        rows = relative_inputs("forecast_at", wanted, origin)
    else:
        rows = _steps_after(x, until)
    if len(rows) <= _MOST_ROWS:
        return rows, []
    every = -(-len(rows) // _MOST_ROWS)
    note = (
        f"The forecast has {len(rows):,} steps; this report holds one in {every} of them "
        "(`forecast` gives all)."
    )
    return rows[every - 1 :: every], [note]


def _steps_after(x: np.ndarray, until: float) -> np.ndarray:
    end = float(x[-1])
    if not until > end:
        return np.zeros(0)
    steps = np.diff(x)
    usual = float(np.median(steps)) if len(steps) else 0.0
    even = len(steps) >= 3 and np.mean(np.abs(steps - usual) <= 0.01 * usual) > 0.8
    if usual > 0 and even:
        number = int((until - end) / usual + 1e-9)
        return end + usual * np.arange(1, number + 1)
    return end + (until - end) * np.arange(1, _ROWS + 1) / _ROWS
