"""Processes that share one kernel: priors and what rows read, without a loop over processes.

The states of L processes, one after another, have transitions I ⊗ A, and a row with coefficients C
reads C ⊗ w of a pair of states, where A and w are those of a single process.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from stategp._models import MixedGP
from stategp._projection import project
from stategp.chain import Transitions, prior_transitions

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


class Reads(NamedTuple):
    """What rows read of the states, as `Strands` has it."""

    transitions: Transitions
    interval: Int[Array, " cells"]
    weights: Float[Array, "chains pair *rows"]
    residual: Float[Array, "chains rows"]


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
