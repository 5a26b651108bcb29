"""Observations of which p(y | f) reads few numbers, summed up once for all.

log p(y | f) = Σ_k statistic_k(y) · feature_k(f) for labels, levels and counts. On a cell the
expectation φ(x) = E[feature(f(x))] is as smooth a function as the mean and the variance of f. Where
the nodes x_j of the cell interpolate it, by polynomials ℓ_j,

    Σ_n w_n statistic(y_n) φ(x_n) = Σ_j (Σ_n w_n statistic(y_n) ℓ_j(x_n)) φ(x_j).

The sums in brackets never change, and nothing is left that grows with the number of observations.
Whether the nodes interpolate φ depends on q: it is seen by the last Chebyshev coefficients, and
checked in every cell each time. The other cells are passed over row by row.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from stategp._data._cells import Cells
from stategp._data._observations import Observations
from stategp._data._views import (
    ORDER,
    Expected,
    InCells,
    Latent,
    Rows,
    to_coefficients,
)
from stategp.likelihoods import Likelihood

# How large the last two coefficients may be, relative to the function: those left out are smaller.
_ACCURACY = 1e-11
_HELD = 2**18  # observations that are summed up together

Features = Float[Array, "_ nodes"]  # one row for each


class Pooled(InCells):
    """Sums over the observations of each cell, and the observations for cells that need them."""

    rows: Rows
    statistics: Features  # Σ w statistic(y) ℓ(x), where ℓ is the interpolating polynomial of a node

    def expected(
        self, likelihood: Likelihood, mean: Latent, variance: Latent, *, clip: bool = False
    ) -> Expected:
        value, slope, curvature = likelihood.expected_features(mean, variance)
        smooth = self._smooth(value) & self._smooth(slope) & self._smooth(curvature)
        if clip:
            curvature = jnp.minimum(curvature, 0.0)
        inside = jnp.repeat(smooth, ORDER)
        value, slope, curvature = (
            jnp.where(inside, jnp.sum(self.statistics * part, axis=0), 0.0)
            for part in (value, slope, curvature)
        )
        pooled = Expected(jnp.sum(value), slope, curvature)

        def with_rows() -> Expected:
            rest = self.rows.only(~smooth).expected(likelihood, mean, variance, clip=clip)
            return Expected(*(a + b for a, b in zip(pooled[:3], rest[:3], strict=True)))

        return jax.lax.cond(jnp.all(smooth), lambda: pooled, with_rows)

    def _smooth(self, features: Features) -> Bool[Array, " cells"]:
        """In which cells the nodes interpolate all of these functions."""
        cells = features.reshape(len(features), -1, ORDER)
        last = jnp.einsum("kj,fcj->fck", to_coefficients()[-2:], cells)
        sizes = jnp.max(jnp.abs(cells), axis=-1)
        return jnp.all(jnp.max(jnp.abs(last), axis=-1) <= _ACCURACY * sizes, axis=0)

    def parameter_slopes(self, likelihood: Likelihood, mean: Latent, variance: Latent) -> Any:
        return self.rows.parameter_slopes(likelihood, mean, variance)

    def start(self, likelihood: Likelihood, guess: Array, shift: Latent) -> tuple[Latent, Latent]:
        return self.rows.start(likelihood, guess, shift)

    def highest(self, likelihood: Likelihood) -> Float[Array, ""]:
        return jnp.zeros(()) if likelihood.discrete else self.rows.highest(likelihood)


def can_pool(likelihood: Likelihood, data: Observations) -> bool:
    """Whether p(y | f) reads few numbers of y."""
    first = np.asarray(data.y)[:1], np.asarray(data.extra)[:1]
    return likelihood.latents == 1 and likelihood.statistics(*first) is not None


def pool(
    rows: Rows,
    likelihood: Likelihood,
    data: Observations,
    cells: Cells,
    *,
    on_device: bool | None = None,
) -> Pooled:
    """The sums of the cells, beside the rows of all observations.

    `on_device`: who sums; by default the device unless it is a CPU, for which NumPy needs no
    program to be compiled.
    """
    on_device = jax.default_backend() != "cpu" if on_device is None else on_device
    sums = _sums_on_device(rows, likelihood) if on_device else _sums(likelihood, data, cells, rows)
    return Pooled(
        cell_nodes=rows.cell_nodes,
        total_weight=rows.total_weight,
        origin=rows.origin,
        rows=rows,
        statistics=sums,
    )


@jax.jit
def _sums_on_device(rows: Rows, likelihood: Likelihood) -> Features:
    return rows.summed(likelihood.statistics)


def _sums(likelihood: Likelihood, data: Observations, cells: Cells, rows: Rows) -> Features:
    """The same by NumPy, some cells at a time."""
    columns = [np.asarray(v) for v in (data.x, data.y, data.extra, data.weights)]
    parts = []
    start = 0
    while start < len(cells.first):
        ahead = np.searchsorted(cells.first, cells.first[start] + _HELD, side="right") - 1
        stop = max(int(ahead), start + 1)
        stop = len(cells.first) if cells.first[start] + _HELD >= len(columns[0]) else stop
        parts.append(_sums_of(likelihood, columns, cells.part(slice(start, stop))))
        start = stop
    sums = np.concatenate(parts, axis=1) @ to_coefficients()
    statistics = np.zeros((len(sums), *rows.cell_nodes.shape))
    statistics[:, : sums.shape[1]] = sums
    return jax.device_put(statistics.reshape(len(sums), -1))


def _sums_of(likelihood: Likelihood, columns: list[np.ndarray], cells: Cells) -> np.ndarray:
    """Σ w statistic(y) T_k(x) of some cells: (kinds, cells, order)."""
    part = slice(cells.first[0], cells.first[-1] + cells.size[-1])
    x, y, extra, weights = (column[part] for column in columns)
    low, high = (np.repeat(v, cells.size) for v in (cells.low, cells.high))
    length = np.where(high > low, high - low, 1.0)
    t = np.where(high > low, np.clip((2 * x - low - high) / length, -1.0, 1.0), 0.0)
    statistics = likelihood.statistics(y, extra)
    weighted = statistics * weights
    now, before = np.ones_like(t), t  # T_0 and T_{−1}
    sums = []
    for _ in range(ORDER):
        sums.append(np.add.reduceat(weighted * now, cells.first - part.start, axis=1))
        now, before = 2 * t * now - before, now
    return np.stack(sums, axis=-1)
