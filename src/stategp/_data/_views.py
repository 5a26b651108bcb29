"""What inference asks of the data: sums of what every observation says about f.

Inference knows the mean and variance of f at some inputs, the nodes, and wants the expected log
density of all observations and its derivatives there. `Observations` has a node for each of them.
`Rows` has many observations to a cell, a short stretch of x on which the mean and the variance of
f are as good as polynomials: a cell has sixteen nodes, f at its observations is interpolated from
them, and the derivatives go back to the nodes by the transpose. For Gaussian observations all of
that depends on the data through sums that never change: `Moments`, in which nothing is left that
grows with the number of observations.
"""

import abc
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from stategp._projection import Combinations
from stategp.likelihoods import Likelihood
from stategp.parameters import all_parameters

Latent = Float[Array, "nodes *latents"]  # one column per latent function if there are several
Nodes = Float[Array, " nodes"]
Origin = int | float

ORDER = 16  # nodes of a cell


class Expected(NamedTuple):
    """Σ E[log p(y | f)], and its derivatives in the mean and variance of f at every node."""

    value: Float[Array, ""]
    slope: Latent
    curvature: Latent


class View(eqx.Module):
    """Observations as inference sees them: through f at the nodes."""

    @property
    @abc.abstractmethod
    def nodes(self) -> Float[Array, "*nodes"] | Combinations:
        """Where f has to be known, measured from the origin; in rows if they come in cells.

        Or the sums of f that have to be known.
        """

    @property
    def numbers(self) -> Int[Array, " nodes"] | None:
        """Which inducing point each node is, if all of them are."""
        return None

    @property
    @abc.abstractmethod
    def user_nodes(self) -> Nodes:
        """The same in the user's own units, one after another."""

    def at_nodes(self, function: Callable[[Nodes], Nodes]) -> Nodes:
        """A smooth function of the user's inputs, as f is known."""
        return function(self.user_nodes)

    @property
    @abc.abstractmethod
    def total(self) -> Float[Array, ""]:
        """How many observations there are, counted by their weights."""

    @abc.abstractmethod
    def expected(
        self, likelihood: Likelihood, mean: Latent, variance: Latent, *, clip: bool = False
    ) -> Expected:
        """One pass over the data. `clip` makes positive curvatures zero, one by one."""

    @abc.abstractmethod
    def log_density(
        self, likelihood: Likelihood, mean: Latent, variance: Latent
    ) -> Float[Array, ""]:
        """Σ E[log p(y | f)], to be differentiated in the parameters of the likelihood only."""

    def fit(self, likelihood: Likelihood, mean: Latent, variance: Latent) -> Float[Array, ""]:
        """Σ E[log p(y | f)], to be differentiated once in reverse, in everything."""
        mean_here, variance_here = jax.lax.stop_gradient((mean, variance))
        expected = jax.lax.stop_gradient(self.expected(likelihood, mean_here, variance_here))
        moved = jnp.sum(expected.slope * (mean - mean_here))
        moved += jnp.sum(expected.curvature * (variance - variance_here))
        if not any(parameter.learned for parameter in all_parameters(likelihood)):
            return expected.value + moved
        return self.log_density(likelihood, mean_here, variance_here) + moved

    @abc.abstractmethod
    def start(self, likelihood: Likelihood, guess: Any, shift: Latent) -> tuple[Latent, Latent]:
        """Linear term and precision of f − shift when f is near `guess`."""

    @abc.abstractmethod
    def highest(self, likelihood: Likelihood) -> Float[Array, ""]:
        """The log density of all observations that no f can exceed."""


# --- interpolation -----------------------------------------------------------------------------


def chebyshev_nodes(order: int = ORDER) -> np.ndarray:
    """The roots of T_order, increasing, in [−1, 1]."""
    return -np.cos(np.pi * (np.arange(order) + 0.5) / order)


def to_coefficients(order: int = ORDER) -> np.ndarray:
    """The matrix from values at the nodes to coefficients of T_0, T_1, …"""
    angles = np.arccos(chebyshev_nodes(order))
    matrix = 2 / order * np.cos(np.arange(order)[:, None] * angles[None, :])
    matrix[0] /= 2
    return matrix


def chebyshev(t: Array, order: int = ORDER) -> list[Array]:
    """T_0(t), …, T_{order−1}(t)."""
    terms = [jnp.ones_like(t), t]
    for _ in range(order - 2):
        terms.append(2 * t * terms[-1] - terms[-2])
    return terms


class InCells(View):
    """Observations seen through the nodes of cells."""

    cell_nodes: Float[Array, "cells order"]
    total_weight: Float[Array, ""]
    origin: Origin

    @property
    def nodes(self) -> Float[Array, "cells order"]:
        return self.cell_nodes

    @property
    def user_nodes(self) -> Nodes:
        return self.nodes.reshape(-1) + self.origin

    @property
    def total(self) -> Float[Array, ""]:
        return self.total_weight


class Rows(InCells):
    """Observations in rows of equal width, each row inside one cell; rows come in blocks.

    Entries of a row beyond those filled repeat the last one and weigh nothing.
    """

    cell: Int[Array, " rows"]
    filled: Int[Array, "blocks block"]
    t: Float[Array, "blocks block width"]  # place in the cell, −1 to 1
    y: Float[Array, "blocks block width"]
    extra: Float[Array, "..."]  # one number if all are the same
    weights: Float[Array, "..."]

    def expected(
        self, likelihood: Likelihood, mean: Latent, variance: Latent, *, clip: bool = False
    ) -> Expected:
        def visit(block: "_Block") -> tuple[Array, Array]:
            T = chebyshev(block.t)
            at = _interpolate(block.mean, T), jnp.maximum(_interpolate(block.variance, T), 0.0)
            value, slope, curvature = likelihood.expected_slopes(block.y, *at, block.extra)
            if clip:
                curvature = jnp.minimum(curvature, 0.0)
            back = jnp.stack([_collect(block.weights, part, T) for part in (slope, curvature)])
            return jnp.sum(block.weights * value), back

        values, back = self._visit(visit, mean, variance)
        slope, curvature = (self._to_nodes(back[:, i], mean) for i in range(2))
        return Expected(jnp.sum(values), slope, curvature)

    def log_density(
        self, likelihood: Likelihood, mean: Latent, variance: Latent
    ) -> Float[Array, ""]:
        @jax.checkpoint
        def visit(block: "_Block") -> Array:
            T = chebyshev(block.t)
            at = _interpolate(block.mean, T), jnp.maximum(_interpolate(block.variance, T), 0.0)
            values = likelihood.expected_log_density(block.y, *at, block.extra)
            return jnp.sum(block.weights * values)

        return jnp.sum(self._visit(visit, mean, variance))

    def start(self, likelihood: Likelihood, guess: Any, shift: Latent) -> tuple[Latent, Latent]:
        def visit(block: "_Block", guess: Array) -> Array:
            T = chebyshev(block.t)
            uncertain = likelihood.guess_variance(guess)
            _, slope, curvature = likelihood.expected_slopes(block.y, guess, uncertain, block.extra)
            precision = positive_precision(likelihood, curvature)
            linear = slope + precision * (guess - _interpolate(block.mean, T))
            return jnp.stack([_collect(block.weights, part, T) for part in (linear, precision)])

        back = self._visit(visit, shift, shift, guess)
        return self._to_nodes(back[:, 0], shift), self._to_nodes(back[:, 1], shift)

    def highest(self, likelihood: Likelihood) -> Float[Array, ""]:
        def visit(block: "_Block") -> Array:
            return jnp.sum(block.weights * likelihood.highest_log_density(block.y, block.extra))

        nothing = jnp.zeros(self.nodes.size)
        return jnp.sum(self._visit(visit, nothing, nothing))

    def _blocks(self, mean: Latent, variance: Latent) -> "_Block":
        # One number for all is repeated for every block, not for every observation.
        extra, weights = (
            v if v.ndim else jnp.broadcast_to(v, self.t.shape[:1])
            for v in (self.extra, self.weights)
        )
        return _Block(
            self.t,
            self.y,
            extra,
            weights,
            self.filled,
            self._coefficients(mean),
            self._coefficients(variance),
        )

    def _coefficients(self, values: Latent) -> Array:
        """Chebyshev coefficients of a function given at the nodes, for every row."""
        cells = values.reshape(*self.cell_nodes.shape, -1)
        coefficients = jnp.einsum("kj,cjl->clk", to_coefficients(), cells)[self.cell]
        return coefficients.reshape(*self.filled.shape, -1, ORDER)

    def _to_nodes(self, back: Float[Array, "blocks block latents order"], like: Latent) -> Latent:
        """Derivatives in coefficients, row by row → derivatives in values at the nodes."""
        rows = back.reshape(-1, *back.shape[-2:])
        cells = jax.ops.segment_sum(
            rows, self.cell, num_segments=len(self.cell_nodes), indices_are_sorted=True
        )
        return jnp.einsum("kj,clk->cjl", to_coefficients(), cells).reshape(like.shape)

    def _visit(self, visit: Any, mean: Latent, variance: Latent, *more: Array) -> Any:
        """One block after another, so that memory stays bounded."""
        blocks = self._blocks(mean, variance)
        width = self.t.shape[-1]

        def step(_: None, inputs: Any) -> tuple[None, Any]:
            block, *rest = inputs
            inside = jnp.arange(width)[None] < block.filled[:, None]
            block = block._replace(weights=jnp.where(inside, block.weights, 0.0))
            block = block._replace(extra=jnp.broadcast_to(block.extra, block.t.shape))
            return None, visit(block, *rest)

        return jax.lax.scan(step, None, (blocks, *more))[1]


class _Block(NamedTuple):
    t: Float[Array, "*block width"]
    y: Float[Array, "*block width"]
    extra: Float[Array, "..."]
    weights: Float[Array, "..."]
    filled: Int[Array, "*block"]
    mean: Float[Array, "*block latents order"]
    variance: Float[Array, "*block latents order"]


def _interpolate(coefficients: Float[Array, "block latents order"], T: list[Array]) -> Array:
    """A function at the observations; latent functions along a last axis if there are several."""
    functions = [
        sum((coefficients[:, i, k, None] * T[k] for k in range(len(T))), start=jnp.zeros(()))
        for i in range(coefficients.shape[1])
    ]
    return functions[0] if len(functions) == 1 else jnp.stack(functions, axis=-1)


def _collect(weights: Array, values: Array, T: list[Array]) -> Float[Array, "block latents order"]:
    """The transpose of `_interpolate`."""
    functions = [values] if values.ndim == weights.ndim else list(jnp.moveaxis(values, -1, 0))
    return jnp.stack(
        [jnp.stack([jnp.sum(weights * f * term, axis=1) for term in T], axis=1) for f in functions],
        axis=1,
    )


def positive_precision(likelihood: Likelihood, curvature: Array) -> Array:
    """That of a Gaussian factor in f; where the likelihood is log-concave, never negative."""
    return jnp.maximum(-2 * curvature, 0.0) if likelihood.log_concave else -2 * curvature


# --- Gaussian observations ---------------------------------------------------------------------


class Moments(InCells):
    """Gaussian observations with equal noise, as weighted sums over each cell.

    y is a smooth reference (an offset, and a polynomial in each cell) plus an excess. With
    r = reference − f, Σ w (y − f)² = Σ w excess² + 2 Σ w excess r + Σ w r², and the last two are
    sums over nodes.
    """

    weights: Nodes  # Σ w ℓ(x), where ℓ is the interpolating polynomial of the node
    excess: Nodes  # Σ w (y − reference) ℓ(x)
    reference: Nodes  # measured from the offset
    offset: Float[Array, ""]
    spread: Float[Array, ""]  # Σ w (y − reference)²
    extra: Float[Array, ""]

    def expected(
        self, likelihood: Any, mean: Latent, variance: Latent, *, clip: bool = False
    ) -> Expected:
        noise = likelihood.variance.value + self.extra
        pull = self.excess + self.weights * (self.reference - (mean - self.offset))
        value = self.log_density(likelihood, mean, variance)
        return Expected(value, pull / noise, -self.weights / (2 * noise))

    def log_density(self, likelihood: Any, mean: Latent, variance: Latent) -> Float[Array, ""]:
        noise = likelihood.variance.value + self.extra
        r = self.reference - (mean - self.offset)
        squares = self.spread + jnp.sum(2 * self.excess * r + self.weights * (r**2 + variance))
        return self.highest(likelihood) - squares / (2 * noise)

    def start(self, likelihood: Any, guess: Any, shift: Latent) -> tuple[Latent, Latent]:
        noise = likelihood.variance.value + self.extra
        pull = self.excess + self.weights * (self.reference - (shift - self.offset))
        return pull / noise, self.weights / noise

    def highest(self, likelihood: Any) -> Float[Array, ""]:
        noise = likelihood.variance.value + self.extra
        return -self.total_weight * jnp.log(2 * math.pi * noise) / 2
