"""Several devices: those of one process divide rows among them, several processes add up."""

import contextlib
import contextvars
from collections.abc import Iterator
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


PROCESSES = "processes"  # the axis of their mesh


def mesh_of_processes() -> Mesh | None:
    """One device of each process, if there are several."""
    if jax.process_count() == 1:
        return None
    first = {device.process_index: device for device in reversed(jax.devices())}
    return Mesh(np.array([first[number] for number in sorted(first)]), (PROCESSES,))


_in_step = contextvars.ContextVar("in step with others", default=False)


@contextlib.contextmanager
def in_step() -> Iterator[None]:
    """Inside, what one process computes waits for the same of all others, if there are any."""
    token = _in_step.set(jax.process_count() > 1)
    try:
        yield
    finally:
        _in_step.reset(token)


def is_in_step() -> bool:
    """Whether this process cannot go its own way."""
    return _in_step.get()


def one_for_each_process(value: int, mesh: Mesh | None) -> Any:
    """An array with the number that each process gives; with no mesh there is one."""
    own = np.array([value])
    if mesh is None:
        return jax.device_put(own)
    return jax.make_array_from_process_local_data(
        NamedSharding(mesh, PartitionSpec(PROCESSES)), own
    )


def on_this_process(tree: Any) -> Any:
    """The same values, where arrays are on devices of all processes as arrays of this one alone."""

    def copy(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
            return jax.device_put(np.asarray(leaf))
        return leaf

    return jax.tree.map(copy, tree)
