"""The paper's parameterisation: gradients move ξ = (mean, Cholesky factor of q's precision).

For comparison with natural gradients, and for whoever wants one optimiser on everything. The KL
divergence here needs the precision of the prior, which loses its digits when inducing points lie
much closer together than the lengthscale; natural gradients do not.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from stategp._data import Observations
from stategp._fitting._method import Method, scaled_start
from stategp._fitting._methods._everything import Everything, climb, refuse_deterministic
from stategp._fitting._methods._natural_first_order import take_batch
from stategp._fitting._series import SeriesTask
from stategp._fitting._settings import Regime
from stategp._inference import (
    ChainSites,
    Sight,
    States,
    difference,
    evaluate_all,
    geometry,
    latent_moments,
    logarithmic,
    prior_chain,
    prior_mean,
)
from stategp._models import GP
from stategp._posteriors import Posterior
from stategp.chain import PairMarginals, kl_divergence
from stategp.parameters import log_prior, with_vector


def _bound(
    everything: Everything, model: GP, data: Observations, inducing: States, scales: Array
) -> Float[Array, ""]:
    model = with_vector(model, everything.scaled * scales)
    shape = geometry(model, data.nodes, inducing)
    xi = tuple(logarithmic(one, to_log=False) for one in everything.xi)
    mean, variance = latent_moments(shape.projections, tuple(PairMarginals.of(one) for one in xi))
    fit = data.fit(model.likelihood, mean + prior_mean(model, data.user_nodes), variance)
    distance = sum(
        kl_divergence(one, prior_chain(prior))
        for one, prior in zip(xi, shape.transitions, strict=True)
    )
    return fit - distance + log_prior(model)


@jax.jit
def _start(model: GP, data: Observations, inducing: States, scaled: Array) -> Everything:
    """q starts as the prior."""
    shape = geometry(model, data.nodes, inducing)
    priors = tuple(logarithmic(prior_chain(prior), to_log=True) for prior in shape.transitions)
    return Everything(scaled, priors)


@jax.jit
def _as_sites(
    everything: Everything, model: GP, data: Observations, inducing: States, scales: Array
) -> ChainSites:
    """The same q as prior × sites."""
    model = with_vector(model, everything.scaled * scales)
    shape = geometry(model, data.nodes, inducing)
    return tuple(
        difference(logarithmic(xi, to_log=False), prior)
        for xi, prior in zip(everything.xi, shape.transitions, strict=True)
    )


def _take(data: Observations, at: Int[Array, " batch"], count: int) -> Observations:
    return take_batch(data, at)


class Gradient(Method):
    """One optimiser on the hyperparameters and on ξ."""

    name, model = "gradient", GP
    regimes = (Regime.lbfgs, Regime.optax, Regime.minibatches)
    pads = False  # the precision of the states needs them apart

    def check(self, model: GP, data: Any) -> None:
        refuse_deterministic(model.kernels)

    def learn(self, models: list[GP], task: SeriesTask, warm: Any) -> Posterior:
        return self.infer(models[0], task, warm)

    def infer(self, model: GP, task: SeriesTask, warm: Any) -> Posterior:
        scaled, scales = (jnp.asarray(v) for v in scaled_start(model, task))
        start = _start(model, task.data, task.inducing, scaled)
        arguments = (model, task.data, task.inducing, scales)
        everything, result = climb(_bound, _take, start, arguments, task)
        sites = _as_sites(everything, *arguments)
        learned = with_vector(model, everything.scaled * scales)
        view, _ = Sight(task.data, task.inducing)(learned)
        q = evaluate_all(learned, view, task.inducing, sites, indefinite=True)
        return task.posterior(learned, q.sites, q.marginals, q.elbo, result, indefinite=True)
