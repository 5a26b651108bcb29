"""Laplace's approximation: Newton's method for the mode of the states, on the same sites.

The site of an observation is the second-order expansion of its log density at the mode. With
inducing points at the data this is the textbook method; with fewer, f at the observations is
taken to be what the states predict.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._data import Observations
from stategp._inference._bound import (
    Geometry,
    Latent,
    Q,
    States,
    gather_sites,
    geometry,
    prior_mean,
    starting_sites,
)
from stategp._inference._natural import MOST_STEPS, TOLERANCE, Settling, begin, settle
from stategp._inference._starting_values import pseudo_data
from stategp._models import GP
from stategp.chain import PairMarginals, Sites, Swept, sweep
from stategp.parameters import log_prior, with_vector


def _expand(
    model: GP, data: Observations, shape: Geometry, marginals: PairMarginals
) -> tuple[Float[Array, ""], Sites]:
    """Σ log p(y | f) at the mean of the states, and the sites of its second-order expansion."""
    mean, _ = shape.projections[0].marginals(marginals)
    at = mean + prior_mean(model, data.user_nodes)
    value, slope, curvature = model.likelihood.slopes(data.y, at, data.extra)
    weights = data.weights
    if model.likelihood.log_concave:
        curvature = jnp.minimum(curvature, 0.0)
    linear, precision = weights * (slope - curvature * mean), -weights * curvature
    (sites,) = gather_sites(shape, linear, precision)
    return jnp.sum(weights * value), sites


def _sweep(model: GP, shape: Geometry, sites: Sites) -> Swept:
    return sweep(shape.transitions[0], sites, indefinite=not model.likelihood.log_concave)


def _pulls(sites: Sites, marginals: PairMarginals) -> tuple[Array, Array]:
    """Σ linear·mean and Σ meanᵀ precision mean."""
    mean = marginals.mean
    return jnp.sum(sites.linear * mean), jnp.einsum("mi,mij,mj->", mean, sites.precision, mean)


def evaluate_mode(model: GP, data: Observations, shape: Geometry, sites: tuple[Sites, ...]) -> Q:
    """As `evaluate`, with the log posterior density of the mode in place of the bound."""
    swept = _sweep(model, shape, sites[0])
    fit, target = _expand(model, data, shape, swept.marginals)
    linear, quadratic = _pulls(sites[0], swept.marginals)
    height = fit - (linear - quadratic) / 2  # as (K⁻¹ + Λ) mean = linear, no K⁻¹ is needed
    rounding = 2e-15 * (jnp.abs(fit) + jnp.abs(linear) + jnp.abs(quadratic))
    return Q(sites, (swept.marginals,), (swept.messages,), height, rounding, (target,))


def _evidence(
    model: GP, data: Observations, shape: Geometry, mode: PairMarginals
) -> Float[Array, ""]:
    """Laplace's approximation of log p(y), with all that the mode does as parameters move.

    One more Newton step from the mode has the mode's own derivatives.
    """
    _, sites = _expand(model, data, shape, mode)
    moved = _sweep(model, shape, sites).marginals
    fit, sites = _expand(model, data, shape, moved)
    linear, quadratic = _pulls(sites, moved)
    return fit - linear + quadratic / 2 + _sweep(model, shape, sites).log_normaliser


@jax.jit
def starting_mode(
    model: GP, data: Observations, inducing: States, guess: Latent
) -> tuple[Geometry, Settling]:
    """Newton's method before its first step."""
    shape = geometry(model, data.nodes, inducing)
    sites = starting_sites(model, data, shape, guess)
    return shape, begin(model, data, shape, sites, evaluate_mode)


newton_steps = jax.jit(functools.partial(settle, evaluate=evaluate_mode))
laplace_evidence = jax.jit(_evidence)


@jax.jit
def _laplace_objective(
    vector: Float[Array, " parameters"],
    model: GP,
    data: Observations,
    inducing: States,
    guess: Latent,
) -> tuple[Float[Array, ""], Float[Array, " parameters"]]:
    def objective(vector: Float[Array, " parameters"]) -> Float[Array, ""]:
        moved = with_vector(model, vector)
        shape = geometry(moved, data.nodes, inducing)
        still = jax.lax.stop_gradient((moved, shape))
        sites = starting_sites(still[0], data, still[1], guess)
        state = begin(still[0], data, still[1], sites, evaluate_mode)
        state = settle(still[0], data, still[1], state, MOST_STEPS, TOLERANCE, evaluate_mode)
        mode = jax.lax.stop_gradient(state.q.marginals[0])
        return _evidence(moved, data, shape, mode) + log_prior(moved)

    value, gradient = jax.value_and_grad(objective)(vector)
    return value, gradient


def laplace_objective(model: GP, data: Observations, inducing: States) -> Any:
    """Laplace's log p(y) plus log prior and its gradient, as a function of the hyperparameters."""
    guess = jnp.asarray(pseudo_data(model, data))

    def function(vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = _laplace_objective(jnp.asarray(vector), model, data, inducing, guess)
        return float(value), np.asarray(gradient)

    return function
