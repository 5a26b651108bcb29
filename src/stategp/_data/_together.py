"""Outputs that were observed together: what every row knows of others at the same time.

If their noise is correlated, log p(y | f) at one time is a sum over the outputs present, each given
those before it in the order of the model. A row therefore carries what was seen of them.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Bool, Float, Int

from stategp._data._observations import Observations
from stategp._data._outputs import Outputs

Each = Float[Array, "rows outputs"]


class Together(NamedTuple):
    """For each row, its output, and of every output before it what was seen at the same time."""

    output: Int[Array, " rows"]
    seen: Bool[Array, "rows outputs"]
    y: Each  # zero where nothing was seen
    extra: Each


def seen_together(outputs: Outputs, count: int) -> Together:
    """Rows given as a table are together; else those with one x, the first of each output first."""
    data, places = outputs.data, outputs.places
    times = outputs.given_rows
    if times is None:
        times = _by_input(np.asarray(data.x), places)
    _, time = np.unique(times, return_inverse=True)
    table = np.zeros((3, time.max() + 1, count))
    for layer, column in zip(table, (np.ones(len(data)), data.y, data.extra), strict=True):
        layer[time, places] = np.asarray(column)
    before = np.arange(count)[None] < places[:, None]
    seen, y, extra = np.where(before[None], table[:, time], 0.0)
    _check_weights(data, time)
    columns: Any = (places, seen > 0, y, extra)
    return Together(*columns)


def _by_input(x: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Numbers of times: of rows with one x, those that come first of their output, then second."""
    order = np.lexsort((places, x))
    new = np.ones(len(x), dtype=bool)
    new[1:] = (np.diff(x[order]) > 0) | (np.diff(places[order]) != 0)
    starts = np.maximum.accumulate(np.where(new, np.arange(len(x)), 0))
    again = np.empty(len(x), dtype=int)
    again[order] = np.arange(len(x)) - starts
    _, times = np.unique(np.stack([x, again]), axis=1, return_inverse=True)
    numbers: np.ndarray = times.reshape(-1)
    return numbers


def _check_weights(data: Observations, time: np.ndarray) -> None:
    weights = np.asarray(data.weights)
    first = np.zeros(time.max() + 1)
    first[time] = weights
    odd = weights != first[time]
    if np.any(odd):
        at = int(np.argmax(odd))
        raise ValueError(
            "outputs observed together have one weight if their noise is correlated, but at x = "
            f"{data.x[at] + data.origin:g} there are {first[time[at]]:g} and {weights[at]:g}"
        )
