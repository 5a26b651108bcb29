"""Gaussian smoothing with linearised observations, iterated, on the same sites.

Of a likelihood these methods know the mean μ(f) and variance R(f) of y. At each step they take
y ≈ a·f + b + noise of variance Ω, where a, b and Ω depend on q as it is, and q becomes the exact
posterior of that; a fixed point is the answer (García-Fernández, Svensson & Särkkä, 2017).

    extended                  a = μ′(m), Ω = R(m): Taylor's line at the mean m of q
    unscented                 the best line under q, by three sigma points
    posterior_linearisation   the same by Gauss–Hermite quadrature
    gauss_newton              the mode of p(f | y) by its true slopes, with μ′²/R as curvature
"""

import abc
import dataclasses
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stategp._data import Observations
from stategp._fitting._methods._for_given import ForGiven, UntilStill
from stategp._fitting._methods._lines import (
    NODES,
    At,
    Points,
    Regression,
    best_line,
    information,
    taylor,
)
from stategp._fitting._methods._natural import Natural
from stategp._fitting._series import SeriesTask
from stategp._inference import (
    Geometry,
    Latent,
    States,
    Step,
    geometry,
    prior_mean,
    pseudo_data,
    run,
)
from stategp._models import GP
from stategp._posteriors import Posterior
from stategp.chain import PairMarginals, Sites, sweep
from stategp.likelihoods import Likelihood


class Line(NamedTuple):
    """What an observation says about f: log p ≈ constant + linear · f − ½ precision · f²."""

    linear: Points
    precision: Points
    constant: Points


@dataclasses.dataclass(frozen=True)
class Linearised(ForGiven):
    """One way to linearise; `damping` is the fraction of each update that is applied."""

    damping: float = 0.7

    @abc.abstractmethod
    def line(self, likelihood: Likelihood, at: At) -> Line:
        """The observations, linearised."""

    def infer(self, model: GP, task: SeriesTask, warm: Any) -> Posterior:
        if model.likelihood.conjugate:  # y is linear in f
            return Natural().infer(model, task, None)
        guess = jnp.asarray(pseudo_data(model, task.data))
        shape, state = starting_smoothing(model, task.data, task.inducing, guess)
        search = _Smoothing(self, model, task, shape, state)
        result = run(search, task.show, task.settings.keeper)
        sites, marginals, evidence = smoothed(model, task.data, shape, search.best, self)
        return task.posterior(model, (sites,), (marginals,), evidence, result, is_bound=False)


@dataclasses.dataclass(frozen=True)
class Extended(Linearised):
    """Taylor's line at the mean of q."""

    name = "extended"

    def line(self, likelihood: Likelihood, at: At) -> Line:
        return _gaussian(at, taylor(likelihood, at))


@dataclasses.dataclass(frozen=True)
class PosteriorLinearisation(Linearised):
    """The best line under q, by quadrature."""

    name = "posterior_linearisation"
    nodes: ClassVar[int] = NODES

    def line(self, likelihood: Likelihood, at: At) -> Line:
        return _gaussian(at, best_line(likelihood, at, self.nodes))


@dataclasses.dataclass(frozen=True)
class Unscented(PosteriorLinearisation):
    """The same by three sigma points."""

    name = "unscented"
    nodes: ClassVar[int] = 3


@dataclasses.dataclass(frozen=True)
class GaussNewton(Linearised):
    """True slopes of the log density at the mode, with the curvature of the extended smoother."""

    name = "gauss_newton"

    def line(self, likelihood: Likelihood, at: At) -> Line:
        value, slope, _ = likelihood.slopes(at.y, at.mean, at.extra)
        precision = information(likelihood, at.mean, at.extra)
        constant = value - slope * at.mean - precision * at.mean**2 / 2
        return Line(slope + precision * at.mean, precision, constant)


def _gaussian(at: At, line: Regression) -> Line:
    """What y says if it is such a line, f itself spread around what states say."""
    slope, noise = line.slope, line.noise + line.slope**2 * at.residual
    seen = at.y - line.centre + slope * at.mean
    constant = -(jnp.log(2 * jnp.pi * noise) + seen**2 / noise) / 2
    return Line(slope * seen / noise, slope**2 / noise, constant)


class Smoothing(NamedTuple):
    """In between steps."""

    linear: Points
    precision: Points
    change: Float[Array, ""]


def _sweep(shape: Geometry, linear: Points, precision: Points) -> Any:
    sites = shape.projections[0].gather(linear, precision, len(shape.transitions[0].A))
    return sites, sweep(shape.transitions[0], sites)


def _line(
    model: GP, data: Observations, shape: Geometry, marginals: PairMarginals, method: Linearised
) -> Line:
    """The observations linearised at q, in terms of f without its mean function, and weighted."""
    mean, variance = shape.projections[0].marginals(marginals)
    residual = sum(shape.projections[0].residual, start=jnp.zeros(()))
    shift = prior_mean(model, data.user_nodes)
    at = At(data.y, data.extra, mean + shift, variance, residual.reshape(-1))
    linear, precision, constant = method.line(model.likelihood, at)
    constant = constant + linear * shift - precision * shift**2 / 2
    line = Line(linear - precision * shift, precision, constant)
    return Line(*(data.weights * part for part in line))


@jax.jit
def starting_smoothing(
    model: GP, data: Observations, inducing: States, guess: Latent
) -> tuple[Geometry, Smoothing]:
    """From what y points at."""
    shape = geometry(model, data.nodes, inducing)
    start = data.expected(model.likelihood, guess, model.likelihood.guess_variance(guess))
    precision = jnp.maximum(-2 * start.curvature, 0.0)
    linear = start.slope + precision * (guess - prior_mean(model, data.user_nodes))
    return shape, Smoothing(linear, precision, jnp.inf * jnp.ones(()))


@partial(jax.jit, static_argnames="method")
def smoothing_step(
    model: GP, data: Observations, shape: Geometry, state: Smoothing, method: Linearised
) -> tuple[Smoothing, Float[Array, ""]]:
    """One step, and the log p(y) of the observations as linearised before it."""
    _, swept = _sweep(shape, state.linear, state.precision)
    line = _line(model, data, shape, swept.marginals, method)
    linear = state.linear + method.damping * (line.linear - state.linear)
    precision = state.precision + method.damping * (line.precision - state.precision)
    change = jnp.maximum(_relative(linear, state.linear), _relative(precision, state.precision))
    return Smoothing(linear, precision, change), swept.log_normaliser + jnp.sum(line.constant)


def _relative(new: Points, old: Points) -> Float[Array, ""]:
    return jnp.max(jnp.abs(new - old)) / (1e-12 + jnp.max(jnp.abs(new)))


@partial(jax.jit, static_argnames="method")
def smoothed(
    model: GP, data: Observations, shape: Geometry, state: Smoothing, method: Linearised
) -> tuple[Sites, PairMarginals, Float[Array, ""]]:
    """The sites, the pair marginals and log p(y)."""
    sites, swept = _sweep(shape, state.linear, state.precision)
    line = _line(model, data, shape, swept.marginals, method)
    return sites, swept.marginals, swept.log_normaliser + jnp.sum(line.constant)


class _Smoothing(UntilStill):
    def step(self, state: Smoothing, number: int) -> Step:
        new, value = smoothing_step(self.model, self.task.data, self.shape, state, self.method)
        return Step(new, value, self.method.damping, known=new)
