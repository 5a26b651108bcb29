"""Rows on disk as inference sees them: every pass reads them, part by part, in bounded memory.

A compiled program asks for a part through a callback, which reads a file and does no more; while it
computes, a thread reads the part that it will ask for next. Where there are several processes, each
has its own file. Devices of one process take turns with its parts, and the program adds up what all
of them see.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int

from stategp._data._packing import CACHED
from stategp._data._store import Store
from stategp._data._views import Expected, InCells, Latent, Rows
from stategp._runtime import Seat, add_over_devices, for_each_device
from stategp.likelihoods import Likelihood

_READ = 2**18  # observations that are read together
_READ_BY_DEVICES = 2**22  # and by devices that want work for many cores


def part_shape(rows: int, width: int) -> tuple[int, int]:
    """Blocks that are read together, and rows of a block, of so many rows.

    Where there are few, the blocks are as many as they fill, up to a power of two.

    >>> part_shape(41, 512), part_shape(10**6, 512)
    ((2, 32), (16, 32))
    """
    if jax.default_backend() != "cpu":
        return 1, _READ_BY_DEVICES // width
    block = CACHED // width
    filled = -(-rows // block)
    return min(1 << max(filled - 1, 0).bit_length(), _READ // CACHED), block


class Reader:
    """What a program needs of a store."""

    def __init__(
        self,
        store: Store,
        occupied: np.ndarray,  # numbers of stretches with observations
        extra: float | None,  # what is read beside y, if it is the same for all
        guess: Callable[[np.ndarray, np.ndarray], np.ndarray],
    ):
        self.store, self.occupied, self.extra, self.guess = store, occupied, extra, guess
        self.thread = ThreadPoolExecutor(1, "stategp reader")
        self.waiting: dict[tuple[int, ...], Future[list[np.ndarray]]] = {}  # parts that were read

    def close(self) -> None:
        """End the thread, which may be reading."""
        self.thread.shutdown(cancel_futures=True)

    def next(self, part: int, turn: Seat, blocks: int, block: int) -> list[np.ndarray]:
        """A part; meanwhile the one is read that this device will ask for next.

        After its last that is its first, for the next pass.
        """
        found = self.waiting.pop((part, blocks, block), None)
        after = part + turn.of
        if after * blocks * block >= self.store.rows:
            after = turn.number
        ahead = after, blocks, block
        if after != part and ahead not in self.waiting:
            self.waiting[ahead] = self.thread.submit(self.read, *ahead)
        return self.read(part, blocks, block) if found is None else found.result()

    def read(self, part: int, blocks: int, block: int) -> list[np.ndarray]:
        """The cell of each row, how many observations it holds, and their columns."""
        rows = self.store.part(part * blocks * block, blocks * block)
        cell = np.searchsorted(self.occupied, rows.number)
        of_rows = [v.reshape(blocks, block) for v in (cell, rows.filled)]
        return [*of_rows, *(np.reshape(v, (blocks, block, -1)) for v in rows.columns)]

    def point(self, part: int, blocks: int, block: int) -> np.ndarray:
        """The values of f that the observations of a part point at."""
        _, _, _, y, *own = self.read(part, blocks, block)
        extra = own[0] if self.extra is None else np.full(y.shape, self.extra)
        guess = self.guess(y.ravel(), extra.ravel())
        return guess.reshape(*y.shape, *guess.shape[1:])


class StoredRows(InCells):
    """Observations on disk, in rows of equal width, each row inside one stretch."""

    turns: Int[Array, "devices 4"]  # of each device, as `take_turns` gives them
    beside: list[Float[Array, ""]]  # what is read beside y, and weights, where all are equal
    own: tuple[bool, bool] = eqx.field(static=True)  # whether each observation has its own instead
    width: int = eqx.field(static=True)
    part: tuple[int, int] = eqx.field(static=True)  # blocks that are read together, rows of each
    latents: int = eqx.field(static=True)
    mesh: Mesh | None = eqx.field(static=True)  # of several devices

    def expected(
        self, likelihood: Likelihood, mean: Latent, variance: Latent, *, clip: bool = False
    ) -> Expected:
        return self._sum(lambda rows, *_: rows.expected(likelihood, mean, variance, clip=clip))

    def expected_and_parameters(
        self, likelihood: Likelihood, mean: Latent, variance: Latent, *, clip: bool = False
    ) -> Expected:
        return self._sum(
            lambda rows, *_: rows.expected_and_parameters(likelihood, mean, variance, clip=clip)
        )

    def parameter_slopes(self, likelihood: Likelihood, mean: Latent, variance: Latent) -> Any:
        return self._sum(lambda rows, *_: rows.parameter_slopes(likelihood, mean, variance))

    def start(self, likelihood: Likelihood, guess: Any, shift: Latent) -> tuple[Latent, Latent]:
        several = () if self.latents == 1 else (self.latents,)
        like = jax.ShapeDtypeStruct((*self.part, self.width, *several), float)

        def look(rows: Rows, turn: Array, part: Array) -> tuple[Latent, Latent]:
            pointed = jax.pure_callback(partial(_point, *self.part), like, turn, part)
            return rows.start(likelihood, pointed, shift)

        return self._sum(look)

    def highest(self, likelihood: Likelihood) -> Float[Array, ""]:
        """What is known without a pass."""
        return jnp.zeros(()) if likelihood.discrete else jnp.asarray(jnp.inf)

    def _rows(self, turn: Int[Array, "4"], part: Int[Array, ""]) -> Rows:
        of_row = jax.ShapeDtypeStruct(self.part, int)
        column = jax.ShapeDtypeStruct((*self.part, self.width), float)
        like = [of_row, of_row, *[column] * (2 + sum(self.own))]
        read = partial(_read, *self.part)
        cell, filled, t, y, *rest = jax.pure_callback(read, like, turn, part)
        of_each = iter(rest)
        extra, weights = (
            next(of_each) if own else value
            for own, value in zip(self.own, self.beside, strict=True)
        )
        nowhere = 0  # nobody asks a part where it is
        where = self.cell_nodes, self.total_weight, nowhere
        return Rows(*where, cell, filled, t, y, extra, weights)

    def _sum(self, look: Callable[[Rows, Int[Array, "4"], Int[Array, ""]], Any]) -> Any:
        """The sum of what is seen of every part, in the stores of all processes."""
        return add_over_devices(partial(self._own_sum, look), self.mesh, self.turns, axis=0)

    def _own_sum(self, look: Callable[..., Any], turns: Int[Array, "one 4"]) -> Any:
        """That of the parts that one device looks at."""
        (turn,) = turns
        _, rows, number, of = turn
        blocks, block = self.part
        parts = -(-rows // (blocks * block))

        def see(part: Int[Array, ""]) -> Any:
            return look(self._rows(turn, part), turn, part)

        like = jax.eval_shape(see, jnp.zeros((), int))
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)

        def add(step: Int[Array, ""], total: Any) -> Any:
            return jax.tree.map(jnp.add, total, see(number + of * step))

        return jax.lax.fori_loop(0, -(-(parts - number) // of), add, nothing)


def take_turns(store: Store, mesh: Mesh | None) -> Int[Array, "devices 4"]:
    """For each device the handle of its store, the rows there, and which of how many it is."""
    return for_each_device(lambda seat: [store.handle, store.rows, *seat], mesh)


def _read(blocks: int, block: int, turn: Any, part: Any) -> list[np.ndarray]:
    handle, _, *seat = np.asarray(turn).tolist()
    return Store.opened[handle].reader.next(int(part), Seat(*seat), blocks, block)


def _point(blocks: int, block: int, turn: Any, part: Any) -> np.ndarray:
    return Store.opened[np.asarray(turn).tolist()[0]].reader.point(int(part), blocks, block)
