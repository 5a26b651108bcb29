"""Additive models in minibatches: natural gradients on q, an Optax optimiser on the rest."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from stategp._data import Table
from stategp._fitting._additive import AdditiveTask
from stategp._fitting._method import Ascending, scaled_start
from stategp._fitting._methods._natural_first_order import ascent_in_batches, moved_model
from stategp._fitting._settings import Regime
from stategp._inference import (
    Ascent,
    FitResult,
    Layout,
    Moving,
    NodeSites,
    additive_bound,
    additive_evaluate,
    additive_geometry,
    additive_gradient,
    checked,
    move,
    no_node_sites,
)
from stategp._models import AdditiveGP
from stategp._posteriors import AdditivePosterior
from stategp.parameters import log_prior, with_vector


class AdditiveInMinibatches(Ascending):
    """q and hyperparameters take one step each for every minibatch of rows.

    All components move at once, each as if the others stayed: together they overshoot by as many
    times as there are of them, so steps are at most one over that.
    """

    name, model = "natural", AdditiveGP
    regimes = (Regime.minibatches,)
    takes_step_size = True

    def ascent(self, model: AdditiveGP, task: AdditiveTask, warm: NodeSites | None) -> Ascent:
        optimiser = checked(task.settings.optimiser)
        take = _minibatch_step(optimiser, task.count)
        scaled, scales = (jnp.asarray(v) for v in scaled_start(model, task))
        most = 1 / len(model.kernels)

        def with_batch(state: Moving, at: Array, size: Array) -> tuple[Moving, Any]:
            size = jnp.minimum(size, most)
            return take(state, model, task.table, task.layout, scales, at, size)

        start = Moving(scaled, optimiser.init(scaled), no_node_sites(task.table))
        return ascent_in_batches(task, start, with_batch)

    def at_end(
        self, model: AdditiveGP, task: AdditiveTask, warm: Any, state: Moving, result: FitResult
    ) -> AdditivePosterior:
        model = moved_model(model, task, state)
        q = additive_bound(model, task.table, task.layout, state.sites)
        return task.posterior(model, q, result)


@functools.lru_cache(maxsize=16)
def _minibatch_step(optimiser: optax.GradientTransformation, count: int) -> Any:
    @jax.jit
    def step(
        state: Moving,
        model: AdditiveGP,
        table: Table,
        layout: Layout,
        scales: Array,
        at: Int[Array, " batch"],
        size: Float[Array, ""],
    ) -> tuple[Moving, Float[Array, ""]]:
        batch = table.take(at, count)

        def objective(scaled: Array) -> tuple[Float[Array, ""], Any]:
            moved = with_vector(model, scaled * scales)
            shape = additive_geometry(moved, layout)
            constant = jax.lax.stop_gradient((moved, shape))
            q = additive_evaluate(constant[0], batch, layout, constant[1], state.sites, alone=True)
            q = jax.lax.stop_gradient(q)
            return additive_gradient(moved, batch, layout, shape, q) + log_prior(moved), q

        (value, q), gradient = jax.value_and_grad(objective, has_aux=True)(state.scaled)
        scaled, memory = move(optimiser, state, value / count, gradient / count)
        return Moving(scaled, memory, state.sites.mix(q.target[0], size)), value

    return step
