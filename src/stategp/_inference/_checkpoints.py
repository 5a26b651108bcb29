"""Searches remembered in a file, so that a fit can go on after its process has ended.

A fit is a sequence of searches, and given their ends it does the same every time. The file holds
how each search ended, and of the one under way what it takes to go on. Who resumes runs the same
program: searches that are over are passed over, and the last goes on where it was.
"""

import dataclasses
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from stategp._files import allow, load_as, save
from stategp._inference._result import FitResult, Outcome
from stategp._inference._search import Memory, Search, Watch
from stategp._runtime import from_first, in_all, is_first


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written; the fit goes on."""


@dataclasses.dataclass(frozen=True)
class SearchRecord:
    """A search in a file."""

    trace: tuple[float, ...]
    seconds: tuple[float, ...]
    step_sizes: tuple[float, ...]
    memory: Memory
    result: FitResult | None = None  # if it is over
    replaced: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """What a file holds: of which fit, and its searches in order, all but the last one over."""

    fingerprint: dict[str, str]  # of each part of the fit, by name
    searches: tuple[SearchRecord, ...] = ()


allow(Checkpoint, SearchRecord)


class Keeper:
    """Writes a checkpoint every so many seconds, and reads the one that is there."""

    def __init__(self, path: Path, every: float):
        self.path, self.every = path, every
        self.fingerprint: dict[str, str] = {}
        self.known: list[SearchRecord] = []  # from the file
        self.over: list[SearchRecord] = []
        self.under_way: tuple[Search, Watch] | None = None
        self.last = time.perf_counter()
        self.stopped = False

    def open(self, fingerprint: dict[str, str], *, resume: bool) -> None:
        """Begin, or go on from what is there, which must belong to the same fit.

        The file is written at once, before long work: an error now costs nothing. Of several
        processes the first one reads and writes it, and tells the others what it holds.
        """
        self.fingerprint = fingerprint

        def read() -> bytes:
            if not (resume and self.path.exists()):
                return b""
            self._know(self.path)
            return self.path.read_bytes()

        def begin() -> None:
            if content and not is_first():
                with tempfile.TemporaryDirectory() as folder:
                    copy = Path(folder) / self.path.name
                    copy.write_bytes(content)
                    self._know(copy)
            write_first(self.path, self._write)

        content = from_first(read, "read the checkpoint")
        in_all(begin, "begin with the checkpoint")

    def _know(self, path: Path) -> None:
        """What a file says of searches, if it is of this fit."""
        found = load_as(path, Checkpoint)
        refuse_another(self.path, self.fingerprint, found.fingerprint)
        self.known = list(found.searches)

    def enter(self, search: Search, watch: Watch) -> FitResult | None:
        if self.stopped:
            return None
        if self.known:
            record = self.known.pop(0)
            watch.trace, watch.step_sizes = list(record.trace), list(record.step_sizes)
            watch.seconds, watch.replaced = list(record.seconds), list(record.replaced)
            watch.began -= record.seconds[-1] if record.seconds else 0.0
            over = record.result is not None
            try:
                search.recall(record.memory, watch, over=over)
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{self.path} cannot be resumed: {error}") from None
            if over:
                self.over.append(record)
                return record.result
        self.under_way = search, watch
        watch.keep = self._keep
        return None

    def leave(self, search: Search, result: FitResult) -> None:
        if self.stopped:
            return
        if result.outcome is Outcome.interrupted:
            self.stop()
            return
        self.under_way = None
        self.over.append(_record(search, result, result))
        self._keep()

    def stop(self) -> None:
        """Write where everything stands, and no more: what follows Ctrl-C is not the usual way."""
        if not self.stopped:
            self._try_to_write()
        self.stopped = True

    def finish(self) -> None:
        """Write how everything ended."""
        if not self.stopped:
            self._try_to_write()

    def _keep(self) -> None:
        if time.perf_counter() - self.last >= self.every:
            self._try_to_write()

    def _try_to_write(self) -> None:
        try_to_write(self.path, self._write)

    def _write(self) -> None:
        if is_first():
            records = list(self.over)
            if self.under_way is not None:
                records.append(_record(*self.under_way, None))
            elif self.known:
                records += self.known
            save(Checkpoint(self.fingerprint, tuple(records)), self.path)
        self.last = time.perf_counter()


def refuse_another(path: Path, mine: dict[str, str], found: dict[str, str]) -> None:
    """Refuse the checkpoint of a fit with other fingerprints."""
    other = [p for p in sorted(mine.keys() | found.keys()) if mine.get(p) != found.get(p)]
    if other:
        raise ValueError(
            f"{path} is the checkpoint of another fit: {_listed(other)} "
            f"{'differ' if len(other) > 1 or other[0].endswith('s') else 'differs'}. Resume with "
            "what it was started with, or give another file"
        )


def write_first(path: Path, write: Callable[[], None]) -> None:
    """Write the first checkpoint of a fit, without which it does not begin."""
    try:
        write()
    except OSError as error:
        raise OSError(
            f"the checkpoint {path} cannot be written ({_reason(error)}): give a file in "
            "a folder that can be written to and has room"
        ) from None


def try_to_write(path: Path, write: Callable[[], None]) -> None:
    """Write another: the fit is worth more than its checkpoint."""
    try:
        write()
    except OSError as error:
        warnings.warn(
            f"the checkpoint {path} could not be written ({_reason(error)}): the one "
            "before is still there, and the fit goes on",
            CheckpointWarning,
            stacklevel=3,
        )


def _record(search: Search, steps: Watch | FitResult, result: FitResult | None) -> SearchRecord:
    return SearchRecord(
        tuple(steps.trace),
        tuple(steps.seconds),
        tuple(steps.step_sizes),
        search.memory(over=result is not None),
        result,
        tuple(steps.replaced),
    )


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
