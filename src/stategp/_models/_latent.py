"""Values of the functions of a deep model: Gaussian as long as they are added and multiplied.

A function that was called at some inputs has values there that are jointly Gaussian, also those of
several calls (`Values`). A `Latent` is a sum of multiples of such values and of numbers. Where a
number is needed, as the input of another function, values are drawn. From then on they are known:
later draws of the same function, and the mean and variance of every `Latent`, are those given all
that was drawn.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

_VANISHED = 1e-12  # of a variance: what remains of it by rounding, given other values


class Values:
    """The values of one function at the inputs of its calls, before and after some are drawn.

    `covariance(i, j)` is that of the values of two calls, entry by entry. Drawn values are
    mean_i + Σ_j L_ij ε_j with L the Cholesky factor of their covariance.
    """

    def __init__(self, covariance: Callable[[int, int], Array] | None = None):
        self.covariance = covariance
        self.means: list[Array] = []
        self.variances: list[Array] = []
        self.whites: list[Array] = []
        self._drawn: list[int] = []
        self._rows: dict[int, list[Array]] = {}  # of L, as far as values are drawn
        self._pivots: dict[int, Array] = {}

    def add(self, mean: Array, variance: Array, white: Array) -> "Latent":
        """A further call; `white` is standard normal, for a draw."""
        self.means.append(mean)
        self.variances.append(variance)
        self.whites.append(white)
        return Latent({(self, len(self.means) - 1): 1.0}, jnp.zeros(()), mean.shape)

    def draw(self, number: int) -> Array:
        """The values of a call, drawn once, given those that were drawn before."""
        if number not in self._drawn:
            left = self._left(number, number)
            positive = left > _VANISHED * self.variances[number]
            self._pivots[number] = jnp.where(
                positive, jnp.sqrt(jnp.where(positive, left, 1.0)), 0.0
            )
            self._row(number).append(self._pivots[number])
            self._drawn.append(number)
        return self.mean(number)

    def mean(self, number: int) -> Array:
        """Of the values of a call, given what was drawn."""
        total = self.means[number]
        for entry, drawn in zip(self._row(number), self._drawn, strict=False):
            total = total + entry * self.whites[drawn]
        return total

    def spread(self, factors: dict[int, Any]) -> Any:
        """The variance of Σ factor · value, given what was drawn."""
        free = [number for number in factors if number not in self._drawn]
        total: Any = 0.0
        for position, number in enumerate(free):
            total = total + factors[number] ** 2 * self._left(number, number)
            for other in free[:position]:
                total = total + 2.0 * factors[number] * factors[other] * self._left(number, other)
        return total

    def _row(self, number: int) -> list[Array]:
        """Row of L: one entry for each value drawn (before this one)."""
        row = self._rows.setdefault(number, [])
        if number in self._drawn:
            return row
        for drawn in self._drawn[len(row) :]:
            entry = self._covariance(number, drawn)
            for mine, theirs in zip(row, self._rows[drawn], strict=False):
                entry = entry - mine * theirs
            pivot = self._pivots[drawn]
            row.append(jnp.where(pivot > 0, entry / jnp.where(pivot > 0, pivot, 1.0), 0.0))
        return row

    def _left(self, number: int, other: int) -> Array:
        """Covariance given what was drawn."""
        left = self._covariance(number, other)
        for mine, theirs in zip(self._row(number), self._row(other), strict=False):
            left = left - mine * theirs
        return left

    def _covariance(self, number: int, other: int) -> Array:
        if number == other:
            return self.variances[number]
        assert self.covariance is not None
        return self.covariance(max(number, other), min(number, other))


class Latent:
    """A sum of multiples of values of functions, and of numbers.

    Sums and multiples of it stay Gaussian; whatever else is done to it is done to a draw.
    """

    __array_ufunc__ = None  # `array * latent` is a multiple, not an array of latents

    def __init__(self, factors: dict[tuple[Values, int], Any], offset: Array, shape: Any):
        self.factors, self.offset, self.shape = factors, offset, shape

    @staticmethod
    def known(values: Array) -> "Latent":
        """Numbers."""
        return Latent({}, values, values.shape)

    @property
    def mean(self) -> Array:
        """Its expectation, given what was drawn."""
        total = self.offset
        for (values, number), factor in self.factors.items():
            total = total + factor * values.mean(number)
        return jnp.broadcast_to(total, self.shape)

    @property
    def variance(self) -> Array:
        """Its variance, given what was drawn."""
        functions: dict[Values, dict[int, Any]] = {}
        for (values, number), factor in self.factors.items():
            functions.setdefault(values, {})[number] = factor
        total: Any = jnp.zeros(())
        for values, factors in functions.items():
            total = total + values.spread(factors)
        return jnp.broadcast_to(jnp.maximum(total, 0.0), self.shape)

    def sample(self) -> Array:
        """Numbers: everything that it depends on is drawn."""
        total = self.offset
        for (values, number), factor in self.factors.items():
            total = total + factor * values.draw(number)
        return jnp.broadcast_to(total, self.shape)

    def __jax_array__(self) -> Array:
        return self.sample()

    def __add__(self, other: Any) -> "Latent":
        if not isinstance(other, Latent):
            other = Latent.known(jnp.asarray(other))
        factors = dict(self.factors)
        for key, factor in other.factors.items():
            total = factors.pop(key, 0.0) + factor
            if not (isinstance(total, float | int) and total == 0):
                factors[key] = total
        shape = jnp.broadcast_shapes(self.shape, other.shape)
        return Latent(factors, self.offset + other.offset, shape)

    def _scaled(self, by: Callable[[Any], Any], shape: Any) -> "Latent":
        factors = {key: by(factor) for key, factor in self.factors.items()}
        return Latent(factors, by(self.offset), jnp.broadcast_shapes(self.shape, shape))

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Latent):
            return self.sample() * other.sample()
        number = _as_number(other)
        return self._scaled(lambda factor: factor * number, jnp.shape(number))

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, Latent):
            return self.sample() / other.sample()
        number = _as_number(other)
        return self._scaled(lambda factor: factor / number, jnp.shape(number))

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> "Latent":
        return self * -1.0

    def __sub__(self, other: Any) -> "Latent":
        return self + (-other if isinstance(other, Latent) else -jnp.asarray(other))

    def __rsub__(self, other: Any) -> "Latent":
        return -self + other

    def __rtruediv__(self, other: Any) -> Array:
        return jnp.asarray(other) / self.sample()

    def __pow__(self, other: Any) -> Array:
        return self.sample() ** _as_number(other)

    def __rpow__(self, other: Any) -> Array:
        return _as_number(other) ** self.sample()

    def __abs__(self) -> Array:
        return jnp.abs(self.sample())

    def __lt__(self, other: Any) -> Array:
        return self.sample() < jnp.asarray(other)

    def __le__(self, other: Any) -> Array:
        return self.sample() <= jnp.asarray(other)

    def __gt__(self, other: Any) -> Array:
        return self.sample() > jnp.asarray(other)

    def __ge__(self, other: Any) -> Array:
        return self.sample() >= jnp.asarray(other)


def _as_number(value: Any) -> Any:
    """Python's numbers as they are (`0.5 - 0.5` is then known to vanish), all else an array."""
    return value if isinstance(value, float | int) else jnp.asarray(value)
