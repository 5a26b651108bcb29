"""Rows on disk as inference sees them: every pass reads them, part by part, in bounded memory.

A compiled program asks for a part through a callback, which reads a file and does no more. Where
there are several processes, each has its own file, and the program adds up what they see.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Float, Int

from stategp._data._packing import CACHED
from stategp._data._store import Store
from stategp._data._views import Expected, InCells, Latent, Rows
from stategp._runtime import PROCESSES
from stategp.likelihoods import Likelihood

_READ = 2**18  # observations that are read together
_READ_BY_DEVICES = 2**22  # and by devices that want work for many cores


def part_shape(rows: int, width: int) -> tuple[int, int]:
    """Blocks that are read together, and rows of a block, of so many rows."""
    if jax.default_backend() != "cpu":
        return 1, _READ_BY_DEVICES // width
    block = CACHED // width
    return (1 if rows <= block else _READ // CACHED), block


class Reader(NamedTuple):
    """What a program needs of a store."""

    store: Store
    occupied: np.ndarray  # numbers of stretches with observations
    extra: float | None  # what is read beside y, if it is the same for all
    guess: Callable[[np.ndarray, np.ndarray], np.ndarray]

    def read(self, part: int, blocks: int, block: int) -> list[np.ndarray]:
        """The cell of each row, how many observations it holds, and their columns."""
        rows = self.store.part(part * blocks * block, blocks * block)
        cell = np.searchsorted(self.occupied, rows.number)
        filled = rows.filled.reshape(blocks, block)
        return [cell, filled, *(np.reshape(v, (blocks, block, -1)) for v in rows.columns)]

    def point(self, part: int, blocks: int, block: int) -> np.ndarray:
        """The values of f that the observations of a part point at."""
        _, _, _, y, *own = self.read(part, blocks, block)
        extra = own[0] if self.extra is None else np.full(y.shape, self.extra)
        guess = self.guess(y.ravel(), extra.ravel())
        return guess.reshape(*y.shape, *guess.shape[1:])


class StoredRows(InCells):
    """Observations on disk, in rows of equal width, each row inside one stretch."""

    handle: Int[Array, " processes"]  # of the store of each process
    count: Int[Array, " processes"]  # of its rows
    beside: list[Float[Array, ""]]  # what is read beside y, and weights, where all are equal
    own: tuple[bool, bool] = eqx.field(static=True)  # whether each observation has its own instead
    width: int = eqx.field(static=True)
    part: tuple[int, int] = eqx.field(static=True)  # blocks that are read together, rows of each
    latents: int = eqx.field(static=True)
    mesh: Mesh | None = eqx.field(static=True)  # of several processes

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

        def look(rows: Rows, handle: Array, part: Array) -> tuple[Latent, Latent]:
            pointed = jax.pure_callback(partial(_point, *self.part), like, handle, part)
            return rows.start(likelihood, pointed, shift)

        return self._sum(look)

    def highest(self, likelihood: Likelihood) -> Float[Array, ""]:
        """What is known without a pass."""
        return jnp.zeros(()) if likelihood.discrete else jnp.asarray(jnp.inf)

    def _rows(self, handle: Int[Array, ""], part: Int[Array, ""]) -> Rows:
        blocks, block = self.part
        number = jax.ShapeDtypeStruct((blocks * block,), int)
        filled = jax.ShapeDtypeStruct(self.part, int)
        column = jax.ShapeDtypeStruct((*self.part, self.width), float)
        like = [number, filled, *[column] * (2 + sum(self.own))]
        read = partial(_read, *self.part)
        cell, filled, t, y, *rest = jax.pure_callback(read, like, handle, part)
        of_each = iter(rest)
        extra, weights = (
            next(of_each) if own else value
            for own, value in zip(self.own, self.beside, strict=True)
        )
        nowhere = 0  # nobody asks a part where it is
        where = self.cell_nodes, self.total_weight, nowhere
        return Rows(*where, cell, filled, t, y, extra, weights)

    def _sum(self, look: Callable[[Rows, Int[Array, ""], Int[Array, ""]], Any]) -> Any:
        """The sum of what is seen of every part, in the stores of all processes."""
        if self.mesh is None:
            return self._own_sum(look, self.handle, self.count)

        def all_of_them(handle: Int[Array, " one"], count: Int[Array, " one"]) -> Any:
            return jax.lax.psum(self._own_sum(look, handle, count), PROCESSES)

        there = PartitionSpec(PROCESSES)
        everywhere = PartitionSpec()
        share = jax.shard_map(
            all_of_them,
            mesh=self.mesh,
            in_specs=(there, there),
            out_specs=everywhere,
            check_vma=False,  # callbacks do not say what differs between processes
        )
        return share(self.handle, self.count)

    def _own_sum(
        self, look: Callable[..., Any], handle: Int[Array, " one"], count: Int[Array, " one"]
    ) -> Any:
        """That of the store of one process."""
        blocks, block = self.part
        parts = -(-count[0] // (blocks * block))

        def see(part: Int[Array, ""]) -> Any:
            return look(self._rows(handle[0], part), handle[0], part)

        like = jax.eval_shape(see, jnp.zeros((), int))
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)

        def add(part: Int[Array, ""], total: Any) -> Any:
            return jax.tree.map(jnp.add, total, see(part))

        return jax.lax.fori_loop(0, parts, add, nothing)


def _read(blocks: int, block: int, handle: Any, part: Any) -> list[np.ndarray]:
    return Store.opened[int(handle)].reader.read(int(part), blocks, block)


def _point(blocks: int, block: int, handle: Any, part: Any) -> np.ndarray:
    return Store.opened[int(handle)].reader.point(int(part), blocks, block)
