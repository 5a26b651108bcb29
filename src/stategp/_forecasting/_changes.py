"""Sudden changes of level, found by the medians on both sides, and models that know of them."""

import dataclasses
from typing import NamedTuple

import numpy as np

from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._design import Design
from stategp._forecasting._learning import Series
from stategp._forecasting._outliers import season_removed

_SIDE = 4  # observations whose medians are compared
_FEWEST = 24
_SUDDEN = 10.0  # standard deviations of such differences
_APART = 100  # observations between changes that are rare
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
    free = series.cleaned - series.beside.without_changes.rough_effects(series.x, series.cleaned)
    level = season_removed(series.x, free, series.outline)
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


def with_changes(series: Series, axis: TimeAxis) -> Series:
    """The series with those changes that the latest observations show; itself, if there are none.

    Models then have the size of each change as an effect, beside those that they have anyway. Where
    changes are frequent, others are to be expected, and the models that let the level wander
    foresee them.
    """
    first, count = int(series.latest[0]), len(series.latest)
    times = tuple(float(series.x[c.row]) for c in level_changes(series) if c.row > first)
    if not 0 < len(times) <= max(1, count // _APART):
        return series
    design = series.beside.design or Design.of_changes(axis, ())
    beside = dataclasses.replace(series.beside, design=dataclasses.replace(design, changes=times))
    return dataclasses.replace(series, beside=beside)


def surprise(series: Series) -> float:
    """What not knowing when changes come costs, in nats: each could be at any observation."""
    design = series.beside.design
    return 0.0 if design is None else len(design.changes) * float(np.log(len(series.latest)))
