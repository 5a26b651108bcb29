"""Observations at places and times, as users have them: in rows, in tables, or on a grid."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from stategp._data._observations import Observations, inputs_as_given, observe, relative_inputs
from stategp._data._placed import PlacedRows
from stategp._data._table import column_names
from stategp._data._views import Origin
from stategp._runtime import on_device, pad_last, padded_size, refuse_traced
from stategp.likelihoods import Likelihood
from stategp.spatial import as_places

Names = Callable[[int], tuple[str, ...]]  # the columns of a table with so many coordinates
_WIDTHS = (1, 2, 4, 8, 16, 32, 64)
_OVERHEAD = 8  # rows that take as long as the matrices that a cell reads
_FEW = 32  # cells from which on at most an eighth is added: each is a large matrix
_LEAST = 8  # times, and places, of a grid
_SPARE = 4  # pairs of times and places for each that was observed, at most, on a grid


def times_and_places(what: str, x: Any, names: Names) -> tuple[np.ndarray, np.ndarray]:
    """The times as they were given, and an array of coordinates, from a pair or a table."""
    refuse_traced(what, x)
    if isinstance(x, tuple):
        if len(x) != 2:
            raise ValueError(
                f"{what} must be a pair (times, places) or a table, got {len(x)} parts"
            )
        return inputs_as_given(f"the times of {what}", x[0]), _places(what, x[1])
    known = column_names(x)
    if known is not None:
        columns = _wanted(what, known, names)
        times = inputs_as_given(f"column {columns[0]!r} of {what}", x[columns[0]])
        return times, _places(what, np.stack([np.asarray(x[c]) for c in columns[1:]], axis=1))
    table = np.asarray(x)
    if table.ndim != 2 or not 2 <= table.shape[1] <= 4:
        raise ValueError(
            f"{what} must be a pair (times, places), a data frame, or an array with the time in "
            f"the first column and one to three coordinates in the others; got shape {table.shape}"
        )
    return inputs_as_given(f"the times of {what}", table[:, 0]), _places(what, table[:, 1:])


def _places(what: str, places: Any) -> np.ndarray:
    return as_places(f"the places of {what}", places)


def _wanted(what: str, known: list[Any], names: Names) -> tuple[str, ...]:
    """The columns to read: as many coordinates as the table has."""
    for dimensions in (3, 2, 1):
        columns = names(dimensions)
        if all(column in known for column in columns):
            return columns
    raise ValueError(
        f"{what} must have the columns {', '.join(map(repr, columns))}; it has "
        f"{', '.join(map(repr, known))} (names= of the model says what they are called)"
    )


def observe_in_space(
    x: Any,
    y: Any,
    names: Names,
    likelihood: Likelihood,
    *,
    extras: Mapping[str, Any] | None = None,
    weights: Any = None,
) -> tuple[Observations, np.ndarray]:
    """Check what the user gave: the observations in order of time, and the places of these."""
    if y is None:
        raise ValueError("y is missing: give x, a pair (times, places) or a table, and y")
    times, places = times_and_places("x", x, names)
    if np.ndim(y) == 2 and np.asarray(y).dtype.kind in "iufb":
        times, places = _on_grid(times, places, np.asarray(y).shape)
        given = {"y": y, "weights": weights} | dict(extras or {})
        flat = {name: _flat(name, value, np.shape(y)) for name, value in given.items()}
        y, weights = flat.pop("y"), flat.pop("weights")
        extras = flat
    if len(times) != len(places):
        raise ValueError(
            f"x has {len(times)} times and {len(places)} places: there must be one of each for "
            "every observation, unless y has two axes, one for the times and one for the places"
        )
    # The rows are numbered and go through the checks of a single series; its x says who stayed.
    kept = observe(np.arange(len(times)), y, likelihood, extras=extras, weights=weights)
    rows = np.asarray(kept.x).astype(int) + int(kept.origin)
    origin: Origin = times[rows].min().item()
    relative = relative_inputs("the times of x", times[rows], origin)
    order = np.argsort(relative, kind="stable")
    columns = (np.asarray(v)[order] for v in (kept.y, kept.extra, kept.weights))
    data: Any = (relative[order], *columns, origin)
    return Observations(*data), places[rows][order]


def _on_grid(
    times: np.ndarray, places: np.ndarray, shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    if shape != (len(times), len(places)):
        raise ValueError(
            f"y has two axes, so it must have a row for each of {len(times)} times and a column "
            f"for each of {len(places)} places; got shape {shape}"
        )
    return np.repeat(times, len(places)), np.tile(places, (len(times), 1))


def _flat(name: str, value: Any, shape: tuple[int, ...]) -> Any:
    if value is None or np.ndim(value) == 0:
        return value
    if np.shape(value) != shape:
        raise ValueError(f"{name} must have the shape of y, {shape}, got {np.shape(value)}")
    return np.asarray(value).reshape(-1)


def packed_rows(
    data: Observations, places: np.ndarray, guess: np.ndarray, inducing: np.ndarray, spots: Any
) -> PlacedRows:
    """The rows on a grid of times and places if they fill enough of one, else in runs.

    Runs have one length, and each lies between the same two inducing times. Both are filled up with
    rows that weigh nothing. `spots(coordinates, width=…, grid=…)` makes the places.
    """
    gridded = _grid_rows(data, places, guess, spots)
    if gridded is not None:
        return gridded
    interval = np.searchsorted(inducing, np.asarray(data.x), side="right")
    _, first, counts = np.unique(interval, return_index=True, return_counts=True)
    costs = [np.sum(-(-counts // width)) * (width + _OVERHEAD) for width in _WIDTHS]
    width = _WIDTHS[int(np.argmin(costs))]
    cells = -(-counts // width)
    number = np.arange(width)[None] + width * _within(cells)[:, None]
    run = np.repeat(np.arange(len(counts)), cells)[:, None]
    take = (first[run] + np.minimum(number, counts[run] - 1)).reshape(-1)
    counted = (number < counts[run]).reshape(-1)
    size = width * padded_size(len(run), least=_FEW, few=_FEW)
    take = np.pad(take, (0, size - len(take)), mode="edge")
    counted = np.pad(counted, (0, size - len(counted)))
    columns = [np.asarray(v)[take] for v in (data.x, data.y, data.extra, data.weights, guess)]
    x, y, extra, weights, start = columns
    arrays = on_device((x, places[take], y, extra, np.where(counted, weights, 0.0), start))
    made: Any = (arrays[0], spots(arrays[1], width=width), *arrays[2:], data.origin)
    return PlacedRows(*made)


def _grid_rows(
    data: Observations, places: np.ndarray, guess: np.ndarray, spots: Any
) -> PlacedRows | None:
    """All pairs of times and places; None if too few of them, or some twice, were observed."""
    times, when = np.unique(np.asarray(data.x), return_inverse=True)
    where, which = np.unique(places, axis=0, return_inverse=True)
    pairs = len(times) * len(where)
    if pairs > _SPARE * len(data):
        return None
    at = when * len(where) + which.reshape(-1)
    if np.bincount(at).max() > 1:
        return None
    down, across = (padded_size(len(part), least=_LEAST, few=_FEW) for part in (times, where))
    number = np.full(pairs, -1)
    number[at] = np.arange(len(data))
    beyond = (0, down - len(times)), (0, across - len(where))
    take = np.pad(number.reshape(len(times), -1), beyond, constant_values=-1).reshape(-1)
    y, extra, weights, start = (
        np.asarray(v)[np.maximum(take, 0)] for v in (data.y, data.extra, data.weights, guess)
    )
    x, weights = np.repeat(pad_last(times, down), across), np.where(take < 0, 0.0, weights)
    arrays = on_device((x, pad_last(where, across), y, extra, weights, start))
    made: Any = (arrays[0], spots(arrays[1], grid=True), *arrays[2:], data.origin)
    return PlacedRows(*made)


def _within(cells: np.ndarray) -> np.ndarray:
    """0, 1, … for the cells of each run."""
    return np.arange(np.sum(cells)) - np.repeat(np.cumsum(cells) - cells, cells)
