"""What inference asks of the data: sums of what every observation says about f.

Inference knows the mean and variance of f at some inputs, the nodes, and wants the expected log
density of all observations and its derivatives there. `Observations` has a node for each of them.
`Rows` has many observations to a cell, a short stretch of x on which the mean and the variance of
f are as good as polynomials: a cell has few nodes, f at its observations is interpolated from
them, and the derivatives go back to the nodes by the transpose. For Gaussian observations all of
that depends on the data through sums that never change: `Moments`, in which nothing is left that
grows with the number of observations. `_pooled` does the same for labels and counts.
"""

import abc
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int

from stategp._modules import Module
from stategp._native import hold
from stategp._projection import Combinations
from stategp._runtime import add_over_devices
from stategp.likelihoods import Likelihood
from stategp.parameters import all_parameters

Latent = Float[Array, "nodes *latents"]  # one column per latent function if there are several
Nodes = Float[Array, " nodes"]
Origin = int | float

ORDER = 16  # nodes of a cell, unless there are observations enough to cut short ones


class Expected(NamedTuple):
    """Σ E[log p(y | f)], and its derivatives in the mean and variance of f at every node."""

    value: Float[Array, ""]
    slope: Latent
    curvature: Latent
    parameters: Any = None  # its derivatives in the parameters of the likelihood, if asked for


class View(Module):
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
    def parameter_slopes(self, likelihood: Likelihood, mean: Latent, variance: Latent) -> Any:
        """Derivatives of Σ E[log p(y | f)] in the parameters of the likelihood, shaped as it is."""

    def expected_and_parameters(
        self, likelihood: Likelihood, mean: Latent, variance: Latent, *, clip: bool = False
    ) -> Expected:
        """`expected` and `parameter_slopes`."""
        expected = self.expected(likelihood, mean, variance, clip=clip)
        return expected._replace(parameters=self.parameter_slopes(likelihood, mean, variance))

    def fit(
        self,
        likelihood: Likelihood,
        mean: Latent,
        variance: Latent,
        expected: Expected | None = None,
    ) -> Float[Array, ""]:
        """Σ E[log p(y | f)], to be differentiated once in reverse, in everything.

        `expected` is what a pass over the data found at the same values, if there was one.
        """
        here = jax.lax.stop_gradient((likelihood, mean, variance))
        learned = learns(likelihood)
        if expected is None:
            expected = self.expected_and_parameters(*here) if learned else self.expected(*here)
        elif learned and expected.parameters is None:
            expected = expected._replace(parameters=self.parameter_slopes(*here))
        expected = jax.lax.stop_gradient(expected)
        slopes = [expected.slope, expected.curvature]
        now, then = [mean, variance], list(here[1:])
        if learned:
            slopes += jax.tree.leaves(expected.parameters)
            now += jax.tree.leaves(_parameters(likelihood))
            then += jax.tree.leaves(_parameters(here[0]))
        changes = zip(slopes, now, then, strict=True)
        return expected.value + sum(jnp.sum(slope * (a - b)) for slope, a, b in changes)

    @abc.abstractmethod
    def start(self, likelihood: Likelihood, guess: Any, shift: Latent) -> tuple[Latent, Latent]:
        """Linear term and precision of f − shift when f is near `guess`."""

    @abc.abstractmethod
    def highest(self, likelihood: Likelihood) -> Float[Array, ""]:
        """The log density of all observations that no f can exceed."""


def learns(likelihood: Likelihood) -> bool:
    """Whether the likelihood has parameters that are to be learned."""
    return any(parameter.learned for parameter in all_parameters(likelihood))


def slopes_in_parameters(
    function: Callable[[Likelihood], Float[Array, ""]], likelihood: Likelihood
) -> Any:
    """The gradient of a function of the likelihood, shaped as the likelihood is."""
    varied, rest = eqx.partition(likelihood, eqx.is_inexact_array)
    return jax.grad(lambda varied: function(eqx.combine(varied, rest)))(varied)


def _parameters(likelihood: Likelihood) -> Any:
    return eqx.filter(likelihood, eqx.is_inexact_array)


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

    @property
    def order(self) -> int:
        """How many nodes a cell has."""
        return self.cell_nodes.shape[1]


ACROSS = 1  # the axis of blocks along which devices divide rows among them


class Rows(InCells):
    """Observations in rows of equal width, each row inside one cell; rows come in blocks.

    Entries of a row beyond those filled repeat the last one and weigh nothing. Where there are
    several devices, each has its part of every block, and what they see is added up.
    """

    cell: Int[Array, "blocks block"]
    filled: Int[Array, "blocks block"]
    t: Float[Array, "blocks block width"]  # place in the cell, −1 to 1
    y: Float[Array, "blocks block width"]
    extra: Float[Array, "..."]  # one number if all are the same
    weights: Float[Array, "..."]
    mesh: Mesh | None = eqx.field(static=True, default=None)  # of several devices

    def only(self, cells: Bool[Array, " cells"]) -> "Rows":
        """The observations in some of the cells; blocks without any cost nothing."""
        filled = jnp.where(cells[self.cell], self.filled, 0)
        return eqx.tree_at(lambda rows: rows.filled, self, filled)

    def expected(
        self, likelihood: Likelihood, mean: Latent, variance: Latent, *, clip: bool = False
    ) -> Expected:
        return self._added_up(lambda rows: rows._expected(likelihood, mean, variance, clip, False))

    def expected_and_parameters(
        self, likelihood: Likelihood, mean: Latent, variance: Latent, *, clip: bool = False
    ) -> Expected:
        return self._added_up(lambda rows: rows._expected(likelihood, mean, variance, clip, True))

    def _expected(
        self, likelihood: Likelihood, mean: Latent, variance: Latent, clip: bool, learn: bool
    ) -> Expected:
        def visit(block: "_Block") -> tuple[Array, Array, Any]:
            at: tuple[Array, Array] = hold(_latent(block))
            value, slope, curvature = likelihood.expected_slopes(block.y, *at, block.extra)
            if clip:
                curvature = jnp.minimum(curvature, 0.0)
            back = jnp.stack([_collect(block, part) for part in (slope, curvature)])
            parameters = _block_slopes(likelihood, block, at) if learn else None
            return jnp.sum(block.weights * value), back, parameters

        values, back, parameters = self._visit(visit, mean, variance)
        slope, curvature = (self._to_nodes(back[:, i], mean) for i in range(2))
        return Expected(jnp.sum(values), slope, curvature, _sum_blocks(parameters))

    def parameter_slopes(self, likelihood: Likelihood, mean: Latent, variance: Latent) -> Any:
        def visit(block: "_Block") -> Any:
            return _block_slopes(likelihood, block, _latent(block))

        return self._added_up(lambda rows: _sum_blocks(rows._visit(visit, mean, variance)))

    def start(self, likelihood: Likelihood, guess: Any, shift: Latent) -> tuple[Latent, Latent]:
        def visit(block: "_Block", guess: Array) -> Array:
            uncertain = likelihood.guess_variance(guess)
            _, slope, curvature = likelihood.expected_slopes(block.y, guess, uncertain, block.extra)
            precision = positive_precision(likelihood, curvature)
            linear = slope + precision * (guess - _interpolate(block.mean, block.t))
            return jnp.stack([_collect(block, part) for part in (linear, precision)])

        def look(rows: Rows, guess: Array) -> tuple[Latent, Latent]:
            back = rows._visit(visit, shift, shift, guess)
            return rows._to_nodes(back[:, 0], shift), rows._to_nodes(back[:, 1], shift)

        return self._added_up(look, guess)

    def summed(
        self, function: Callable[[Array, Array], Float[Array, "kinds block width"]]
    ) -> Float[Array, "kinds nodes"]:
        """Σ w function(y, extra) ℓ(x), where ℓ is the interpolating polynomial of a node."""

        def visit(block: "_Block") -> Array:
            values = function(block.y, block.extra)
            return jax.lax.map(lambda part: _collect(block, part), values)  # compiled once

        nothing = jnp.zeros(self.nodes.size)

        def look(rows: Rows) -> Float[Array, "kinds nodes"]:
            back = rows._visit(visit, nothing, nothing)
            return jnp.stack([rows._to_nodes(back[:, i], nothing) for i in range(back.shape[1])])

        return self._added_up(look)

    def highest(self, likelihood: Likelihood) -> Float[Array, ""]:
        def visit(block: "_Block") -> Array:
            return jnp.sum(block.weights * likelihood.highest_log_density(block.y, block.extra))

        nothing = jnp.zeros(self.nodes.size)
        return self._added_up(lambda rows: jnp.sum(rows._visit(visit, nothing, nothing)))

    def _added_up(self, look: Callable[..., Any], *more: Array) -> Any:
        """What is seen of the rows (and of what lies beside them), on whatever devices they are."""

        if self.mesh is None:
            return look(self, *more)

        def seen(columns: list[Any]) -> Any:
            own, beside = columns[: len(columns) - len(more)], columns[len(columns) - len(more) :]
            return look(eqx.tree_at(_columns, self, own), *beside)

        return add_over_devices(seen, self.mesh, [*_columns(self), *more], axis=ACROSS)

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
        coefficients = jnp.einsum("kj,cjl->clk", to_coefficients(self.order), cells)
        return coefficients[self.cell]

    def _to_nodes(self, back: Float[Array, "blocks block latents order"], like: Latent) -> Latent:
        """Derivatives in coefficients, row by row → derivatives in values at the nodes."""
        rows = back.reshape(-1, *back.shape[-2:])
        cells = jax.ops.segment_sum(
            rows, self.cell.reshape(-1), num_segments=len(self.cell_nodes), indices_are_sorted=True
        )
        return jnp.einsum("kj,clk->cjl", to_coefficients(self.order), cells).reshape(like.shape)

    def _visit(self, visit: Any, mean: Latent, variance: Latent, *more: Array) -> Any:
        """One block after another, so that memory stays bounded."""
        blocks = self._blocks(mean, variance)
        width = self.t.shape[-1]

        def step(_: None, inputs: Any) -> tuple[None, Any]:
            block, *rest = inputs
            inside = jnp.arange(width)[None] < block.filled[:, None]
            block = block._replace(weights=jnp.where(inside, block.weights, 0.0))
            block = block._replace(extra=jnp.broadcast_to(block.extra, block.t.shape))
            like = jax.eval_shape(visit, block, *rest)
            nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)
            seen = jnp.any(block.filled > 0)
            if self.mesh is not None or jax.default_backend() != "cpu":
                return None, jax.lax.cond(seen, visit, lambda *_: nothing, block, *rest)
            # A loop of one turn or none: where little is computed, as for Laplace noise, XLA makes
            # a program of `cond` that is half as fast on one CPU. On a GPU `cond` is faster.
            return None, jax.lax.fori_loop(
                0, seen.astype(int), lambda *_: visit(block, *rest), nothing
            )

        return jax.lax.scan(step, None, (blocks, *more))[1]


def _columns(rows: Rows) -> list[Array]:
    """What there is of every row."""
    return [rows.cell, rows.filled, rows.t, rows.y, rows.extra, rows.weights]


class _Block(NamedTuple):
    t: Float[Array, "*block width"]
    y: Float[Array, "*block width"]
    extra: Float[Array, "..."]
    weights: Float[Array, "..."]
    filled: Int[Array, "*block"]
    mean: Float[Array, "*block latents order"]
    variance: Float[Array, "*block latents order"]


def _interpolate(
    coefficients: Float[Array, "block latents order"], t: Float[Array, "block width"]
) -> Array:
    """A function at the observations; latent functions along a last axis if there are several."""
    functions = [clenshaw(coefficients[:, i], t) for i in range(coefficients.shape[1])]
    return functions[0] if len(functions) == 1 else jnp.stack(functions, axis=-1)


def clenshaw(coefficients: Float[Array, "block order"], t: Float[Array, "block width"]) -> Array:
    """Σ c_k T_k(t)."""
    now, after = jnp.zeros_like(t), jnp.zeros_like(t)
    for k in range(coefficients.shape[1] - 1, 0, -1):
        now, after = coefficients[:, k, None] + 2 * t * now - after, now
    return coefficients[:, 0, None] + t * now - after


def _latent(block: _Block) -> tuple[Array, Array]:
    """Mean and variance of f at the observations."""
    variance = jnp.maximum(_interpolate(block.variance, block.t), 0.0)
    return _interpolate(block.mean, block.t), variance


def _block_slopes(likelihood: Likelihood, block: _Block, at: tuple[Array, Array]) -> Any:
    """`parameter_slopes` of one block, whose f is known at the observations."""
    return slopes_in_parameters(
        lambda moved: jnp.sum(
            block.weights * moved.expected_log_density(block.y, *at, block.extra)
        ),
        likelihood,
    )


def _sum_blocks(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), tree)


def _collect(block: _Block, values: Array) -> Float[Array, "block latents order"]:
    """The transpose of `_interpolate`, weighted: Σ w values T_k(t) of every row.

    XLA would compute values once for every T_k, or keep all T_k in memory, unless it is made to
    hold them and asked for all sums of a row at once.
    """
    functions = [values] if values.ndim == 2 else list(jnp.moveaxis(values, -1, 0))
    weighted = [block.weights * function for function in functions]
    weighted = hold(weighted)
    T = chebyshev(block.t, block.mean.shape[-1])
    sums = [row_sums([function * term for term in T]) for function in weighted]
    return jnp.stack([jnp.stack(each, axis=1) for each in sums], axis=1)


def row_sums(terms: list[Float[Array, "block width"]]) -> list[Float[Array, " block"]]:
    """The sums of all terms over their rows, in one go."""
    zeros = [jnp.zeros((), term.dtype) for term in terms]

    def add(a: Any, b: Any) -> Any:
        return tuple(x + y for x, y in zip(a, b, strict=True))

    return list(jax.lax.reduce(tuple(terms), tuple(zeros), add, (1,)))


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
        value = self._log_density(likelihood, mean, variance)
        return Expected(value, pull / noise, -self.weights / (2 * noise))

    def parameter_slopes(self, likelihood: Any, mean: Latent, variance: Latent) -> Any:
        return slopes_in_parameters(
            lambda moved: self._log_density(moved, mean, variance), likelihood
        )

    def _log_density(self, likelihood: Any, mean: Latent, variance: Latent) -> Float[Array, ""]:
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
