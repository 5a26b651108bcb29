"""Mixtures of processes: natural gradients on q, an Optax optimiser on the hyperparameters."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from stategp._data import PlacedRows
from stategp._fitting._method import Ascending, scaled_limits, scaled_start
from stategp._fitting._methods._mixed import MixedNatural
from stategp._fitting._methods._natural_first_order import (
    SETTLING,
    WithOptax,
    ascent_in_batches,
    moved_model,
)
from stategp._fitting._mixed import MixedTask
from stategp._fitting._settings import Regime
from stategp._fitting._task import with_result
from stategp._inference import (
    Ascent,
    FitResult,
    GroupSites,
    Limits,
    MixedShape,
    Moving,
    Q,
    States,
    begin,
    checked,
    mixed_alone,
    mixed_bound,
    mixed_evaluate,
    mixed_first,
    mixed_geometry,
    mixed_gradient,
    mixed_moments,
    mixed_start,
    move,
    no_group_sites,
    settle,
    sweep_groups,
)
from stategp._models import MixedGP
from stategp._posteriors import MixedPosterior
from stategp.parameters import log_prior, with_vector


class MixedWithOptax(WithOptax):
    """Of several processes."""

    model = MixedGP
    last = MixedNatural

    def prepare(
        self, model: MixedGP, task: MixedTask, warm: GroupSites | None, optimiser: Any
    ) -> tuple[GroupSites, Any]:
        take, sites = _full_step(optimiser, task.count), warm
        if sites is None:
            sites = mixed_start(model, task.rows, task.inducing, None).q.sites

        def step(state: Moving, scales: Array, limits: Limits) -> tuple[Moving, Any, Any]:
            return take(state, model, task.rows, task.inducing, scales, limits)

        return sites, step


class MixedInMinibatches(Ascending):
    """q and hyperparameters take one step each for every minibatch of rows.

    Chains move at once, each as if the others stayed: together they overshoot by as many times as
    there are of them, so steps are at most one over that.
    """

    name, model = "natural", MixedGP
    regimes = (Regime.minibatches,)
    takes_step_size = True

    def ascent(self, model: MixedGP, task: MixedTask, warm: GroupSites | None) -> Ascent:
        optimiser = checked(task.settings.optimiser)
        take = _minibatch_step(optimiser, task.count)
        scaled, scales = (jnp.asarray(v) for v in scaled_start(model, task))
        limits = scaled_limits(model, task)
        most = 1.0 if model.q == "joint" else 1 / len(model.kernels)

        def with_batch(state: Moving, at: Array, size: Array) -> tuple[Moving, Any]:
            size = jnp.minimum(size, most)
            return take(state, model, task.rows, task.inducing, scales, limits, at, size)

        nothing = no_group_sites(model, len(task.inducing))
        spare = None if model.concave else nothing
        start = Moving(scaled, optimiser.init(scaled), nothing, spare)
        return ascent_in_batches(task, start, with_batch)

    def at_end(
        self, model: MixedGP, task: MixedTask, warm: Any, state: Moving, result: FitResult
    ) -> MixedPosterior:
        model = moved_model(model, task, state)
        q = mixed_bound(model, task.rows, task.inducing, state.sites)
        if model.likelihood.conjugate and not np.isfinite(q.elbo):
            return with_result(MixedNatural().infer(model, task, None), result)
        return task.posterior(model, q, result)


@functools.lru_cache(maxsize=16)
def _full_step(optimiser: Any, count: int) -> Any:
    @jax.jit
    def step(
        state: Moving,
        model: MixedGP,
        rows: PlacedRows,
        inducing: States,
        scales: Array,
        limits: Limits,
    ) -> tuple[Moving, Float[Array, ""], Float[Array, ""]]:
        def objective(scaled: Array) -> tuple[Float[Array, ""], Any]:
            moved = with_vector(model, scaled * scales)
            shape = mixed_geometry(moved, rows, inducing)
            here = jax.lax.stop_gradient((moved, shape))
            sites = state.sites
            if model.likelihood.conjugate:  # then these hyperparameters have one optimum
                sites = mixed_first(here[0], rows, here[1], sites)
            search = begin(here[0], rows, here[1], sites, mixed_evaluate)
            search = settle(here[0], rows, here[1], search, SETTLING, 0.0, mixed_evaluate)
            search = jax.lax.stop_gradient(search)
            return mixed_gradient(moved, rows, shape, search.q) + log_prior(moved), search

        (value, search), gradient = jax.value_and_grad(objective, has_aux=True)(state.scaled)
        scaled, memory = move(optimiser, state, value / count, gradient / count, limits)
        return Moving(scaled, memory, search.q.sites), value, search.step_size

    return step


@functools.lru_cache(maxsize=16)
def _minibatch_step(optimiser: Any, count: int) -> Any:
    @jax.jit
    def step(
        state: Moving,
        model: MixedGP,
        rows: PlacedRows,
        inducing: States,
        scales: Array,
        limits: Limits,
        at: Int[Array, " batch"],
        size: Float[Array, ""],
    ) -> tuple[Moving, Float[Array, ""]]:
        batch = rows.take(at, count)

        def objective(scaled: Array) -> tuple[Float[Array, ""], Any]:
            moved = with_vector(model, scaled * scales)
            shape = mixed_geometry(moved, batch, inducing)
            here = jax.lax.stop_gradient((moved, shape))
            q = mixed_evaluate(here[0], batch, here[1], state.sites, alone=True)
            q = jax.lax.stop_gradient(q)
            return mixed_gradient(moved, batch, shape, q) + log_prior(moved), (q, here)

        (value, (q, here)), gradient = jax.value_and_grad(objective, has_aux=True)(state.scaled)
        scaled, memory = move(optimiser, state, value / count, gradient / count, limits)
        sites = _mixed(state.sites, q.target, size)
        if state.spare is None:
            return Moving(scaled, memory, sites), value
        spare = _mixed(state.spare, _cautious_sites(here[0], batch, here[1], q), size)
        fine = _is_gaussian(with_vector(model, scaled * scales), batch, inducing, sites)
        sites = jax.tree.map(lambda a, b: jnp.where(fine, a, b), sites, spare)
        return Moving(scaled, memory, sites, spare), value

    return step


def _mixed(old: GroupSites, new: GroupSites, size: Float[Array, ""]) -> GroupSites:
    return tuple(a.mix(b, size) for a, b in zip(old, new, strict=True))


def _cautious_sites(model: MixedGP, rows: PlacedRows, shape: MixedShape, q: Q) -> GroupSites:
    """The sites wanted at q if no observation could make f less certain."""
    mean, variance = mixed_moments(shape, q.marginals)
    mean = mean + model.offset(rows.user_x, rows.places)
    expected = rows.expected(model.likelihood_at(rows.places), mean, variance, clip=True)
    if model.functions > 1:  # a diagonal without positive entries can make nothing less certain
        own = expected.curvature * jnp.eye(model.functions)[None]
        expected = expected._replace(curvature=own)
    return mixed_alone(shape, q.marginals, expected)


def _is_gaussian(
    model: MixedGP, rows: PlacedRows, inducing: States, sites: GroupSites
) -> Bool[Array, ""]:
    """Whether prior × sites is one for every chain."""
    swept = sweep_groups(mixed_geometry(model, rows, inducing), sites, indefinite=True)
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(one.log_normaliser)) for one in swept]))
