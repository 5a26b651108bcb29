"""Gaussian observations in cells that follow the slow part of f only.

A season that repeats exactly is a sum of sine waves, known in closed form however long the cell; if
its period is being learned, they are waves of a period nearby times factors that are slow. With c
the values of the slow part of f at sixteen nodes and the factors of the waves, f at the
observations of a cell is Φc, and with ΦᵀΦ = RᵀR (sums over the cell, weighted)

    Σ (y − f)² = |z − Rc|² + a rest without f.

So each cell has a few sums of f, the rows of Rc, that are seen with the noise of one observation,
and nothing is left that grows with the number of observations or of cycles.
"""

import itertools
import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._data._cells import Cells, padded_cells
from stategp._data._observations import Observations
from stategp._data._views import (
    ORDER,
    Expected,
    Nodes,
    Origin,
    View,
    slopes_in_parameters,
    to_coefficients,
)
from stategp._projection import Combinations
from stategp._runtime import pad_last

_HELD = 2**14  # observations whose Φ is held at once: it stays in the cache
_MOST = 100  # times that a frequency may be another, if its waves are products of the other's
_SURE = 1e-6  # share of the largest eigenvalue down to which y is followed
_EPS = float(np.finfo(float).eps)


class Compressed(View):
    """Sums of f in every cell, and the value that each of them was seen at, equal noise for all.

    Sums and values are those of y and f less an offset.
    """

    sums: Combinations
    origin: Origin
    total_weight: Float[Array, ""]
    seen: Nodes
    offset: Float[Array, ""]
    rest: Float[Array, ""]  # the part of Σ w y² that no f can explain
    extra: Float[Array, ""]

    @property
    def nodes(self) -> Combinations:
        return self.sums

    @property
    def user_nodes(self) -> Nodes:
        return self.sums.nodes.reshape(-1) + self.origin

    @property
    def total(self) -> Float[Array, ""]:
        return self.total_weight

    def at_nodes(self, function: Any) -> Nodes:
        smooth = (function(self.user_nodes) - self.offset).reshape(self.sums.nodes.shape)
        return jnp.einsum("ckj,cj->ck", self.sums.smooth, smooth).reshape(-1)

    def expected(
        self, likelihood: Any, mean: Nodes, variance: Nodes, *, clip: bool = False
    ) -> Expected:
        noise = likelihood.variance.value + self.extra
        value = self._log_density(likelihood, mean, variance)
        curvature = jnp.full_like(mean, -0.5) / noise
        return Expected(value, (self.seen - mean) / noise, curvature)

    def parameter_slopes(self, likelihood: Any, mean: Nodes, variance: Nodes) -> Any:
        return slopes_in_parameters(
            lambda moved: self._log_density(moved, mean, variance), likelihood
        )

    def _log_density(self, likelihood: Any, mean: Nodes, variance: Nodes) -> Float[Array, ""]:
        noise = likelihood.variance.value + self.extra
        squares = self.rest + jnp.sum((self.seen - mean) ** 2 + variance)
        return self.highest(likelihood) - squares / (2 * noise)

    def start(self, likelihood: Any, guess: Any, shift: Nodes) -> tuple[Nodes, Nodes]:
        noise = likelihood.variance.value + self.extra
        return (self.seen - shift) / noise, jnp.ones_like(shift) / noise

    def highest(self, likelihood: Any) -> Float[Array, ""]:
        noise = likelihood.variance.value + self.extra
        return -self.total_weight * jnp.log(2 * math.pi * noise) / 2


class Waves(NamedTuple):
    """The blocks of a kernel that are sine waves."""

    blocks: tuple[int, ...]
    frequencies: np.ndarray  # angles per unit of x
    order: int = 1  # nodes of their slow factors; one if frequencies stay as they are

    @property
    def terms(self) -> int:
        """In each cell, those of the slow part of f included."""
        return ORDER + 2 * self.order * len(self.blocks)


def compress(data: Observations, cells: Cells, inducing: np.ndarray, waves: Waves) -> Compressed:
    """One pass over the data, in bounded memory."""
    terms = waves.terms
    columns = np.asarray(data.x), np.asarray(data.y), np.asarray(data.weights)
    offset = float(np.mean(columns[1]))
    size = padded_cells(len(cells.first))
    roots, seen = np.zeros((size, terms, terms)), np.zeros((size, terms))
    weight, rest = np.zeros((size, ORDER)), 0.0
    # From the state on the left, or before all of them from the first one.
    state = np.maximum(np.searchsorted(inducing, cells.low, side="right") - 1, 0)
    for part in _groups(cells.size):
        group = cells.part(part)
        rows = slice(group.first[0], group.first[-1] + group.size[-1])
        x, y, w = (column[rows] for column in columns)
        phi = _terms(x, group, inducing[state[part]], waves)
        reduced = _reduce(phi, y - offset, w, group.size)
        roots[part], seen[part], weight[part] = reduced[:3]
        rest += reduced[3]
    of_waves = roots[:, :, ORDER:].reshape(size, terms, -1, 2, waves.order)
    distances = cells._replace(order=waves.order).nodes() - inducing[state][:, None]
    sums = Combinations(
        nodes=jnp.asarray(pad_last(cells.nodes(), size)),
        smooth=jnp.asarray(roots[:, :, :ORDER] @ to_coefficients()),
        distances=jnp.asarray(pad_last(distances, size)),
        waves=jnp.asarray(of_waves @ to_coefficients(waves.order)),
        weight=jnp.asarray(weight @ to_coefficients()),
        carriers=jnp.asarray(waves.frequencies),
        blocks=waves.blocks,
    )
    return Compressed(
        sums=sums,
        seen=jnp.asarray(seen.reshape(-1)),
        offset=jnp.asarray(offset),
        rest=jnp.asarray(rest),
        total_weight=jnp.asarray(np.sum(columns[2])),
        extra=jnp.asarray(data.extra[0]),
        origin=data.origin,
    )


def divided(cells: Cells, x: np.ndarray) -> Cells:
    """The same with cells of many observations divided, so that one fits into memory."""
    pieces = -(-cells.size // _HELD)
    owner = np.repeat(np.arange(len(pieces)), pieces)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    begin = number * cells.size[owner] // pieces[owner]
    size = (number + 1) * cells.size[owner] // pieces[owner] - begin
    first = cells.first[owner] + begin
    return Cells(first, size, x[first], x[first + size - 1])


def _groups(sizes: np.ndarray) -> list[slice]:
    """Runs of cells with not too many observations together."""
    group = (np.cumsum(sizes) - 1) // _HELD
    edges = [*np.flatnonzero(np.diff(group, prepend=-1)), len(sizes)]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


def _terms(x: np.ndarray, cells: Cells, states: np.ndarray, waves: Waves) -> np.ndarray:
    """Φ, a row for each term: Chebyshev polynomials in the cell, then those times waves."""

    def spread(column: np.ndarray) -> np.ndarray:
        return np.repeat(column, cells.size)

    length = np.where(cells.high > cells.low, cells.high - cells.low, np.inf)
    t = np.clip((2 * x - spread(cells.low + cells.high)) / spread(length), -1.0, 1.0)
    phi = np.empty((waves.terms, len(x)))
    phi[0], phi[1] = 1.0, t
    for k in range(2, ORDER):
        phi[k] = 2 * t * phi[k - 1] - phi[k - 2]
    factors = phi[: waves.order]
    products = phi[ORDER:].reshape(-1, 2, waves.order, len(x))
    for product, wave in zip(products, _waves(x - spread(states), waves.frequencies), strict=True):
        np.multiply(factors, wave[0], out=product[0])
        np.multiply(factors, wave[1], out=product[1])
    return phi


def _waves(since: np.ndarray, frequencies: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Cosine and sine of every frequency; multiples of another are products of its waves."""
    known: dict[float, dict[int, tuple[np.ndarray, np.ndarray]]] = {}

    def multiple(base: float, number: int) -> tuple[np.ndarray, np.ndarray]:
        waves = known[base]
        if number not in waves:
            (a, b), (c, d) = multiple(base, number // 2), multiple(base, number - number // 2)
            waves[number] = a * c - b * d, a * d + b * c
        return waves[number]

    found = {}
    for frequency in sorted(set(frequencies.tolist())):
        bases = [base for base in known if _divides(base, frequency)]
        if not bases:
            known[frequency] = {1: (np.cos(frequency * since), np.sin(frequency * since))}
        base = bases[0] if bases else frequency
        found[frequency] = multiple(base, round(frequency / base))
    return [found[frequency] for frequency in frequencies.tolist()]


def _divides(base: float, frequency: float) -> bool:
    ratio = frequency / base
    return abs(ratio - round(ratio)) <= 4 * _EPS * ratio and ratio < _MOST


def _reduce(
    phi: np.ndarray, y: np.ndarray, weights: np.ndarray, sizes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """R and z of every cell, Σ w Φ of its polynomials, and the rest of all."""
    ends = np.cumsum(sizes)
    spans = [slice(a, b) for a, b in zip(ends - sizes, ends, strict=True)]
    weighted = phi if np.all(weights == 1.0) else phi * weights
    gram = np.stack([weighted[:, s] @ phi[:, s].T for s in spans])
    pulls = np.stack([weighted[:, s] @ y[s] for s in spans])
    values, vectors = np.linalg.eigh(gram)
    # Eigenvalues are known up to rounding of the largest; that much more of each changes nothing,
    # and all that y says is kept.
    least = len(phi) * _EPS * values[:, -1:]
    scale = np.sqrt(np.maximum(values, least))
    scale = np.where(scale > 0, scale, 1.0)  # no observation counts
    inverse = np.swapaxes(vectors, 1, 2) / scale[:, :, None]
    # Near y first, with coefficients of ordinary size; then what is left, whose rounding is small.
    sure = values > _SURE * values[:, -1:]
    close = np.where(sure, np.einsum("cki,ci->ck", inverse, pulls), 0.0)
    close = np.einsum("cki,ck->ci", inverse, close)
    left = y - np.concatenate([close[c] @ phi[:, s] for c, s in enumerate(spans)])
    pulls = np.stack([weighted[:, s] @ left[s] for s in spans])
    more = np.einsum("cki,ci->ck", inverse, pulls)
    roots = np.swapaxes(vectors, 1, 2) * scale[:, :, None]
    roots = np.where(values[:, -1:, None] > 0, roots, 0.0)
    seen = np.einsum("cki,ci->ck", roots, close) + more
    rest = float(np.sum(weights * left**2) - np.sum(more**2))
    return roots, seen, gram[:, 0, :ORDER], rest
