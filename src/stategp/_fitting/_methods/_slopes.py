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

from stategp._data import Observations
from stategp._fitting._methods._lines import At, Points, best_line, information, spread, taylor
from stategp._fitting._methods._power_ep_sites import cavities, residual_variance
from stategp._inference import Geometry, Q, prior_mean
from stategp._models import GP


class Slopes(NamedTuple):
    """Of every observation."""

    mean: Points  # where they were taken, without the mean function
    variance: Points
    first: Points  # in the mean
    second: Points
    in_variance: Points | None  # None: the objective does not depend on the variance
    cavity: Points | float  # the variance of a cavity, to be divided out


class Place(NamedTuple):
    """q, and the sites that made it."""

    model: GP
    data: Observations
    shape: Geometry
    q: Q
    linear: Points
    precision: Points

    @property
    def at(self) -> At:
        """Where f is under q."""
        mean, variance = self.shape.projections[0].marginals(self.q.marginals[0])
        residual = residual_variance(self.shape).reshape(-1)
        return At(self.data.y, self.data.extra, mean + self.shift, variance, residual)

    @property
    def shift(self) -> Any:
        """The mean function."""
        return prior_mean(self.model, self.data.user_nodes)


def mode(place: Place, gauss_newton: bool) -> Slopes:
    """At the mean of q."""
    at, likelihood = place.at, place.model.likelihood
    _, first, second = likelihood.slopes(at.y, at.mean, at.extra)
    if gauss_newton:
        second = -information(likelihood, at.mean, at.extra)
    return _weighted(place, Slopes(at.mean - place.shift, at.variance, first, second, None, 0.0))


def variational(place: Place, gauss_newton: bool) -> Slopes:
    """On average under q."""
    at, expected = place.at, place.q.expected
    assert expected is not None
    mean, second = at.mean - place.shift, 2 * expected.curvature  # weighted already
    if gauss_newton:
        _, w, f = spread(at)
        known = jax.vmap(lambda f: information(place.model.likelihood, f, at.extra))(f)
        second = -place.data.weights * jnp.sum(w * known, axis=0)
    return Slopes(mean, at.variance, expected.slope, second, expected.curvature, 0.0)


def linearised(place: Place, gauss_newton: bool, taylors: bool = False) -> Slopes:
    """As if y were a line."""
    at, likelihood = place.at, place.model.likelihood
    line = taylor(likelihood, at) if taylors else best_line(likelihood, at)
    noise = line.noise + line.slope**2 * at.residual
    left = (at.y - line.centre) / noise
    second = -(line.slope**2) / noise + (0.0 if gauss_newton else line.bend * left)
    mean = at.mean - place.shift
    return _weighted(place, Slopes(mean, at.variance, line.slope * left, second, None, 0.0))


def extended(place: Place, gauss_newton: bool) -> Slopes:
    """As if y were Taylor's line."""
    return linearised(place, gauss_newton, taylors=True)


def expectation_propagation(place: Place, gauss_newton: bool) -> Slopes:
    """In the cavity."""
    model, data, marginals = place.model, place.data, place.q.marginals[0]
    cavity = cavities(place.shape, marginals, place.linear, place.precision, 1.0)
    wide = cavity.variance + cavity.residual
    tilted = model.likelihood.tilted(data.y, cavity.mean + place.shift, wide, data.extra)
    first = (tilted.mean - cavity.mean - place.shift) / wide
    second = (tilted.variance - wide) / wide**2
    in_variance = (second + first**2) / 2
    return Slopes(cavity.mean, wide, first, second, in_variance, cavity.variance)


def _weighted(place: Place, slopes: Slopes) -> Slopes:
    weights = jnp.asarray(place.data.weights)
    return slopes._replace(first=weights * slopes.first, second=weights * slopes.second)


OBJECTIVES: dict[str, Callable[[Place, bool], Slopes]] = {
    "mode": mode,
    "variational": variational,
    "ep": expectation_propagation,
    "linearised": linearised,
    "extended": extended,
}
