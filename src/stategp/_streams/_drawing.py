"""Minibatches from row groups that are read as the steps go on.

A pool holds some rows of many row groups. All rows, in the order of the files, are divided into as
many strata as the pool has slots; the row group of a slot is the one of a row drawn at random from
its stratum, and some of its rows, drawn at random, are kept. So each row is as likely as any other
in every batch, and when all slots are filled a batch has rows of every stratum, which matters where
files are in order of time. Slots are filled in an order that is spread over all strata from the
beginning. What the pool holds before a step depends on the seed and the number of the step alone.
"""

import hashlib
import math
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from stategp._data import SAMPLED, Drawn, Occupied, Stretches
from stategp._runtime import give_back
from stategp._streams._sources import Pieces

FEW = 2**20  # rows that are rather read all, and kept
FIRST = 8  # row groups that are read before the first step
_SLOTS = 1024  # row groups that are held at most
_HELD = 2**21  # and rows of them
_GOLDEN = (math.sqrt(5) - 1) / 2  # whose multiples are spread evenly, however many there are
_MOST = 2**20  # stretches

Read = Callable[[int], Iterator[list[np.ndarray]]]  # columns of the rows of a piece that count


class Draws(NamedTuple):
    """How minibatches are asked for."""

    size: int
    seed: int


class _Slot(NamedTuple):
    """Rows of a row group, in random order."""

    columns: list[np.ndarray]
    counting: int  # of the rows of the row group
    rows: int  # all of them

    @property
    def share(self) -> float:
        """How many of the rows count."""
        return self.counting / self.rows

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0


class Pool:
    """Row groups that were read; those of the next step are read while one is worked on."""

    def __init__(self, sizes: list[int], read: Read, draws: Draws):
        self.sizes, self.read, self.draws = np.array(sizes), read, draws
        self.last = np.cumsum(self.sizes)  # rows up to the end of each piece
        self.slots = min(_SLOTS, len(sizes))
        self.kept = _HELD // self.slots
        # Later on a slot is filled again whenever about as many rows were used as that takes.
        self.pause = max(1, round(self.sizes.mean() / draws.size))
        self.order = np.argsort(np.argsort(_GOLDEN * np.arange(self.slots) % 1))
        self.shift = int(np.random.default_rng(draws.seed).integers(self.slots))
        self.thread = ThreadPoolExecutor(1, "stategp reader")
        self.filled: dict[int, Future[_Slot]] = {}

    def __repr__(self) -> str:
        return "rows of files"  # the same for the same data

    def close(self) -> None:
        self.thread.shutdown(cancel_futures=True)
        self.filled = {}
        give_back()

    def numbers(self, step: int) -> range:
        """Of the fillings that the pool holds before a step, counted from the first on."""
        growing = self.slots - min(FIRST, self.slots)
        filled = self.slots - growing + min(step, growing) + max(step - growing, 0) // self.pause
        return range(max(filled - self.slots, 0), filled)

    def stratum(self, number: int) -> int:
        """Of a filling."""
        return int((self.order[number % self.slots] + self.shift) % self.slots)

    def _fill(self, number: int) -> _Slot:
        random = np.random.default_rng((self.draws.seed, number))
        row = (self.stratum(number) + random.random()) / self.slots * self.last[-1]
        piece = int(np.searchsorted(self.last, row, side="right"))
        held: list[np.ndarray] = []
        keys, counting = np.zeros(0), 0  # the rows with the smallest keys are kept
        for columns in self.read(piece):
            counting += len(columns[0])
            fresh = random.random(len(columns[0]))
            near = fresh <= (keys.max() if len(keys) == self.kept else 1.0)
            columns, keys = [column[near] for column in columns], np.append(keys, fresh[near])
            held = [np.append(a, b) for a, b in zip(held, columns, strict=False)] or columns
            if len(keys) > self.kept:
                chosen = np.argpartition(keys, self.kept)[: self.kept]
                keys, held = keys[chosen], [column[chosen] for column in held]
        order = np.argsort(keys)
        held = [column[order] for column in held]
        return _Slot(held, counting, int(self.sizes[piece]))

    def _at(self, step: int) -> list[_Slot]:
        """What the pool holds before a step, in the order of the files; those without rows too."""
        now, then = self.numbers(step), self.numbers(step + 1)
        for number in [*now, *then]:
            if number not in self.filled:
                self.filled[number] = self.thread.submit(self._fill, number)
        self.filled = {n: slot for n, slot in self.filled.items() if n in now or n in then}
        return [self.filled[number].result() for number in sorted(now, key=self.stratum)]

    def shares(self) -> np.ndarray:
        """How many rows count, of each row group that the first step sees."""
        return np.array([slot.share for slot in self._at(0)])

    def draw(self, size: int, step: int) -> list[np.ndarray]:
        random = np.random.default_rng((self.draws.seed, step, size))
        slots = self._at(step)
        full = _full(slots)
        which = ((np.arange(size) + random.random()) * len(full) / size).astype(int)
        counts = np.bincount(which, minlength=len(full))
        rows = [random.integers(len(slot), size=n) for slot, n in zip(full, counts, strict=True)]
        weights = [np.full(n, len(full) / len(slots) * self.last[-1] / size) for n in counts]
        return _taken(full, rows, weights)

    def sample(self, most: int, step: int) -> list[np.ndarray]:
        slots = self._at(step)
        full = _full(slots)
        rows = [np.arange(min(len(slot), -(-most // len(full)))) for slot in full]
        weights = [np.full(len(n), self.last[-1] / len(slots) / len(n)) for n in rows]
        return _taken(full, rows, weights)


def _full(slots: list[_Slot]) -> list[_Slot]:
    """Those with rows that count."""
    full = [slot for slot in slots if len(slot)]
    if not full:
        raise ValueError(
            f"none of the {sum(slot.rows for slot in slots):,} rows in {len(slots)} row groups has "
            "an observation (and passes the filter): at least one is needed"
        )
    return full


def _taken(
    slots: list[_Slot], rows: list[np.ndarray], weights: list[np.ndarray]
) -> list[np.ndarray]:
    """Rows of slots as columns; weights are those of rows that may not count."""
    taken = [
        [*(column[at] for column in slot.columns[:3]), slot.share * weight * slot.columns[3][at]]
        for slot, at, weight in zip(slots, rows, weights, strict=True)
    ]
    return [np.concatenate(column) for column in zip(*taken, strict=True)]


def drawn(
    pieces: Pieces,
    read: Read,
    make_stretches: Callable[[float, float], Stretches],
    draws: Draws,
    rows: int | None,
) -> Drawn:
    """Observations in pieces, of which a few are read now; `rows`: how many, if that was stated.

    Stretches are made for the first and the last x, as far as these are known.
    """
    sizes = [piece.rows for piece in pieces.pieces]
    pool = Pool(sizes, read, draws)
    try:
        share = float(np.mean(pool.shares()))
        x = pool.sample(SAMPLED, 0)[0]
        spans = np.array([[x.min(), x.max()]]) if pieces.spans is None else pieces.spans
        ends = spans.min().item(), spans.max().item()
        stretches = make_stretches(*map(float, ends))
        where = Occupied(stretches, _between(stretches, spans), spans.dtype.kind == "i")
        content = hashlib.sha256(repr((sizes, spans.tolist())).encode()).digest()
        digest = int.from_bytes(content[:7])
        count = rows if rows is not None else max(round(share * sum(sizes)), 1)
        return Drawn.of(pool, where, ends, count, digest)
    except BaseException:
        pool.close()
        raise


def _between(stretches: Stretches, spans: np.ndarray) -> np.ndarray:
    """The numbers of all stretches from the first to the last x of any span."""
    first, last = (stretches.locate(np.ascontiguousarray(end))[0] for end in spans.T)
    order = np.argsort(first)
    first, reached = first[order], np.maximum.accumulate(last[order])
    first = np.maximum(first, np.append(first[0], reached[:-1] + 1))  # each stretch once
    count = np.maximum(reached - first + 1, 0)
    if count.sum() > _MOST:
        raise ValueError(
            f"the data reach over more than {_MOST:,} stretches of {stretches.width:.3g}: state a "
            "longer `shortest` (and `period`)"
        )
    return np.concatenate([np.arange(a, a + n) for a, n in zip(first, count, strict=True)])
