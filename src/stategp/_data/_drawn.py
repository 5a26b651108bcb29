"""Observations in files of which only parts are read: minibatches come from a few row groups."""

from typing import Any, Protocol, cast, runtime_checkable

import equinox as eqx
import jax
import numpy as np

from stategp._data._observations import Observations, relative_inputs
from stategp._data._sample import SAMPLED
from stategp._data._stored import InBatches
from stategp._data._stretches import Occupied
from stategp._data._views import Origin

Rows = list[np.ndarray]  # x, y, what is read beside it, weights


@runtime_checkable
class Pool(Protocol):
    """Rows that have been read, others for every step."""

    def draw(self, size: int, step: int) -> Rows:
        """So many at random, with weights as if they were all."""

    def sample(self, most: int, step: int) -> Rows:
        """At most so many of them, each no more than once, with such weights."""

    def close(self) -> None:
        """End the reading."""


class Drawn(InBatches):
    """What is known of them is a sample, and its weights stand for all."""

    ends: tuple[Any, Any]  # the first and the last x
    pool: Pool = eqx.field(static=True)

    @staticmethod
    def of(
        pool: Pool, where: Occupied, ends: tuple[Any, Any], rows: int, digest: int, steps: int = 0
    ) -> "Drawn":
        """Where rows are, the ends of x, how many there are, and what tells them from others."""
        _, _, origin = where.ends()
        # The range is known beyond the sample: rows that weigh nothing are at its ends.
        sample = _ordered(pool.sample(SAMPLED, steps), origin)
        x, y, extra, weights = cast(Any, [np.concatenate([c[:1], c, c[-1:]]) for c in sample])
        x[[0, -1]], weights[[0, -1]] = relative_inputs("x", np.asarray(ends), origin), 0.0
        inside = np.clip(x, x[0], x[-1])
        known = where, rows, digest, ends, pool
        return Drawn(inside, y, extra, weights, origin, *known)

    @property
    def at_hand(self) -> Observations:
        return self.sample()

    @property
    def shortest(self) -> float:
        return 0.0  # single observations are looked at, not stretches

    def batch(self, size: int, key: tuple[int, int]) -> Observations:
        x, y, extra, weights = jax.device_put(_ordered(self.pool.draw(size, key[1]), self.origin))
        return Observations(x, y, extra, weights, self.origin)

    def after(self, steps: int) -> "Drawn":
        return Drawn.of(self.pool, self.where, self.ends, self.rows, self.digest, steps)

    def close(self) -> None:
        self.pool.close()


def _ordered(columns: Rows, origin: Origin) -> Rows:
    """In order of x, which is measured from the origin."""
    x = relative_inputs("x", columns[0], origin)
    order = np.argsort(x, kind="stable")
    return [values[order] for values in (x, *columns[1:])]
