"""y as a line in f: y ≈ centre + slope · (f − mean) + noise, near or under q = N(mean, variance).

The best line under q has slope Cov(f, μ)/v = d/dm E μ, centre E μ and noise E R + Var μ − slope² v,
where μ(f) and R(f) are the mean and variance of y given f.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp.likelihoods import Likelihood

Points = Float[Array, " points"]

NODES = 20  # of quadrature


class At(NamedTuple):
    """Where the observations are linearised."""

    y: Points
    extra: Points
    mean: Points  # of f under q
    variance: Points
    residual: Points  # the part of it that the states leave open


class Regression(NamedTuple):
    """A line, and the second derivative of its centre in the mean of f."""

    slope: Points
    centre: Points
    noise: Points
    bend: Points


def taylor(likelihood: Likelihood, at: At) -> Regression:
    """Taylor's line at the mean of q."""

    def mean_of(f: Points) -> Points:
        return likelihood.moments(f, at.extra)[0]

    one = jnp.ones_like(at.mean)

    def rise(f: Points) -> tuple[Points, Points]:
        value, slope = jax.jvp(mean_of, (f,), (one,))
        return value, slope

    (centre, slope), (_, bend) = jax.jvp(rise, (at.mean,), (one,))
    return Regression(slope, centre, likelihood.moments(at.mean, at.extra)[1], bend)


def best_line(likelihood: Likelihood, at: At, nodes: int = NODES) -> Regression:
    """The best line under q, by Gauss–Hermite quadrature."""
    deviation = jnp.sqrt(at.variance)
    t, w, f = spread(at, nodes)
    mean, variance = jax.vmap(lambda f: likelihood.moments(f, at.extra))(f)
    centre = jnp.sum(w * mean, axis=0)
    slope = jnp.sum(w * t * mean, axis=0) / deviation
    bend = jnp.sum(w * (t**2 - 1) * mean, axis=0) / at.variance
    beyond = jnp.sum(w * (mean - centre[None] - slope[None] * (f - at.mean[None])) ** 2, axis=0)
    return Regression(slope, centre, jnp.sum(w * variance, axis=0) + beyond, bend)


def spread(at: At, nodes: int = NODES) -> tuple[Array, Array, Array]:
    """Standard normal nodes, their weights, and f there, along a new first axis."""
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    t, w = (jnp.asarray(v)[:, None] for v in (points, weights / weights.sum()))
    return t, w, at.mean[None] + jnp.sqrt(at.variance)[None] * t


def information(likelihood: Likelihood, f: Points, extra: Points) -> Points:
    """μ′(f)²/R(f): what the mean of y says about f."""
    nothing = jnp.zeros_like(f)
    line = taylor(likelihood, At(nothing, extra, f, nothing, nothing))
    return line.slope**2 / line.noise
