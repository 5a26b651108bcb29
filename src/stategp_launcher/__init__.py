"""The console script `stategp`: it answers Ctrl-C from its first moment on.

Beside the package, not in it: importing anything of stategp imports JAX, which takes seconds.
"""

import os
import signal
import sys
from typing import Any

INTERRUPTED = 130  # what shells give to Ctrl-C


def main() -> None:
    """Import the command, and run it."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is signal.default_int_handler:  # not where Ctrl-C is ignored, as behind nohup
        signal.signal(signal.SIGINT, _leave)
    from stategp._command import main as run

    signal.signal(signal.SIGINT, usual)
    run()


def _leave(*_: Any) -> None:
    """At once: an import has nothing to put in order."""
    print("stategp: interrupted", file=sys.stderr, flush=True)
    os._exit(INTERRUPTED)
