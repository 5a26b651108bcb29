"""How far along many fits are."""

import time
from collections.abc import Callable

from stategp._runtime import Progress


class Counter:
    """One line on standard error: how many series are done."""

    def __init__(self, show: Progress, total: int, what: str = "series"):
        self.show, self.total, self.done, self.words = show, total, 0, "fitted"
        self.what = what
        self.began, self.last = time.perf_counter(), 0.0

    def __call__(self, ended: int) -> None:
        self.done += ended
        now = time.perf_counter()
        if self.show.visible and now - self.last > 0.2:
            self.last, self.show.shown = now, True
            speed = self.done / max(now - self.began, 1e-9)
            self.show.show(
                f"{self.words} {self.done:,} of {self.total:,} series, {speed:.3g} a second"
            )

    def rounds(self, total: int) -> Callable[[int], None]:
        """The same for so many things in rounds: each begins to count anew."""

        def tell(ended: int) -> None:
            if self.done >= total:
                self.again(self.words, total)
            self(ended)

        return tell

    def again(self, words: str, total: int) -> None:
        """What is counted next."""
        self.words, self.total, self.done = words, total, 0
        self.began = time.perf_counter()
