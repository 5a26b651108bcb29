"""Several devices in one process: rows of observations are divided among them."""

from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def spread_over_devices(array: Any, axis: int) -> Any:
    """On all devices of this process, each with its part of an axis.

    With one device, one that the user has chosen (`jax_default_device`), or an axis that cannot be
    divided equally, the array is where arrays usually are. What is computed from such rows is
    divided by the compiler; the sums over them are the same on all devices.
    """
    devices = jax.local_devices()
    default = jax.config.jax_default_device  # type: ignore[attr-defined]
    chosen = default is not None or jax.process_count() > 1
    if len(devices) == 1 or chosen or array.ndim <= axis or array.shape[axis] % len(devices):
        return jax.device_put(array)
    parts: list[str | None] = [None] * array.ndim
    parts[axis] = "rows"
    mesh = Mesh(np.array(devices), ("rows",))
    return jax.device_put(array, NamedSharding(mesh, PartitionSpec(*parts)))
