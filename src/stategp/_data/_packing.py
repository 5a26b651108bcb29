"""From observations to the view of them that costs least.

Cells are cut so that f is as good as a polynomial of fifteenth degree on each: a kernel whose
equation has eigenvalues up to ρ gives means and variances that are sums of xᵏ exp(±ρx) and
xᵏ exp(±2ρx), which sixteen nodes interpolate to rounding on a stretch no longer than 1.5/ρ.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from stategp._data._observations import AtInducing, Observations
from stategp._data._views import (
    ORDER,
    Moments,
    Rows,
    chebyshev,
    chebyshev_nodes,
    to_coefficients,
)
from stategp._runtime import pad_last, padded_blocks, padded_size

WIDEST = 1.5  # the longest cell, times the fastest rate of the kernel
_CACHED = 16_384  # observations that are looked at together on a CPU: they stay in its cache
_MANY = 2**25  # and on devices that want work for many cores
_HELD = 2**20  # and those that are copied together while moments are summed
_WIDTHS = (16, 32, 64, 128, 256, 512)
_DEGREES = 8  # coefficients of the reference that Gaussian observations are measured from


class Cells(NamedTuple):
    """Runs of observations that lie between the same inducing points, close together."""

    first: np.ndarray
    size: np.ndarray
    low: np.ndarray  # the smallest and the largest x in each
    high: np.ndarray

    def nodes(self, order: int = ORDER) -> np.ndarray:
        half = (self.high - self.low)[:, None] / 2
        nodes = self.low[:, None] + half * (1 + chebyshev_nodes(order))
        return np.clip(nodes, self.low[:, None], self.high[:, None])


def cut_cells(x: np.ndarray, inducing: np.ndarray, widest: float, most: int) -> Cells | None:
    """Cells no longer than `widest`; None if that takes more than `most` of them."""
    edges = np.searchsorted(x, inducing, side="left")  # an x on an inducing point lies right of it
    first = np.unique(np.concatenate([[0], edges[edges < len(x)]]))
    last = np.append(first[1:], len(x)) - 1
    pieces = np.maximum(np.ceil((x[last] - x[first]) / widest), 1)
    if not pieces.sum() <= most:
        return None
    pieces = pieces.astype(int)
    owner = np.repeat(np.arange(len(first)), pieces)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    starts = x[first][owner] + (x[last] - x[first])[owner] * number / pieces[owner]
    inner = np.maximum(np.searchsorted(x, starts, side="left"), first[owner])
    inner = np.unique(np.concatenate([first, inner[number > 0]]))
    size = np.diff(np.append(inner, len(x)))
    return Cells(inner, size, x[inner], x[inner + size - 1])


class _Layout(NamedTuple):
    """Which observations go to which row."""

    first: np.ndarray
    filled: np.ndarray
    cell: np.ndarray
    width: int


def _lay_out(cells: Cells) -> _Layout:
    """Rows of the width that wastes least; the rows of a cell are about equally full."""
    costs = [float(np.sum(-(-cells.size // width))) * (width + 12) for width in _WIDTHS]
    width = _WIDTHS[int(np.argmin(costs))]
    rows = -(-cells.size // width)
    cell = np.repeat(np.arange(len(rows)), rows)
    number = np.arange(len(cell)) - np.repeat(np.cumsum(rows) - rows, rows)
    begin = number * cells.size[cell] // rows[cell]
    end = (number + 1) * cells.size[cell] // rows[cell]
    return _Layout(cells.first[cell] + begin, end - begin, cell, width)


def _pick(layout: _Layout, part: slice, column: np.ndarray) -> np.ndarray:
    """Rows of a column; entries beyond those filled repeat its last."""
    offset = np.minimum(np.arange(layout.width), layout.filled[part, None] - 1)
    return column[layout.first[part, None] + offset]


def _places(cells: Cells, layout: _Layout, part: slice, x: np.ndarray) -> np.ndarray:
    """x as −1 … 1 in its cell; 0 in a cell without length."""
    low, high = (v[layout.cell[part]][:, None] for v in (cells.low, cells.high))
    length = np.where(high > low, high - low, 1.0)
    t = (2 * _pick(layout, part, x) - low - high) / length
    return np.where(high > low, np.clip(t, -1.0, 1.0), 0.0)


def pack_rows(
    data: Observations, cells: Cells, guess: np.ndarray
) -> tuple[Rows, Float[Array, "blocks block width *latents"]]:
    """Rows of all observations, and of what they point at."""
    layout = _lay_out(cells)
    used = len(layout.first)
    together = _CACHED if jax.default_backend() == "cpu" else _MANY
    block = min(together // layout.width, padded_size(used))
    size = block * padded_blocks(used / block)
    first, filled, cell = (pad_last(v, size) for v in layout[:3])
    layout = _Layout(first, filled, cell, layout.width)
    x, y = np.asarray(data.x), np.asarray(data.y)
    everything = slice(None)

    def rows(column: np.ndarray) -> Array:
        picked = _pick(layout, everything, column)
        return jnp.asarray(picked.reshape(-1, block, layout.width, *picked.shape[2:]))

    def rows_or_one(column: np.ndarray) -> Array:
        return jnp.asarray(column[0]) if np.all(column == column[0]) else rows(column)

    nodes = cells.nodes()
    filled = np.where(np.arange(size) < used, filled, 0)
    places = _places(cells, layout, everything, x).reshape(-1, block, layout.width)
    packed = Rows(
        cell_nodes=jnp.asarray(pad_last(nodes, padded_size(len(nodes)))),
        cell=jnp.asarray(layout.cell),
        filled=jnp.asarray(filled.reshape(-1, block)),
        t=jnp.asarray(places),
        y=rows(y),
        extra=rows_or_one(np.asarray(data.extra)),
        weights=rows_or_one(np.asarray(data.weights)),
        total_weight=jnp.asarray(np.sum(np.asarray(data.weights))),
        origin=data.origin,
    )
    return packed, rows(guess)


def pack_moments(data: Observations, cells: Cells) -> Moments:
    """All that Gaussian observations with equal noise say, in two passes over the data."""
    layout = _lay_out(cells)
    x, y, weights = (np.asarray(v) for v in (data.x, data.y, data.weights))
    nodes, offset = cells.nodes(), float(np.mean(y))

    def summed(reference: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Σ w T_k and Σ w (y − reference) T_k of every cell, and Σ w (y − reference)² of all."""
        sums = np.zeros((2, len(nodes), ORDER))
        spread, step = 0.0, max(_HELD // layout.width, 1)
        for start in range(0, len(layout.first), step):
            part = slice(start, min(start + step, len(layout.first)))
            rows = _moment_rows(
                *(
                    jnp.asarray(pad_last(v, step))
                    for v in (
                        _places(cells, layout, part, x),
                        _pick(layout, part, y) - offset,
                        _pick(layout, part, weights),
                        layout.filled[part],
                        reference[layout.cell[part]],
                    )
                ),
                part.stop - part.start,
            )
            for total, of_rows in zip(sums, rows[:2], strict=True):
                np.add.at(total, layout.cell[part], np.asarray(of_rows)[: part.stop - start])
            spread += float(rows[2])
        return sums[0], sums[1], spread

    plain, first, _ = summed(np.zeros((len(nodes), _DEGREES)))
    reference = _least_squares(plain, first)
    _, excess, spread = summed(reference)
    back = to_coefficients()
    size = padded_size(len(nodes))
    at_nodes = np.pad(reference, ((0, 0), (0, ORDER - _DEGREES))) @ np.linalg.inv(back).T

    def at_cells(values: np.ndarray) -> Array:
        padded = np.zeros((size, ORDER))
        padded[: len(values)] = values
        return jnp.asarray(padded.reshape(-1))

    return Moments(
        cell_nodes=jnp.asarray(pad_last(nodes, size)),
        weights=at_cells(plain @ back),
        excess=at_cells(excess @ back),
        reference=at_cells(at_nodes),
        offset=jnp.asarray(offset),
        spread=jnp.asarray(spread),
        total_weight=jnp.asarray(np.sum(np.asarray(data.weights))),
        extra=jnp.asarray(data.extra[0]),
        origin=data.origin,
    )


@jax.jit
def _moment_rows(
    t: Float[Array, "rows width"],
    y: Float[Array, "rows width"],
    weights: Float[Array, "rows width"],
    count: Int[Array, " rows"],
    reference: Float[Array, "rows degrees"],
    used: Any,
) -> tuple[Array, Array, Array]:
    inside = jnp.arange(t.shape[1])[None] < jnp.where(jnp.arange(len(t)) < used, count, 0)[:, None]
    weights = jnp.where(inside, weights, 0.0)
    T = chebyshev(t)
    smooth = sum((reference[:, k, None] * T[k] for k in range(_DEGREES)), start=jnp.zeros(()))
    excess = y - smooth
    sums = [
        jnp.stack([jnp.sum(weights * f * term, axis=1) for term in T], axis=1)
        for f in (jnp.ones_like(y), excess)
    ]
    return sums[0], sums[1], jnp.sum(weights * excess**2)


def _least_squares(plain: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Coefficients of a polynomial close to y in every cell, from T_j T_k = (T_{j+k} + T_{j−k})/2.

    It need not be the closest one: what it leaves stays in the excess.
    """
    j, k = np.indices((_DEGREES, _DEGREES))
    gram = (plain[:, j + k] + plain[:, np.abs(j - k)]) / 2
    ridge = 1e-9 * plain[:, 0] + 1e-300
    gram = gram + ridge[:, None, None] * np.eye(_DEGREES)
    return np.linalg.solve(gram, targets[:, :_DEGREES, None])[..., 0]


def pad_observations(data: Observations, inducing: np.ndarray) -> Observations:
    """Observations of weight zero up to one of few sizes."""
    size = padded_size(len(data))
    x, y, extra = (pad_last(np.asarray(v), size) for v in (data.x, data.y, data.extra))
    weights = np.pad(np.asarray(data.weights), (0, size - len(data)))
    columns: Any = [*(jnp.asarray(v) for v in (x, y, extra, weights)), data.origin]
    number = np.searchsorted(inducing, x, side="right") - 1  # of those that are equal, the last
    if np.array_equal(inducing[number], x):  # −1, for what lies before all of them, is not equal
        columns.append(jnp.asarray(number))
        return AtInducing(*columns)
    return Observations(*columns)
