"""What the inducing states say about f(x): p(f(x) | u) = N(weights · [left; right], residual).

Each x lies in one interval of the chain (the ends of the range are intervals too). With h the
emission, A and Q of the steps left→x, x→right and left→right,

    p₂ = h Q₋ₓ Aₓ₊ᵀ Q₋₊⁻¹       p₁ = h A₋ₓ − p₂ A₋₊       residual = w Q₋ₓ wᵀ + p₂ Qₓ₊ p₂ᵀ

with w = h − p₂Aₓ₊: two squares, so that the residual is never negative and keeps its digits
where Q₋ₓ − P₂Aₓ₊Q₋ₓ cancels. Left of the range the step left→x is endless (A₋ₓ = 0, Q₋ₓ = P₀),
right of it the step x→right is (Aₓ₊ = 0): the same formulas then give backcast and forecast. The
parts of a sum of kernels are independent given the states, so each is projected on its own.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from stategp._linalg import Entries, apply, dot, in_entries, solve_entries, transpose
from stategp._modules import Module
from stategp.chain import PairMarginals, Sites, Transitions, psd_cholesky, psd_solve
from stategp.kernels import Kernel, Sum, group_blocks

Grid = Float[Array, "cells *order"]  # points, or cells of them that share an interval
Points = Float[Array, " points"]


class Projection(Module):
    """The conditionals p(f(x) | u) of many points.

    Points come one by one, or in cells of neighbours within one interval. What goes in and out
    has one entry per point, cells one after another.
    """

    interval: Int[Array, " cells"]
    # On the left state, then on the right one: one array for each, or all in one.
    weights: tuple[Grid, ...] | Float[Array, "pair cells *order"]
    residual: tuple[Grid, ...]  # the parts of a sum, in the kernel's order

    def marginals(self, pairs: PairMarginals) -> tuple[Points, Points]:
        """Mean and variance of f at the points under q."""
        variance = self._spread(pairs.covariance) + _total(self.residual)
        return self.means(pairs.mean), variance.reshape(-1)

    def means(self, pairs: Float[Array, "intervals pair"]) -> Points:
        """Mean of f at the points, from those of the states."""
        if self._in_entries:
            mean = _total(w * self._look_up(pairs[:, i]) for i, w in enumerate(self.weights))
        else:
            mean = self._by_cell @ pairs[self.interval][..., None]
        return mean.reshape(-1)

    @property
    def rows(self) -> Float[Array, "pair cells *order"]:
        """The weights in one array."""
        return jnp.stack(self.weights) if isinstance(self.weights, tuple) else self.weights

    @property
    def _by_cell(self) -> Float[Array, "cells points pair"]:
        """The weights as one matrix for each cell, or for each point outside cells."""
        rows = self.rows if self.weights[0].ndim == 2 else self.rows[..., None]
        return jnp.moveaxis(rows, 0, -1)

    @property
    def _in_entries(self) -> bool:
        return in_entries(len(self.weights) // 2, self.weights[0].shape)

    def _spread(self, covariance: Float[Array, "intervals pair pair"]) -> Grid:
        """wᵀ Σ w."""
        if not self._in_entries:
            weights = self._by_cell
            spread = jnp.sum((weights @ covariance[self.interval]) * weights, axis=-1)
            return spread.reshape(self.weights[0].shape)
        return _total(
            (1.0 if i == j else 2.0) * self._look_up(covariance[:, i, j]) * (w * v)
            for i, w in enumerate(self.weights)
            for j, v in enumerate(self.weights[: i + 1])
        )

    def _look_up(self, table: Float[Array, " intervals"]) -> Grid:
        """A number of every interval, for each point."""
        return look_up(table, self.interval, self.weights[0].ndim)

    def gather(self, linear: Points, precision: Points, intervals: int) -> Sites:
        """The sites that sum factors exp(linear·f − ½ precision·f²) of all points."""
        grid, size = self.weights[0].shape, len(self.weights)
        linear, precision = linear.reshape(grid), precision.reshape(grid)
        if not self._in_entries:
            weights = self._by_cell
            each = [v.reshape(*weights.shape[:2], 1) for v in (linear, precision)]
            square = jnp.swapaxes(each[1] * weights, 1, 2) @ weights
            pulls = jnp.sum(each[0] * weights, axis=1)
            return Sites(self._by_interval(pulls, intervals), self._by_interval(square, intervals))
        products = [linear * w for w in self.weights]
        pairs = [(i, j) for i in range(size) for j in range(i + 1)]
        products += [precision * self.weights[i] * self.weights[j] for i, j in pairs]
        sums = self._add(jnp.stack(jax.lax.optimization_barrier(products)), intervals)
        place = np.zeros((len(pairs), size, size))  # a product with zeros and ones: no gather
        for number, (i, j) in enumerate(pairs):
            place[number, i, j] = place[number, j, i] = 1.0
        both = sums[:, size:] @ jnp.asarray(place.reshape(len(pairs), -1))
        return Sites(sums[:, :size], both.reshape(-1, size, size))

    def gather_linear(self, linear: Points, intervals: int) -> Float[Array, "intervals pair"]:
        """The linear part of `gather`."""
        on_grid = linear.reshape(self.weights[0].shape)
        return self._add(on_grid[None] * self.rows, intervals)

    def _add(
        self, values: Float[Array, "columns cells *order"], intervals: int
    ) -> Float[Array, "intervals columns"]:
        """Sums over the points of every interval."""
        cells = jnp.sum(values, axis=-1) if values.ndim == 3 else values
        by_cell = jax.lax.optimization_barrier(cells.T)  # or it is put together while summing
        return self._by_interval(by_cell, intervals)

    def _by_interval(
        self, by_cell: Float[Array, "cells *columns"], intervals: int
    ) -> Float[Array, "intervals *columns"]:
        return jax.ops.segment_sum(by_cell, self.interval, num_segments=intervals)

    def conditional_mean(
        self, states: Float[Array, "samples states dim"]
    ) -> Float[Array, "samples points"]:
        """E[f(x) | u] for given states."""
        padded = jnp.pad(states, ((0, 0), (1, 1), (0, 0)))
        pairs = jnp.concatenate([padded[:, :-1], padded[:, 1:]], axis=-1)
        return jnp.einsum("snp,pn->sn", pairs[:, self.interval], self.rows)


class AtStates(Module):
    """f at points that are inducing points: given the state there, nothing about it is unknown."""

    number: Int[Array, " points"]  # of the state at each point
    emission: Float[Array, " dim"]

    def marginals(self, pairs: PairMarginals) -> tuple[Points, Points]:
        """Mean and variance of f at the points under q."""
        dim = len(self.emission)
        # Every state is the left end of one interval.
        mean = pairs.mean[1:, :dim] @ self.emission
        variance = (pairs.covariance[1:, :dim, :dim] @ self.emission) @ self.emission
        return mean[self.number], variance[self.number]

    def gather(self, linear: Points, precision: Points, intervals: int) -> Sites:
        """The sites that sum factors exp(linear·f − ½ precision·f²) of all points."""
        sums = [
            jax.ops.segment_sum(values, self.number + 1, intervals, indices_are_sorted=True)
            for values in (linear, precision)
        ]
        seen = jnp.concatenate([self.emission, jnp.zeros_like(self.emission)])
        square = seen[:, None] * seen[None]
        return Sites(sums[0][:, None] * seen[None], sums[1][:, None, None] * square[None])


class Combinations(Module):
    """Sums of f over each cell, the slow part of f and waves apart.

    The slow part comes in by its values at nodes. A wave is a block of the kernel of which one
    state tells all: a cos + b sin of its frequency times the distance from the state on the left
    (before all states, from the first one). With a frequency close to a carrier's, it is the
    carrier's cosine and sine times slow factors, which come in by their values at nodes of theirs;
    if the two are equal, one node will do.
    """

    nodes: Float[Array, "cells order"]
    smooth: Float[Array, "cells sums order"]
    distances: Float[Array, "cells wave_order"]  # of the nodes of waves, from the state
    waves: Float[Array, "cells sums waves 2 wave_order"]  # cosine, sine
    weight: Float[Array, "cells order"]  # of residual variances in the sum of all variances
    carriers: Float[Array, " waves"]
    blocks: tuple[int, ...] = eqx.field(static=True)  # which of the kernel's are waves


def look_up(table: Float[Array, " intervals"], interval: Int[Array, " cells"], ndim: int) -> Grid:
    """A number of every interval, for each cell, to be read by all of its points."""
    looked_up = table[interval]
    return looked_up if ndim == 1 else looked_up[:, None]


def _total(terms: Any) -> Any:
    first, *rest = terms
    return sum(rest, start=first)


def project(
    kernel: Kernel,
    inducing: Float[Array, " states"],
    x: Grid | Combinations,
    transitions: Transitions,
) -> Projection:
    """The conditionals at x, in any order, inside or outside the range of the inducing points.

    With x in rows, all points of a row must lie in one interval. `transitions` is the prior of the
    states, from `prior_transitions(kernel, inducing)`.
    """
    if isinstance(x, Combinations):
        return _project_combinations(kernel, inducing, x, transitions)
    where = locate(inducing, x)
    projected: list[Parts] = []
    start = 0
    for group in group_blocks(kernel):
        count, dim = jax.eval_shape(jax.vmap(lambda block: block.emission()), group).shape
        across = diagonal_blocks(transitions, start, count, dim)
        project_block = _project_entries if in_entries(dim, x.shape) else _project_matrices
        projected.append(jax.vmap(project_block, in_axes=(0, 0, None))(group, across, where))
        start += count * dim
    return join_parts(projected, where)


def join_parts(projected: "list[Parts]", where: "Where") -> Projection:
    """The blocks of a kernel side by side; each of the parts has a leading axis of blocks alike."""
    interval, x = where.interval, where.before
    p1: list[Any] = []
    p2: list[Any] = []
    residual: list[Grid] = []
    for group in projected:
        parts = jax.lax.optimization_barrier(group)
        count = len(parts[2])
        if isinstance(parts[0], tuple):
            for block in range(count):
                p1 += [w[block] for w in parts[0]]
                p2 += [w[block] for w in parts[1]]
        else:
            p1.append(parts[0].reshape(-1, *x.shape))
            p2.append(parts[1].reshape(-1, *x.shape))
        residual += [parts[2][block] for block in range(count)]
    if all(w.ndim == x.ndim for w in p1):
        return Projection(interval, (*p1, *p2), tuple(residual))
    both = [w if w.ndim > x.ndim else w[None] for w in (*p1, *p2)]
    return Projection(interval, jnp.concatenate(both), tuple(residual))


def _project_combinations(
    kernel: Kernel, inducing: Float[Array, " states"], sums: Combinations, prior: Transitions
) -> Projection:
    """The conditionals of sums of f."""
    blocks = kernel.blocks()
    dims = [block.state_dim for block in blocks]
    places = np.split(np.arange(sum(dims)), np.cumsum(dims)[:-1])
    slow = [number for number in range(len(blocks)) if number not in sums.blocks]
    interval = jnp.searchsorted(inducing, sums.nodes[:, 0], side="right")
    rows = jnp.zeros((*sums.smooth.shape[:2], 2 * sum(dims)))
    residual = jnp.zeros(sums.smooth.shape[:2])
    if slow:
        at = np.concatenate([places[number] for number in slow])
        ours = Transitions(*(v[:, at[:, None], at[None]] for v in (prior.A, prior.Q)))
        part = project(Sum(*(blocks[number] for number in slow)), inducing, sums.nodes, ours)
        weights = jnp.einsum("ckj,pcj->ckp", sums.smooth, part.rows)
        rows = rows.at[..., np.concatenate([at, at + sum(dims)])].set(weights)
        residual = residual.at[:, 0].set(jnp.sum(sums.weight * _total(part.residual), axis=-1))
    for j, number in enumerate(sums.blocks):
        both = _wave_rows(blocks[number], sums.waves[:, :, j], sums.distances, sums.carriers[j])
        first = (interval == 0)[:, None, None]
        rows = rows.at[..., places[number]].set(jnp.where(first, 0.0, both))
        rows = rows.at[..., places[number] + sum(dims)].set(jnp.where(first, both, 0.0))
    return Projection(interval, jnp.moveaxis(rows, -1, 0), (residual,))


def _wave_rows(
    block: Kernel,
    waves: Float[Array, "cells sums 2 order"],
    distances: Float[Array, "cells order"],
    carrier: Float[Array, ""],
) -> Float[Array, "cells sums dim"]:
    """What the state at distance zero says about the sums of a wave."""
    feedback = block.feedback()
    frequency = jnp.sqrt(-(feedback @ feedback)[0, 0])
    emission = block.emission()
    cosine, sine = emission[None, None], (emission @ feedback / frequency)[None, None]
    angle = ((frequency - carrier) * distances)[..., None]
    in_phase = jnp.cos(angle) * cosine + jnp.sin(angle) * sine
    behind = jnp.cos(angle) * sine - jnp.sin(angle) * cosine
    return waves[:, :, 0] @ in_phase + waves[:, :, 1] @ behind


class Where(NamedTuple):
    """Where the points lie among the inducing locations."""

    interval: Int[Array, " cells"]
    left: Bool[Array, "cells *order"]  # whether there is a neighbour on the left
    right: Bool[Array, "cells *order"]
    before: Grid  # the step from the left neighbour
    after: Grid  # the step to the right neighbour
    x: Grid

    @property
    def low(self) -> Grid:
        """Where the step from the left neighbour begins."""
        return self.x - self.before


def locate(inducing: Float[Array, " states"], x: Grid) -> Where:
    """The interval of every point, an inducing point being the left end of its own."""
    interval = jnp.searchsorted(inducing, x if x.ndim == 1 else x[:, 0], side="right")
    left, right = interval > 0, interval < len(inducing)
    low = inducing[jnp.maximum(interval - 1, 0)]
    high = inducing[jnp.minimum(interval, len(inducing) - 1)]
    if x.ndim == 2:
        left, right, low, high = (v[:, None] for v in (left, right, low, high))
    # Where there is no neighbour, a step of zero stands in; its results are not used.
    # (A comparison, not a maximum, whose derivative on an inducing point would be a half.)
    before = jnp.where(left & (x >= low), x - low, 0.0)
    after = jnp.where(right & (x <= high), high - x, 0.0)
    return Where(interval, left, right, before, after, x)


Parts = tuple[Any, Any, Grid]  # p₁, p₂, residual


def diagonal_blocks(transitions: Transitions, start: int, count: int, dim: int) -> Transitions:
    """The parts of the prior that belong to a run of blocks, stacked along a leading axis."""
    ranges = [slice(start + i * dim, start + (i + 1) * dim) for i in range(count)]
    return Transitions(
        jnp.stack([transitions.A[:, span, span] for span in ranges]),
        jnp.stack([transitions.Q[:, span, span] for span in ranges]),
    )


def _project_entries(block: Kernel, across: Transitions, where: Where) -> Parts:
    """One block, entry by entry."""
    dim, ndim = across.A.shape[-1], where.before.ndim
    rows = range(dim)
    at_rest, h = block.covariance_at(where.x), block.emission_at(where.x)
    A_left, Q_left = block.steps_from(where.low, where.before)
    A_right, Q_right = block.steps_from(where.x, where.after)
    A_left = [[_where(where.left, entry, 0.0) for entry in row] for row in A_left]
    A_right = [[_where(where.right, entry, 0.0) for entry in row] for row in A_right]
    Q_left = [[_where(where.left, Q_left[i][j], at_rest[i, j]) for j in rows] for i in rows]

    def row_by(vector: list[Any], matrix: Entries) -> list[Any]:
        """vᵀ M."""
        return [_total([0.0, *_products(vector, [row[j] for row in matrix])]) for j in rows]

    def form(vector: list[Any], matrix: Entries) -> Any:
        """vᵀ M v for a symmetric M."""
        return _total(
            (1.0 if i == j else 2.0) * matrix[i][j] * (vector[i] * vector[j])
            for i in rows
            for j in range(i + 1)
        )

    emission = [h[i] for i in rows]
    seen = row_by(emission, Q_left)
    ahead = [_total(_products(A_right[i], seen)) for i in rows]
    p2 = _solve(across.Q, ahead, where.interval)
    A = [[look_up(across.A[:, i, j], where.interval, ndim) for j in rows] for i in rows]
    carried, from_left = row_by(p2, A), row_by(emission, A_left)
    p1 = [a - b for a, b in zip(from_left, carried, strict=True)]
    w = [a - b for a, b in zip(emission, row_by(p2, A_right), strict=True)]
    return tuple(p1), tuple(p2), form(w, Q_left) + form(p2, Q_right)


def _where(mask: Any, entry: Any, other: Any) -> Any:
    return 0.0 if isinstance(entry, float) else jnp.where(mask, entry, other)


def _products(left: list[Any], right: list[Any]) -> list[Any]:
    """Products of entries, without those that are always zero."""
    pairs = zip(left, right, strict=True)
    return [a * b for a, b in pairs if not (isinstance(a, float) or isinstance(b, float))]


def _solve(
    Q: Float[Array, "intervals dim dim"], rhs: list[Grid], interval: Int[Array, " cells"]
) -> list[Grid]:
    """Q⁻¹ rhs with the Q of each point's interval."""
    ndim = rhs[0].ndim
    root = jax.lax.stop_gradient(psd_cholesky(jnp.moveaxis(Q, 0, -1)))
    spread = [
        [look_up(Q[:, i, j], interval, ndim) for j in range(len(rhs))] for i in range(len(rhs))
    ]
    factor = [[look_up(root[i, j], interval, ndim) for j in range(i + 1)] for i in range(len(rhs))]
    return list(solve_entries(spread, factor, rhs))


def _project_matrices(block: Kernel, across: Transitions, where: Where) -> Parts:
    """One block, as matrices."""
    A, Q = (jnp.moveaxis(v, 0, -1) for v in (across.A, across.Q))
    starts, steps = jnp.stack([where.low, where.x]), jnp.stack([where.before, where.after])
    step_A, step_Q = block.matrices_from(starts, steps)
    left, right = ((step_A[:, :, side], step_Q[:, :, side]) for side in (0, 1))
    return project_steps(block, where, left, right, (A, Q))


_Steps = tuple[Float[Array, "dim dim *points"], Float[Array, "dim dim *points"]]  # A and Q
_Across = tuple[Float[Array, "dim dim intervals"], Float[Array, "dim dim intervals"]]


def project_steps(
    block: Kernel, where: Where, left: _Steps, right: _Steps, across: _Across
) -> Parts:
    """One block: from the steps from the left and to the right, and over each interval."""
    ndim = where.before.ndim
    at_rest, h = block.covariance_at(where.x), block.emission_at(where.x)
    (A_left, Q_left), (A_right, Q_right) = left, right
    has_left, has_right = where.left[None, None], where.right[None, None]
    A_left = jnp.where(has_left, A_left, 0.0)
    Q_left = jnp.where(has_left, Q_left, at_rest)
    A_right = jnp.where(has_right, A_right, 0.0)
    A, Q = across
    root = jax.lax.stop_gradient(psd_cholesky(Q))
    A, Q, root = (v[..., where.interval] for v in (A, Q, root))
    if ndim == 2:
        A, Q, root = (v[..., None] for v in (A, Q, root))
    ahead = apply(A_right, apply(Q_left, h))
    p2 = psd_solve(Q, root, ahead[:, None])[:, 0]
    p1 = apply(transpose(A_left), h) - apply(transpose(A), p2)
    w = h - apply(transpose(A_right), p2)
    residual = dot(w, apply(Q_left, w)) + dot(p2, apply(Q_right, p2))
    return p1, p2, residual
