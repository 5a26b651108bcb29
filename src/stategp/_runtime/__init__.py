"""What running needs: compiled programs kept, few shapes, room in memory, progress, whole files."""

from stategp._runtime._compilation import keep_compiled_programs
from stategp._runtime._devices import (
    PROCESSES,
    in_step,
    is_in_step,
    mesh_of_processes,
    on_this_process,
    one_for_each_process,
    spread_over_devices,
)
from stategp._runtime._interrupts import finishing_compilations, hearing
from stategp._runtime._joining import PATIENCE, end_at_once, join_processes
from stategp._runtime._keys import as_count, as_key
from stategp._runtime._memory import make_room
from stategp._runtime._progress import Progress
from stategp._runtime._shapes import (
    least_size,
    pad_inducing,
    pad_last,
    padded_blocks,
    padded_size,
)
from stategp._runtime._tracing import at_once, is_traced, on_device, refuse_traced
from stategp._runtime._writing import replacing

__all__ = [
    "PATIENCE",
    "PROCESSES",
    "Progress",
    "as_count",
    "as_key",
    "at_once",
    "end_at_once",
    "finishing_compilations",
    "hearing",
    "in_step",
    "is_in_step",
    "is_traced",
    "join_processes",
    "keep_compiled_programs",
    "least_size",
    "make_room",
    "mesh_of_processes",
    "on_device",
    "on_this_process",
    "one_for_each_process",
    "pad_inducing",
    "pad_last",
    "padded_blocks",
    "padded_size",
    "refuse_traced",
    "replacing",
    "spread_over_devices",
]
