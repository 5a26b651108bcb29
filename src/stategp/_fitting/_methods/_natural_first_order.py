"""Natural gradients on q, an Optax optimiser on the hyperparameters, all data or minibatches.

A minibatch stands for all data: its observations count N / batch times each, which makes every sum
unbiased. In minibatches there is no bound to guard a step. Where a likelihood that is not
log-concave makes precisions negative, a second set of sites is kept in which they are zero,
observation by observation: prior × these is always a Gaussian, and they take over when a step would
leave the sites for which q is one.
"""

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from stategp._data import Drawn, InBatches, Observations, View
from stategp._fitting._method import Ascending, Method, scaled_limits, scaled_start
from stategp._fitting._methods._natural import Natural
from stategp._fitting._series import SeriesTask
from stategp._fitting._settings import Regime
from stategp._fitting._task import with_result
from stategp._inference import (
    Ascent,
    Batches,
    ChainSites,
    FitResult,
    Geometry,
    Latent,
    Limits,
    Moving,
    Q,
    Sight,
    States,
    TooFastError,
    begin,
    checked,
    evaluate,
    evaluate_all,
    geometry,
    infer,
    latent_moments,
    move,
    no_sites,
    prior_mean,
    pseudo_data,
    settle,
    starting_sites,
    starting_state,
    wanted_sites,
    with_gradient,
)
from stategp._models import GP
from stategp._posteriors import Posterior
from stategp.chain import prior_transitions, sweep
from stategp.parameters import log_prior, to_vector, with_vector

SETTLING = 5  # natural-gradient steps for each step of the hyperparameters


class WithOptax(Ascending):
    """All data: q takes a few safe steps, then the hyperparameters take one."""

    name = "natural"
    regimes = (Regime.optax,)
    optimal = True
    last: type[Method]  # finds the best q for given hyperparameters

    @abc.abstractmethod
    def prepare(self, model: Any, task: Any, warm: Any, optimiser: Any) -> tuple[Any, Any]:
        """The sites to begin with, and a step from a state, scales and limits."""

    def ascent(self, model: Any, task: Any, warm: Any) -> Ascent:
        optimiser = checked(task.settings.optimiser)
        sites, take = self.prepare(model, task, warm, optimiser)
        scaled, scales = (jnp.asarray(v) for v in scaled_start(model, task))
        limits = scaled_limits(model, task)

        def step(state: Moving, number: int) -> tuple[Moving, Any, Any]:
            return take(state, scales, limits)

        return Ascent(
            Moving(scaled, optimiser.init(scaled), sites),
            step,
            max_steps=task.settings.learning_steps,
            window=20,
            enough=(task.settings.tolerance or 1e-6) * task.count,
            noisy=False,
            stop_early=True,
        )

    def at_end(self, model: Any, task: Any, warm: Any, state: Moving, result: FitResult) -> Any:
        model = moved_model(model, task, state)
        sites = None if model.likelihood.conjugate else state.sites
        return with_result(self.last().infer(model, task, sites), result)

    def infer(self, model: Any, task: Any, warm: Any) -> Any:
        if len(to_vector(model)) == 0:  # nothing for the optimiser to move
            return self.last().infer(model, task, warm)
        return super().infer(model, task, warm)


class NaturalWithOptax(WithOptax):
    """Of one function, or several."""

    model = GP
    last = Natural

    def prepare(
        self, model: GP, task: SeriesTask, warm: ChainSites | None, optimiser: Any
    ) -> tuple[ChainSites, Any]:
        guess, take = jnp.asarray(pseudo_data(model, task.data)), _full_step(optimiser)
        sites = warm
        if sites is None:
            sites = starting_state(model, task.data, task.inducing, guess)[1].q.sites

        def step(state: Moving, scales: Array, limits: Limits) -> tuple[Moving, Any, Any]:
            return take(state, model, task.data, task.inducing, scales, limits, guess)

        return sites, step


class NaturalInMinibatches(Ascending):
    """q and hyperparameters take one step each for every minibatch."""

    name, model = "natural", GP
    regimes = (Regime.minibatches,)
    takes_step_size = takes_rows = True

    def ascent(self, model: GP, task: SeriesTask, warm: ChainSites | None) -> Ascent:
        optimiser = checked(task.settings.optimiser)
        take = _minibatch_step(optimiser)
        scaled, scales = (jnp.asarray(v) for v in scaled_start(model, task))
        limits, count = scaled_limits(model, task), jnp.asarray(float(task.count))
        stored = task.data if isinstance(task.data, InBatches) else None
        held = task.data if stored is None else stored.sample()
        guess = jnp.asarray(pseudo_data(model, held))
        sites = _first_sites(model, held, task.inducing, guess)

        def with_batch(state: Moving, batch: Any, size: Array) -> tuple[Moving, Any]:
            data, at = (held, batch) if stored is None else (batch, None)
            return take(state, model, data, task.inducing, scales, limits, at, size, count)

        spare = None if model.likelihood.log_concave else no_sites(model, task.inducing)
        start = Moving(scaled, optimiser.init(scaled), sites, spare)
        return ascent_in_batches(task, start, with_batch, None if stored is None else stored.batch)

    def at_end(
        self, model: GP, task: SeriesTask, warm: Any, state: Moving, result: FitResult
    ) -> Posterior:
        model = moved_model(model, task, state)
        if isinstance(task.data, Drawn):
            task = dataclasses.replace(task, data=task.data.after(len(result.trace)))
            result = result.with_remarks("the bound is that of a sample of the rows")
        try:
            view: View = Sight(task.data, task.inducing)(model)[0]
        except TooFastError as error:  # for rows on disk: their sample speaks for them
            assert isinstance(task.data, InBatches)
            view = Sight(task.data.sample(), task.inducing)(model)[0]
            result = result.with_remarks(f"{error}. The bound is that of a sample of the rows")
        q = evaluate_all(model, view, task.inducing, state.sites, indefinite=False)
        if model.likelihood.conjugate and not np.isfinite(q.elbo):
            # Signals far above the noise: the optimum for these hyperparameters, the careful way.
            q = infer(model, task.data, task.inducing).q
        return task.posterior(model, q.sites, q.marginals, q.elbo, result)


def moved_model(model: Any, task: Any, state: Moving) -> Any:
    """The model with the hyperparameters of a state."""
    return with_vector(model, state.scaled * jnp.asarray(task.scales(model)))


def ascent_in_batches(
    task: Any, start: Moving, take: Any, draw: Callable[[int, tuple[int, int]], Any] | None = None
) -> Ascent:
    """A step for every minibatch, or for all data.

    `take` is given where it stands, the numbers of a batch (None: all data), and the size of the
    natural step. Or, instead of the numbers, what `draw` makes of the size of a batch and a seed
    for each step.
    """
    settings, count = task.settings, task.count
    batch_size = min(settings.batch_size or count, count)
    batches = Batches(count, batch_size, settings.seed) if draw is None else None

    def batch(number: int) -> Any:
        if draw is not None:
            return draw(batch_size, (settings.seed, number))
        assert batches is not None
        return None if settings.batch_size is None else jnp.asarray(batches.at(number))

    def step(state: Moving, number: int) -> tuple[Moving, Any, Any]:
        size = jnp.asarray(settings.step_size(number), dtype=float)
        new, value = take(state, batch(number), size)
        return new, value, size

    max_steps = settings.learning_steps
    return Ascent(
        start,
        step,
        max_steps=max_steps,
        window=min(max(50, -(-count // batch_size)), max(max_steps // 3, 1)),
        enough=(settings.tolerance or 1e-5) * count,
        noisy=settings.batch_size is not None,
        stop_early=settings.tolerance is not None,
    )


@functools.lru_cache(maxsize=16)
def _full_step(optimiser: Any) -> Any:
    @jax.jit
    def step(
        state: Moving,
        model: GP,
        data: Observations,
        inducing: States,
        scales: Array,
        limits: Limits,
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
            search = settle(constant[0], data, constant[1], search, SETTLING, 0.0)
            search = jax.lax.stop_gradient(search)
            return with_gradient(moved, data, shape, search.q) + log_prior(moved), search

        (value, search), gradient = jax.value_and_grad(objective, has_aux=True)(state.scaled)
        scaled, memory = move(optimiser, state, value / len(data), gradient / len(data), limits)
        return Moving(scaled, memory, search.q.sites), value, search.step_size

    return step


@jax.jit
def _first_sites(model: GP, data: Observations, inducing: States, guess: Latent) -> ChainSites:
    shape = geometry(model, data.nodes, inducing)
    sites = starting_sites(model, data, shape, guess)
    # From the prior where the likelihood may have made a site negative.
    return sites if model.likelihood.log_concave else no_sites(model, inducing)


@functools.lru_cache(maxsize=16)
def _minibatch_step(optimiser: Any) -> Any:
    @jax.jit
    def step(
        state: Moving,
        model: GP,
        data: Observations,
        inducing: States,
        scales: Array,
        limits: Limits,
        at: Int[Array, " batch"] | None,
        size: Float[Array, ""],
        count: Float[Array, ""],
    ) -> tuple[Moving, Float[Array, ""]]:
        batch = data if at is None else take_batch(data, at)

        def objective(scaled: Array) -> tuple[Float[Array, ""], Any]:
            moved = with_vector(model, scaled * scales)
            shape = geometry(moved, batch.nodes, inducing)
            constant = jax.lax.stop_gradient((moved, shape))
            positive = model.likelihood.log_concave
            q = evaluate(constant[0], batch, constant[1], state.sites, project=positive)
            q = jax.lax.stop_gradient(q)
            return with_gradient(moved, batch, shape, q) + log_prior(moved), (q, constant)

        (value, (q, here)), gradient = jax.value_and_grad(objective, has_aux=True)(state.scaled)
        scaled, memory = move(optimiser, state, value / count, gradient / count, limits)
        sites = _mixed(state.sites, q.target, size)
        if state.spare is None:
            return Moving(scaled, memory, sites), value
        spare = _mixed(state.spare, _cautious_sites(here[0], batch, here[1], q), size)
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
    expected = data.expected(model.likelihood, full_mean, variance, clip=True)
    return wanted_sites(shape, mean, expected)


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
