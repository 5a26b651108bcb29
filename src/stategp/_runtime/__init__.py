"""What running needs: compiled programs kept, few shapes, room in memory, progress, whole files."""

from stategp._runtime._compilation import keep_compiled_programs
from stategp._runtime._devices import (
    Seat,
    add_over_devices,
    divisible,
    exchanged,
    for_each_device,
    in_step,
    is_in_step,
    mesh_of_devices,
    on_one_device,
    spread_over_devices,
)
from stategp._runtime._interrupts import finishing_compilations, hearing
from stategp._runtime._jobs import check_jobs, in_jobs
from stategp._runtime._joining import PATIENCE, end_at_once, join_processes
from stategp._runtime._keys import as_count, as_key
from stategp._runtime._memory import give_back, make_room
from stategp._runtime._messages import from_first, in_all, is_first, shared
from stategp._runtime._progress import Progress
from stategp._runtime._quick import quick_jit
from stategp._runtime._shapes import (
    least_size,
    pad_inducing,
    pad_last,
    padded_blocks,
    padded_size,
)
from stategp._runtime._threads import one_blas_thread
from stategp._runtime._tracing import at_once, is_traced, on_device, refuse_traced
from stategp._runtime._writing import replacing

__all__ = [
    "PATIENCE",
    "Progress",
    "Seat",
    "add_over_devices",
    "as_count",
    "as_key",
    "at_once",
    "check_jobs",
    "divisible",
    "end_at_once",
    "exchanged",
    "finishing_compilations",
    "for_each_device",
    "from_first",
    "give_back",
    "hearing",
    "in_all",
    "in_jobs",
    "in_step",
    "is_first",
    "is_in_step",
    "is_traced",
    "join_processes",
    "keep_compiled_programs",
    "least_size",
    "make_room",
    "mesh_of_devices",
    "on_device",
    "on_one_device",
    "one_blas_thread",
    "pad_inducing",
    "pad_last",
    "padded_blocks",
    "padded_size",
    "quick_jit",
    "refuse_traced",
    "replacing",
    "shared",
    "spread_over_devices",
]
