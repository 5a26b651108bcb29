"""Several processes, started by JAX's own runtime (`jax.distributed.initialize`).

Each reads its share, and what they found is exchanged: all end with the same sums, or know the same
of the rows that each keeps, and then fit the same model. An error in one is an error in all.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax

from stategp._data import Summary
from stategp._files import load
from stategp._runtime import exchanged

_FINE, _FAILED = 0, 1  # how a message begins


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


def shared(read: Callable[[], bytes]) -> list[bytes]:
    """What every process has to say, in order; an error in one of them is one in all."""
    if jax.process_count() == 1:
        return [read()]
    try:
        own = bytes([_FINE]) + read()
        failure: Exception | None = None
    except Exception as error:  # the others wait for this process: they must be told
        own, failure = bytes([_FAILED]) + str(error).encode(), error
    messages = exchanged(own)
    if failure is not None:
        raise failure
    for process, message in enumerate(messages):
        if message[0] == _FAILED:
            reason = message[1:].decode()
            raise RuntimeError(f"process {process} could not read its share: {reason}")
    return [message[1:] for message in messages]


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
