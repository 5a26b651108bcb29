"""Ctrl-C while a program is compiled, or while it calls back.

JAX leaves an interrupted compilation to threads of its own and raises KeyboardInterrupt at once. If
the interpreter then ends before they do, it takes the devices apart that they are compiling for,
and the process dies of a segmentation fault (jaxlib 0.10 at least). So one Ctrl-C waits until that
program is compiled, and kept for the next time; a second one does not.

Where a compiled program calls Python to read rows, Ctrl-C comes out of it as an error of XLA's,
which is turned back into KeyboardInterrupt.
"""

import _thread
import contextlib
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

_COMPILER = "jax._src.compiler"  # the module whose functions are active while XLA compiles
_PAUSE = 0.05  # seconds between looks at whether it is done
_CALLBACKS = logging.getLogger("jax._src.callback")  # reports what is raised in them
_raised = threading.Event()  # by Ctrl-C, and not yet heard of


@contextlib.contextmanager
def finishing_compilations(*, forget: bool = True) -> Iterator[None]:
    """Inside, Ctrl-C raises KeyboardInterrupt between compilations, not amid one.

    Where nothing is left to do after the compilation that it came in, it is forgotten, so that what
    has been learned is not lost; or else, with `forget=False`, raised at the end.
    """
    usual = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()
    if not main or usual is not signal.default_int_handler:  # somebody else's, or our own
        yield
        return
    patience = _Patience(threading.get_ident())
    signal.signal(signal.SIGINT, patience)
    _CALLBACKS.addFilter(_no_interrupt)
    try:
        with hearing():
            yield
    finally:
        _CALLBACKS.removeFilter(_no_interrupt)
        with patience.lock:  # after this nobody calls any more
            patience.over.set()
        signal.signal(signal.SIGINT, usual)
    if patience.waiting and not forget:
        raise KeyboardInterrupt


@contextlib.contextmanager
def hearing() -> Iterator[None]:
    """Inside, Ctrl-C raises KeyboardInterrupt even if it came while a program called back."""
    _raised.clear()
    try:
        yield
    except KeyboardInterrupt:
        _raised.clear()
        raise
    except Exception:
        if _raised.is_set():
            _raised.clear()
            raise KeyboardInterrupt from None
        raise


def _no_interrupt(record: logging.LogRecord) -> bool:
    return not (record.exc_info and record.exc_info[0] is KeyboardInterrupt)


class _Patience:
    """A handler of SIGINT."""

    def __init__(self, main: int):
        self.main, self.waiting, self.called = main, False, False
        self.over, self.lock = threading.Event(), threading.Lock()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        by_watch, self.called = self.called, False
        if _compiles(frame) and not self.over.is_set():
            if by_watch:  # another compilation has begun since
                return
            if not self.waiting:
                self.waiting = True
                threading.Thread(target=self._watch, daemon=True).start()
                return
        elif by_watch and not self.waiting:  # raised in the meantime
            return
        self.waiting = False
        _raised.set()
        raise KeyboardInterrupt

    def _watch(self) -> None:
        """Call again when nothing is compiled."""
        while not self.over.wait(_PAUSE) and self.waiting:
            with self.lock:
                if self.over.is_set() or self.called:
                    continue
                if not _compiles(sys._current_frames().get(self.main)):
                    self.called = True
                    _call(self.main)


def _call(thread: int) -> None:
    if hasattr(signal, "pthread_kill"):  # wakes it up, where it sleeps
        signal.pthread_kill(thread, signal.SIGINT)
    else:
        _thread.interrupt_main()


def _compiles(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__") == _COMPILER:
            return True
        frame = frame.f_back
    return False
