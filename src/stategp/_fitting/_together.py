"""Hyperparameters of many series at once.

Series whose templates have the same structure, and whose sizes are filled up to the same one, share
a compiled program; in its slots searches come and go until all have ended.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from stategp._data import Observations
from stategp._fitting._templates import Template, Values
from stategp._inference import (
    Climbers,
    End,
    Outcome,
    Problem,
    Rows,
    Size,
    batched_evidence,
    columns_of,
    empty_rows,
    fill,
    slots_for,
)
from stategp._runtime import make_room

Tell = Callable[[int], None]  # how many searches have ended


class Member(NamedTuple):
    """A series, the template it follows, and its search."""

    template: Template
    data: Observations
    scales: np.ndarray  # of the coordinates
    leaves: Sequence[np.ndarray]  # of its own model: priors, too, may be others
    columns: Rows
    size: Size  # that they are filled up to
    quietest: float  # the smallest noise that y can show
    values: Values = []  # noqa: RUF012, to begin with
    problem: Any = None  # in these scales

    def found(self, end: End) -> Values:
        """The values of all parameters where a search ended."""
        return self.template.at(self.values, end.vector * self.scales)


def member_of(
    template: Template,
    data: Observations,
    stretches: Sequence[float],
    leaves: Sequence[np.ndarray] | None = None,
) -> Member:
    """A series with the starting values that `fit` would take from it.

    `leaves` are those of its own model, if that is not the one of the template.
    """
    leaves = template.leaves if leaves is None else leaves
    begin = template.starts(leaves, data, stretches)
    starts = [template.vector(values) for values in begin]
    distinct = [
        v for n, v in enumerate(starts) if not any(np.array_equal(v, w) for w in starts[:n])
    ]
    columns, size = columns_of(data)
    quietest = template.quietest(np.asarray(data.y))
    member = Member(template, data, template.scales(data), leaves, columns, size, quietest)
    return member_at(member, begin[0], distinct)


def member_at(
    member: Member,
    values: Values,
    starts: Sequence[np.ndarray] = (),
    free: np.ndarray | None = None,
) -> Member:
    """The same series with a search from other values, perhaps of some coordinates only."""
    scales, reach = member.scales, member.template.reach
    first = member.template.vector(values)
    places = np.stack(starts or [first]) / scales
    lowest = member.template.lowest(first, member.quietest) / scales
    problem = Problem(
        places,
        np.maximum(places[0] - reach, lowest),
        places[0] + reach,
        np.ones(len(scales)) if free is None else free.astype(float),
        len(member.data),
    )
    return member._replace(values=values, problem=problem)


def climb_together(
    members: Sequence[Member], *, max_steps: int, flat: float, gtol: float, tell: Tell
) -> tuple[list[End | None], bool]:
    """Where each search ended, and whether Ctrl-C ended them all; None if one had not begun."""
    ends: list[End | None] = [None] * len(members)
    try:
        for numbers, size in _buckets(members):
            make_room()
            settings = {"max_steps": max_steps, "flat": flat, "gtol": gtol}
            _climb_bucket(members, numbers, size, settings, ends, tell)
    except KeyboardInterrupt:
        return ends, True
    return ends, False


def _buckets(members: Sequence[Member]) -> list[tuple[list[int], Size]]:
    """The numbers of the members that share a program, the longest first in each."""
    found: dict[Any, list[int]] = {}
    for number, member in enumerate(members):
        found.setdefault((member.template.kind, member.size), []).append(number)
    return [
        (sorted(numbers, key=lambda number: -len(members[number].data)), key[-1])
        for key, numbers in found.items()
    ]


class _Batch:
    """The rows and models of a batch, in arrays with a place for each slot."""

    def __init__(self, template: Template, size: Size, slots: int):
        self.structure = template.structure
        self.leaves = [np.stack([leaf] * slots) for leaf in template.leaves]
        self.rows = empty_rows(size, slots)

    def put(self, slot: int, member: Member) -> None:
        fill(self.rows, slot, member.columns)
        numbers = member.template.numbers(member.values, member.leaves)
        for leaf, value in zip(self.leaves, numbers, strict=True):
            leaf[slot] = value

    def clear(self, slot: int) -> None:
        self.rows.weights[slot] = 0.0

    def __call__(self, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Objectives, log priors alone, and gradients."""
        models = jax.tree.unflatten(self.structure, self.leaves)
        values, priors, gradients = batched_evidence(vectors, models, self.rows)
        # Read before anything is put into the arrays that were given: JAX may not have copied them.
        return np.array(values), np.array(priors), np.array(gradients)


def _climb_bucket(
    members: Sequence[Member],
    numbers: list[int],
    size: Size,
    settings: dict[str, Any],
    ends: list[End | None],
    tell: Tell,
) -> None:
    first = members[numbers[0]]
    slots = slots_for(size, first.template.dim, len(numbers))
    batch = _Batch(first.template, size, slots)
    climbers = Climbers(slots, len(first.scales), **settings)
    scales = np.ones((slots, len(first.scales)))
    queue, inside = iter(numbers), dict[int, int]()
    try:
        while True:
            for slot in climbers.empty():
                number = next(queue, None)
                if number is None:
                    break
                inside[slot] = number
                batch.put(slot, members[number])
                climbers.put(slot, members[number].problem)
                scales[slot] = members[number].scales
            if not inside:
                return
            values, priors, gradients = batch(climbers.points() * scales)
            ended = climbers.told(values, gradients * scales, priors)
            for slot, end in ended.items():
                ends[inside.pop(slot)] = end
                batch.clear(slot)
            tell(len(ended))
    except KeyboardInterrupt:
        for slot, end in climbers.stop(Outcome.interrupted).items():
            if slot in inside:
                ends[inside[slot]] = end
        raise


class Ensemble:
    """The objectives of all members, evaluated together as often as one likes."""

    def __init__(self, members: Sequence[Member]):
        self.count, self.batches = len(members), list[tuple[_Batch, list[int], int]]()
        for numbers, size in _buckets(members):
            template = members[numbers[0]].template
            slots = slots_for(size, template.dim, len(numbers))
            for begin in range(0, len(numbers), slots):
                batch, some = _Batch(template, size, slots), numbers[begin : begin + slots]
                for slot, number in enumerate(some):
                    batch.put(slot, members[number])
                self.batches.append((batch, some, slots))

    def __call__(self, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A value and a gradient for each, at a vector for each."""
        values, gradients = np.zeros(self.count), np.zeros_like(vectors)
        for batch, some, slots in self.batches:
            points = np.zeros((slots, vectors.shape[1]))
            points[: len(some)] = vectors[some]
            value, _, gradient = batch(points)
            values[some], gradients[some] = value[: len(some)], gradient[: len(some)]
        return values, gradients
