"""Mixtures of processes as in the paper: one optimiser on the hyperparameters and on ξ."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stategp._data import PlacedRows
from stategp._fitting._method import Method, scaled_start
from stategp._fitting._methods._everything import Everything, climb, refuse_deterministic
from stategp._fitting._mixed import MixedTask
from stategp._fitting._settings import Regime
from stategp._inference import (
    Q,
    States,
    difference,
    logarithmic,
    mixed_evaluate,
    mixed_geometry,
    mixed_moments,
    mixed_priors,
    prior_chain,
)
from stategp._models import JointGP, MixedGP, MultiOutputGP
from stategp._posteriors import MixedPosterior
from stategp.chain import MeanCholesky, PairMarginals, kl_divergence
from stategp.parameters import log_prior, with_vector


class OutputsGradient(Method):
    """One optimiser on the hyperparameters and on ξ of every chain, for several outputs."""

    name = "gradient"
    model: ClassVar[type] = MultiOutputGP
    regimes = (Regime.lbfgs, Regime.optax, Regime.minibatches)
    pads = False  # the precision of the states needs them apart

    def check(self, model: MixedGP, data: Any) -> None:
        refuse_deterministic(model.kernels)

    def learn(self, models: list[MixedGP], task: MixedTask, warm: Any) -> MixedPosterior:
        return self.infer(models[0], task, warm)

    def infer(self, model: MixedGP, task: MixedTask, warm: Any) -> MixedPosterior:
        scaled, scales = (jnp.asarray(v) for v in scaled_start(model, task))
        start = Everything(scaled, _prior(model, task.inducing))
        arguments = (model, task.rows, task.inducing, scales)
        everything, result = climb(_bound, PlacedRows.take, start, arguments, task)
        learned = with_vector(model, everything.scaled * scales)
        q = _as_q(learned, task.rows, task.inducing, everything.xi)
        return task.posterior(learned, q, result, indefinite=True)


class JointGradient(OutputsGradient):
    """The same for functions that one likelihood reads together."""

    model = JointGP


def _bound(
    everything: Everything, model: MixedGP, rows: PlacedRows, inducing: States, scales: Array
) -> Float[Array, ""]:
    """The bound, or its estimate by the rows of a minibatch."""
    model = with_vector(model, everything.scaled * scales)
    shape = mixed_geometry(model, rows, inducing)
    xi = _logarithmic(everything.xi, to_log=False)
    mean, variance = mixed_moments(shape, tuple(jax.vmap(PairMarginals.of)(one) for one in xi))
    mean = mean + model.offset(rows.user_x, rows.places)
    fit = rows.log_density(model.likelihood_at(rows.places), mean, variance)
    for one, group in zip(xi, shape.groups, strict=True):
        prior = jax.vmap(prior_chain)(group.transitions)
        fit -= jnp.sum(jax.vmap(kl_divergence)(one, prior))
    return fit + log_prior(model)


@jax.jit
def _prior(model: MixedGP, inducing: States) -> tuple[MeanCholesky, ...]:
    """q starts as the prior."""
    priors = mixed_priors(model, inducing)
    return _logarithmic(tuple(jax.vmap(prior_chain)(prior) for prior in priors), to_log=True)


@jax.jit
def _as_q(model: MixedGP, rows: PlacedRows, inducing: States, xi: tuple[MeanCholesky, ...]) -> Q:
    """The same q as prior × sites, and its bound on all data."""
    shape = mixed_geometry(model, rows, inducing)
    sites = tuple(
        jax.vmap(difference)(one, group.transitions)
        for one, group in zip(_logarithmic(xi, to_log=False), shape.groups, strict=True)
    )
    return mixed_evaluate(model, rows, shape, sites, target=False, indefinite=True)


def _logarithmic(xi: tuple[MeanCholesky, ...], *, to_log: bool) -> tuple[MeanCholesky, ...]:
    return tuple(jax.vmap(lambda chain: logarithmic(chain, to_log))(one) for one in xi)
