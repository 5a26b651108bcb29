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
from jaxtyping import Array, Bool, Float

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


def can_pool(likelihood: Likelihood) -> bool:
    """Whether p(y | f) reads few numbers of y."""
    if likelihood.latents > 1:
        return False
    one = jax.ShapeDtypeStruct((1,), float)
    return jax.eval_shape(likelihood.statistics, one, one) is not None


@jax.jit
def _statistics(rows: Rows, likelihood: Likelihood) -> Features:
    def statistics(y: Array, extra: Array) -> Array:
        values = likelihood.statistics(y, extra)
        assert values is not None
        return values

    return rows.summed(statistics)


def pool(rows: Rows, likelihood: Likelihood) -> Pooled:
    """The sums of the cells, beside the rows of all observations."""
    return Pooled(
        cell_nodes=rows.cell_nodes,
        total_weight=rows.total_weight,
        origin=rows.origin,
        rows=rows,
        statistics=_statistics(rows, likelihood),
    )
