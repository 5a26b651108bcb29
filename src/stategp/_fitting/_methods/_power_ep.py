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
from stategp._fitting._methods._for_given import MOST_STEPS, STILL, UntilStill
from stategp._fitting._methods._interval_ep import sharing_step, starting_sharing
from stategp._fitting._methods._laplace import refuse_several_latents
from stategp._fitting._methods._natural import Natural
from stategp._fitting._methods._power_ep_sites import (
    Evidence,
    Points,
    cavities,
    evidence_of,
    first_factors,
    matched,
    relative_change,
    sweep_factors,
)
from stategp._fitting._series import SeriesTask
from stategp._inference import (
    Geometry,
    Latent,
    Outcome,
    States,
    Step,
    Watch,
    geometry,
    pseudo_data,
    run,
)
from stategp._models import GP
from stategp._posteriors import Posterior
from stategp._runtime import on_device
from stategp.chain import PairMarginals, Sites
from stategp.parameters import log_prior, to_vector, with_vector


@dataclasses.dataclass(frozen=True)
class PowerEP(Collapsing):
    """``method=sg.PowerEP(power=0.5)``: power expectation propagation.

    `damping` is the fraction of each update that is applied; smaller values are slower and safer.

    With ``sites="interval"`` the observations between two inducing points share one site: what is
    kept does not grow with the data. It is for `sg.condition`; hyperparameters are not learned.

    >>> import stategp as sg
    >>> sg.PowerEP(power=0.5)
    PowerEP(power=0.5, damping=0.7, sites='observation')
    """

    power: float = 1.0
    damping: float = 0.7
    sites: str = "observation"

    name, model = "ep", GP
    plain_bound = False

    def __post_init__(self) -> None:
        shares = as_number(self.power), as_number(self.damping)
        if not all(share is not None and 0 < share <= 1 for share in shares):
            raise ValueError(
                f"power and damping must lie in (0, 1], got {self.power!r} and {self.damping!r}"
            )
        if self.sites not in ("observation", "interval"):
            raise ValueError(f"sites must be 'observation' or 'interval', got {self.sites!r}")

    def check(self, model: GP, data: Any) -> None:
        refuse_several_latents(self.name, model)
        if np.any(np.asarray(data.weights) != 1):
            raise ValueError("method='ep' does not take weights; use method='natural'")
        if self.sites == "interval" and len(to_vector(model)) > 0:
            raise ValueError(
                "sg.PowerEP(sites='interval') finds q for hyperparameters as they are: use "
                "sg.condition, or learn them with sites='observation' or method='natural' first"
            )

    def objective(self, model: GP, task: SeriesTask, warm: Any) -> Any:
        if task.exact(model):
            return Natural().objective(model, task, None)
        return ep_objective(model, task.data, task.inducing, self)

    def infer(self, model: GP, task: SeriesTask, warm: Any) -> Posterior:
        if task.exact(model):
            return Natural().infer(model, task, None)
        guess = jnp.asarray(pseudo_data(model, task.data))
        shared = self.sites == "interval"
        start: Any = starting_sharing if shared else starting_propagation
        shape, first = start(model, task.data, task.inducing, guess)
        search = _Propagation(self, model, task, shape, first)
        result = run(search, task.show, task.settings.keeper)
        state, evidence = search.best[0], search.best[1].value
        sites, marginals = (
            (state.sites, state.marginals) if shared else propagated(model, shape, state)
        )
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


def _begin(model: GP, data: Observations, shape: Geometry, guess: Latent) -> Propagating:
    linear, precision = first_factors(model, data, guess)
    _, swept = sweep_factors(model, shape, linear, precision)
    far = jnp.inf * jnp.ones(())
    return Propagating(linear, precision, swept.marginals, jnp.zeros((), int), far)


def _step(
    model: GP, data: Observations, shape: Geometry, state: Propagating, method: PowerEP
) -> Propagating:
    """All sites at once. A step to nowhere leaves everything where it was, with a change of NaN."""
    power, rate = method.power, method.damping
    cavity = cavities(shape, state.marginals, state.linear, state.precision, power)
    _, linear, precision = matched(model, data, cavity, power)
    new_linear = state.linear + rate * (linear / power - state.linear)
    new_precision = state.precision + rate * (precision / power - state.precision)
    _, swept = sweep_factors(model, shape, new_linear, new_precision)
    change = jnp.maximum(
        relative_change(new_linear, state.linear), relative_change(new_precision, state.precision)
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
    return state, evidence_of(model, data, shape, state.linear, state.precision, method.power)


@jax.jit
def propagated(model: GP, shape: Geometry, state: Propagating) -> tuple[Sites, PairMarginals]:
    """The sites of the chain, and its pair marginals."""
    sites, swept = sweep_factors(model, shape, state.linear, state.precision)
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
        value, lost = evidence_of(moved, data, shape, state.linear, state.precision, method.power)
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


class _Propagation(UntilStill):
    """Steps of EP; a state is that of EP and its log p(y)."""

    def start(self) -> Any:
        nothing = Evidence(*on_device((np.zeros(()), np.zeros((), bool))))
        return self.first, nothing

    def step(self, state: Any, number: int) -> Step:
        here, method = (self.model, self.task.data, self.shape, state[0]), self.method
        if method.sites == "interval":
            new: Any = sharing_step(*here, method.power, method.damping)
        else:
            new = propagation_step(*here, method)
        return Step(new, new[1].value, self.method.damping, known=new)

    def judge(self, state: Any, watch: Watch) -> Outcome | None:
        return super().judge(state[0], watch)
