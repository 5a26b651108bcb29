"""This process as one of several (`jax.distributed`): how they meet, and how all of them end.

JAX looks after the processes: each gives a sign of life, and when one is missed, or the first
process is gone, JAX ends all others on the spot. A small shell then speaks for those that were
ended so (`_speak_at_end`). A process that fails by itself ends without waiting for the others.
"""

import atexit
import contextlib
import os
import re
import subprocess
import sys
import threading
from functools import partial
from typing import Any, NoReturn

import jax

PATIENCE = 30  # seconds without a sign of life after which a process counts as dead
MEETING = 300  # seconds that processes wait for one another at the beginning
_IN_TIME = 0.8  # share of their patience after which JAX is to act
_PARTING = 86_400  # those who are done first wait for the others
_LAST_WAIT = 5  # those who failed see for so many seconds whether all others did, too


def join_processes(
    coordinator: str | None = None,
    processes: int | None = None,
    process: int | None = None,
    *,
    patience: float | int = PATIENCE,
    meeting: float | int = MEETING,
) -> None:
    """Make this process one of several that share the reading of a stream.

    It comes before anything is computed. JAX's own runtime joins them
    (`jax.distributed.initialize`). If one of them dies, the others end within `patience` seconds,
    with a message and an exit status that is not zero; then all are to be started again, and a fit
    with a checkpoint goes on where it was.

    Arguments:
        coordinator: where the first process is to be found, "host:port"; by default SLURM, Open
            MPI or Kubernetes are asked, as are the number of processes and that of this one.
        processes: how many there are.
        process: which of them this one is, from 0.
        patience: seconds without a sign of life after which a process counts as dead.
        meeting: seconds within which all processes must have been started.

    >>> import stategp as sg
    >>> sg.join_processes("localhost:12345", processes=2)
    Traceback (most recent call last):
    ...
    ValueError: give all of coordinator, processes and process, or none of them
    """
    told = [value is not None for value in (coordinator, processes, process)]
    if any(told) and not all(told):
        raise ValueError("give all of coordinator, processes and process, or none of them")
    meeting, patience = _seconds("meeting", meeting), _seconds("patience", patience)
    _speak_at_end(
        "stategp: this process has ended before it met the others, which must be there within "
        f"{meeting} s: some were not started, have ended, or cannot reach the first one. Start all "
        "of them again"
    )
    try:
        jax.distributed.initialize(
            coordinator,
            num_processes=processes,
            process_id=process,
            initialization_timeout=meeting,
            heartbeat_timeout_seconds=max(round(_IN_TIME * patience), 1),
            shutdown_timeout_seconds=_PARTING,
        )
        number, count = jax.process_index(), jax.process_count()
    except ValueError as error:
        raise ValueError(
            f"no other processes were found ({error}): start this with srun, mpirun or in "
            "Kubernetes, or say where the first process is, how many there are and which this is"
        ) from None
    finally:
        _hush()
    _speak_at_end(
        f"stategp: process {number} of {count} has ended before it was done: it was killed, or "
        "another process died and this one could not go on without it. Start all of them again; "
        "a fit with a checkpoint goes on from there with resume"
    )
    atexit.register(_leave)
    sys.excepthook = partial(_fail, sys.excepthook)


def _seconds(name: str, value: float | int) -> int:
    if not value >= 1:
        raise ValueError(f"{name} must be 1 second or more, got {value}")
    return round(value)


def end_at_once(code: int, error: BaseException | None = None) -> NoReturn:
    """End a process that failed; all others end, too.

    Those that failed for the same reason are waited for, so that each can say so. An error of the
    runtime itself says little to those who do not know it: most often another process has died
    while sums were exchanged, and the last line says so.
    """
    if not _of_the_runtime(error):
        _hush()
    with contextlib.suppress(KeyboardInterrupt):
        parting = threading.Thread(target=_part, daemon=True)
        parting.start()
        parting.join(_LAST_WAIT)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _of_the_runtime(error: BaseException | None) -> bool:
    """Whether it is one of JAX's runtime; some of them come as a ValueError, with their status."""
    if isinstance(error, ValueError):
        return re.match(r"[A-Z_]+: ", str(error)) is not None
    return isinstance(error, jax.errors.JaxRuntimeError)


_speakers: list[subprocess.Popen[bytes]] = []


def _speak_at_end(words: str) -> None:
    """Have something said if this process ends in any other way than by itself."""
    speak = ["/bin/sh", "-c", 'read -r _ || printf "%s\\n" "$0" >&2', words]
    with contextlib.suppress(OSError):  # without a shell JAX's own message has to do
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL}
        _speakers.append(subprocess.Popen(speak, **pipes))


def _fail(usual: Any, kind: type, value: Any, traceback: Any) -> None:
    """What happens to an exception that nobody has caught."""
    usual(kind, value, traceback)
    if not hasattr(sys, "ps1"):  # else somebody at the keyboard goes on
        end_at_once(1, value)


def _leave() -> None:
    """The usual end: wait for the others."""
    _part()
    _hush()


def _part() -> None:
    with contextlib.suppress(RuntimeError):
        jax.distributed.shutdown()


def _hush() -> None:
    """Nothing needs to be said."""
    while _speakers:
        with contextlib.suppress(OSError):
            _speakers.pop().communicate(b"done\n")
