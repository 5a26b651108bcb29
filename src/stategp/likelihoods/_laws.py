"""Distribution functions of a sum of two: a known law and a normal.

Given f, the observations of most likelihoods are at most y exactly where some variable U, whose
density is known, is at most (or at least) f. With f ~ N(mean, variance) the predictive distribution
function is that of U plus a normal. It is integrated in panels: where the normal's step is, before
it and after it. That is good to 1e-8 whichever of the two is the narrower (to 1e-6 for Gamma shapes
of 0.02), calls no special function, and counts may be as large as they like.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf, ndtr, ndtri
from jaxtyping import Array, Float

Values = Float[Array, "*points"]
Function = Callable[[Values], Values]
Sums = tuple[Values, Values]

NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)
REACH = 6.0  # standard deviations of a normal beyond which there is 1e-9 of it
_DROP = 18.0  # nats below the peak at which a density is over
_LARGE = 50.0  # from here on log(1 + share · (exp(u) − 1)) is u + log(share)


class Law(NamedTuple):
    """A density, 1 at its peak, and where it begins, peaks and ends."""

    log_density: Function
    lower: Values
    peak: Values | float
    upper: Values


def plus_normal(law: Law, at: Values, variance: Values) -> Values:
    """P(U + √variance · Z ≤ at) for a standard normal Z."""
    deviation = jnp.sqrt(jnp.maximum(variance, 1e-300))
    start, end = at - REACH * deviation, at + REACH * deviation
    # Panels end where the normal's step begins, where it is over, and at the peak of the law.
    width = deviation * math.sqrt(2)
    peak = jnp.broadcast_to(law.peak, at.shape)
    ordered = [jnp.minimum(start, peak), jnp.clip(peak, start, end), jnp.maximum(end, peak)]
    inner = jnp.clip(jnp.stack(ordered), law.lower[None], law.upper[None])
    edges = jnp.concatenate([law.lower[None], inner, law.upper[None]])
    middles, halves = (edges[1:] + edges[:-1]) / 2, (edges[1:] - edges[:-1]) / 2
    at, width, middles, halves = jax.lax.optimization_barrier((at, width, middles, halves))

    def term(sums: Sums, node: tuple[Array, Array, Array]) -> tuple[Sums, None]:
        below, total = sums
        panel, place, weight = node
        half = halves[panel]
        u = middles[panel] + half * place
        mass = weight * half * jnp.exp(law.log_density(u))
        # By erf, not ndtr, which is good in its far tail too and takes three times as long.
        step = (1 + erf((at - u) / width)) / 2
        return (below + mass * step, total + mass), None

    # One loop over the nodes of all panels: written out, it takes four times as long to compile.
    zeros, panels = jnp.zeros_like(at), len(edges) - 1
    numbers = np.repeat(np.arange(panels), len(NODES))
    nodes: Any = (numbers, np.tile(NODES, panels), np.tile(WEIGHTS, panels))
    (below, total), _ = jax.lax.scan(term, (zeros, zeros), nodes)
    return below / total


def log_gamma_plus_normal(shape: Values, at: Values, variance: Values) -> Values:
    """P(log G + √variance · Z ≤ at), G with a Gamma distribution of that shape."""
    left, right = _reach(shape)

    def log_density(u: Values) -> Values:  # measured from the peak, at log(shape)
        return shape * (u - jnp.expm1(u))

    return plus_normal(Law(log_density, -left, 0.0, right), at - jnp.log(shape), variance)


def log_ratio_plus_normal(a: Values, b: Values, at: Values, variance: Values) -> Values:
    """P(log(Gₐ / G_b) + √variance · Z ≤ at) for Gamma variables of shapes a and b.

    The logarithm is the logit of a Beta(a, b) variable, for a = b = 1 a logistic one.
    """
    return plus_normal(_log_ratio(a, b), at - jnp.log(a / b), variance)


def link_plus_normal(link: str, at: Values, variance: Values) -> Values:
    """P(U + √variance · Z ≤ at), U standard logistic or, with link "probit", standard normal."""
    if link == "probit":
        return ndtr(at / jnp.sqrt(1 + variance))
    return log_ratio_plus_normal(jnp.ones_like(at), jnp.ones_like(at), at, variance)


def beta_score_plus_normal(a: Values, b: Values, at: Values, variance: Values) -> Values:
    """P(Φ⁻¹(B) + √variance · Z ≤ at) for a Beta(a, b) variable B, a and b at least 1."""
    ratio = _log_ratio(a, b)
    peak = jnp.log(a / b)
    lower = ndtri(jax.nn.sigmoid(ratio.lower + peak))
    upper = -ndtri(jax.nn.sigmoid(-ratio.upper - peak))
    share = a / (a + b)

    def log_density(u: Values) -> Values:
        below, above = ndtr(u) / share, ndtr(-u) / (1 - share)
        return (a - 1) * jnp.log(below) + (b - 1) * jnp.log(above) - u**2 / 2

    return plus_normal(Law(log_density, lower, ndtri(share), upper), at, variance)


def _log_ratio(a: Values, b: Values) -> Law:
    left_a, right_a = _reach(a)
    left_b, right_b = _reach(b)
    smaller = jnp.minimum(a, b)
    share = smaller / (a + b)
    side = jnp.where(a < b, 1.0, -1.0)  # the law of −u is that with a and b exchanged

    def log_density(u: Values) -> Values:  # measured from the peak, at log(a / b)
        u = side * u
        plain = jnp.log1p(share * jnp.expm1(jnp.minimum(u, _LARGE)))
        return smaller * u - (a + b) * jnp.where(u > _LARGE, u + jnp.log(share), plain)

    return Law(log_density, -left_a - right_b, 0.0, right_a + left_b)


def _reach(shape: Values) -> tuple[Values, Values]:
    """How far log G reaches to the left and the right of its peak."""
    left = jnp.sqrt(2 * _DROP / shape) + _DROP / shape
    return left, jnp.log1p(left)
