"""Predictions for many series at once.

The points that are asked for become states among those of the observations. After the last of these
a filter gives mean and variance there, elsewhere a sweep over all states.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from stategp._data import Observations
from stategp._fitting._templates import Template, Values
from stategp._inference import Rows, Size, batched_ahead, batched_moments, rows_of, slots_for
from stategp._runtime import on_device

_FEW = 1024  # points up to which sizes are far apart: a sweep takes those that fill up, too
_ENTRIES = 16_000_000  # numbers in the covariances of a batch, at most


class Asked(NamedTuple):
    """A series with learned values, and the points where f is wanted."""

    template: Template
    values: Values
    data: Observations
    x: np.ndarray  # differences from the origin of the data


def moments_together(asked: Sequence[Asked]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Mean and variance of f at the points that were asked for, in their order."""
    found: list[Any] = [None] * len(asked)
    plans = [_Plan.of(one) for one in asked]
    buckets: dict[Any, list[int]] = {}
    for number, (one, plan) in enumerate(zip(asked, plans, strict=True)):
        buckets.setdefault((one.template.kind, plan.size, plan.ahead), []).append(number)
    for (_, size, ahead), numbers in buckets.items():
        template = asked[numbers[0]].template
        slots = _slots(size, ahead, template.dim, len(numbers))
        for begin in range(0, len(numbers), slots):
            some = numbers[begin : begin + slots]
            filled = [*some, *[some[-1]] * (slots - len(some))]
            models = [asked[n].template.numbers(asked[n].values) for n in filled]
            leaves = [np.stack(parts) for parts in zip(*models, strict=True)]
            rows = Rows(*map(np.stack, zip(*(plans[n].rows for n in filled), strict=True)))
            where = np.stack([plans[n].where for n in filled])
            leaves, rows, where = on_device((leaves, rows, where))
            stacked = jax.tree.unflatten(template.structure, leaves)
            moments = batched_ahead if ahead else batched_moments
            mean, variance = map(np.asarray, moments(stacked, rows, where))
            for slot, number in enumerate(some):
                at = plans[number].places
                found[number] = mean[slot, at], variance[slot, at]
    return found


def _slots(size: Size, ahead: bool, dim: int, series: int) -> int:
    if ahead:
        return slots_for(size, dim, series)
    return slots_for(Size(size.points, 4 * size.points), dim, series, _ENTRIES)  # pairs of states


class _Plan(NamedTuple):
    """The points of a series and those that were asked for, in order, filled up."""

    rows: Rows
    size: Size
    where: np.ndarray  # all points, from the origin; or whether each is one that was asked for
    places: np.ndarray  # of those that were asked for
    ahead: bool  # whether these come after the others

    @staticmethod
    def of(asked: Asked) -> "_Plan":
        data, count = asked.data, len(asked.data)
        x = np.concatenate([np.asarray(data.x), asked.x])
        order = np.argsort(x, kind="stable")
        nothing = np.zeros(len(asked.x))
        y = np.concatenate([np.asarray(data.y), nothing])
        extra = np.concatenate([np.asarray(data.extra), nothing])
        weights = np.concatenate([np.asarray(data.weights), nothing])
        columns: list[Any] = [column[order] for column in (x, y, extra, weights)]
        together = Observations(columns[0], columns[1], columns[2], columns[3], data.origin)
        places = np.empty(len(order), dtype=int)
        places[order] = np.arange(len(order))
        places = places[count:]
        if np.all(asked.x > x[count - 1]):
            rows, size = rows_of(together)
            where = np.zeros(size.points, dtype=bool)
            where[places] = True
            return _Plan(rows, size, where, places, True)
        rows, size = rows_of(together, few=_FEW)
        # With no use for equal steps, all sizes have one program.
        rows, size = rows._replace(lengths=np.zeros(1)), Size(size.points, 1)
        where = np.append(x[order], np.full(size.points - len(order), x[order][-1]))
        return _Plan(rows, size, where, places, False)
