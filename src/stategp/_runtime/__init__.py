"""What running needs: compiled programs kept, few shapes, room in memory, progress, whole files."""

from stategp._runtime._compilation import keep_compiled_programs
from stategp._runtime._memory import make_room
from stategp._runtime._progress import Progress
from stategp._runtime._shapes import (
    pad_inducing,
    pad_last,
    padded_blocks,
    padded_size,
)
from stategp._runtime._writing import replacing

__all__ = [
    "Progress",
    "keep_compiled_programs",
    "make_room",
    "pad_inducing",
    "pad_last",
    "padded_blocks",
    "padded_size",
    "replacing",
]
