"""Room for the next compiled program, and for what comes after reading.

Every program that XLA compiles for the CPU holds a few hundred memory maps, of which Linux allows
a process 65,530. Whoever fits hundreds of series of different lengths would run out of them and
be killed in the middle, so JAX's caches are dropped before that.

Allocators keep what was freed, the more of it the longer a stream was read, and what is allocated
elsewhere after that comes on top.
"""

import contextlib
import ctypes
import gc
import sys
from pathlib import Path
from typing import Any

import jax

_MAPS = Path("/proc/self/maps")
_MANY = 40_000
_EACH = 400  # maps of a program, at most


class _Maps:
    """How many maps there were when they were last counted, and programs compiled since."""

    counted = 0
    compiled = 0

    def note(self, event: str, duration_secs: float, **about: Any) -> None:
        """Count a program that JAX has compiled, or read from its cache."""
        self.compiled += event.endswith("backend_compile_duration")

    def at_least(self, many: int) -> bool:
        """Whether there are many. To count them takes long, so not if there cannot be so many."""
        if self.counted + _EACH * self.compiled < many or not _MAPS.exists():
            return False
        self.count()
        return self.counted >= many

    def count(self) -> None:
        self.counted, self.compiled = _MAPS.read_bytes().count(b"\n"), 0


_maps = _Maps()
jax.monitoring.register_event_duration_secs_listener(_maps.note)


def make_room(many: int = _MANY) -> bool:
    """Drop JAX's compiled programs if this process holds many memory maps; whether it did."""
    if not _maps.at_least(many):
        return False
    jax.clear_caches()
    gc.collect()
    _maps.count()  # programs that somebody holds stay
    return True


def give_back() -> None:
    """Hand memory that is free, but held by Arrow's and C's allocators, back to the system."""
    if (arrow := sys.modules.get("pyarrow")) is not None:
        arrow.default_memory_pool().release_unused()
    # Only the C library of GNU has it; other systems do so themselves, or not at all.
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
