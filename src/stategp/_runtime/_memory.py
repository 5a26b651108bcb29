"""Room for the next compiled program.

Every program that XLA compiles for the CPU holds a few hundred memory maps, of which Linux allows
a process 65,530. Whoever fits hundreds of series of different lengths would run out of them and
be killed in the middle, so JAX's caches are dropped before that.
"""

import gc
from pathlib import Path

import jax

_MAPS = Path("/proc/self/maps")
_MANY = 40_000


def make_room(many: int = _MANY) -> bool:
    """Drop JAX's compiled programs if this process holds many memory maps; whether it did."""
    if not _MAPS.exists() or _MAPS.read_bytes().count(b"\n") < many:
        return False
    jax.clear_caches()
    gc.collect()
    return True
