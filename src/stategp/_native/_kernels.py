"""The recursions along a chain as compiled kernels, called by XLA through `jax.ffi`.

They are built with the package (`hatch_build.py`) where a C++ compiler is at hand. Where none was,
on GPUs, and for arrays that are not of double precision, the same recursions run as JAX writes
them; tests compare the two. `STATEGP_NATIVE=off` leaves the kernels alone.
"""

import ctypes
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_NAMES = (
    "evidence", "evidence_gradient", "follow", "hold", "later_sites", "local_gradient",
    "prior_samples", "samples", "sweep", "sweep_indefinite",
)  # fmt: skip
_ENDING = "dylib" if platform.system() == "Darwin" else "so"
_LIBRARY = Path(__file__).with_name(f"kernels.native.{_ENDING}")  # not a name for Python


def _register() -> str:
    """Make the kernels known to XLA; why not, if that was not possible."""
    if os.environ.get("STATEGP_NATIVE", "").lower() in ("off", "0", "no", "false"):
        return "STATEGP_NATIVE is off"
    if not _LIBRARY.exists():
        return "not built when stategp was installed, for want of a C++ compiler that works"
    try:
        library = ctypes.CDLL(str(_LIBRARY))
        if not library.stategp_runs_here():
            return "built for a newer processor than this one"
        for name in _NAMES:
            handler = jax.ffi.pycapsule(getattr(library, f"stategp_{name}"))
            jax.ffi.register_ffi_target(f"stategp_{name}", handler, platform="cpu")
    except Exception as error:  # another version of XLA, another libstdc++: JAX itself still runs
        return f"could not be loaded: {error}".splitlines()[0]
    return ""


_PROBLEM = _register()


def problem() -> str:
    """Why the compiled kernels are not in use; nothing if they are."""
    if _PROBLEM or jax.default_backend() == "cpu":
        return _PROBLEM
    return f"the default device is a {jax.default_backend()}; they are for CPUs"


def in_use(*arrays: Any) -> bool:
    """Whether computations with these arrays go to the compiled kernels."""
    return not problem() and all(jnp.result_type(array) == np.float64 for array in arrays)


def call(name: str, shapes: Sequence[tuple[int, ...]], *arrays: Any, **attributes: Any) -> Any:
    """Call a kernel: results of these shapes, or just one. Leading axes are for `vmap`."""
    results = [jax.ShapeDtypeStruct(shape, np.float64) for shape in shapes]
    kernel = jax.ffi.ffi_call(f"stategp_{name}", results, vmap_method="broadcast_all")
    return kernel(*arrays, **attributes)
