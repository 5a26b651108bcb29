"""Long frames: many series below each other, told apart by one column or several."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from stategp._forecasting._frames import as_frame, column, column_of, frames, kind_of, text_series

Key = tuple[Any, ...]  # a value for each column


@dataclasses.dataclass(frozen=True)
class Long:
    """A frame, and the rows of every series in it, in the order of their first rows."""

    table: Any
    by: tuple[str, ...]
    keys: tuple[Key, ...]
    rows: tuple[np.ndarray, ...]

    @property
    def kind(self) -> str:
        """Of data frame, by the name of its library."""
        return kind_of(self.table)

    def part(self, number: int) -> Any:
        """The rows of one series, as a frame of the library."""
        return taken(self.table, self.rows[number]).to_native()

    def __iter__(self) -> Iterator[tuple[Key, np.ndarray]]:
        return zip(self.keys, self.rows, strict=True)


def as_by(by: Any) -> tuple[str, ...]:
    """The columns that tell series apart."""
    names = (by,) if isinstance(by, str) else tuple(by) if isinstance(by, Sequence) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError(
            f"by must be the name of a column, such as 'unique_id', or a list of names; got {by!r}"
        )
    if len(set(names)) < len(names):
        raise ValueError(f"by names a column twice: {list(names)}")
    return names


def read_long(frame: Any, by: Any, time: str, target: str) -> Long:
    """The series of a long frame."""
    names = as_by(by)
    for role, name in (("time", time), ("target", target)):
        if name in names:
            raise ValueError(f"{role} and by are both column {name!r}; they must differ")
    table = as_frame(frame, time, target)
    if len(table) == 0:
        raise ValueError("the frame has no rows: nothing to fit")
    columns = [_labels(table, name) for name in names]
    numbers: dict[Key, int] = {}
    codes = np.fromiter(
        (numbers.setdefault(key, len(numbers)) for key in zip(*columns, strict=True)),
        dtype=np.int64,
        count=len(table),
    )
    order = np.argsort(codes, kind="stable")
    cuts = np.searchsorted(codes[order], np.arange(1, len(numbers)))
    return Long(table, names, tuple(numbers), tuple(np.split(order, cuts)))


def _labels(table: Any, name: str) -> list[Any]:
    """The values of a column that tells series apart, which every row must have."""
    labels = column(table, name).to_list()
    for row, label in enumerate(labels):
        if label is None or (isinstance(label, float) and math.isnan(label)):
            raise ValueError(
                f"column {name!r} tells series apart and must be given for every row: row {row} "
                "has none"
            )
    return labels


def taken(table: Any, rows: np.ndarray) -> Any:
    """Some rows of a narwhals frame, in that order."""
    return table[rows.tolist()]


def key_series(kind: str, by: tuple[str, ...], keys: Sequence[Key]) -> list[Any]:
    """The columns that tell series apart, with a key for each row."""
    columns = zip(*keys, strict=True) if keys else [()] * len(by)
    return [
        frames().new_series(name, list(values), backend=kind)
        for name, values in zip(by, columns, strict=True)
    ]


def long_frame(
    kind: str, by: tuple[str, ...], keys: Sequence[Key], series: Sequence[Any], columns: Any = None
) -> Any:
    """A frame: the columns of the keys, further series, and columns that come as arrays."""
    first, *others = key_series(kind, by, keys)
    names = [*by, *(one.name for one in series), *(columns or {})]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"the result would have two columns called {name!r}: rename that of the frame"
            )
    arrays = [column_of(kind, name, values) for name, values in (columns or {}).items()]
    return first.to_frame().with_columns(*others, *series, *arrays).to_native()


def as_failures(
    keys: Sequence[Key], problems: Mapping[int, str], left_out: Mapping[int, str]
) -> tuple[list[Key], list[str]]:
    """The rows of the table of failures, in the order of the series."""
    words = dict(problems)
    words |= {n: f"its new rows were left out: {why}" for n, why in left_out.items()}
    return [keys[n] for n in sorted(words)], [words[n] for n in sorted(words)]


def failure_frame(
    kind: str, by: tuple[str, ...], keys: Sequence[Key], problems: Sequence[str]
) -> Any:
    """A row for each series that could not be fitted, and why."""
    return long_frame(kind, by, keys, [text_series(kind, "problem", problems)])


def shown_key(key: Key) -> Any:
    """A key as people write it: without a tuple around a single value."""
    return key[0] if len(key) == 1 else key
