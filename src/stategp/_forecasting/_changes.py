"""Sudden changes of level, found by the medians on both sides."""

from typing import NamedTuple

import numpy as np

from stategp._forecasting._learning import Series
from stategp._forecasting._outliers import season_removed

_SIDE = 4  # observations whose medians are compared
_FEWEST = 24
_SUDDEN = 10.0  # standard deviations of such differences
_SHARE = 0.02  # of all observations: if more often, changes are the nature of the series


class Change(NamedTuple):
    """The first observation at a new level, and by how much that is higher."""

    row: int
    size: float


def level_changes(series: Series) -> list[Change]:
    """The largest changes that stand out among the others, in order of time."""
    count = len(series.y)
    if count < _FEWEST:
        return []
    level = season_removed(series.x, series.cleaned, series.outline)
    sides = np.median(np.lib.stride_tricks.sliding_window_view(level, _SIDE), axis=1)
    steps = sides[_SIDE:] - sides[:-_SIDE]  # the i-th: at the row i + _SIDE
    usual = np.median(steps)
    size = 1.4826 * float(np.median(np.abs(steps - usual)))
    far = np.abs(steps - usual) > max(_SUDDEN * size, 1e-9 * float(np.max(np.abs(level))))
    found: list[Change] = []
    while far.any():
        at = int(np.argmax(np.where(far, np.abs(steps - usual), 0.0)))
        near = slice(max(at - _SIDE, 0), at + _SIDE + 1)
        # The medians differ over some rows: the change is where neighbours differ most.
        rows = np.arange(max(at, 1), min(at + 2 * _SIDE, count))
        row = int(rows[np.argmax(np.sign(steps[at]) * (level[rows] - level[rows - 1]))])
        found.append(Change(row, float(steps[at])))
        far[near] = False
    return sorted(found) if len(found) <= max(1, _SHARE * count) else []
