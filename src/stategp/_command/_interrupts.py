"""Ctrl-C: what was reached is kept, and the process ends without a crash."""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

import stategp as sg

INTERRUPTED = 130  # what shells give to Ctrl-C


class Interrupted(Exception):  # noqa: N818, nothing went wrong
    """Ctrl-C came, and this is what there is to say of it."""


def was_interrupted(posterior: Any) -> bool:
    """Whether a fit ended because somebody asked it to."""
    result = posterior.fit_result
    return result is not None and result.outcome is sg.Outcome.interrupted


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """Inside, Ctrl-C does not wait for a compilation: `leave` need not fear it."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _raise)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


def _raise(*_: Any) -> NoReturn:
    raise KeyboardInterrupt


def leave(code: int) -> NoReturn:
    """End the process here and now, with nothing left unwritten.

    An interrupted compilation goes on in threads of XLA. The usual end of the interpreter takes its
    devices apart underneath them, and that is a segmentation fault (jaxlib 0.10 at least).
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
