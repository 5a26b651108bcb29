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
from stategp._fitting._method import Collapsing
from stategp._fitting._methods._natural import Natural, Settler
from stategp._fitting._series import SeriesTask
from stategp._fitting._task import check_finite
from stategp._inference import (
    Geometry,
    Latent,
    Q,
    Settling,
    States,
    begin,
    gather_sites,
    geometry,
    prior_mean,
    pseudo_data,
    rounding_of,
    run,
    settle,
    settle_fully,
    starting_sites,
    unless_lost,
)
from stategp._models import GP, SpaceTimeGP
from stategp._posteriors import Posterior
from stategp.chain import PairMarginals, Sites, Swept, sweep
from stategp.likelihoods import Laplace as LaplaceNoise
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
    terms = jnp.stack([fit, linear, quadratic])
    rounding = rounding_of(terms, [(sites[0], swept.marginals)])
    return Q(sites, (swept.marginals,), (swept.messages,), height, rounding, (target,))


def _evidence(
    model: GP, data: Observations, shape: Geometry, mode: PairMarginals
) -> Float[Array, ""]:
    """Laplace's approximation of log p(y), with all that the mode does as parameters move.

    One more Newton step from the mode has the mode's own derivatives. NaN where rounding may have
    cost too much.
    """
    _, sites = _expand(model, data, shape, mode)
    moved = _sweep(model, shape, sites).marginals
    fit, sites = _expand(model, data, shape, moved)
    linear, quadratic = _pulls(sites, moved)
    swept = _sweep(model, shape, sites)
    terms = jnp.stack([fit, -linear, quadratic / 2, swept.log_normaliser])
    rounding = rounding_of(terms, [(sites, swept.marginals)])
    return unless_lost(jnp.sum(terms), rounding, data.total)


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
        model_here, shape_here = jax.lax.stop_gradient((moved, shape))
        sites = starting_sites(model_here, data, shape_here, guess)
        state = settle_fully(model_here, data, shape_here, sites, evaluate_mode)
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


def refuse_several_latents(name: str, model: GP | SpaceTimeGP) -> None:
    """Refuse likelihoods that read several functions."""
    if model.likelihood.latents > 1:
        raise ValueError(
            f"method={name!r} is for likelihoods with one latent function, not for "
            f"{type(model.likelihood).__name__}; use method='natural'"
        )


class Laplace(Collapsing):
    """The mode of the states, and the curvature there.

    Where that is exact (Gaussian observations at inducing points) it is what `Natural` does too,
    with more digits.
    """

    name, model = "laplace", GP
    plain_bound = False

    def check(self, model: GP, data: Any) -> None:
        refuse_several_latents(self.name, model)
        if isinstance(model.likelihood, LaplaceNoise):
            raise ValueError(
                "the Laplace approximation needs a second derivative, which the Laplace likelihood "
                "does not have; use method='natural' or 'ep'"
            )

    def objective(self, model: GP, task: SeriesTask, warm: Any) -> Any:
        if task.exact(model):
            return Natural().objective(model, task, None)
        return laplace_objective(model, task.data, task.inducing)

    def infer(self, model: GP, task: SeriesTask, warm: Any) -> Posterior:
        if task.exact(model):
            return Natural().infer(model, task, None)
        guess = jnp.asarray(pseudo_data(model, task.data))
        shape, state = starting_mode(model, task.data, task.inducing, guess)

        def take(state: Settling) -> Settling:
            return newton_steps(model, task.data, shape, state, 1, task.settings.settling)

        state = take(state)
        check_finite(model, state.q.elbo)
        search = Settler(
            model, task.data, state, take, task.settings.inference_steps, task.settings.tolerance
        )
        result = run(search, task.show, task.settings.keeper)
        q = search.best.q
        evidence = float(laplace_evidence(model, task.data, shape, q.marginals[0]))
        return task.posterior(model, q.sites, q.marginals, evidence, result, is_bound=False)
