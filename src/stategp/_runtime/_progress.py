"""How long work shows itself."""

import sys
import time
from typing import Any


class Progress:
    """One line on standard error, rewritten a few times a second."""

    def __init__(self, visible: bool):
        self.visible, self.last, self.shown = visible, 0.0, False
        self.prefix, self.remark = "", ""

    @staticmethod
    def of(progress: Any) -> "Progress":
        """What the argument `progress` asks for: None shows it on a terminal."""
        if isinstance(progress, Progress):
            return progress
        return Progress(sys.stderr.isatty() if progress is None else bool(progress))

    def note(self, remark: str) -> None:
        """What the steps to come are for."""
        self.remark = remark

    def start(self, number: int, starts: int) -> None:
        self.prefix = f"start {number} of {starts}, " if starts > 1 else ""

    def __call__(self, step: int, value: float) -> None:
        now = time.perf_counter()
        if self.visible and now - self.last > 0.2:
            self.last, self.shown = now, True
            self.show(f"fit: {self.remark}{self.prefix}step {step}, bound {value:.6g}")

    def show(self, line: str) -> None:
        """Put a line in the place of the last."""
        sys.stderr.write(f"\r\033[K{line}")
        sys.stderr.flush()

    def close(self) -> None:
        if self.shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
