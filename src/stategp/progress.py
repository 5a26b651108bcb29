"""How long work shows itself."""

import sys
import time


class Progress:
    """One line on standard error, rewritten a few times a second."""

    def __init__(self, visible: bool):
        self.visible, self.last, self.shown = visible, 0.0, False
        self.prefix, self.remark = "", ""

    def note(self, remark: str) -> None:
        """What the steps to come are for."""
        self.remark = remark

    def start(self, number: int, starts: int) -> None:
        self.prefix = f"start {number} of {starts}, " if starts > 1 else ""

    def __call__(self, step: int, value: float) -> None:
        now = time.perf_counter()
        if self.visible and now - self.last > 0.2:
            self.last, self.shown = now, True
            sys.stderr.write(
                f"\r\033[Kfit: {self.remark}{self.prefix}step {step}, bound {value:.6g}"
            )
            sys.stderr.flush()

    def close(self) -> None:
        if self.shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
