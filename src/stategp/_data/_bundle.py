"""Observations of many series, kept in few arrays."""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from stategp._data._observations import Observations


@dataclasses.dataclass(eq=False)
class Bundle:
    """Series one after another; one without observations has none.

    >>> from stategp._data import observe
    >>> bundle = Bundle.of([observe([3, 1], [0.5, 2.0]), None])
    >>> bundle.counts, bundle[0].y, bundle.inputs(0)
    (array([2, 0]), array([2. , 0.5]), array([1, 3]))
    """

    counts: np.ndarray  # observations of each series
    origins: tuple[int | float, ...]
    columns: np.ndarray  # x (from the origin), y, extra and weights, side by side

    @staticmethod
    def of(series: Sequence[Observations | None]) -> "Bundle":
        """The series, or None for those that are missing."""
        counts = [0 if data is None else len(data) for data in series]
        there = [data for data in series if data is not None]
        columns = [
            np.concatenate([np.zeros(0), *(np.asarray(getattr(data, name)) for data in there)])
            for name in ("x", "y", "extra", "weights")
        ]
        origins = tuple(0 if data is None else data.origin for data in series)
        return Bundle(np.array(counts, dtype=np.int64), origins, np.stack(columns))

    @staticmethod
    def joined(bundles: Sequence["Bundle"]) -> "Bundle":
        """The series of all, in their order."""
        return Bundle(
            np.concatenate([bundle.counts for bundle in bundles]),
            tuple(origin for bundle in bundles for origin in bundle.origins),
            np.concatenate([bundle.columns for bundle in bundles], axis=1),
        )

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, number: int) -> Observations:
        rows = slice(self._ends[number], self._ends[number + 1])
        columns: Any = [np.array(column[rows]) for column in self.columns]
        return Observations(columns[0], columns[1], columns[2], columns[3], self.origins[number])

    def with_series(self, changed: Mapping[int, Observations], count: int) -> "Bundle":
        """So many series: some as they are given, the others as they were, or without any."""
        there = [n < len(self) and self.counts[n] > 0 for n in range(count)]
        return Bundle.of([changed.get(n, self[n] if there[n] else None) for n in range(count)])

    def inputs(self, number: int) -> np.ndarray:
        """x of one series as the user has it: integers if they were."""
        x, origin = self[number].x, self.origins[number]
        relative = np.asarray(x)
        if isinstance(origin, int) and np.all(np.abs(relative) < 2.0**62):
            return np.rint(relative).astype(np.int64) + np.int64(origin)
        return relative + float(origin)

    @cached_property
    def _ends(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self.counts)]).astype(int)


def check_bundle(bundle: Bundle) -> None:
    """Refuse a file whose parts do not fit together."""
    if len(bundle.origins) != len(bundle.counts) or np.any(bundle.counts < 0):
        raise ValueError("the series of the file have no sensible numbers of observations")
    if bundle.columns.shape != (4, int(bundle.counts.sum())):
        raise ValueError("the file has another number of observations than it says")
