"""Rows of observations in a file without a name, which ends with the process that made it.

A row holds observations of one stretch: its number, how many there are, and their columns, one
after the other, each filled up to the width of rows. Whatever happens to the process, nothing is
left on the disk.
"""

import errno
import itertools
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from stategp._data._cells import Cells
from stategp._data._packing import best_width, lay_out, pick

_BYTES = 8  # of a number
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Part(NamedTuple):
    """Some rows of a store."""

    number: np.ndarray  # of the stretch of each row
    filled: np.ndarray  # how many observations it holds
    columns: list[np.ndarray]  # (rows, width), the place in the stretch first


class Store:
    """Observations on disk, added in any order."""

    opened: ClassVar[dict[int, "Store"]] = {}  # by handle, which compiled programs are given
    reader: Any = None  # how these ask for rows
    _handles: ClassVar[Any] = itertools.count(1)

    def __init__(self, columns: int, folder: Any = None, expected: int | None = None):
        self.columns, self.width, self.rows = columns, 0, 0
        self.most = 0  # rows of the fullest store, where several processes keep one each
        self.where = Path(tempfile.gettempdir() if folder is None else folder)
        least = _BYTES * columns * (expected or 0)
        if least > shutil.disk_usage(self.where).free:
            raise self._full(least)
        self.file = tempfile.TemporaryFile(dir=self.where)  # noqa: SIM115, closed by `close`
        self.lock = threading.Lock()  # where it is read from is a state of the file
        self.handle = next(Store._handles)
        Store.opened[self.handle] = self

    def close(self) -> None:
        """Give the disk back; further calls do nothing."""
        Store.opened.pop(self.handle, None)
        self.close_reader()
        self.file.close()

    def close_reader(self) -> None:
        """End what reads for programs, if there is such a thing."""
        if self.reader is not None:
            self.reader.close()
            self.reader = None

    def __repr__(self) -> str:
        return "rows on disk"  # the same for the same data

    @property
    def floats(self) -> int:
        """Numbers to a row."""
        return 2 + self.columns * self.width

    @staticmethod
    def best_width(number: np.ndarray) -> int:
        """The width of rows for observations in these stretches."""
        return best_width(np.unique(number, return_counts=True)[1])

    def add(self, number: np.ndarray, columns: list[np.ndarray]) -> None:
        """Observations by the number of their stretch."""
        if len(number) == 0:
            return
        order = np.argsort(number, kind="stable")
        number = number[order]
        first = np.flatnonzero(np.append(True, np.diff(number) > 0))
        size = np.diff(np.append(first, len(number)))
        self.width = self.width or best_width(size)  # unless one was chosen
        layout = lay_out(Cells(first, size, first, first), self.width)
        cell = number[first][layout.cell]
        rows = [np.stack([cell, layout.filled], axis=1).astype(float)]
        for column in columns:
            rows.append(pick(column[order], layout.first, layout.filled, self.width, np))
        self._write(np.concatenate(rows, axis=1))

    def _write(self, rows: np.ndarray) -> None:
        try:
            self.file.write(np.ascontiguousarray(rows).data.cast("B"))
            self.file.flush()
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            raise self._full(_BYTES * self.floats * (self.rows + len(rows))) from error
        self.rows += len(rows)
        self.most = max(self.most, self.rows)

    def _full(self, needed: int) -> OSError:
        return OSError(
            f"the rows of the stream do not fit on the disk of {self.where}: they take "
            f"{needed / 1e9:.3g} GB or more; name a folder with more room, sg.stream(…, scratch=…)"
        )

    def part(self, start: int, size: int) -> Part:
        """So many rows from one on; beyond the last, rows that hold nothing."""
        count = max(min(size, self.rows - start), 0)
        held = np.zeros((size, self.floats))
        with self.lock:
            self.file.seek(_BYTES * self.floats * start)
            self.file.readinto(held[:count].data.cast("B"))
        held[count:] = held[0]
        held[count:, 1] = 0
        return self._split(held)

    def _split(self, rows: np.ndarray) -> Part:
        columns = np.split(rows[:, 2:], self.columns, axis=1)
        return Part(rows[:, 0].astype(np.int64), rows[:, 1].astype(np.int64), columns)

    def everything(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """All observations: the number of their stretch, and their columns."""
        part = self.part(0, self.rows)
        inside = np.arange(self.width) < part.filled[:, None]
        number = np.broadcast_to(part.number[:, None], inside.shape)
        return number[inside], [column[inside] for column in part.columns]

    def draw(self, size: int, random: np.random.Generator) -> tuple[np.ndarray, list[np.ndarray]]:
        """So many observations at random, each as likely as any other, with replacement.

        Places in rows are drawn, and those that hold no observation are drawn again.
        """
        rows = np.memmap(self.file, float, "r", shape=(self.rows, self.floats))
        row, entry = np.zeros(0, np.int64), np.zeros(0, np.int64)
        while len(row) < size:
            rows_now, entries = (random.integers(n, size=2 * size) for n in (self.rows, self.width))
            held = entries < rows[rows_now, 1]
            row, entry = np.append(row, rows_now[held]), np.append(entry, entries[held])
        order = np.argsort(row[:size])  # so that the disk is read from end to end
        row, entry = row[:size][order], entry[:size][order]
        columns = [rows[row, 2 + k * self.width + entry] for k in range(self.columns)]
        return rows[row, 0].astype(np.int64), columns
