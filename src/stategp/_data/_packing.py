"""From observations to the view of them that costs least.

On a CPU rows are filled by NumPy. Other devices get the columns as they are, stretch by stretch,
and fill rows themselves. `jax.device_put` is used throughout: unlike `jnp.asarray` it compiles no
program for every new shape.
"""

from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from stategp._data._cells import Cells, padded_cells
from stategp._data._observations import AtInducing, Observations, distinct_steps
from stategp._data._views import (
    ACROSS,
    ORDER,
    Moments,
    Rows,
    chebyshev,
    clenshaw,
    row_sums,
    to_coefficients,
)
from stategp._runtime import (
    divisible,
    mesh_of_devices,
    on_device,
    pad_last,
    padded_blocks,
    padded_size,
    spread_over_devices,
)

CACHED = 16_384  # observations that are looked at together on a CPU: they stay in its cache
_MANY = 2**25  # and on devices that want work for many cores
_HELD = 2**20  # and those that are copied together on a CPU while moments are summed
_WIDTHS = (16, 32, 64, 128, 256, 512)
_FEW_STATES = 16_384  # up to which inducing points and observations at them have the same size
_DEGREES = 8  # coefficients of the reference that Gaussian observations are measured from
_SAMPLE = 16  # entries of a row that the reference is fitted to


class _Layout(NamedTuple):
    """Which observations go to which row."""

    first: np.ndarray
    filled: np.ndarray
    cell: np.ndarray
    width: int

    def part(self, start: int, size: int) -> "_Layout":
        """Some of the rows, the last one repeated if there are fewer."""
        first, filled, cell = (
            pad_last(v[start : start + size], size) for v in (self.first, self.filled, self.cell)
        )
        return _Layout(first, filled, cell, self.width)


def best_width(size: np.ndarray) -> int:
    """The width of rows that wastes least, for cells of these sizes."""
    costs = [float(np.sum(-(-size // width))) * (width + 12) for width in _WIDTHS]
    return _WIDTHS[int(np.argmin(costs))]


def lay_out(cells: Cells, width: int | None = None) -> _Layout:
    """Rows of a width, by default the best; the rows of a cell are about equally full."""
    width = best_width(cells.size) if width is None else width
    rows = -(-cells.size // width)
    cell = np.repeat(np.arange(len(rows)), rows)
    number = np.arange(len(cell)) - np.repeat(np.cumsum(rows) - rows, rows)
    begin = number * cells.size[cell] // rows[cell]
    end = (number + 1) * cells.size[cell] // rows[cell]
    return _Layout(cells.first[cell] + begin, end - begin, cell, width)


# --- filling rows ------------------------------------------------------------------------------

Columns = list[np.ndarray]  # one entry per observation, or a single number for all of them


def pick(column: Any, first: Any, filled: Any, width: int, xp: ModuleType) -> Any:
    """Rows of a column; entries beyond those filled repeat its last."""
    if column.ndim == 0:
        return column
    return column[first[:, None] + xp.minimum(xp.arange(width)[None], filled[:, None] - 1)]


def _places(x: Any, low: Any, high: Any, xp: ModuleType) -> Any:
    """x as −1 … 1 in its cell; 0 in a cell without length."""
    low, high = low[:, None], high[:, None]
    t = (2 * x - low - high) / xp.where(high > low, high - low, 1.0)
    return xp.where(high > low, xp.clip(t, -1.0, 1.0), 0.0)


def _fill_on_host(cells: Cells, layout: _Layout, x: np.ndarray, columns: Columns) -> list[Any]:
    """The places of observations in their cells, and the columns, in rows."""
    low, high = cells.low[layout.cell], cells.high[layout.cell]
    picked = [pick(v, layout.first, layout.filled, layout.width, np) for v in (x, *columns)]
    return [_places(picked[0], low, high, np), *picked[1:]]


def _fill_on_device(cells: Cells, layout: _Layout, x: np.ndarray, columns: Columns) -> list[Any]:
    """The same, from a stretch of the columns that is as long as these rows can be."""
    size = len(layout.first) * layout.width
    start = min(layout.first[0], max(len(x) - size, 0))

    def stretch(column: np.ndarray) -> Array:
        held = column[start : start + size] if column.ndim else column
        return jax.device_put(pad_last(held, size) if held.ndim > 0 and len(held) < size else held)

    return _fill(
        [stretch(column) for column in (x, *columns)],
        *jax.device_put([layout.first - start, layout.filled]),
        *jax.device_put([v[layout.cell] for v in (cells.low, cells.high)]),
        layout.width,
    )


@partial(jax.jit, static_argnames="width")
def _fill(
    columns: list[Array], first: Array, filled: Array, low: Array, high: Array, width: int
) -> list[Array]:
    picked = [pick(column, first, filled, width, jnp) for column in columns]
    return [_places(picked[0], low, high, jnp), *picked[1:]]


def one_if_equal(column: Any) -> np.ndarray:
    """A single number if all are the same."""
    values = np.asarray(column)
    repeated = values.strides[0] == 0  # a single number in memory
    return np.asarray(values[0]) if repeated or np.all(values == values[0]) else values


def pack_rows(
    data: Observations, cells: Cells, guess: np.ndarray, *, on_device: bool | None = None
) -> tuple[Rows, Float[Array, "blocks block width *latents"]]:
    """Rows of all observations, and of what they point at.

    `on_device`: who fills them; by default the device unless it is a CPU, or one of several, each
    of which is given its part.
    """
    layout, mesh = lay_out(cells), mesh_of_devices()
    large = jax.default_backend() != "cpu" if on_device is None else on_device
    on_device = large and mesh is None
    used = len(layout.first)
    if large:
        block = divisible(padded_size(-(-used // -(-used * layout.width // _MANY))), mesh)
        size = block * -(-used // block)
    else:
        devices = 1 if mesh is None else mesh.size
        block = divisible(min(devices * (CACHED // layout.width), padded_size(used)), mesh)
        size = block * padded_blocks(used / block)
    layout = layout.part(0, size)
    x = np.asarray(data.x)
    columns = [np.asarray(data.y), one_if_equal(data.extra), one_if_equal(data.weights), guess]
    if on_device:
        parts = [
            _fill_on_device(cells, layout.part(start, block), x, columns)
            for start in range(0, size, block)
        ]
        stacked = [v[0] if v[0].ndim == 0 else jnp.stack(v) for v in zip(*parts, strict=True)]
    else:
        picked = _fill_on_host(cells, layout, x, columns)
        stacked = [v if v.ndim == 0 else v.reshape(-1, block, *v.shape[1:]) for v in picked]
    counts = np.where(np.arange(size) < used, layout.filled, 0)
    of_rows = [v.reshape(-1, block) for v in (layout.cell, counts)]
    cell, filled, t, y, extra, weights, guess_rows = (
        spread_over_devices(v, mesh, ACROSS) for v in (*of_rows, *stacked)
    )
    nodes = cells.nodes()
    packed = Rows(
        cell_nodes=jax.device_put(pad_last(nodes, padded_cells(len(nodes)))),
        cell=cell,
        filled=filled,
        t=t,
        y=y,
        extra=extra,
        weights=weights,
        total_weight=jax.device_put(np.asarray(np.sum(np.asarray(data.weights)))),
        origin=data.origin,
        mesh=mesh,
    )
    return packed, guess_rows


# --- moments -----------------------------------------------------------------------------------


def pack_moments(data: Observations, cells: Cells, *, on_device: bool | None = None) -> Moments:
    """All that Gaussian observations with equal noise say, in one pass over the data."""
    on_device = jax.default_backend() != "cpu" if on_device is None else on_device
    fill, together = (_fill_on_device, _MANY) if on_device else (_fill_on_host, _HELD)
    x, y, weights = (np.asarray(v) for v in (data.x, data.y, data.weights))
    columns = [y, one_if_equal(weights)]
    nodes, offset = cells.nodes(), float(np.mean(y))
    layout = lay_out(cells)
    reference = _reference(cells, layout, x, columns, offset)
    plain, excess, spread = np.zeros(nodes.shape), np.zeros(nodes.shape), 0.0
    rows = min(max(together // layout.width, 1), padded_size(len(layout.first)))
    for start in range(0, len(layout.first), rows):
        part = layout.part(start, rows)
        counts = np.where(np.arange(start, start + rows) < len(layout.first), part.filled, 0)
        t, y_rows, weight_rows = jax.device_put(fill(cells, part, x, columns))
        sums = _moment_rows(
            t,
            y_rows,
            weight_rows,
            *jax.device_put([counts, reference[part.cell], np.asarray(offset)]),
        )
        for total, of_rows in zip((plain, excess), sums[:2], strict=True):
            _add_to_cells(total, part.cell, np.asarray(of_rows))
        spread += float(sums[2])
    back = to_coefficients()
    size = padded_cells(len(nodes))
    at_nodes = np.pad(reference, ((0, 0), (0, ORDER - _DEGREES))) @ np.linalg.inv(back).T

    def at_cells(values: np.ndarray) -> Array:
        padded = np.zeros((size, ORDER))
        padded[: len(values)] = values
        return jax.device_put(padded.reshape(-1))

    return Moments(
        cell_nodes=jax.device_put(pad_last(nodes, size)),
        weights=at_cells(plain @ back),
        excess=at_cells(excess @ back),
        reference=at_cells(at_nodes),
        offset=jax.device_put(np.asarray(offset)),
        spread=jax.device_put(np.asarray(spread)),
        total_weight=jax.device_put(np.asarray(np.sum(np.asarray(data.weights)))),
        extra=jax.device_put(np.asarray(data.extra[0])),
        origin=data.origin,
    )


def _add_to_cells(totals: np.ndarray, cell: np.ndarray, rows: np.ndarray) -> None:
    """Add rows to those of their cells, which come in order."""
    first = np.flatnonzero(np.diff(cell, prepend=-1))
    totals[cell[first]] += np.add.reduceat(rows, first, axis=0)


@jax.jit
def _moment_rows(
    t: Float[Array, "rows width"],
    y: Float[Array, "rows width"],
    weights: Float[Array, "..."],
    count: Int[Array, " rows"],
    reference: Float[Array, "rows degrees"],
    offset: Float[Array, ""],
) -> tuple[Array, Array, Array]:
    """Σ w T_k and Σ w (y − reference) T_k of every row, and Σ w (y − reference)² of all."""
    weights = jnp.where(jnp.arange(t.shape[1])[None] < count[:, None], weights, 0.0)
    excess = y - offset - clenshaw(reference, t)
    T = chebyshev(t)
    plain = row_sums([weights * term for term in T])
    pull = row_sums([weights * excess * term for term in T])
    return jnp.stack(plain, axis=1), jnp.stack(pull, axis=1), jnp.sum(weights * excess**2)


def _reference(
    cells: Cells, layout: _Layout, x: np.ndarray, columns: Columns, offset: float
) -> np.ndarray:
    """Coefficients of a polynomial close to y − offset in every cell.

    It need not be the closest one: what it leaves stays in the excess. So a few entries of each
    row will do. The normal equations follow from T_j T_k = (T_{j+k} + T_{j−k})/2.
    """
    counts = np.minimum(layout.filled, _SAMPLE)
    entry = np.arange(_SAMPLE)
    plain = np.zeros((len(cells.first), 2 * _DEGREES - 1))
    targets = np.zeros((len(cells.first), _DEGREES))
    step = max(_HELD // _SAMPLE, 1)
    for start in range(0, len(layout.first), step):
        rows = slice(start, start + step)
        cell, count = layout.cell[rows], counts[rows, None]
        inside = entry < count
        apart = entry * (layout.filled[rows, None] - 1) // np.maximum(count - 1, 1)
        at = layout.first[rows, None] + np.where(inside, apart, 0)
        y, weights = (v[at] if v.ndim else v for v in columns)
        weights = np.where(inside, weights, 0.0)
        excess = weights * (y - offset)
        t = _places(x[at], cells.low[cell], cells.high[cell], np)
        now, after = np.ones_like(t), t
        for degree in range(plain.shape[1]):
            _add_to_cells(plain[:, degree], cell, np.sum(weights * now, axis=1))
            if degree < _DEGREES:
                _add_to_cells(targets[:, degree], cell, np.sum(excess * now, axis=1))
            now, after = after, 2 * t * after - now
    j, k = np.indices((_DEGREES, _DEGREES))
    gram = (plain[:, j + k] + plain[:, np.abs(j - k)]) / 2
    ridge = 1e-9 * plain[:, 0] + 1e-300
    gram = gram + ridge[:, None, None] * np.eye(_DEGREES)
    return np.linalg.solve(gram, targets[..., None])[..., 0]


def pad_observations(data: Observations, inducing: np.ndarray) -> Observations:
    """Observations of weight zero up to one of few sizes, or that of the inducing points."""
    size = padded_size(len(data))
    if len(data) <= len(inducing) <= _FEW_STATES:
        size = len(inducing)
    x, y, extra = (pad_last(np.asarray(v), size) for v in (data.x, data.y, data.extra))
    weights = np.pad(np.asarray(data.weights), (0, size - len(data)))
    columns: Any = [*on_device([x, y, extra, weights]), data.origin]
    number = np.searchsorted(inducing, x, side="right") - 1  # of those that are equal, the last
    if np.array_equal(inducing[number], x):  # −1, for what lies before all of them, is not equal
        first = np.searchsorted(inducing, x, side="left")
        lengths, which = distinct_steps(inducing)
        few = padded_size(1)
        lengths = lengths if len(lengths) else np.zeros(1)  # no step, of a single inducing point
        lengths = pad_last(lengths, few if len(lengths) <= few else len(inducing))
        return AtInducing(*columns, *on_device([number, first, lengths, which]))
    return Observations(*columns)
