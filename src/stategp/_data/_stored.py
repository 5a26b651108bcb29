"""Observations whose rows are on disk, read anew in every pass: likelihoods without sums."""

import abc
from typing import Any, ClassVar, cast

import equinox as eqx
import jax
import numpy as np

from stategp._data._observations import Observations, relative_inputs
from stategp._data._on_stretches import OnStretches, from_end_to_end
from stategp._data._sample import Sample
from stategp._data._store import Store
from stategp._data._stored_rows import Reader, StoredRows, part_shape, take_turns
from stategp._data._stretches import Occupied
from stategp._data._views import InCells
from stategp._runtime import mesh_of_devices
from stategp.likelihoods import Likelihood


class Sampled(OnStretches):
    """What is left of a stream after a fit: a sample of its rows, and where they were."""

    where: Occupied
    rows: int
    digest: int  # the same for the same rows in any order
    source: ClassVar[str] = "stream"

    @property
    def observed(self) -> int:
        return self.rows

    def occupied(self) -> Occupied:
        return self.where

    def check(self, likelihood: Likelihood) -> None:
        return

    def view(self, likelihood: Likelihood) -> tuple[InCells, np.ndarray]:
        raise ValueError(
            "the rows of a stream are read for a fit and not kept: call sg.condition or sg.fit "
            "with the stream"
        )

    def sample(self) -> Observations:
        """The sample alone."""
        return Observations(self.x, self.y, self.extra, self.weights, self.origin)


class InBatches(Sampled):
    """The same during a fit, while minibatches can be drawn from the rows."""

    @abc.abstractmethod
    def batch(self, size: int, key: tuple[int, int]) -> Observations:
        """Observations at random, weighted so that they stand for all.

        The key is a seed and the number of the step.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Give back what the rows take."""

    def after(self, steps: int) -> "InBatches":
        """What is known of them after so many steps."""
        return self

    def released(self) -> Sampled:
        """Without the rows."""
        columns = self.x, self.y, self.extra, self.weights, self.origin
        return Sampled(*columns, self.where, self.rows, self.digest)


class Stored(InBatches):
    """Rows on disk, written there for a fit."""

    store: Store = eqx.field(static=True)
    beside: tuple[float | None, float | None]  # what is read beside y and weights, if equal for all

    @staticmethod
    def of(
        store: Store,
        sample: Sample,
        where: Occupied,
        ends: tuple[Any, Any],
        beside: tuple[float | None, float | None],
    ) -> "Stored":
        """Rows that were written, a sample of all, their stretches, the first and the last x."""
        _, _, origin = where.ends()
        x, y, extra, weights = cast(Any, sample.ordered())
        relative: Any = from_end_to_end(relative_inputs("x", x, origin), ends, origin)
        known = where, sample.rows, sample.digest, store, beside
        return Stored(relative, y, extra, weights, origin, *known)

    def close(self) -> None:
        self.store.close()

    def view(self, likelihood: Likelihood) -> tuple[InCells, np.ndarray]:
        store = self.store
        store.close_reader()
        store.reader = Reader(store, self.where.number, self.beside[0], likelihood.guess)
        given = [np.asarray(np.nan if value is None else value) for value in self.beside]
        mesh = mesh_of_devices()
        view = StoredRows(
            cell_nodes=self.cell_nodes(),
            total_weight=jax.device_put(np.asarray(np.sum(np.asarray(self.weights)))),
            origin=self.origin,
            turns=take_turns(store, mesh),
            beside=jax.device_put(given),
            own=(self.beside[0] is None, self.beside[1] is None),
            width=store.width,
            part=part_shape(store.most, store.width),
            mesh=mesh,
            latents=likelihood.latents,
        )
        return view, np.zeros(())

    def batch(self, size: int, key: tuple[int, int]) -> Observations:
        """With replacement; all of them if there are no more."""
        if size >= self.rows:
            number, columns = self.store.everything()
        else:
            number, columns = self.store.draw(size, np.random.default_rng(key))
        first, (_, start, _) = self.where.number[0], self.where.ends()
        x = start + (number - first + (1 + columns[0]) / 2) * self.stretches.width
        own = iter(columns[2:])
        extra, weights = (next(own) if v is None else np.full(len(x), v) for v in self.beside)
        order = np.argsort(x, kind="stable")
        share = self.rows / len(x)
        placed = [v[order] for v in (x, columns[1], extra, share * weights)]
        x, y, extra, weights = jax.device_put(placed)
        return Observations(x, y, extra, weights, self.origin)
