"""Progress on a terminal, by rich."""

import sys
import time
from typing import Any

from stategp._runtime import Progress


class Spinner(Progress):
    """A line with what is going on, the bound and the seconds so far."""

    def __init__(self) -> None:
        from rich.console import Console

        super().__init__(sys.stderr.isatty())
        self.console = Console(stderr=True)
        self.began = time.perf_counter()
        self.status: Any = None
        if self.visible:
            self.status = self.console.status("compiling (kept on disk for the next time)")
            self.status.start()

    def show(self, line: str) -> None:
        self.status.update(f"{line}  [dim]{time.perf_counter() - self.began:.0f} s[/dim]")

    def close(self) -> None:
        if self.status is not None:
            self.status.stop()
