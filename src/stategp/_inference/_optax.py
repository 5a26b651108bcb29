"""Natural gradients on q, an Optax optimiser on the hyperparameters, all data or minibatches.

Optimisers see the bound per observation. A minibatch stands for all data: its observations count
N / batch times each, which makes every sum unbiased. In minibatches there is no bound to guard a
step. Where a likelihood that is not log-concave makes precisions negative, a second set of sites is
kept in which they are zero, observation by observation: prior × these is always a Gaussian, and
they take over when a step would leave the sites for which q is one.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int

from stategp._data import Observations
from stategp._inference._ascend import ascend
from stategp._inference._bound import (
    ChainSites,
    Geometry,
    Latent,
    Q,
    States,
    evaluate,
    geometry,
    latent_moments,
    prior_mean,
    starting_sites,
    wanted_sites,
    with_gradient,
)
from stategp._inference._natural import begin, no_sites, settle, starting_state
from stategp._inference._result import FitResult, Report
from stategp._inference._starting_values import pseudo_data
from stategp._models import GP
from stategp.chain import prior_transitions, sweep
from stategp.parameters import log_prior, with_vector

_SETTLING = 5  # natural-gradient steps for each step of the hyperparameters


class Moving(NamedTuple):
    """Hyperparameters (each in its own scale), what the optimiser remembers, and q."""

    scaled: Float[Array, " parameters"]
    memory: Any
    sites: Any  # of every chain, or those of another model
    spare: Any = None  # sites without negative precisions, if the likelihood makes such


def learn_with_optax(
    model: GP,
    data: Observations,
    inducing: States,
    scaled: np.ndarray,
    scales: np.ndarray,
    optimiser: optax.GradientTransformation,
    *,
    max_steps: int,
    tolerance: float,
    report: Report,
) -> tuple[np.ndarray, ChainSites, FitResult]:
    """All data: q takes a few safe steps, then the hyperparameters take one."""
    guess = jnp.asarray(pseudo_data(model, data))
    take = _full_step(checked(optimiser))
    _, first = starting_state(model, data, inducing, guess)
    start = Moving(jnp.asarray(scaled), optimiser.init(jnp.asarray(scaled)), first.q.sites)

    def step(state: Moving, number: int) -> tuple[Moving, Any, Any]:
        return take(state, model, data, inducing, jnp.asarray(scales), guess)

    end, result = ascend(
        step,
        start,
        max_steps=max_steps,
        window=20,
        enough=tolerance * len(data),
        noisy=False,
        stop_early=True,
        report=report,
    )
    return np.asarray(end.scaled), end.sites, result


@functools.lru_cache(maxsize=16)
def _full_step(optimiser: optax.GradientTransformation) -> Any:
    @jax.jit
    def step(
        state: Moving,
        model: GP,
        data: Observations,
        inducing: States,
        scales: Array,
        guess: Latent,
    ) -> tuple[Moving, Float[Array, ""], Float[Array, ""]]:
        def objective(scaled: Array) -> tuple[Float[Array, ""], Any]:
            moved = with_vector(model, scaled * scales)
            shape = geometry(moved, data.nodes, inducing)
            still = jax.lax.stop_gradient((moved, shape))
            conjugate = model.likelihood.conjugate  # then these hyperparameters have one optimum
            sites = starting_sites(still[0], data, still[1], guess) if conjugate else state.sites
            search = begin(still[0], data, still[1], sites)
            search = settle(still[0], data, still[1], search, _SETTLING, 0.0)
            search = jax.lax.stop_gradient(search)
            return with_gradient(moved, data, shape, search.q) + log_prior(moved), search

        (value, search), gradient = jax.value_and_grad(objective, has_aux=True)(state.scaled)
        scaled, memory = move(optimiser, state, value / len(data), gradient / len(data))
        return Moving(scaled, memory, search.q.sites), value, search.step_size

    return step


@functools.lru_cache(maxsize=16)
def checked(optimiser: Any) -> Any:
    """The optimiser, if gradients and values are all it needs."""
    extended = optax.with_extra_args_support(optimiser)
    nothing = jnp.zeros(1)
    try:
        extended.update(nothing, extended.init(nothing), nothing, value=jnp.zeros(()), grad=nothing)
    except TypeError as error:
        raise ValueError(
            f"this Optax optimiser needs more than values and gradients ({error}); for L-BFGS pass "
            "optimiser='lbfgs'"
        ) from None
    return extended


def move(optimiser: Any, state: Any, value: Array, gradient: Array) -> tuple[Array, Any]:
    """One step upwards; Optax goes down."""
    updates, memory = optimiser.update(
        -gradient, state.memory, state.scaled, value=-value, grad=-gradient
    )
    return optax.apply_updates(state.scaled, updates), memory


def learn_in_minibatches(
    model: GP,
    data: Observations,
    inducing: States,
    scaled: np.ndarray,
    scales: np.ndarray,
    optimiser: optax.GradientTransformation,
    *,
    batch_size: int,
    step_size: Any,
    seed: int,
    max_steps: int,
    tolerance: float | None,
    report: Report,
) -> tuple[np.ndarray, ChainSites, FitResult]:
    """q and hyperparameters take one step each for every minibatch.

    `step_size` is that of the natural gradient: a function of the number of steps taken.
    """
    batch_size = min(batch_size, len(data))
    take = _minibatch_step(checked(optimiser))
    start = Moving(
        jnp.asarray(scaled),
        optimiser.init(jnp.asarray(scaled)),
        _first_sites(model, data, inducing, jnp.asarray(pseudo_data(model, data))),
        None if model.likelihood.log_concave else no_sites(model, inducing),
    )

    def with_batch(state: Moving, at: Array, size: Array) -> tuple[Moving, Any]:
        return take(state, model, data, inducing, jnp.asarray(scales), at, size)

    return ascend_in_batches(
        with_batch,
        start,
        len(data),
        batch_size=batch_size,
        step_size=step_size,
        seed=seed,
        max_steps=max_steps,
        tolerance=tolerance,
        report=report,
    )


def ascend_in_batches(
    take: Callable[[Moving, Array, Array], tuple[Moving, Any]],
    start: Moving,
    count: int,
    *,
    batch_size: int,
    step_size: Callable[[int], Any],
    seed: int,
    max_steps: int,
    tolerance: float | None,
    report: Report,
) -> tuple[np.ndarray, Any, FitResult]:
    """A step for every minibatch: hyperparameters, sites, and how it went.

    `take` is given where it stands, the numbers of a batch, and the size of the natural step.
    """
    batches = Batches(count, batch_size, seed)

    def step(state: Moving, number: int) -> tuple[Moving, Any, Any]:
        size = jnp.asarray(step_size(number), dtype=float)
        new, value = take(state, jnp.asarray(batches.next()), size)
        return new, value, size

    end, result = ascend(
        step,
        start,
        max_steps=max_steps,
        window=min(max(50, -(-count // batch_size)), max(max_steps // 3, 1)),
        enough=(tolerance or 1e-5) * count,
        noisy=True,
        stop_early=tolerance is not None,
        report=report,
    )
    return np.asarray(end.scaled), end.sites, result


class Batches:
    """Minibatches of equal size: the data in random order, reshuffled when it runs out."""

    def __init__(self, count: int, size: int, seed: int):
        self.random, self.size = np.random.default_rng(seed), size
        self.order, self.position = self.random.permutation(count), 0

    def next(self) -> np.ndarray:
        if self.position + self.size > len(self.order):
            self.order, self.position = self.random.permutation(self.order), 0
        chosen = self.order[self.position : self.position + self.size]
        self.position += self.size
        return np.sort(chosen)


@jax.jit
def _first_sites(model: GP, data: Observations, inducing: States, guess: Latent) -> ChainSites:
    shape = geometry(model, data.nodes, inducing)
    return _positive(model, starting_sites(model, data, shape, guess), inducing)


def _positive(model: GP, sites: ChainSites, inducing: States) -> ChainSites:
    """Start from the prior where the likelihood may have made a site negative."""
    return sites if model.likelihood.log_concave else no_sites(model, inducing)


@functools.lru_cache(maxsize=16)
def _minibatch_step(optimiser: optax.GradientTransformation) -> Any:
    @jax.jit
    def step(
        state: Moving,
        model: GP,
        data: Observations,
        inducing: States,
        scales: Array,
        at: Int[Array, " batch"],
        size: Float[Array, ""],
    ) -> tuple[Moving, Float[Array, ""]]:
        batch = take_batch(data, at)

        def objective(scaled: Array) -> tuple[Float[Array, ""], Any]:
            moved = with_vector(model, scaled * scales)
            shape = geometry(moved, batch.nodes, inducing)
            still = jax.lax.stop_gradient((moved, shape))
            positive = model.likelihood.log_concave
            q = evaluate(still[0], batch, still[1], state.sites, project=positive)
            q = jax.lax.stop_gradient(q)
            return with_gradient(moved, batch, shape, q) + log_prior(moved), (q, still)

        (value, (q, still)), gradient = jax.value_and_grad(objective, has_aux=True)(state.scaled)
        scaled, memory = move(optimiser, state, value / len(data), gradient / len(data))
        sites = _mixed(state.sites, q.target, size)
        if state.spare is None:
            return Moving(scaled, memory, sites), value
        spare = _mixed(state.spare, _cautious_sites(still[0], batch, still[1], q), size)
        fine = _is_gaussian(with_vector(model, scaled * scales), inducing, sites)
        sites = jax.tree.map(lambda a, b: jnp.where(fine, a, b), sites, spare)
        return Moving(scaled, memory, sites, spare), value

    return step


def _mixed(old: ChainSites, new: ChainSites, size: Float[Array, ""]) -> ChainSites:
    return tuple(a.mix(b, size) for a, b in zip(old, new, strict=True))


def _cautious_sites(model: GP, data: Observations, shape: Geometry, q: Q) -> ChainSites:
    """The sites wanted at q if no observation could make f less certain."""
    mean, variance = latent_moments(shape.projections, q.marginals)
    full_mean = mean + prior_mean(model, data.user_nodes)
    found = data.expected(model.likelihood, full_mean, variance, clip=True)
    return wanted_sites(shape, mean, found)


def _is_gaussian(model: GP, inducing: States, sites: ChainSites) -> Bool[Array, ""]:
    """Whether prior × sites is one for every chain."""
    priors = [prior_transitions(kernel, inducing) for kernel in model.kernels]
    swept = [sweep(p, site, indefinite=True) for p, site in zip(priors, sites, strict=True)]
    return jnp.all(jnp.isfinite(jnp.stack([one.log_normaliser for one in swept])))


def take_batch(data: Observations, at: Int[Array, " batch"]) -> Observations:
    """Some of the observations, weighted so that they stand for all."""
    share = len(data) / len(at)
    x, y, extra, weights = (jnp.asarray(v)[at] for v in (data.x, data.y, data.extra, data.weights))
    columns = (x, y, extra, share * weights)
    batch: Observations = eqx.tree_at(lambda d: (d.x, d.y, d.extra, d.weights), data, columns)
    return batch
