"""Many observations in few numbers, with the extremes kept; stretches without any."""

from typing import NamedTuple

import numpy as np


class Columns(NamedTuple):
    """Observations summed up in stretches of x of equal width; empty stretches are left out."""

    centre: np.ndarray
    width: float
    low: np.ndarray
    lower_quarter: np.ndarray
    middle: np.ndarray
    upper_quarter: np.ndarray
    high: np.ndarray
    mean: np.ndarray
    counts: np.ndarray


def in_columns(x: np.ndarray, y: np.ndarray, columns: int) -> Columns:
    """Range, quartiles and mean of y in each of `columns` stretches of x, which is in order.

    >>> import numpy as np
    >>> in_columns(np.arange(6.0), np.array([3.0, 1.0, 2.0, 5.0, 9.0, 7.0]), 2).high
    array([3., 9.])
    """
    span = float(x[-1] - x[0]) or 1.0
    column = np.minimum(((x - x[0]) * (columns / span)).astype(np.int64), columns - 1)
    filled, first, counts = np.unique(column, return_index=True, return_counts=True)
    ranked = y[np.lexsort((y, column))]
    total = np.add.reduceat(y, first)

    def at(share: float) -> np.ndarray:
        return ranked[first + np.round(share * (counts - 1)).astype(np.int64)]

    width = span / columns
    return Columns(
        x[0] + (filled + 0.5) * width,
        width,
        at(0.0),
        at(0.25),
        at(0.5),
        at(0.75),
        at(1.0),
        total / counts,
        counts,
    )


_MOST_GAPS = 200


def find_gaps(x: np.ndarray) -> np.ndarray:
    """Stretches without data, one row each: (from, to). `x` is in order.

    A gap is four times longer than nine in ten of the distances between neighbours, and a
    fiftieth of the whole or more: what a person would call one when looking at the series.

    >>> import numpy as np
    >>> find_gaps(np.append(np.arange(10.0), np.arange(30.0, 40.0)))
    array([[ 9., 30.]])
    """
    steps = np.diff(x)
    apart = steps[steps > 0]
    if len(apart) < 8:
        return np.zeros((0, 2))
    usual = np.quantile(apart, 0.9, method="lower")
    shortest = max(4 * usual, 0.02 * (x[-1] - x[0]))
    at = np.flatnonzero(steps > shortest)
    at = np.sort(at[np.argsort(steps[at])[-_MOST_GAPS:]])
    return np.stack([x[at], x[at + 1]], axis=1)
