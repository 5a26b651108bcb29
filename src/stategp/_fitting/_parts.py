"""Many fits that are remembered in a file: the series that are finished, part by part.

Series are fitted in parts that are always the same, so that what is found does not depend on where
a process ended: who resumes begins with the first part that the file does not hold.
"""

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from stategp._files import allow, load_as, save
from stategp._fitting._checkpointing import Checkpoints, as_checkpoints, fingerprint
from stategp._inference import refuse_another, try_to_write, write_first
from stategp._runtime import Progress

TOGETHER = 100  # series of a part that are fitted side by side
NOT_BEGUN = "interrupted before it was fitted"
_OPTIONS = {"checkpoint": None, "every": "5min", "resume": False}
Done = TypeVar("Done")


@dataclasses.dataclass(frozen=True)
class TableCheckpoint:
    """What a file holds: of which fit, its model, and the series that are finished."""

    fingerprint: dict[str, str]  # of each part of the fit, by name
    model: Any  # written at once, so that what no file can hold is refused before long work
    finished: int  # the first so many series
    found: Any = None  # what was learned of them


allow(TableCheckpoint)


def table_checkpoints(
    options: dict[str, Any], share: str, n_jobs: Any
) -> tuple[dict[str, Any], Checkpoints | None]:
    """The options of the fit of each series, and where the table of all is remembered."""
    rest = {name: value for name, value in options.items() if name not in _OPTIONS}
    checkpoints = as_checkpoints(**{name: options.get(name, _OPTIONS[name]) for name in _OPTIONS})
    if checkpoints is None:
        return rest, None
    for name, value, plain in (("share", share, "none"), ("n_jobs", n_jobs, None)):
        if value != plain:
            raise ValueError(
                f"checkpoint remembers which series are finished, in one process: with {name}="
                f"{value!r} leave checkpoint out"
            )
    checkpoints.check()
    return rest, checkpoints


@dataclasses.dataclass
class InParts(Generic[Done]):
    """Many series, of which those that are finished are remembered."""

    checkpoints: Checkpoints
    model: Any
    fit: Callable[[np.ndarray], Done]  # the series of these numbers
    join: Callable[[list[Done]], Done]
    interrupted: Callable[[Done], bool]  # whether Ctrl-C ended one of them
    not_begun: Callable[[np.ndarray], Done]

    def __call__(self, count: int, size: int, parts: dict[str, Any], progress: Any) -> Done:
        """All series, so many at a time; `parts` is what tells this fit from others."""
        path, show = self.checkpoints.path, Progress.of(progress)
        prints = {name: fingerprint(part) for name, part in parts.items()}
        done = TableCheckpoint(prints, self.model, 0)
        if self.checkpoints.resume and path.exists():
            known = load_as(path, TableCheckpoint)
            refuse_another(path, prints, known.fingerprint)
            done = dataclasses.replace(done, finished=known.finished, found=known.found)
        write_first(path, lambda: save(done, path))
        table = _Table(done, path, self.join)
        last = time.perf_counter()
        left = np.arange(done.finished, count)
        try:
            while len(left):
                if show.visible:
                    show.shown = True
                    show.show(f"fitted {count - len(left):,} of {count:,} series")
                now, left = left[:size], left[size:]
                found = self.fit(now)
                if self.interrupted(found):
                    rest = [self.not_begun(left)] if len(left) else []
                    return self.join([*table.found, found, *rest])
                table.add(found, len(now))
                if time.perf_counter() - last >= self.checkpoints.every:
                    table.write()
                    last = time.perf_counter()
        finally:
            show.close()
            table.write()
        return table.whole()


class _Table(Generic[Done]):
    """Series that are finished, and how they are written."""

    def __init__(self, begun: TableCheckpoint, path: Path, join: Callable[[list[Done]], Done]):
        self.begun, self.path, self.join = begun, path, join
        self.found: list[Done] = [] if begun.found is None else [begun.found]
        self.finished = self.written = begun.finished

    def add(self, found: Done, count: int) -> None:
        self.found.append(found)
        self.finished += count

    def whole(self) -> Done:
        self.found = [self.join(self.found)]
        return self.found[0]

    def write(self) -> None:
        """The finished series, if there are more than the file has; an older file stays if not."""
        if self.finished > self.written:
            now = dataclasses.replace(self.begun, finished=self.finished, found=self.whole())
            try_to_write(self.path, lambda: save(now, self.path))
            self.written = self.finished
