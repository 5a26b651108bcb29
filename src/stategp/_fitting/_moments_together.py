"""Predictions for many series at once.

The points that are asked for become states among those of the observations, and one sweep over all
of them gives mean and variance there.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from stategp._data import Observations
from stategp._fitting._templates import Template, Values
from stategp._inference import Rows, Size, batched_moments, rows_of, slots_for
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
        buckets.setdefault((one.template.kind, plan.size), []).append(number)
    for (_, size), numbers in buckets.items():
        template = asked[numbers[0]].template
        pairs = Size(size.points, 4 * size.points)  # of states
        slots = slots_for(pairs, template.dim, len(numbers), _ENTRIES)
        for begin in range(0, len(numbers), slots):
            some = numbers[begin : begin + slots]
            filled = [*some, *[some[-1]] * (slots - len(some))]
            models = [asked[n].template.numbers(asked[n].values) for n in filled]
            leaves = [np.stack(parts) for parts in zip(*models, strict=True)]
            rows = Rows(
                *(np.stack(parts) for parts in zip(*(plans[n].rows for n in filled), strict=True))
            )
            relative = np.stack([plans[n].relative for n in filled])
            leaves, rows, relative = on_device((leaves, rows, relative))
            stacked = jax.tree.unflatten(template.structure, leaves)
            mean, variance = map(np.asarray, batched_moments(stacked, rows, relative))
            for slot, number in enumerate(some):
                at = plans[number].places
                found[number] = mean[slot, at], variance[slot, at]
    return found


class _Plan(NamedTuple):
    """The points of a series and those that were asked for, in order, filled up."""

    rows: Rows
    size: Size
    relative: np.ndarray
    places: np.ndarray  # of those that were asked for

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
        rows, size = rows_of(together, few=_FEW)
        # With no use for equal steps, all sizes have one program.
        rows, size = rows._replace(lengths=np.zeros(1)), Size(size.points, 1)
        places = np.empty(len(order), dtype=int)
        places[order] = np.arange(len(order))
        relative = np.append(x[order], np.full(size.points - len(order), x[order][-1]))
        return _Plan(rows, size, relative, places[count:])
