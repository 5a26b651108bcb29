"""Power expectation propagation, all observations at once, on the same sites.

Every observation keeps a site exp(linear·a − ½ precision·a²) on a = what the states predict for
its f. Its cavity is q without `power` of that site; the site is then changed to give q the mean and
variance of cavity × likelihood^power. Power 1 is EP; small powers approach the variational answer.
With fewer inducing points than data this is sparse power EP (Bui, Yan & Turner, 2017). For Gaussian
observations at inducing points every power is exact, and natural gradients find the same with more
digits.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from stategp._arguments import as_number
from stategp._data import Observations
from stategp._fitting._method import Collapsing
from stategp._fitting._methods._laplace import refuse_several_latents
from stategp._fitting._methods._natural import Natural
from stategp._fitting._series import SeriesTask
from stategp._inference import (
    Geometry,
    Latent,
    Outcome,
    States,
    Step,
    Stepwise,
    Watch,
    geometry,
    prior_mean,
    pseudo_data,
    rounding_of,
    run,
    unless_lost,
)
from stategp._models import GP
from stategp._posteriors import Posterior
from stategp._runtime import on_device
from stategp.chain import PairMarginals, Sites, sweep
from stategp.parameters import log_prior, with_vector

Points = Float[Array, " points"]

MOST_STEPS = 500
STILL = 1e-9  # the largest relative change of a site that counts as none
_LEAST = 1e-10  # of the precision of q, in a cavity; less is lost to rounding
_EPS = float(np.finfo(float).eps)


@dataclasses.dataclass(frozen=True)
class PowerEP(Collapsing):
    """``method=sg.PowerEP(power=0.5)``: power expectation propagation.

    `damping` is the fraction of each update that is applied; smaller values are slower and safer.

    >>> import stategp as sg
    >>> sg.PowerEP(power=0.5)
    PowerEP(power=0.5, damping=0.7)
    """

    power: float = 1.0
    damping: float = 0.7

    name, model = "ep", GP
    plain_bound = False

    def __post_init__(self) -> None:
        shares = as_number(self.power), as_number(self.damping)
        if not all(share is not None and 0 < share <= 1 for share in shares):
            raise ValueError(
                f"power and damping must lie in (0, 1], got {self.power!r} and {self.damping!r}"
            )

    def check(self, model: GP, data: Any) -> None:
        refuse_several_latents(self.name, model)
        if np.any(np.asarray(data.weights) != 1):
            raise ValueError("method='ep' does not take weights; use method='natural'")

    def objective(self, model: GP, task: SeriesTask, warm: Any) -> Any:
        if task.exact(model):
            return Natural().objective(model, task, None)
        return ep_objective(model, task.data, task.inducing, self)

    def infer(self, model: GP, task: SeriesTask, warm: Any) -> Posterior:
        if task.exact(model):
            return Natural().infer(model, task, None)
        guess = jnp.asarray(pseudo_data(model, task.data))
        shape, state = starting_propagation(model, task.data, task.inducing, guess)
        search = _Propagation(self, model, task, shape, state)
        result = run(search, task.show, task.settings.keeper)
        state, evidence = search.best[0], search.best[1].value
        sites, marginals = propagated(model, shape, state)
        if search.best[1].lost:
            evidence = jnp.nan
        return task.posterior(model, (sites,), (marginals,), evidence, result, is_bound=False)


class Propagating(NamedTuple):
    """EP in between steps: a site for every observation."""

    linear: Points
    precision: Points
    marginals: PairMarginals
    steps: Int[Array, ""]
    change: Float[Array, ""]


class Evidence(NamedTuple):
    """EP's approximation of log p(y), and whether rounding may have cost too much of it."""

    value: Float[Array, ""]
    lost: Bool[Array, ""]


class _Cavity(NamedTuple):
    mean: Points
    variance: Points  # of what the states predict
    residual: Points  # of f around that
    left: Points  # the share of the precision of q that is not the site's


def _sweep(model: GP, shape: Geometry, linear: Points, precision: Points) -> Any:
    sites = shape.projections[0].gather(linear, precision, len(shape.transitions[0].A))
    indefinite = not model.likelihood.log_concave
    return sites, sweep(shape.transitions[0], sites, indefinite=indefinite)


def _cavities(
    shape: Geometry, marginals: PairMarginals, linear: Points, precision: Points, power: float
) -> _Cavity:
    residual = sum(shape.projections[0].residual, start=jnp.zeros(()))
    mean, total = shape.projections[0].marginals(marginals)
    variance = total - residual
    left = jnp.maximum(1 - power * precision * variance, _LEAST)
    return _Cavity((mean - power * linear * variance) / left, variance / left, residual, left)


def _updated(
    model: GP, data: Observations, cavity: _Cavity, power: float
) -> tuple[Points, Points, Points]:
    """log ∫ likelihood^power × cavity, and the site^power that matches its moments."""
    shift = prior_mean(model, data.user_nodes)
    spread = cavity.variance + cavity.residual
    tilted = model.likelihood.tilted(data.y, cavity.mean + shift, spread, data.extra, power=power)
    first = (tilted.mean - cavity.mean - shift) / spread
    second = (tilted.variance - spread) / spread**2
    if model.likelihood.log_concave:
        second = jnp.minimum(second, 0.0)
    shrink = 1 + second * cavity.variance
    return tilted.log_normaliser, (first - second * cavity.mean) / shrink, -second / shrink


def _begin(model: GP, data: Observations, shape: Geometry, guess: Latent) -> Propagating:
    start = data.expected(model.likelihood, guess, model.likelihood.guess_variance(guess))
    precision = jnp.maximum(-2 * start.curvature, 0.0)
    linear = start.slope + precision * (guess - prior_mean(model, data.user_nodes))
    _, swept = _sweep(model, shape, linear, precision)
    return Propagating(
        linear, precision, swept.marginals, jnp.zeros((), int), jnp.inf * jnp.ones(())
    )


def _step(
    model: GP, data: Observations, shape: Geometry, state: Propagating, method: PowerEP
) -> Propagating:
    """All sites at once. A step to nowhere leaves everything where it was, with a change of NaN."""
    power, rate = method.power, method.damping
    cavity = _cavities(shape, state.marginals, state.linear, state.precision, power)
    _, linear, precision = _updated(model, data, cavity, power)
    new_linear = state.linear + rate * (linear / power - state.linear)
    new_precision = state.precision + rate * (precision / power - state.precision)
    _, swept = _sweep(model, shape, new_linear, new_precision)
    change = jnp.maximum(
        _relative(new_linear, state.linear), _relative(new_precision, state.precision)
    )
    moved = Propagating(new_linear, new_precision, swept.marginals, state.steps + 1, change)
    stuck = state._replace(steps=state.steps + 1, change=jnp.nan * jnp.ones(()))
    sound = jnp.isfinite(jnp.sum(swept.marginals.covariance)) & jnp.isfinite(change)
    kept: Propagating = jax.tree.map(lambda a, b: jnp.where(sound, a, b), moved, stuck)
    return kept


def _propagate(
    model: GP, data: Observations, shape: Geometry, guess: Latent, method: PowerEP
) -> Propagating:
    def unfinished(state: Propagating) -> Bool[Array, ""]:
        return (state.change > STILL) & (state.steps < MOST_STEPS)  # False for NaN

    def step(state: Propagating) -> Propagating:
        return _step(model, data, shape, state, method)

    ended: Propagating = jax.lax.while_loop(unfinished, step, _begin(model, data, shape, guess))
    return ended


def _relative(new: Points, old: Points) -> Float[Array, ""]:
    return jnp.max(jnp.abs(new - old)) / (1e-12 + jnp.max(jnp.abs(new)))


def _evidence(
    model: GP, data: Observations, shape: Geometry, state: Propagating, power: float
) -> Evidence:
    """EP's approximation of log p(y). At a fixed point it does not depend on the sites."""
    sites, swept = _sweep(model, shape, state.linear, state.precision)
    cavity = _cavities(shape, swept.marginals, state.linear, state.precision, power)
    log_tilted, _, _ = _updated(model, data, cavity, power)
    linear, precision = power * state.linear, power * state.precision
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
    unclear = jnp.any(cavity.left <= _LEAST)
    return Evidence(value, unclear | jnp.isnan(unless_lost(value, rounding, data.total)))


@jax.jit
def starting_propagation(
    model: GP, data: Observations, inducing: States, guess: Latent
) -> tuple[Geometry, Propagating]:
    """EP before its first step."""
    shape = geometry(model, data.nodes, inducing)
    return shape, _begin(model, data, shape, guess)


@jax.jit(static_argnames="method")
def propagation_step(
    model: GP, data: Observations, shape: Geometry, state: Propagating, method: PowerEP
) -> tuple[Propagating, Evidence]:
    """One step, and EP's approximation of log p(y) after it."""
    state = _step(model, data, shape, state, method)
    return state, _evidence(model, data, shape, state, method.power)


@jax.jit
def propagated(model: GP, shape: Geometry, state: Propagating) -> tuple[Sites, PairMarginals]:
    """The sites of the chain, and its pair marginals."""
    sites, swept = _sweep(model, shape, state.linear, state.precision)
    return sites, swept.marginals


@jax.jit(static_argnames="method")
def _ep_objective(
    vector: Float[Array, " parameters"],
    model: GP,
    data: Observations,
    inducing: States,
    guess: Latent,
    method: PowerEP,
) -> tuple[Float[Array, ""], Float[Array, " parameters"]]:
    def objective(vector: Float[Array, " parameters"]) -> Float[Array, ""]:
        moved = with_vector(model, vector)
        shape = geometry(moved, data.nodes, inducing)
        model_here, shape_here = jax.lax.stop_gradient((moved, shape))
        state = jax.lax.stop_gradient(_propagate(model_here, data, shape_here, guess, method))
        value, lost = _evidence(moved, data, shape, state, method.power)
        return jnp.where(lost, jnp.nan, value) + log_prior(moved)

    value, gradient = jax.value_and_grad(objective)(vector)
    return value, gradient


def ep_objective(model: GP, data: Observations, inducing: States, method: PowerEP) -> Any:
    """EP's log p(y) plus log prior and its gradient, as a function of the hyperparameters."""
    guess = jnp.asarray(pseudo_data(model, data))

    def function(vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = _ep_objective(jnp.asarray(vector), model, data, inducing, guess, method)
        return float(value), np.asarray(gradient)

    return function


class _Propagation(Stepwise):
    """Steps of EP until the sites stand still; a state is that of EP and its log p(y)."""

    def __init__(
        self, method: PowerEP, model: GP, task: SeriesTask, shape: Geometry, first: Propagating
    ):
        self.method, self.model, self.task = method, model, task
        self.shape, self.first = shape, first
        self.max_steps = task.settings.max_steps or MOST_STEPS
        self.enough = task.settings.tolerance or STILL

    def start(self) -> Any:
        nothing = Evidence(*on_device((np.zeros(()), np.zeros((), bool))))
        return self.first, nothing

    def step(self, state: Any, number: int) -> Step:
        new = propagation_step(self.model, self.task.data, self.shape, state[0], self.method)
        return Step(new, new[1].value, self.method.damping, known=new)

    def judge(self, state: Any, watch: Watch) -> Outcome | None:
        if state[0].change <= self.enough:
            return Outcome.converged
        return Outcome.sites_moving if np.isnan(state[0].change) else None

    def exhausted(self, watch: Watch) -> Outcome:
        return Outcome.sites_moving
