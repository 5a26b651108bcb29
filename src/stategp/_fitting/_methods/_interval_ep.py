"""Power EP with a site for every interval between states instead of one for every observation.

The observations of an interval share its site: the cavity of each is q without power/n of it, where
n is their number, so they share the cavity too. Matching moments there gives each its own factor on
what the states predict for its f; the factors of an interval add up to its new site. What is kept
between steps does not grow with the data: every step computes anew where the observations lie
between the states. With one observation in every interval, and for Gaussian
ones always, this ends where a site for every observation does.

log p(y) is EP's, with the factors that the shared cavities give. Away from those two cases it is
not stationary in the sites, so its gradient in the hyperparameters would need theirs:
hyperparameters are learned by other methods.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from stategp._data import Observations
from stategp._fitting._methods._power_ep_sites import (
    LEAST,
    Cavity,
    Evidence,
    Points,
    evidence_of,
    first_factors,
    matched,
    relative_change,
    residual_variance,
    sweep_factors,
)
from stategp._inference import Geometry, Latent, States, geometry
from stategp._models import GP
from stategp.chain import PairMarginals, Sites, psd_cholesky, psd_solve, sweep


class Sharing(NamedTuple):
    """EP in between steps: a site for every interval."""

    sites: Sites
    marginals: PairMarginals
    steps: Int[Array, ""]
    change: Float[Array, ""]


@jax.jit
def starting_sharing(
    model: GP, data: Observations, inducing: States, guess: Latent
) -> tuple[States, Sharing]:
    """EP before its first step, and what steps need beside it: the inducing points."""
    shape = geometry(model, data.nodes, inducing)
    sites, swept = sweep_factors(model, shape, *first_factors(model, data, guess))
    start = Sharing(sites, swept.marginals, jnp.zeros((), int), jnp.inf * jnp.ones(()))
    return inducing, start


@jax.jit(static_argnames=("power", "damping"))
def sharing_step(
    model: GP, data: Observations, inducing: States, state: Sharing, power: float, damping: float
) -> tuple[Sharing, Evidence]:
    """All sites at once, and log p(y) after that.

    A step to nowhere leaves everything where it was, with a change of NaN.
    """
    shape = geometry(model, data.nodes, inducing)
    linear, precision = _factors(model, data, shape, state, power)
    wanted = shape.projections[0].gather(linear, precision, len(shape.transitions[0].A))
    sites = state.sites.mix(wanted, damping)
    indefinite = not model.likelihood.log_concave
    swept = sweep(shape.transitions[0], sites, indefinite=indefinite)
    change = jnp.maximum(
        relative_change(sites.linear, state.sites.linear),
        relative_change(sites.precision, state.sites.precision),
    )
    moved = Sharing(sites, swept.marginals, state.steps + 1, change)
    stuck = state._replace(steps=state.steps + 1, change=jnp.nan * jnp.ones(()))
    sound = jnp.isfinite(jnp.sum(swept.marginals.covariance)) & jnp.isfinite(change)
    kept: Sharing = jax.tree.map(lambda a, b: jnp.where(sound, a, b), moved, stuck)
    factors = _factors(model, data, shape, kept, power)
    return kept, evidence_of(model, data, shape, *factors, power)


def _factors(
    model: GP, data: Observations, shape: Geometry, state: Sharing, power: float
) -> tuple[Points, Points]:
    """The factor of every observation that matches moments in the cavity of its interval."""
    projection = shape.projections[0]
    ones = jnp.ones(projection.interval.shape)
    count = jax.ops.segment_sum(ones, projection.interval, num_segments=len(state.marginals.mean))
    share = jnp.where(count > 0, power / jnp.maximum(count, 1.0), 0.0)
    pairs = PairMarginals(*jax.vmap(_without)(state.marginals, state.sites, share))
    residual = residual_variance(shape)
    mean, total = projection.marginals(pairs)
    cavity = Cavity(mean, total - residual, residual, jnp.ones_like(mean))
    _, linear, precision = matched(model, data, cavity, power)
    return linear / power, precision / power


def _without(
    pair: PairMarginals, site: Sites, share: Float[Array, ""]
) -> tuple[Float[Array, " pair"], Float[Array, "pair pair"]]:
    """q of one interval without a share of its site; NaN if that is no Gaussian.

    With S = R Rᵀ the covariance of q, that of the cavity is R (I − share Rᵀ Λ R)⁻¹ Rᵀ: no S⁻¹.
    """
    root = psd_cholesky(pair.covariance)
    left = jnp.eye(len(root)) - share * root.T @ site.precision @ root
    left = (left + left.T) / 2
    left_root = psd_cholesky(left)
    covariance = root @ psd_solve(left, left_root, root.T)
    pull = site.precision @ pair.mean - site.linear
    mean = pair.mean + share * covariance @ pull
    gaussian = jnp.all(jnp.diagonal(left_root) ** 2 > LEAST)
    return jnp.where(gaussian, mean, jnp.nan), jnp.where(gaussian, covariance, jnp.nan)
