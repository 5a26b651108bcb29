"""Gaussian observations: the optimal q in closed form, the bound, and its gradient.

At the optimal q the derivative of the bound with respect to q vanishes, so its gradient with
respect to the hyperparameters is the partial derivative with q's sites and moments held fixed:

    ∂bound = ∂ Σ_n E_q[log p(y_n | f_n)]  (through the conditionals p(f_n | u) and the likelihood)
           + ∂ log Z                       (through the prior of the states)
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stategp.chain import (
    Messages,
    PairMarginals,
    Sites,
    Transitions,
    expected_log_sites,
    local_log_normaliser,
    prior_transitions,
    sweep,
)
from stategp.data import Observations
from stategp.models import GP
from stategp.parameters import log_prior, with_vector
from stategp.projection import Projection, project

States = Float[Array, " states"]


class Inferred(NamedTuple):
    """The optimal q and the bound it reaches."""

    sites: Sites
    marginals: PairMarginals
    elbo: Float[Array, ""]


def optimal_sites(model: GP, data: Observations, projection: Projection, intervals: int) -> Sites:
    """The sites of the optimal q: each observation's Gaussian factor, summed by interval."""
    residual = data.y - model.mean(data.user_x)
    linear, precision = model.likelihood.sites(residual, data.known)
    return projection.gather(linear, precision, intervals)


def expected_log_likelihood(
    model: GP, data: Observations, projection: Projection, marginals: PairMarginals
) -> Float[Array, ""]:
    """Σ_n E_q[log p(y_n | f_n)]."""
    mean, variance = projection.marginals(marginals)
    mean = mean + model.mean(data.user_x)
    return jnp.sum(model.likelihood.expected_log_density(data.y, mean, variance, data.known))


def optimise(
    model: GP, data: Observations, projection: Projection, transitions: Transitions
) -> tuple[Inferred, Messages]:
    """The optimal q, given the conditionals of the observations and the prior of the states."""
    sites = optimal_sites(model, data, projection, len(transitions.A))
    marginals, log_z, messages = sweep(transitions, sites)
    fit = expected_log_likelihood(model, data, projection, marginals)
    elbo = fit - expected_log_sites(sites, marginals) + log_z
    # No log evidence exceeds that of residuals all zero. One that does was lost to rounding
    # (signal above 10¹⁵ times the noise), and NaN says so.
    highest = model.likelihood.highest_log_density(data.known)
    return Inferred(sites, marginals, jnp.where(elbo > highest + 1.0, jnp.nan, elbo)), messages


@jax.jit
def infer(model: GP, data: Observations, inducing: States) -> Inferred:
    """The optimal q for the model as it is."""
    transitions = prior_transitions(model.kernel, inducing)
    projection = project(model.kernel, inducing, data.x, transitions)
    return optimise(model, data, projection, transitions)[0]


def _objective(
    vector: Float[Array, " parameters"], model: GP, data: Observations, inducing: States
) -> Float[Array, ""]:
    """Bound plus log prior; its derivative is the envelope gradient."""
    model = with_vector(model, vector)
    transitions = prior_transitions(model.kernel, inducing)
    projection = project(model.kernel, inducing, data.x, transitions)
    q, messages = optimise(*jax.lax.stop_gradient((model, data, projection, transitions)))
    partial = expected_log_likelihood(model, data, projection, q.marginals)
    partial += local_log_normaliser(transitions, q.sites, messages)
    return q.elbo + partial - jax.lax.stop_gradient(partial) + log_prior(model)


@jax.jit
def objective_and_gradient(
    vector: Float[Array, " parameters"], model: GP, data: Observations, inducing: States
) -> tuple[Float[Array, ""], Float[Array, " parameters"]]:
    """The collapsed bound (plus the log prior) and its gradient, at hyperparameters `vector`."""
    value, gradient = jax.value_and_grad(_objective)(vector, model, data, inducing)
    return value, gradient
