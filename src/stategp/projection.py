"""What the inducing states say about f(x): p(f(x) | u) = N(weights · [left; right], residual).

Each x lies in one interval of the chain (the ends of the range are intervals too). With h the
emission, A and Q of the steps left→x, x→right and left→right,

    p₂ = h Q₋ₓ Aₓ₊ᵀ Q₋₊⁻¹       p₁ = h A₋ₓ − p₂ A₋₊       residual = w Q₋ₓ wᵀ + p₂ Qₓ₊ p₂ᵀ

with w = h − p₂Aₓ₊: two squares, so that the residual is never negative and keeps its digits
where Q₋ₓ − P₂Aₓ₊Q₋ₓ cancels. Left of the range the step left→x is endless (A₋ₓ = 0, Q₋ₓ = P₀),
right of it the step x→right is (Aₓ₊ = 0): the same formulas then give backcast and forecast. The
parts of a sum of kernels are independent given the states, so each is projected on its own.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from stategp.chain import PairMarginals, Sites, Transitions, psd_cholesky, psd_solve
from stategp.kernels import Kernel, group_blocks


class Projection(eqx.Module):
    """The conditionals p(f(x) | u) of many points."""

    interval: Int[Array, " points"]
    weights: Float[Array, "points pair"]
    residual: Float[Array, "points blocks"]  # the parts of a sum, in the kernel's order

    def marginals(
        self, pairs: PairMarginals
    ) -> tuple[Float[Array, " points"], Float[Array, " points"]]:
        """Mean and variance of f at the points under q."""
        mean = jnp.sum(self.weights * pairs.mean[self.interval], axis=1)
        spread = jnp.einsum(
            "ni,nij,nj->n", self.weights, pairs.covariance[self.interval], self.weights
        )
        return mean, spread + jnp.sum(self.residual, axis=1)

    def gather(
        self, linear: Float[Array, " points"], precision: Float[Array, " points"], intervals: int
    ) -> Sites:
        """The sites that sum factors exp(linear·f − ½ precision·f²) of all points."""
        rows = self.weights
        outer = precision[:, None, None] * rows[:, :, None] * rows[:, None, :]
        add = jax.tree_util.Partial(
            jax.ops.segment_sum, segment_ids=self.interval, num_segments=intervals
        )
        return Sites(add(linear[:, None] * rows), add(outer))

    def conditional_mean(
        self, states: Float[Array, "samples states dim"]
    ) -> Float[Array, "samples points"]:
        """E[f(x) | u] for given states."""
        padded = jnp.pad(states, ((0, 0), (1, 1), (0, 0)))
        pairs = jnp.concatenate([padded[:, :-1], padded[:, 1:]], axis=-1)
        return jnp.einsum("snp,np->sn", pairs[:, self.interval], self.weights)


def project(
    kernel: Kernel,
    inducing: Float[Array, " states"],
    x: Float[Array, " points"],
    transitions: Transitions,
) -> Projection:
    """The conditionals at x, in any order, inside or outside the range of the inducing points.

    `transitions` is the prior of the states, from `prior_transitions(kernel, inducing)`.
    """
    interval = jnp.searchsorted(inducing, x, side="right")
    left, right = interval > 0, interval < len(inducing)
    # Where there is no neighbour, a step of zero stands in; its results are not used.
    before = jnp.where(left, x - inducing[jnp.maximum(interval - 1, 0)], 0.0)
    after = jnp.where(right, inducing[jnp.minimum(interval, len(inducing) - 1)] - x, 0.0)
    where = _Where(interval, left, right, jnp.stack([before, after], axis=1))

    parts, start = [], 0
    for group in group_blocks(kernel):
        count, dim = jax.eval_shape(jax.vmap(lambda block: block.emission()), group).shape
        across = _diagonal_blocks(transitions, start, count, dim)
        parts.append(jax.vmap(_project_block, in_axes=(0, 0, None))(group, across, where))
        start += count * dim
    p1, p2, residual = (
        jnp.concatenate([_side_by_side(part[i], len(x)) for part in parts], axis=1)
        for i in range(3)
    )
    return Projection(interval, jnp.concatenate([p1, p2], axis=1), residual)


class _Where(NamedTuple):
    """Where the points lie among the inducing locations."""

    interval: Int[Array, "*points"]
    left: Bool[Array, "*points"]  # whether there is a neighbour on the left
    right: Bool[Array, "*points"]
    steps: Float[Array, "*points 2"]  # from the left neighbour, to the right neighbour


def _diagonal_blocks(transitions: Transitions, start: int, count: int, dim: int) -> Transitions:
    """The parts of the prior that belong to a run of blocks, stacked along a leading axis."""
    ranges = [slice(start + i * dim, start + (i + 1) * dim) for i in range(count)]
    return Transitions(
        jnp.stack([transitions.A[:, own, own] for own in ranges]),
        jnp.stack([transitions.Q[:, own, own] for own in ranges]),
    )


def _side_by_side(
    rows: Float[Array, "blocks points *dim"], points: int
) -> Float[Array, "points columns"]:
    return jnp.moveaxis(rows, 0, 1).reshape(points, -1)


def _project_block(
    block: Kernel, across: Transitions, where: _Where
) -> tuple[Float[Array, "points dim"], Float[Array, "points dim"], Float[Array, " points"]]:
    stationary, h = block.stationary_covariance(), block.emission()
    across_root = jax.lax.stop_gradient(jax.vmap(psd_cholesky)(across.Q))

    def one(at: _Where) -> tuple[Float[Array, " dim"], Float[Array, " dim"], Float[Array, ""]]:
        A, Q = jax.vmap(lambda dt: (block.transition(dt), block.process_noise(dt)))(at.steps)
        A_before = jnp.where(at.left, A[0], 0.0)
        Q_before = jnp.where(at.left, Q[0], stationary)
        A_after = jnp.where(at.right, A[1], 0.0)
        pull = A_after @ (Q_before @ h)
        root = across_root[at.interval]
        p2 = psd_solve(across.Q[at.interval], root, pull[:, None])[:, 0]
        p1 = h @ A_before - p2 @ across.A[at.interval]
        w = h - p2 @ A_after
        return p1, p2, w @ Q_before @ w + p2 @ Q[1] @ p2

    return jax.vmap(one)(where)
