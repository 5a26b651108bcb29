"""The algebra of power EP: cavities, matched moments, log p(y).

Every observation has a factor exp(linear·a − ½ precision·a²) on a = what the states predict for its
f. Its cavity is q without `power` of that factor.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from stategp._data import Observations
from stategp._inference import Geometry, Latent, prior_mean, rounding_of, unless_lost
from stategp._models import GP
from stategp.chain import PairMarginals, sweep

Points = Float[Array, " points"]

LEAST = 1e-10  # of the precision of q, in a cavity; less is lost to rounding
_EPS = float(np.finfo(float).eps)


class Evidence(NamedTuple):
    """EP's approximation of log p(y), and whether rounding may have cost too much of it."""

    value: Float[Array, ""]
    lost: Bool[Array, ""]


class Cavity(NamedTuple):
    """q without a share of the site, at every observation."""

    mean: Points
    variance: Points  # of what the states predict
    residual: Points  # of f around that
    left: Points  # the share of the precision of q that is not the site's


def sweep_factors(model: GP, shape: Geometry, linear: Points, precision: Points) -> Any:
    """The sites that sum the factors, and q."""
    sites = shape.projections[0].gather(linear, precision, len(shape.transitions[0].A))
    indefinite = not model.likelihood.log_concave
    return sites, sweep(shape.transitions[0], sites, indefinite=indefinite)


def cavities(
    shape: Geometry, marginals: PairMarginals, linear: Points, precision: Points, power: float
) -> Cavity:
    """The cavity of every observation that has a factor of its own."""
    residual = residual_variance(shape)
    mean, total = shape.projections[0].marginals(marginals)
    return cavity_of(mean, total, residual, linear, precision, power)


def cavity_of(
    mean: Points, total: Points, residual: Points, linear: Points, precision: Points, power: float
) -> Cavity:
    """From the mean and the whole variance of f under q."""
    variance = total - residual
    left = jnp.maximum(1 - power * precision * variance, LEAST)
    return Cavity((mean - power * linear * variance) / left, variance / left, residual, left)


def residual_variance(shape: Geometry) -> Points:
    """Of f around what the states predict for it."""
    residual: Points = sum(shape.projections[0].residual, start=jnp.zeros(()))
    return residual


def matched(
    model: GP, data: Observations, cavity: Cavity, power: float
) -> tuple[Points, Points, Points]:
    """log ∫ likelihood^power × cavity, and the factor^power that matches its moments."""
    shift = prior_mean(model, data.user_nodes)
    spread = cavity.variance + cavity.residual
    tilted = model.likelihood.tilted(data.y, cavity.mean + shift, spread, data.extra, power=power)
    first = (tilted.mean - cavity.mean - shift) / spread
    second = (tilted.variance - spread) / spread**2
    if model.likelihood.log_concave:
        second = jnp.minimum(second, 0.0)
    shrink = 1 + second * cavity.variance
    return tilted.log_normaliser, (first - second * cavity.mean) / shrink, -second / shrink


def first_factors(model: GP, data: Observations, guess: Latent) -> tuple[Points, Points]:
    """Factors to begin with, from a guess of f."""
    start = data.expected(model.likelihood, guess, model.likelihood.guess_variance(guess))
    precision = jnp.maximum(-2 * start.curvature, 0.0)
    return start.slope + precision * (guess - prior_mean(model, data.user_nodes)), precision


def relative_change(new: Array, old: Array) -> Float[Array, ""]:
    """The largest change, in the size of the largest."""
    return jnp.max(jnp.abs(new - old)) / (1e-12 + jnp.max(jnp.abs(new)))


def evidence_of(
    model: GP, data: Observations, shape: Geometry, linear: Points, precision: Points, power: float
) -> Evidence:
    """EP's approximation of log p(y). At a fixed point of EP it does not depend on the factors."""
    sites, swept = sweep_factors(model, shape, linear, precision)
    cavity = cavities(shape, swept.marginals, linear, precision, power)
    log_tilted, _, _ = matched(model, data, cavity, power)
    linear, precision = power * linear, power * precision
    grown = 1 + precision * cavity.variance
    log_site = (
        -jnp.log(grown) / 2,
        linear * cavity.mean / grown,
        linear**2 * cavity.variance / 2 / grown,
        -precision * cavity.mean**2 / 2 / grown,
    )
    value = swept.log_normaliser + jnp.sum(log_tilted - sum(log_site)) / power
    sizes = [jnp.sum(jnp.abs(part)) / power for part in (log_tilted, *log_site)]
    rounding = rounding_of(
        jnp.stack([swept.log_normaliser, *sizes]), [(sites, swept.marginals)]
    ) + _EPS * jnp.sum(1 / cavity.left)
    unclear = jnp.any(cavity.left <= LEAST)
    return Evidence(value, unclear | jnp.isnan(unless_lost(value, rounding, data.total)))
