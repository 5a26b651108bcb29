"""Additive models in minibatches: natural gradients on q, an Optax optimiser on the rest."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int

from stategp._data import Table
from stategp._inference._additive import (
    Layout,
    NodeSites,
    Shape,
    additive_evaluate,
    additive_geometry,
    additive_gradient,
    chain_sites,
    level,
    no_node_sites,
    node_moments,
    sites_alone,
    sweep_all,
)
from stategp._inference._bound import Q
from stategp._inference._optax import Moving, ascend_in_batches, checked, move
from stategp._inference._result import FitResult, Report
from stategp._models import AdditiveGP
from stategp.parameters import log_prior, with_vector


def learn_additive_in_minibatches(
    model: AdditiveGP,
    table: Table,
    layout: Layout,
    scaled: np.ndarray,
    scales: np.ndarray,
    count: int,
    optimiser: optax.GradientTransformation,
    *,
    batch_size: int,
    step_size: Any,
    seed: int,
    max_steps: int,
    tolerance: float | None,
    report: Report,
) -> tuple[np.ndarray, NodeSites, FitResult]:
    """q and hyperparameters take one step each for every minibatch of the first `count` rows.

    All components move at once, each as if the others stayed: together they overshoot by as many
    times as there are of them, so steps are at most one over that.
    """
    batch_size = min(batch_size, count)
    take = _minibatch_step(checked(optimiser), count)
    nothing = no_node_sites(table)
    spare = None if model.likelihood.log_concave else nothing
    start = Moving(jnp.asarray(scaled), optimiser.init(jnp.asarray(scaled)), nothing, spare)
    most = 1 / len(model.kernels)

    def with_batch(state: Moving, at: Array, size: Array) -> tuple[Moving, Any]:
        size = jnp.minimum(size, most)
        return take(state, model, table, layout, jnp.asarray(scales), at, size)

    return ascend_in_batches(
        with_batch,
        start,
        count,
        batch_size=batch_size,
        step_size=step_size,
        seed=seed,
        max_steps=max_steps,
        tolerance=tolerance,
        report=report,
    )


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
            still = jax.lax.stop_gradient((moved, shape))
            q = additive_evaluate(still[0], batch, layout, still[1], state.sites, alone=True)
            q = jax.lax.stop_gradient(q)
            return additive_gradient(moved, batch, layout, shape, q) + log_prior(moved), (q, still)

        (value, (q, still)), gradient = jax.value_and_grad(objective, has_aux=True)(state.scaled)
        scaled, memory = move(optimiser, state, value / count, gradient / count)
        sites = state.sites.mix(q.target[0], size)
        if state.spare is None:
            return Moving(scaled, memory, sites), value
        spare = state.spare.mix(_cautious_sites(still[0], batch, still[1], q), size)
        fine = _is_gaussian(with_vector(model, scaled * scales), layout, sites)
        sites = jax.tree.map(lambda a, b: jnp.where(fine, a, b), sites, spare)
        return Moving(scaled, memory, sites, spare), value

    return step


def _cautious_sites(model: AdditiveGP, table: Table, shape: Shape, q: Q) -> NodeSites:
    """The sites wanted at q if no observation could make f less certain."""
    mean, variance = node_moments(shape, q.marginals)
    rows = level(model) + table.spread(mean), table.spread(variance)
    return sites_alone(table, mean, table.expected(model.likelihood, *rows, clip=True))


def _is_gaussian(model: AdditiveGP, layout: Layout, sites: NodeSites) -> Bool[Array, ""]:
    """Whether prior × sites is one for every component."""
    shape = additive_geometry(model, layout)
    swept = sweep_all(shape, chain_sites(layout, shape, sites), indefinite=True)
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(one.log_normaliser)) for one in swept]))
