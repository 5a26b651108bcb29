"""Additive models as in the paper: one optimiser on the hyperparameters and on ξ of every chain."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stategp._data import Table
from stategp._fitting._additive import AdditiveTask
from stategp._fitting._method import Method, scaled_start
from stategp._fitting._methods._everything import Everything, climb, refuse_deterministic
from stategp._fitting._settings import Regime
from stategp._inference import (
    Layout,
    additive_bound,
    additive_geometry,
    difference,
    level,
    logarithmic,
    node_moments,
    prior_chain,
)
from stategp._models import AdditiveGP
from stategp._posteriors import AdditivePosterior
from stategp.chain import MeanCholesky, PairMarginals, Sites, kl_divergence
from stategp.parameters import log_prior, with_vector


class AdditiveGradient(Method):
    """One optimiser on the hyperparameters and on ξ of every component."""

    name, model = "gradient", AdditiveGP
    regimes = (Regime.lbfgs, Regime.optax, Regime.minibatches)
    pads = False  # the precision of the states needs them apart

    def check(self, model: AdditiveGP, data: Any) -> None:
        refuse_deterministic(model.kernels)

    def learn(self, models: list[AdditiveGP], task: AdditiveTask, warm: Any) -> AdditivePosterior:
        return self.infer(models[0], task, warm)

    def infer(self, model: AdditiveGP, task: AdditiveTask, warm: Any) -> AdditivePosterior:
        scaled, scales = (jnp.asarray(v) for v in scaled_start(model, task))
        start = Everything(scaled, _prior(model, task.layout))
        arguments = (model, task.table, task.layout, scales)
        everything, result = climb(_bound, Table.take, start, arguments, task)
        learned = with_vector(model, everything.scaled * scales)
        sites = _as_sites(learned, task.layout, everything.xi)
        q = additive_bound(learned, task.table, task.layout, sites)
        return task.posterior(learned, q, result)


def _bound(
    everything: Everything, model: AdditiveGP, table: Table, layout: Layout, scales: Array
) -> Float[Array, ""]:
    """The bound, or its estimate by the rows of a minibatch."""
    model = with_vector(model, everything.scaled * scales)
    shape = additive_geometry(model, layout)
    xi = _logarithmic(everything.xi, to_log=False)
    mean, variance = node_moments(shape, tuple(jax.vmap(PairMarginals.of)(one) for one in xi))
    rows = level(model) + table.spread(mean), table.spread(variance)
    fit = table.log_density(model.likelihood, *rows)
    for one, prior in zip(xi, shape.transitions, strict=True):
        fit -= jnp.sum(jax.vmap(kl_divergence)(one, jax.vmap(prior_chain)(prior)))
    return fit + log_prior(model)


@jax.jit
def _prior(model: AdditiveGP, layout: Layout) -> tuple[MeanCholesky, ...]:
    """q starts as the prior."""
    transitions = additive_geometry(model, layout).transitions
    return _logarithmic(tuple(jax.vmap(prior_chain)(prior) for prior in transitions), to_log=True)


@jax.jit
def _as_sites(model: AdditiveGP, layout: Layout, xi: tuple[MeanCholesky, ...]) -> tuple[Sites, ...]:
    """The same q as prior × sites."""
    transitions = additive_geometry(model, layout).transitions
    return tuple(
        jax.vmap(difference)(one, prior)
        for one, prior in zip(_logarithmic(xi, to_log=False), transitions, strict=True)
    )


def _logarithmic(xi: tuple[MeanCholesky, ...], *, to_log: bool) -> tuple[MeanCholesky, ...]:
    return tuple(jax.vmap(lambda chain: logarithmic(chain, to_log))(one) for one in xi)
