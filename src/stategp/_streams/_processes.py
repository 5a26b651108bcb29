"""Several processes, started by JAX's own runtime (`jax.distributed.initialize`).

Each reads its share, and what they found is exchanged: all end with the same sums, or know the same
of the rows that each keeps, and then fit the same model. An error in one is an error in all.
"""

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import jax

from stategp._data import Summary
from stategp._files import load
from stategp._runtime import shared


class Share(NamedTuple):
    """Which part of the data a process reads: every so many pieces one, from the first on."""

    first: int = 0
    every: int = 1

    def has(self, piece: int) -> bool:
        return piece % self.every == self.first


def own_share() -> Share:
    """That of this process."""
    return Share(jax.process_index(), jax.process_count())


def together(read: Callable[[], Summary]) -> Summary:
    """The sum of what all processes read."""
    if jax.process_count() == 1:
        return read()
    messages = shared(lambda: _written(read()))
    total: Summary = sum(_read(message) for message in messages)  # type: ignore[assignment]
    return total


class Seen(NamedTuple):
    """What was noticed of rows while they were read."""

    dropped: dict[str, int]  # bad rows that were left out, by file
    latest: Sequence[int | float]  # the last times, in order

    def with_others(self, most: int) -> "Seen":
        """What all processes have seen; so many of the last times."""
        counts, times = Counter[str](), set[int | float]()
        for message in shared(lambda: json.dumps(self).encode()):
            dropped, latest = json.loads(message)
            counts.update(dropped)
            times.update(latest)
        return Seen(dict(counts), sorted(times)[-most:])


def _written(summary: Summary) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "summary"
        summary.save(path)
        return path.read_bytes()


def _read(content: bytes) -> Summary:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "summary"
        path.write_bytes(content)
        summary: Summary = load(path)
        return summary
