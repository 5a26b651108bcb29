"""Several devices, of one process or of many: each has its part of the rows, and sums are added.

The mesh has all devices of all processes. What is not a row (the chain, hyperparameters) is on each
of them, and every device computes it for itself.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

_ROWS = "rows"  # the axis of the mesh


def mesh_of_devices() -> Mesh | None:
    """All devices of all processes.

    None if there is only one, or if the user has chosen one (`jax_default_device`).
    """
    chosen = jax.config.jax_default_device  # type: ignore[attr-defined]
    devices = jax.devices()
    return None if chosen is not None or len(devices) == 1 else Mesh(np.array(devices), (_ROWS,))


def divisible(size: int, mesh: Mesh | None) -> int:
    """The next size of which each device can have an equal part."""
    return size if mesh is None else mesh.size * -(-size // mesh.size)


def spread_over_devices(array: Any, mesh: Mesh | None, axis: int) -> Any:
    """The same array, of which each device has its part of an axis.

    All processes must give the same. An array without the axis is where arrays usually are.
    """
    if mesh is None or array.ndim <= axis:
        return jax.device_put(array)
    there = NamedSharding(mesh, _split(array, axis))
    if jax.process_count() == 1:
        return jax.device_put(array, there)
    return jax.make_array_from_callback(array.shape, there, lambda part: array[part])


def _split(array: Any, axis: int) -> PartitionSpec:
    """How an array is divided, if it has the axis at all."""
    return PartitionSpec(*[None] * axis, _ROWS) if array.ndim > axis else PartitionSpec()


def add_over_devices(
    function: Callable[..., Any], mesh: Mesh | None, divided: Any, axis: int
) -> Any:
    """The sum of what a function says of the part of `divided` that each device has.

    Every device then knows the sum. What the function reads beside it is the same on all.
    """
    if mesh is None:
        return function(divided)

    def of_all(own: Any) -> Any:
        return jax.lax.psum(function(own), _ROWS)

    share = jax.shard_map(
        of_all,
        mesh=mesh,
        in_specs=(jax.tree.map(lambda array: _split(array, axis), divided),),
        out_specs=PartitionSpec(),
        check_vma=False,  # callbacks do not say what differs between devices
    )
    return share(divided)


class Seat(NamedTuple):
    """Which of the devices of its process one is."""

    number: int
    of: int


def for_each_device(value: Callable[[Seat], list[int]], mesh: Mesh | None) -> Any:
    """A row of whole numbers for each device, which its own process gives."""
    if mesh is None:
        return jax.device_put(np.array([value(Seat(0, 1))]))
    devices = list(mesh.devices.flat)
    own = [device for device in devices if device.process_index == jax.process_index()]

    def row(where: Any) -> np.ndarray:
        device = devices[where[0].start or 0]
        return np.array([value(Seat(own.index(device), len(own)))])

    there = NamedSharding(mesh, PartitionSpec(_ROWS))
    width = len(value(Seat(0, len(own))))
    return jax.make_array_from_callback((len(devices), width), there, row)


def exchanged(own: bytes) -> list[bytes]:
    """The messages of all processes, in order."""
    if jax.process_count() == 1:
        return [own]
    from jax.experimental.multihost_utils import process_allgather

    sizes = np.asarray(process_allgather(np.array([len(own)]))).reshape(-1)
    padded = np.zeros(int(sizes.max()), np.uint8)
    padded[: len(own)] = np.frombuffer(own, np.uint8)
    rows = np.asarray(process_allgather(padded)).reshape(len(sizes), -1)
    return [row[:size].tobytes() for row, size in zip(rows, sizes, strict=True)]


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


def on_one_device(tree: Any) -> Any:
    """The same values, where each of several devices has all of them as arrays of one device.

    They are then of this process alone, and programs that were compiled for such arrays take them.
    """

    def copy(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array) and len(leaf.sharding.device_set) > 1:
            return jax.device_put(np.asarray(leaf))
        return leaf

    return jax.tree.map(copy, tree)
