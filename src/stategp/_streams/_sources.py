"""Where batches come from: Parquet files through pyarrow's datasets, or anything that iterates."""

import abc
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from stategp._streams._columns import Batch, Calendar, calendar_of, column
from stategp._streams._parquet import check_columns, checking, naming, open_files
from stategp._streams._processes import Share

_READ = 2**18  # rows that are decoded together
_OF_TABLES = "column_names", "columns"  # of Arrow, of data frames
_BUFFERED = 2**20  # bytes of a column that are read together


class Source(abc.ABC):
    """Batches, as often as they are asked for."""

    @abc.abstractmethod
    def batches(self, names: list[str], share: Share = Share()) -> Iterator[Batch]:  # noqa: B008
        """The rows of a share of all pieces, in any order."""

    @property
    def rows(self) -> int | None:
        """How many there are, if that is known beforehand."""
        return None

    def pieces(self, names: list[str], time: str) -> "Pieces | None":
        """What can be read in any order, if there are such pieces."""
        return None

    @abc.abstractmethod
    def calendar(self, time: str) -> Calendar:
        """Whether times are dates."""

    def ends(self, time: str) -> tuple[float, float]:
        """The smallest and the largest time."""
        low, high = np.inf, -np.inf
        for batch in self.batches([time]):
            x = batch.columns[time]
            x = x[np.isfinite(x)]
            low, high = min(low, x.min(initial=np.inf)), max(high, x.max(initial=-np.inf))
        return float(low), float(high)


class Piece(NamedTuple):
    """A row group of a file, or a file that has none."""

    file: Any
    start: int  # rows of the file before these
    group: Any  # what pyarrow knows of it
    tables: Callable[[], Iterator[Any]]

    @property
    def place(self) -> str:
        return str(getattr(self.file, "path", "the table"))

    @property
    def rows(self) -> int:
        """How many there are before any are left out."""
        return int(self.group.num_rows)

    def batches(self, names: list[str], start: int | None = None) -> Iterator[Batch]:
        """Its rows, a few at a time, counted from `start` on."""
        start = self.start if start is None else start
        tables = self.tables()
        while True:
            with naming(self.file):
                table = next(tables, None)
            if table is None:
                return
            if table.num_rows:
                with naming(self.file):
                    columns = {name: column(table, name, self.place) for name in names}
                yield Batch(self.place, start, columns)
            start += table.num_rows


class Pieces(NamedTuple):
    """All of a source."""

    pieces: list[Piece]
    spans: np.ndarray | None  # the first and the last time of each, if all of them say it


class Parquet(Source):
    """A dataset of pyarrow's: files, of which only some columns and rows are read."""

    def __init__(self, dataset: Any, filter: Any):
        self.dataset, self.filter = dataset, filter

    def batches(self, names: list[str], share: Share = Share()) -> Iterator[Batch]:  # noqa: B008
        self._check(names)
        seen = 0
        for file in self._files():
            pieces, start = self._pieces(file, names), 0
            own = [piece for number, piece in enumerate(pieces, seen) if share.has(number)]
            seen += len(pieces)
            for piece in own:
                for batch in piece.batches(names, start):
                    yield batch
                    start += len(batch)

    def pieces(self, names: list[str], time: str) -> Pieces | None:
        self._check(names)
        files = list(self._files())
        if not all(hasattr(file, "split_by_row_group") for file in files):
            return None
        found = [piece for file in files for piece in self._pieces(file, names)]
        return Pieces(found, self._spans([piece.group for piece in found], time))

    def _pieces(self, file: Any, names: list[str]) -> list[Piece]:
        """The row groups of a file, each to be read a few rows at a time.

        Of a plain Parquet file, even one whose row groups are as long as itself, little is in
        memory at any time. Where rows are chosen or columns are those of partitions, pyarrow's
        scanner reads a row group as a whole.
        """
        schema, rows = self.dataset.schema, self.filter
        options: dict[str, Any] = {
            "batch_size": _READ, "batch_readahead": 1, "use_threads": False,
        }  # fmt: skip

        with naming(file):
            check_columns(file, names)
            options |= checking(file)

        def scanned(piece: Any) -> Callable[[], Iterator[Any]]:
            return partial(piece.to_batches, schema, columns=names, filter=rows, **options)

        if not hasattr(file, "split_by_row_group"):
            return [Piece(file, 0, None, scanned(file))]
        with naming(file):
            groups = {group.id: group for group in file.row_groups}
            before = dict(zip(groups, _before(groups.values()), strict=True))
            tables: dict[int, Callable[[], Iterator[Any]]]
            if rows is None and set(names) <= set(file.physical_schema.names):
                tables = {number: partial(_plain_rows, file, number, names) for number in groups}
            else:
                split = file.split_by_row_group(rows, schema=schema)
                tables = {piece.row_groups[0].id: scanned(piece) for piece in split}
            return [Piece(file, before[n], groups[n], one) for n, one in tables.items()]

    def _check(self, names: list[str]) -> None:
        missing = [name for name in names if name not in self.dataset.schema.names]
        if missing:
            known = ", ".join(self.dataset.schema.names)
            raise ValueError(f"there is no column {missing[0]!r}; the columns are {known}")

    def _files(self) -> Iterable[Any]:
        return self.dataset.get_fragments(self.filter)

    def calendar(self, time: str) -> Calendar:
        self._check([time])
        return calendar_of(self.dataset.schema.empty_table(), time)

    @property
    def rows(self) -> int | None:
        if self.filter is not None:
            return None
        total = 0
        for file in self._files():
            with naming(file):
                total += file.count_rows()
        return total

    def ends(self, time: str) -> tuple[float, float]:
        found = None if self.filter is not None else self._from_statistics(time)
        return super().ends(time) if found is None else found

    def _from_statistics(self, time: str) -> tuple[float, float] | None:
        """From what is written at the end of Parquet files, if all of them say it."""
        found: list[Any] = []
        for file in self._files():
            with naming(file):
                groups = getattr(file, "row_groups", None)
            if groups is None:
                return None
            found += groups
        spans = self._spans(found, time)
        return None if spans is None else (float(spans.min()), float(spans.max()))

    def _spans(self, groups: list[Any], time: str) -> np.ndarray | None:
        """The first and the last time of row groups, if all of them say it."""
        import pyarrow as pa

        ends: list[Any] = [(group.statistics or {}).get(time) for group in groups]
        if not ends or None in ends or time not in self.dataset.schema.names:
            return None
        both = [value for each in ends for value in (each["min"], each["max"])]
        table = pa.table({time: pa.array(both, self.dataset.schema.field(time).type)})
        x = column(table, time, "the files")
        return x.reshape(-1, 2) if np.all(np.isfinite(x)) else None


def _before(groups: Iterable[Any]) -> list[int]:
    """How many rows of a file come before each of its row groups."""
    return [0, *itertools.accumulate(group.num_rows for group in groups)][:-1]


def _plain_rows(file: Any, group: int, names: list[str]) -> Iterator[Any]:
    """The rows of one row group."""
    import pyarrow.parquet as pq

    with file.open() as opened:
        plain = pq.ParquetFile(
            opened,
            metadata=file.metadata,
            pre_buffer=False,
            buffer_size=_BUFFERED,
            page_checksum_verification=True,
        )
        yield from plain.iter_batches(_READ, row_groups=[group], columns=names, use_threads=False)


class Batches(Source):
    """Anything that gives batches, or a function that returns such a thing."""

    def __init__(self, source: Iterable[Any] | Callable[[], Iterable[Any]]):
        self.source, self.spent = source, False

    def batches(self, names: list[str], share: Share = Share()) -> Iterator[Batch]:  # noqa: B008
        made = self.source() if callable(self.source) else self.source
        iterator = iter(made)
        if iterator is made and not callable(self.source):
            if self.spent:
                raise ValueError(
                    "this iterator can be read only once, and has been: give a function that "
                    "returns a new one (or state `shortest`, so that one pass is enough)"
                )
            self.spent = True
        return self._read(iterator, names, share)

    def calendar(self, time: str) -> Calendar:
        if isinstance(self.source, Iterator):
            raise ValueError(
                "whether times are dates is not known before an iterator is read: give a function "
                "that returns it"
            )
        made = self.source() if callable(self.source) else self.source
        first = next(iter(made), None)
        if first is None:
            return Calendar(False)
        if isinstance(first, tuple | list):
            first = {time: first[0]}
        return calendar_of(first, time)

    def _read(self, iterator: Iterator[Any], names: list[str], share: Share) -> Iterator[Batch]:
        for number in itertools.count():
            place = f"batch {number}"
            table = next(iterator, None)
            if table is None:
                return
            if not share.has(number):
                continue
            if isinstance(table, tuple | list):
                if len(table) != 2 or len(names) > 2:
                    raise ValueError(
                        f"{place} is a {type(table).__name__} of {len(table)}: give pairs (x, y), "
                        "or batches with named columns (dictionaries, Arrow, frames)"
                    )
                table = dict(zip(names, table, strict=False))
            columns = {name: column(table, name, place) for name in names}
            lengths = {name: len(values) for name, values in columns.items()}
            if len(set(lengths.values())) > 1:
                raise ValueError(f"{place} has columns of different lengths: {lengths}")
            yield Batch(place, 0, columns)


def open_source(source: Any, filter: Any) -> Source:
    """What a user calls a source of data."""
    if isinstance(source, str | os.PathLike):
        return Parquet(open_files([source]), filter)
    paths = isinstance(source, list | tuple) and len(source) > 0
    if paths and all(isinstance(each, str | os.PathLike) for each in source):
        return Parquet(open_files(list(source)), filter)
    if hasattr(source, "get_fragments"):
        return Parquet(source, filter)
    if isinstance(source, Mapping) or any(hasattr(source, name) for name in _OF_TABLES):
        source = [source]  # a table is one batch
    if filter is not None:
        raise ValueError("filter is for Parquet files and datasets: filter the batches yourself")
    if callable(source) or hasattr(source, "__iter__"):
        return Batches(source)
    raise ValueError(
        "a stream is made from a path, a pyarrow dataset, or batches (something to iterate over, "
        f"or a function that returns it), got {type(source).__name__}"
    )
