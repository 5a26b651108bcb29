"""Additive models: natural gradients on q, Optax on the rest, all data or minibatches."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from stategp._data import Table
from stategp._fitting._additive import AdditiveTask
from stategp._fitting._method import Ascending, scaled_limits, scaled_start
from stategp._fitting._methods._natural_first_order import ascent_in_batches, moved_model
from stategp._fitting._settings import Regime
from stategp._inference import (
    AdditiveShape,
    Ascent,
    FitResult,
    Layout,
    Limits,
    Moving,
    NodeSites,
    Q,
    additive_bound,
    additive_evaluate,
    additive_geometry,
    additive_gradient,
    chain_sites,
    checked,
    level,
    move,
    no_node_sites,
    node_moments,
    sites_alone,
    sweep_all,
)
from stategp._models import AdditiveGP
from stategp._posteriors import AdditivePosterior
from stategp.parameters import log_prior, with_vector


class AdditiveFirstOrder(Ascending):
    """q and hyperparameters take one step each for every minibatch of rows, or for all rows.

    All components move at once, each as if the others stayed: together they overshoot by as many
    times as there are of them, so steps are at most one over that.
    """

    name, model = "natural", AdditiveGP
    regimes = (Regime.optax, Regime.minibatches)
    takes_step_size = True

    def ascent(self, model: AdditiveGP, task: AdditiveTask, warm: NodeSites | None) -> Ascent:
        optimiser = checked(task.settings.optimiser)
        take = _minibatch_step(optimiser, task.count)
        scaled, scales = (jnp.asarray(v) for v in scaled_start(model, task))
        limits = scaled_limits(model, task)
        most = 1 / len(model.kernels)

        def with_batch(state: Moving, at: Array | None, size: Array) -> tuple[Moving, Any]:
            size = jnp.minimum(size, most)
            return take(state, model, task.table, task.layout, scales, limits, at, size)

        nothing = no_node_sites(task.table)
        spare = None if model.likelihood.log_concave else nothing
        start = Moving(scaled, optimiser.init(scaled), nothing, spare)
        return ascent_in_batches(task, start, with_batch)

    def at_end(
        self, model: AdditiveGP, task: AdditiveTask, warm: Any, state: Moving, result: FitResult
    ) -> AdditivePosterior:
        model = moved_model(model, task, state)
        q = additive_bound(model, task.table, task.layout, state.sites)
        return task.posterior(model, q, result)


@functools.lru_cache(maxsize=16)
def _minibatch_step(optimiser: Any, count: int) -> Any:
    @jax.jit
    def step(
        state: Moving,
        model: AdditiveGP,
        table: Table,
        layout: Layout,
        scales: Array,
        limits: Limits,
        at: Int[Array, " batch"] | None,
        size: Float[Array, ""],
    ) -> tuple[Moving, Float[Array, ""]]:
        batch = table if at is None else table.take(at, count)

        def objective(scaled: Array) -> tuple[Float[Array, ""], Any]:
            moved = with_vector(model, scaled * scales)
            shape = additive_geometry(moved, layout)
            constant = jax.lax.stop_gradient((moved, shape))
            q = additive_evaluate(constant[0], batch, layout, constant[1], state.sites, alone=True)
            q = jax.lax.stop_gradient(q)
            bound = additive_gradient(moved, batch, layout, shape, q)
            return bound + log_prior(moved), (q, constant)

        (value, (q, here)), gradient = jax.value_and_grad(objective, has_aux=True)(state.scaled)
        scaled, memory = move(optimiser, state, value / count, gradient / count, limits)
        sites = state.sites.mix(q.target[0], size)
        if state.spare is None:
            return Moving(scaled, memory, sites), value
        spare = state.spare.mix(_cautious_sites(here[0], batch, here[1], q), size)
        fine = _is_gaussian(with_vector(model, scaled * scales), layout, sites)
        sites = jax.tree.map(lambda a, b: jnp.where(fine, a, b), sites, spare)
        return Moving(scaled, memory, sites, spare), value

    return step


def _cautious_sites(model: AdditiveGP, table: Table, shape: AdditiveShape, q: Q) -> NodeSites:
    """The sites wanted at q if no observation could make f less certain."""
    mean, variance = node_moments(shape, q.marginals)
    rows = level(model) + table.spread(mean), table.spread(variance)
    return sites_alone(table, mean, table.expected(model.likelihood, *rows, clip=True))


def _is_gaussian(model: AdditiveGP, layout: Layout, sites: NodeSites) -> Bool[Array, ""]:
    """Whether prior × sites is one for every component."""
    shape = additive_geometry(model, layout)
    swept = sweep_all(shape, chain_sites(layout, shape, sites), indefinite=True)
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(one.log_normaliser)) for one in swept]))
