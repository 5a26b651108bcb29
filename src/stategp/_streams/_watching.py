"""The progress of reading."""

import time
from collections.abc import Callable

from stategp._durations import describe
from stategp._runtime import Progress
from stategp._streams._processes import own_share


class Watch:
    """Shows how many rows were read, how fast, and how long it will take."""

    def __init__(self, count: Callable[[], int | None], show: Progress):
        self.show, self.began = show, time.perf_counter()
        rows = count() if show.visible else None
        self.rows = None if rows is None else rows // own_share().every

    def __call__(self, seen: int) -> None:
        if not self.show.visible:
            return
        passed = max(time.perf_counter() - self.began, 1e-9)
        line = f"read: {seen:,} rows, {seen / passed:,.0f} rows/s"
        if self.rows and seen < self.rows:
            left = (self.rows - seen) * passed / seen
            line += f", {describe(max(left, 1.0) / 86_400, 2)} left"
        self.show.shown = True
        self.show.show(line)
