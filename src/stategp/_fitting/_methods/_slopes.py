"""What an observation says about f at q = N(m, v): first and second derivatives of an objective.

    mode          log p(y | m)
    variational   E_q[log p(y | f)]
    ep            log E[p(y | f)], f as in the cavity: q without the site of the observation
    linearised    log N(y; c, Ω), the best line under q with its noise Ω held fixed
    extended      the same with Taylor's line at m

A Newton step for the mean makes the site exp(linear · f − ½ precision · f²) of precision = −second
and linear = first + precision · m, in EP after the cavity has been divided out of both (Wilkinson,
Särkkä & Solin, 2023).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from stategp._fitting._methods._lines import At, Points, best_line, information, spread, taylor
from stategp._fitting._methods._power_ep_sites import cavity_of
from stategp.likelihoods import Likelihood


class Slopes(NamedTuple):
    """Of every observation."""

    mean: Points  # where they were taken, without the mean function
    variance: Points
    first: Points  # in the mean
    second: Points
    in_variance: Points | None  # None: the objective does not depend on the variance
    cavity: Points | float  # the variance of a cavity, to be divided out


class Seen(NamedTuple):
    """Observations, where f is under q, and the sites that made it."""

    likelihood: Likelihood
    at: At
    shift: Points  # the mean function
    weights: Points
    linear: Points
    precision: Points
    expected: Any = None  # what a pass over the data found at q, weighted, if there was one

    @property
    def mean(self) -> Points:
        """Of f under q, without the mean function."""
        return self.at.mean - self.shift


def mode(seen: Seen, gauss_newton: bool) -> Slopes:
    """At the mean of q."""
    at, likelihood = seen.at, seen.likelihood
    _, first, second = likelihood.slopes(at.y, at.mean, at.extra)
    if gauss_newton:
        second = -information(likelihood, at.mean, at.extra)
    return _weighted(seen, Slopes(seen.mean, at.variance, first, second, None, 0.0))


def variational(seen: Seen, gauss_newton: bool) -> Slopes:
    """On average under q."""
    at, expected, likelihood = seen.at, seen.expected, seen.likelihood
    if expected is None:
        parts = likelihood.expected_slopes(at.y, at.mean, at.variance, at.extra)
        first, curvature = (seen.weights * part for part in parts[1:])
    else:
        first, curvature = expected.slope, expected.curvature
    second = 2 * curvature
    if gauss_newton:
        _, w, f = spread(at)
        known = jax.vmap(lambda f: information(likelihood, f, at.extra))(f)
        second = -seen.weights * jnp.sum(w * known, axis=0)
    return Slopes(seen.mean, at.variance, first, second, curvature, 0.0)


def linearised(seen: Seen, gauss_newton: bool, taylors: bool = False) -> Slopes:
    """As if y were a line."""
    at, likelihood = seen.at, seen.likelihood
    line = taylor(likelihood, at) if taylors else best_line(likelihood, at)
    noise = line.noise + line.slope**2 * at.residual
    left = (at.y - line.centre) / noise
    second = -(line.slope**2) / noise + (0.0 if gauss_newton else line.bend * left)
    slopes = Slopes(seen.mean, at.variance, line.slope * left, second, None, 0.0)
    return _weighted(seen, slopes)


def extended(seen: Seen, gauss_newton: bool) -> Slopes:
    """As if y were Taylor's line."""
    return linearised(seen, gauss_newton, taylors=True)


def expectation_propagation(seen: Seen, gauss_newton: bool) -> Slopes:
    """In the cavity."""
    at, shift = seen.at, seen.shift
    cavity = cavity_of(seen.mean, at.variance, at.residual, seen.linear, seen.precision, 1.0)
    wide = cavity.variance + cavity.residual
    tilted = seen.likelihood.tilted(at.y, cavity.mean + shift, wide, at.extra)
    first = (tilted.mean - cavity.mean - shift) / wide
    second = (tilted.variance - wide) / wide**2
    in_variance = (second + first**2) / 2
    return Slopes(cavity.mean, wide, first, second, in_variance, cavity.variance)


def _weighted(seen: Seen, slopes: Slopes) -> Slopes:
    first, second = seen.weights * slopes.first, seen.weights * slopes.second
    return slopes._replace(first=first, second=second)


OBJECTIVES: dict[str, Callable[[Seen, bool], Slopes]] = {
    "mode": mode,
    "variational": variational,
    "ep": expectation_propagation,
    "linearised": linearised,
    "extended": extended,
}
