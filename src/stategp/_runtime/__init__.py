"""What JAX needs at run time: compiled programs kept, few shapes, room in memory, progress."""

from stategp._runtime._compilation import keep_compiled_programs
from stategp._runtime._interrupts import finishing_compilations
from stategp._runtime._memory import make_room
from stategp._runtime._progress import Progress
from stategp._runtime._shapes import (
    pad_inducing,
    pad_last,
    padded_blocks,
    padded_size,
)

__all__ = [
    "Progress",
    "finishing_compilations",
    "keep_compiled_programs",
    "make_room",
    "pad_inducing",
    "pad_last",
    "padded_blocks",
    "padded_size",
]
