"""Newton steps on the sites: an objective, and what takes the place of its second derivative.

What Wilkinson, Särkkä & Solin (2023) call Bayes–Newton methods, in one step. The objectives are in
`_slopes`. With the derivatives (first, second) at the mean m the site of an observation moves, by
the share ρ (`damping`), towards precision = −second and linear = first + precision · m, where
`second` is

    exact         the second derivative
    gauss_newton  −μ′²/R, of the mean μ(f) and variance R(f) of y, averaged as the objective is
    quasi_newton  from differences of first derivatives (`_quasi_newton`)
    riemann       exact, less ½ ρ (precision + second)²/precision, of the site as it is: the new
                  precision is then positive whatever the second derivative (Lin, Schmidt & Khan,
                  2020)

`steady`: all sites have the average precision, as at the steady state of evenly spaced data.
"""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._data import Observations
from stategp._fitting._methods._for_given import ForGiven, UntilStill
from stategp._fitting._methods._lines import At, Points
from stategp._fitting._methods._natural import Natural
from stategp._fitting._methods._power_ep_sites import (
    LEAST,
    first_factors,
    relative_change,
    residual_variance,
)
from stategp._fitting._methods._quasi_newton import Memory, first_memory, remember
from stategp._fitting._methods._slopes import OBJECTIVES, Seen, Slopes
from stategp._fitting._series import SeriesTask
from stategp._inference import (
    FitResult,
    Geometry,
    Latent,
    Q,
    States,
    Step,
    evaluate,
    gather_sites,
    geometry,
    prior_mean,
    pseudo_data,
    run,
    settle_fully,
)
from stategp._models import GP, SpaceTimeGP
from stategp._posteriors import Posterior

CURVATURES = ("exact", "gauss_newton", "quasi_newton", "riemann")
_REFUSED = {
    ("ep", "gauss_newton"): "y is averaged over f first, and is no function of it then",
    ("linearised", "quasi_newton"): "its slopes hold the noise of a line fixed that has moved",
}


@dataclasses.dataclass(frozen=True)
class BayesNewton(ForGiven):
    """``method=sg.BayesNewton(objective, curvature)``: Newton steps on the sites.

    `objective` is what an observation contributes at q: ``"variational"`` (its expected log
    density), ``"mode"`` (its log density at the mean of q), ``"ep"``, ``"linearised"`` (as if y
    were the best line in f under q) or ``"extended"`` (Taylor's line). `curvature` stands for its
    second derivative: ``"exact"``, ``"gauss_newton"``, ``"quasi_newton"`` (from differences of
    first derivatives) or ``"riemann"`` (exact, and corrected so that every precision is positive;
    where the objective curves upwards the answer depends on `damping`). ``steady=True`` gives all
    sites one precision, their average; what that costs is said by `posterior.fit_result`, and is a
    part of the error in `posterior.certificate`, if there is one.

    `damping` is the fraction of each update that is applied. It is for `sg.condition` of an `sg.GP`
    or an `sg.SpaceTimeGP`; hyperparameters are not learned. `posterior.elbo` is the variational
    bound of q whatever the objective, so that q of different methods can be compared.

    >>> import stategp as sg
    >>> method = sg.BayesNewton("variational", "riemann")
    >>> model = sg.GP(sg.kernels.Matern32(), "poisson")
    >>> posterior = sg.condition(model, range(5), [0, 2, 3, 1, 0], method=method)
    >>> posterior.fit_result.converged
    True
    """

    objective: str = "variational"
    curvature: str = "gauss_newton"
    steady: bool = False
    damping: float = 0.7

    name, model = "bayes_newton", GP | SpaceTimeGP
    plain_bound = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for what, given, known in (
            ("objective", self.objective, tuple(OBJECTIVES)),
            ("curvature", self.curvature, CURVATURES),
        ):
            if given not in known:
                listed = ", ".join(map(repr, known))
                raise ValueError(f"{what} must be one of {listed}, got {given!r}")
        if (self.objective, self.curvature) in _REFUSED:
            raise ValueError(
                f"the objective {self.objective!r} has no curvature {self.curvature!r}: "
                f"{_REFUSED[self.objective, self.curvature]}; use 'exact' or 'riemann'"
            )

    def check(self, model: GP | SpaceTimeGP, data: Any) -> None:
        super().check(model, data)
        if self.objective == "ep" and np.any(np.asarray(data.weights) != 1):
            raise ValueError("the objective 'ep' does not take weights; use 'variational'")

    def shortfall(self, model: Any) -> str | None:
        if model.likelihood.conjugate:
            return None
        frozen = "one precision for all sites"
        if self.objective == "variational" and self.curvature in ("exact", "quasi_newton"):
            return frozen if self.steady else "the search for q"
        chosen = f"the objective {self.objective!r} with the curvature {self.curvature!r}"
        return f"{chosen} and {frozen}" if self.steady else chosen

    def remarked(self, model: Any, result: FitResult, lost: float) -> FitResult:
        """The result of a search, with what steady sites cost of the bound."""
        words = f"{self.shortfall(model)} costs {max(lost, 0.0):.2g} nats of the bound"
        return result.with_remarks(words) if self.steady else result

    def infer(self, model: GP, task: SeriesTask, warm: Any) -> Posterior:
        if model.likelihood.conjugate:
            return Natural().infer(model, task, None)
        guess = jnp.asarray(pseudo_data(model, task.data))
        shape, first = first_newton(model, task.data, task.inducing, guess, self)
        search = _Newton(self, model, task, shape, first)
        result = run(search, task.show, task.settings.keeper)
        q = search.best.q
        if self.steady:
            free = float(free_bound(model, task.data, shape, q))
            result = self.remarked(model, result, free - float(q.elbo))
        return task.posterior(model, q.sites, q.marginals, q.elbo, result)


class Newton(NamedTuple):
    """In between steps: the sites, and q as they make it."""

    linear: Points
    precision: Points
    q: Q
    change: Float[Array, ""]
    memory: Memory | None


def _q(
    model: GP, data: Observations, shape: Geometry, linear: Points, precision: Points, way: Any
) -> Q:
    indefinite = way.curvature in ("exact", "quasi_newton")  # others have no negative sites
    return evaluate(
        model, data, shape, gather_sites(shape, linear, precision), indefinite=indefinite
    )


def _seen(
    model: GP, data: Observations, shape: Geometry, q: Q, linear: Points, precision: Points
) -> Seen:
    mean, variance = shape.projections[0].marginals(q.marginals[0])
    shift = prior_mean(model, data.user_nodes)
    at = At(data.y, data.extra, mean + shift, variance, residual_variance(shape).reshape(-1))
    weights = jnp.asarray(data.weights)
    return Seen(model.likelihood, at, shift, weights, linear, precision, q.expected)


def newton_slopes(seen: Seen, method: BayesNewton) -> Slopes:
    """The derivatives that a method takes."""
    return OBJECTIVES[method.objective](seen, method.curvature == "gauss_newton")


@partial(jax.jit, static_argnames="method")
def first_newton(
    model: GP, data: Observations, inducing: States, guess: Latent, method: BayesNewton
) -> tuple[Geometry, Newton]:
    """From what y points at."""
    shape = geometry(model, data.nodes, inducing)
    linear, precision = first_factors(model, data, guess)
    q = _q(model, data, shape, linear, precision, method)
    memory = None
    if method.curvature == "quasi_newton":
        seen = _seen(model, data, shape, q, linear, precision)
        memory = first_memory(newton_slopes(seen, method), precision)
    return shape, Newton(linear, precision, q, jnp.inf * jnp.ones(()), memory)


@partial(jax.jit, static_argnames="method")
def newton_step(
    model: GP, data: Observations, shape: Geometry, state: Newton, method: BayesNewton
) -> Newton:
    """All sites at once. A step to nowhere leaves everything where it was, with a change of NaN."""
    seen = _seen(model, data, shape, state.q, state.linear, state.precision)
    slopes, memory = newton_slopes(seen, method), state.memory
    if memory is not None:
        memory = remember(memory, slopes)
        slopes = slopes._replace(second=memory.hessian[:, 0, 0])
    linear, precision = wanted_site(seen, slopes, method)
    rate = method.damping
    linear = state.linear + rate * (linear - state.linear)
    precision = state.precision + rate * (precision - state.precision)
    change = jnp.maximum(
        relative_change(linear, state.linear), relative_change(precision, state.precision)
    )
    q = _q(model, data, shape, linear, precision, method)
    moved = Newton(linear, precision, q, change, memory)
    stuck = state._replace(change=jnp.nan * jnp.ones(()))
    sound = jnp.isfinite(q.elbo) & jnp.isfinite(change)
    kept: Newton = jax.tree.map(lambda a, b: jnp.where(sound, a, b), moved, stuck)
    return kept


@jax.jit
def free_bound(model: GP, data: Observations, shape: Geometry, q: Q) -> Float[Array, ""]:
    """The highest bound of any Gaussian, by natural gradients from q."""
    return settle_fully(model, data, shape, q.sites).q.elbo


def wanted_site(seen: Seen, slopes: Slopes, method: BayesNewton) -> tuple[Points, Points]:
    """The site that a whole step would lead to."""
    # A cavity is wider than what it becomes: less of it than this is lost to rounding.
    shrink = jnp.maximum(1 + slopes.second * slopes.cavity, LEAST)
    precision, pull = -slopes.second / shrink, slopes.first / shrink
    if method.steady:
        precision = seen.weights * jnp.sum(precision) / jnp.sum(seen.weights)
    if method.curvature == "riemann":
        there = seen.precision > 0
        safe = jnp.where(there, seen.precision, 1.0)
        gap = jnp.where(there, seen.precision - precision, 0.0)
        precision = precision + method.damping * gap**2 / safe / 2
    return pull + precision * slopes.mean, precision


class _Newton(UntilStill):
    def step(self, state: Newton, number: int) -> Step:
        new = newton_step(self.model, self.task.data, self.shape, state, self.method)
        return Step(new, new.q.elbo, self.method.damping, known=new)
