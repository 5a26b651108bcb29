"""Natural gradients on q, an Optax optimiser on the hyperparameters, all data or minibatches.

A minibatch stands for all data: its observations count N / batch times each, which makes every sum
unbiased. In minibatches there is no bound to guard a step, so precisions that a likelihood makes
negative are projected to zero: sites stay positive.
"""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from stategp._data import Observations
from stategp._fitting._method import Ascending, scaled_start
from stategp._fitting._methods._natural import Natural
from stategp._fitting._series import SeriesTask
from stategp._fitting._settings import Regime
from stategp._fitting._task import with_result
from stategp._inference import (
    Ascent,
    Batches,
    ChainSites,
    FitResult,
    Latent,
    Moving,
    Sight,
    States,
    begin,
    checked,
    evaluate,
    evaluate_all,
    geometry,
    move,
    no_sites,
    pseudo_data,
    settle,
    starting_sites,
    starting_state,
    with_gradient,
)
from stategp._models import GP
from stategp._posteriors import Posterior
from stategp.parameters import log_prior, to_vector, with_vector

_SETTLING = 5  # natural-gradient steps for each step of the hyperparameters


class NaturalWithOptax(Ascending):
    """All data: q takes a few safe steps, then the hyperparameters take one."""

    name, model = "natural", GP
    regimes = (Regime.optax,)
    optimal = True

    def ascent(self, model: GP, task: SeriesTask, warm: ChainSites | None) -> Ascent:
        guess = jnp.asarray(pseudo_data(model, task.data))
        optimiser = checked(task.settings.optimiser)
        take = _full_step(optimiser)
        scaled, scales = (jnp.asarray(v) for v in scaled_start(model, task))
        sites = warm
        if sites is None:
            _, first = starting_state(model, task.data, task.inducing, guess)
            sites = first.q.sites

        def step(state: Moving, number: int) -> tuple[Moving, Any, Any]:
            return take(state, model, task.data, task.inducing, scales, guess)

        return Ascent(
            Moving(scaled, optimiser.init(scaled), sites),
            step,
            max_steps=task.settings.learning_steps,
            window=20,
            enough=(task.settings.tolerance or 1e-6) * task.count,
            noisy=False,
            stop_early=True,
        )

    def at_end(
        self, model: GP, task: SeriesTask, warm: Any, state: Moving, result: FitResult
    ) -> Posterior:
        model = moved_model(model, task, state)
        sites = None if model.likelihood.conjugate else state.sites
        return with_result(Natural().infer(model, task, sites), result)

    def infer(self, model: GP, task: SeriesTask, warm: ChainSites | None) -> Posterior:
        if len(to_vector(model)) == 0:  # nothing for the optimiser to move
            return Natural().infer(model, task, warm)
        return super().infer(model, task, warm)


class NaturalInMinibatches(Ascending):
    """q and hyperparameters take one step each for every minibatch."""

    name, model = "natural", GP
    regimes = (Regime.minibatches,)
    takes_step_size = True

    def ascent(self, model: GP, task: SeriesTask, warm: ChainSites | None) -> Ascent:
        optimiser = checked(task.settings.optimiser)
        take = _minibatch_step(optimiser)
        scaled, scales = (jnp.asarray(v) for v in scaled_start(model, task))
        guess = jnp.asarray(pseudo_data(model, task.data))
        sites = _first_sites(model, task.data, task.inducing, guess)

        def with_batch(state: Moving, at: Array, size: Array) -> tuple[Moving, Any]:
            return take(state, model, task.data, task.inducing, scales, at, size)

        return ascent_in_batches(task, Moving(scaled, optimiser.init(scaled), sites), with_batch)

    def at_end(
        self, model: GP, task: SeriesTask, warm: Any, state: Moving, result: FitResult
    ) -> Posterior:
        model = moved_model(model, task, state)
        view, _ = Sight(task.data, task.inducing)(model)
        q = evaluate_all(model, view, task.inducing, state.sites, indefinite=False)
        return task.posterior(model, q.sites, q.marginals, q.elbo, result)


def moved_model(model: Any, task: Any, state: Moving) -> Any:
    """The model with the hyperparameters of a state."""
    return with_vector(model, state.scaled * jnp.asarray(task.scales(model)))


def ascent_in_batches(task: Any, start: Moving, take: Any) -> Ascent:
    """A step for every minibatch.

    `take` is given where it stands, the numbers of a batch, and the size of the natural step.
    """
    settings, count = task.settings, task.count
    batch_size = min(settings.batch_size, count)
    batches = Batches(count, batch_size, settings.seed)

    def step(state: Moving, number: int) -> tuple[Moving, Any, Any]:
        size = jnp.asarray(settings.step_size(number), dtype=float)
        new, value = take(state, jnp.asarray(batches.next()), size)
        return new, value, size

    max_steps = settings.learning_steps
    return Ascent(
        start,
        step,
        max_steps=max_steps,
        window=min(max(50, -(-count // batch_size)), max(max_steps // 3, 1)),
        enough=(settings.tolerance or 1e-5) * count,
        noisy=True,
        stop_early=settings.tolerance is not None,
    )


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
            constant = jax.lax.stop_gradient((moved, shape))
            conjugate = model.likelihood.conjugate  # then these hyperparameters have one optimum
            sites = state.sites
            if conjugate:
                sites = starting_sites(constant[0], data, constant[1], guess)
            search = begin(constant[0], data, constant[1], sites)
            search = settle(constant[0], data, constant[1], search, _SETTLING, 0.0)
            search = jax.lax.stop_gradient(search)
            return with_gradient(moved, data, shape, search.q) + log_prior(moved), search

        (value, search), gradient = jax.value_and_grad(objective, has_aux=True)(state.scaled)
        scaled, memory = move(optimiser, state, value / len(data), gradient / len(data))
        return Moving(scaled, memory, search.q.sites), value, search.step_size

    return step


@jax.jit
def _first_sites(model: GP, data: Observations, inducing: States, guess: Latent) -> ChainSites:
    shape = geometry(model, data.nodes, inducing)
    sites = starting_sites(model, data, shape, guess)
    # From the prior where the likelihood may have made a site negative.
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
            constant = jax.lax.stop_gradient((moved, shape))
            q = evaluate(constant[0], batch, constant[1], state.sites, project=True)
            q = jax.lax.stop_gradient(q)
            return with_gradient(moved, batch, shape, q) + log_prior(moved), q

        (value, q), gradient = jax.value_and_grad(objective, has_aux=True)(state.scaled)
        scaled, memory = move(optimiser, state, value / len(data), gradient / len(data))
        sites = tuple(a.mix(b, size) for a, b in zip(state.sites, q.target, strict=True))
        return Moving(scaled, memory, sites), value

    return step


def take_batch(data: Observations, at: Int[Array, " batch"]) -> Observations:
    """Some of the observations, weighted so that they stand for all."""
    share = len(data) / len(at)
    x, y, extra, weights = (jnp.asarray(v)[at] for v in (data.x, data.y, data.extra, data.weights))
    columns = (x, y, extra, share * weights)
    batch: Observations = eqx.tree_at(lambda d: (d.x, d.y, d.extra, d.weights), data, columns)
    return batch
