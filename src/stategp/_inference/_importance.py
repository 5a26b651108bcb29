"""Weights of samples of q: states u drawn from q = prior · sites / Z weigh Z · p(y | u) / sites(u).

Their expectation is p(y), and the logarithm of an average of K of them is on average a lower bound
of log p(y): the usual one for K = 1, exact for K → ∞ (Burda, Grosse and Salakhutdinov, 2016).
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._data import Observations
from stategp._inference._bound import ChainSites, Geometry, stack
from stategp._models import GP
from stategp.chain import Sites, sample_states, sweep

States = tuple[Float[Array, "samples states _"], ...]


def log_normaliser(shape: Geometry, sites: ChainSites, indefinite: bool) -> Float[Array, ""]:
    """log Z of prior × sites."""
    parts = [
        sweep(prior, site, indefinite=indefinite).log_normaliser
        for prior, site in zip(shape.transitions, sites, strict=True)
    ]
    return sum(parts, start=jnp.zeros(()))


def log_weights(
    model: GP, data: Observations, shape: Geometry, sites: ChainSites, states: States
) -> Float[Array, " samples"]:
    """Of samples of the states of each chain, which are where the observations are; without Z."""
    total = jnp.zeros(len(states[0]))
    for site, drawn in zip(sites, states, strict=True):
        total = total - _log_sites(site, drawn)
    functions = [
        projection.conditional_mean(drawn)
        for projection, drawn in zip(shape.projections, states, strict=True)
    ]
    return total + _log_densities(model, data, functions)


def draw_states(
    shape: Geometry, sites: ChainSites, key: PRNGKeyArray, samples: int, indefinite: bool
) -> States:
    """Samples of q."""
    return tuple(
        sample_states(prior, site, jax.random.fold_in(key, number), samples, indefinite=indefinite)
        for number, (prior, site) in enumerate(zip(shape.transitions, sites, strict=True))
    )


def _log_densities(model: GP, data: Observations, functions: list[Any]) -> Float[Array, " samples"]:
    x = jnp.asarray(data.user_nodes)
    centre = stack([mean(x) for mean in model.means])
    y, extra, weights = (jnp.asarray(v) for v in (data.y, data.extra, data.weights))

    def log_density(*f: Float[Array, " points"]) -> Float[Array, ""]:
        return jnp.sum(weights * model.likelihood.log_density(y, stack([*f]) + centre, extra))

    densities: Float[Array, " samples"] = jax.vmap(log_density)(*functions)
    return densities


def _log_sites(
    sites: Sites, states: Float[Array, "samples states dim"]
) -> Float[Array, " samples"]:
    """Of every sample; there is nothing on the outer sides of the first and the last state."""
    padded = jnp.pad(states, ((0, 0), (1, 1), (0, 0)))
    pairs = jnp.concatenate([padded[:, :-1], padded[:, 1:]], axis=-1)
    squares = jnp.einsum("smi,mij,smj->s", pairs, sites.precision, pairs)
    return jnp.einsum("smi,mi->s", pairs, sites.linear) - squares / 2
