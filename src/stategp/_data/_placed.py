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
from stategp._runtime import on_device, pad_last, padded_size

Rows = Float[Array, " rows"]


class PlacedRows(eqx.Module):
    """Rows as inference sees them; some may only fill up, and weigh nothing."""

    x: Rows  # measured from the origin
    places: Any  # arrays with an entry for each row
    y: Rows
    extra: Rows
    weights: Rows
    guess: Rows  # what each observation says of f, to start from
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
        self, likelihood: Any, mean: Rows, variance: Rows, *, clip: bool = False
    ) -> Expected:
        """Σ E[log p(y | f)], and its derivatives in the mean and variance of f, row by row."""
        value, slope, curvature = likelihood.expected_slopes(self.y, mean, variance, self.extra)
        if clip:
            curvature = jnp.minimum(curvature, 0.0)
        return Expected(self._sum(value), self._weigh(slope), self._weigh(curvature))

    def log_density(self, likelihood: Any, mean: Rows, variance: Rows) -> Float[Array, ""]:
        """Σ E[log p(y | f)]."""
        return self._sum(likelihood.expected_log_density(self.y, mean, variance, self.extra))

    def highest(self, likelihood: Any) -> Float[Array, ""]:
        """The log density of all observations that no f can exceed."""
        return self._sum(likelihood.highest_log_density(self.y, self.extra))

    def take(self, at: Int[Array, " batch"], count: int) -> "PlacedRows":
        """Some of the first `count` rows, weighted so that they stand for all."""
        columns = (self.x, self.places, self.y, self.extra, self.weights, self.guess)
        x, places, y, extra, weights, guess = jax.tree.map(lambda column: column[at], columns)
        return PlacedRows(x, places, y, extra, count / len(at) * weights, guess, self.origin)

    def _sum(self, values: Rows) -> Float[Array, ""]:
        return jnp.sum(self._weigh(values))

    def _weigh(self, values: Rows) -> Rows:
        return jnp.where(self.weights > 0, self.weights * values, 0.0)
