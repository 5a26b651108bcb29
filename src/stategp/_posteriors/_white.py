"""The white processes that a field is made of: their moments and samples at times."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._inference import mixed_priors
from stategp._models import SpaceTimeGP, Spots, prior_states
from stategp._posteriors._pointwise import Points
from stategp._posteriors._prediction import States
from stategp._projection import project
from stategp.chain import PairMarginals, Sites, prior_transitions, sample_states


def root_of(covariance: np.ndarray) -> np.ndarray:
    """A root of a covariance that may be zero in some directions."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return vectors * np.sqrt(np.maximum(values, 0.0))


@jax.jit
def read_at(model: SpaceTimeGP, places: Array) -> tuple[Array, Array]:
    """What f reads of the processes at places, and the share of its variance that is left."""
    return model.reads(Spots(places))


@jax.jit
def variance_at(model: SpaceTimeGP, x: Points) -> Points:
    """The prior variance of f."""
    return model.variance_at(x)


@jax.jit
def mean_at(model: SpaceTimeGP, x: Points) -> Points:
    """The mean function."""
    return model.mean(x)


@jax.jit(static_argnames="count")
def prior_samples(kernel: Any, key: PRNGKeyArray, x: Points, count: int) -> Array:
    """Samples of a process before any data."""
    states = prior_states(kernel, key, x, count)
    return jnp.sum(kernel.emission_at(x)[:, None] * states, axis=0)


@jax.jit(static_argnames=("count", "indefinite"))
def sample_white(
    model: SpaceTimeGP,
    inducing: States,
    sites: Sites,
    key: PRNGKeyArray,
    x: Points,
    count: int,
    indefinite: bool,
) -> Float[Array, "samples times processes"]:
    """Prior samples of all processes, corrected by what posterior samples of the states say."""
    kernel, number = model.time, len(model.kernels)
    state_key, prior_key = jax.random.split(key)
    (prior,) = mixed_priors(model, inducing)
    keys = jax.random.split(state_key, len(prior.A))
    states = jax.vmap(lambda p, s, k: sample_states(p, s, k, count, indefinite=indefinite))(
        prior, sites, keys
    )
    if model.q == "joint":
        states = states[0].reshape(count, len(inducing), number, -1)
    else:
        states = jnp.moveaxis(states, 0, 2)
    states = jnp.moveaxis(states, 2, 1).reshape(count * number, len(inducing), -1)
    before = prior_states(kernel, prior_key, jnp.concatenate([x, inducing]), count * number)
    g = jnp.sum(kernel.emission_at(x)[:, None] * before[..., : len(x)], axis=0)
    then = jnp.transpose(before[..., len(x) :], (1, 2, 0))
    projection = project(kernel, inducing, x, prior_transitions(kernel, inducing))
    drawn = g + projection.conditional_mean(states - then)
    return jnp.moveaxis(drawn.reshape(count, number, len(x)), 1, 2)


@jax.jit
def white_at(
    model: SpaceTimeGP, pairs: PairMarginals, inducing: States, x: Points
) -> tuple[Array, Array]:
    """The white processes at times: one chain of all of them, or a chain for each."""
    kernel = model.time
    projection = project(kernel, inducing, x, prior_transitions(kernel, inducing))
    weights = projection.rows.T  # time, pair
    residual = sum(projection.residual[1:], start=projection.residual[0])
    dim, count = kernel.state_dim, len(model.kernels)
    halves = weights.reshape(-1, 2, dim)
    if model.q == "product":
        mean = jnp.einsum("tp,ltp->tl", weights, pairs.mean[:, projection.interval])
        spread = jnp.einsum(
            "tp,ltpq,tq->tl", weights, pairs.covariance[:, projection.interval], weights
        )
        return mean, spread + residual[:, None]
    means = pairs.mean[0][projection.interval].reshape(-1, 2, count, dim)
    spreads = pairs.covariance[0][projection.interval]
    spreads = spreads.reshape(-1, 2, count, dim, 2, count, dim)
    mean = jnp.einsum("tsd,tsld->tl", halves, means)
    spread = jnp.einsum("tsd,tsldrme,tre->tlm", halves, spreads, halves)
    return mean, spread + residual[:, None, None] * jnp.eye(count)[None]
