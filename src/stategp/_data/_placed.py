"""Observations at places: every row is an input, a place there, and one number that was seen.

A place is whatever a model needs to know which of its functions was observed: the number of an
output, coordinates in space. Rows may come in any order, and several may share an input.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from stategp._data._views import Expected, Origin
from stategp._modules import Module
from stategp._runtime import on_device, pad_last, padded_size

Rows = Float[Array, " rows"]
Functions = Float[Array, "rows *functions"]  # one number for a row, unless it reads several
Spread = Float[Array, "rows ..."]  # a variance for a row, or a covariance matrix


class PlacedRows(Module):
    """Rows as inference sees them; some may only fill up, and weigh nothing."""

    x: Rows  # measured from the origin
    places: Any  # arrays with an entry for each row
    y: Rows
    extra: Rows
    weights: Rows
    guess: Functions  # what each observation says of f, to start from
    origin: Origin | Float[Array, ""]  # the latter where JAX traces

    @staticmethod
    def padded(
        x: np.ndarray,
        places: Any,
        y: np.ndarray,
        extra: np.ndarray,
        weights: np.ndarray,
        guess: np.ndarray,
        origin: Origin,
    ) -> "PlacedRows":
        """Rows of NumPy arrays, filled up to one of few sizes."""
        size = padded_size(len(y))
        columns: Any = (x, places, y, extra, weights, guess)
        columns = jax.tree.map(lambda column: pad_last(np.asarray(column), size), columns)
        counts = np.where(np.arange(size) < len(y), columns[4], 0.0)
        columns = (*on_device((*columns[:4], counts, columns[5])), origin)
        return PlacedRows(*columns)

    @property
    def user_x(self) -> Rows:
        """The inputs in the user's own units."""
        return self.x + self.origin

    @property
    def total(self) -> Float[Array, ""]:
        """How many observations there are, counted by their weights."""
        return jnp.sum(self.weights)

    def expected(
        self, likelihood: Any, mean: Functions, variance: Spread, *, clip: bool = False
    ) -> Expected:
        """Σ E[log p(y | f)], and its derivatives in the mean and variance of f, row by row."""
        value, slope, curvature = likelihood.expected_slopes(self.y, mean, variance, self.extra)
        if clip:
            curvature = jnp.minimum(curvature, 0.0)
        return Expected(self._sum(value), self._weigh(slope), self._weigh(curvature))

    def log_density(self, likelihood: Any, mean: Functions, variance: Spread) -> Float[Array, ""]:
        """Σ E[log p(y | f)]."""
        return self._sum(likelihood.expected_log_density(self.y, mean, variance, self.extra))

    def highest(self, likelihood: Any) -> Float[Array, ""]:
        """The log density of all observations that no f can exceed."""
        return self._sum(likelihood.highest_log_density(self.y, self.extra))

    def take(self, at: Int[Array, " batch"], count: int) -> "PlacedRows":
        """Some of the first `count` rows, weighted so that they stand for all."""

        def columns(rows: PlacedRows) -> Any:
            return rows.x, rows.places, rows.y, rows.extra, rows.weights, rows.guess

        taken = jax.tree.map(lambda column: column[at], columns(self))
        weights = count / len(at) * taken[4]
        batch: PlacedRows = eqx.tree_at(columns, self, (*taken[:4], weights, taken[5]))
        return batch

    def _sum(self, values: Rows) -> Float[Array, ""]:
        return jnp.sum(self._weigh(values))

    def _weigh(self, values: Spread) -> Spread:
        weights = self.weights.reshape(-1, *[1] * (values.ndim - 1))
        return jnp.where(weights > 0, weights * values, 0.0)
