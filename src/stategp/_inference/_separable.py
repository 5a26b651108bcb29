"""Processes that share one kernel: priors and what rows read, without a loop over processes.

The states of L processes, one after another, have transitions I ⊗ A, and a row with coefficients C
reads C ⊗ w of a pair of states, where A and w are those of a single process.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from stategp._models import MixedGP
from stategp._projection import Projection, project
from stategp.chain import PairMarginals, Sites, Transitions, prior_transitions

Rows = Float[Array, " rows"]


def one_kernel(model: MixedGP) -> bool:
    """Whether all processes have the very same kernel, and rows read one mixture of them."""
    kernels = model.kernels
    return model.functions == 1 and all(kernel is kernels[0] for kernel in kernels)


def shared_prior(model: MixedGP, prior: Transitions) -> Transitions:
    """The priors of all chains, from that of one process."""
    count = len(model.kernels)
    if model.q == "product":
        both = (jnp.broadcast_to(v[None], (count, *v.shape)) for v in (prior.A, prior.Q))
        return Transitions(*both)

    def repeated(matrix: Float[Array, "intervals dim dim"]) -> Float[Array, "1 intervals all all"]:
        whole = jnp.einsum("lm,iab->ilamb", jnp.eye(count), matrix)
        intervals, dim = len(matrix), matrix.shape[-1]
        return whole.reshape(1, intervals, count * dim, count * dim)

    return Transitions(repeated(prior.A), repeated(prior.Q))


class CellStrands(NamedTuple):
    """Chains, and what rows read of them: the rows in cells, each of which lies in one interval.

    The matrices of an interval are then read once for a cell, and not for every row.
    """

    transitions: Transitions  # along a first axis of chains
    interval: Int[Array, " cells"]
    weights: Float[Array, "chains pair cells width"]
    residual: Float[Array, "chains rows"]

    def moments(
        self, pairs: PairMarginals
    ) -> tuple[Float[Array, "chains rows"], Float[Array, "chains rows"]]:
        """Mean and variance of what rows read of each chain."""

        def one(weights: Array, residual: Array, pair: PairMarginals) -> tuple[Array, Array]:
            own = residual.reshape(weights.shape[1:])
            return Projection(self.interval, weights, (own,)).marginals(pair)

        mean, variance = jax.vmap(one)(self.weights, self.residual, pairs)
        return mean, variance

    def means(self, pairs: Float[Array, "chains intervals pair"]) -> Float[Array, "chains rows"]:
        """What rows read of each chain, from the means of its states."""

        def one(weights: Array, pair: Array) -> Array:
            return Projection(self.interval, weights, ()).means(pair)

        return jax.vmap(one)(self.weights, pairs)

    def gather(self, linear: Float[Array, "chains rows"], precision: Rows) -> Sites:
        """The sites of every chain that sum factors exp(linear·f − ½ precision·f²) of all rows."""

        def one(weights: Array, linear: Array) -> Sites:
            projection = Projection(self.interval, weights, ())
            return projection.gather(linear, precision, self.transitions.A.shape[1])

        return jax.vmap(one)(self.weights, linear)

    def gather_linear(
        self, linear: Float[Array, "chains rows"]
    ) -> Float[Array, "chains intervals pair"]:
        """The linear part of `gather`."""

        def one(weights: Array, linear: Array) -> Array:
            projection = Projection(self.interval, weights, ())
            return projection.gather_linear(linear, self.transitions.A.shape[1])

        return jax.vmap(one)(self.weights, linear)


class Reads(NamedTuple):
    """The fields of `Strands`, or of `CellStrands` if rows are in cells."""

    transitions: Transitions
    interval: Int[Array, " cells"]
    weights: Float[Array, "chains pair *rows"]
    residual: Float[Array, "chains rows"]

    @property
    def in_cells(self) -> bool:
        """Whether runs of rows share an interval."""
        return self.weights.ndim == 4


def shared_reads(model: MixedGP, x: Rows, places: Any, inducing: Float[Array, " states"]) -> Reads:
    """The same as for kernels one by one.

    If the places have a `width`, each run of so many rows lies in one interval, and makes a cell.
    """
    kernel = model.kernels[0]
    prior = prior_transitions(kernel, inducing)
    projection = project(kernel, inducing, x, prior)
    own = model.coefficients(places).T
    residual = sum(projection.residual[1:], start=projection.residual[0])
    each = own[:, None] * projection.rows[None]  # process, pair, row
    if model.q == "joint":
        halves = jnp.split(each, 2, axis=1)
        weights = jnp.concatenate([half.reshape(1, -1, len(x)) for half in halves], axis=1)
        left = jnp.sum(own**2, axis=0, keepdims=True) * residual[None]
    else:
        weights, left = each, own**2 * residual[None]
    width = getattr(places, "width", 1)
    interval = projection.interval
    if width > 1:
        weights, interval = weights.reshape(*weights.shape[:2], -1, width), interval[::width]
    return Reads(shared_prior(model, prior), interval, weights, left)
