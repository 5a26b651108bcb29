"""The paper's parameterisation: gradients move ξ = (mean, Cholesky factor of q's precision).

For comparison with natural gradients, and for whoever wants one optimiser on everything. The KL
divergence here needs the precision of the prior, which loses its digits when inducing points lie
much closer together than the lengthscale; natural gradients do not.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from stategp._data import Observations
from stategp._inference._ascend import ascend
from stategp._inference._bound import (
    ChainSites,
    States,
    geometry,
    latent_moments,
    prior_mean,
)
from stategp._inference._lbfgs import maximise
from stategp._inference._optax import Batches, checked, take_batch
from stategp._inference._result import FitResult, Report
from stategp._models import GP
from stategp.chain import (
    BlockBidiagonal,
    BlockTridiagonal,
    MeanCholesky,
    PairMarginals,
    Sites,
    Transitions,
    kl_divergence,
    psd_cholesky,
    psd_solve,
)
from stategp.parameters import log_prior, with_vector


class Everything(NamedTuple):
    """Hyperparameters (each in its own scale) and ξ of every chain, without constraints."""

    scaled: Float[Array, " parameters"]
    xi: tuple[MeanCholesky, ...]  # the diagonals of the factors as logarithms


def prior_precision(transitions: Transitions) -> BlockTridiagonal:
    """The precision of the prior of the states."""
    A, Q = transitions.A, transitions.Q[:-1]

    def inverse(covariance: Float[Array, "dim dim"]) -> Float[Array, "dim dim"]:
        root = jax.lax.stop_gradient(psd_cholesky(covariance))
        return psd_solve(covariance, root, jnp.eye(len(covariance)))

    inverses = jax.vmap(inverse)(Q)
    carried = inverses[1:] @ A[1:-1]
    diagonal = inverses.at[:-1].add(A[1:-1].mT @ carried)
    return BlockTridiagonal(diagonal, -carried)


def prior_chain(transitions: Transitions) -> MeanCholesky:
    states, dim = transitions.A.shape[0] - 1, transitions.A.shape[-1]
    return MeanCholesky(jnp.zeros((states, dim)), prior_precision(transitions).cholesky())


def logarithmic(xi: MeanCholesky, to_log: bool) -> MeanCholesky:
    """ξ with the diagonal of its factor as logarithms, or back."""
    factor = xi.precision_cholesky
    eye = jnp.eye(factor.diagonal.shape[-1], dtype=bool)
    lower = jnp.tril(factor.diagonal)
    inside = jnp.where(eye, lower, 1.0 if to_log else 0.0)
    changed = jnp.log(inside) if to_log else jnp.exp(inside)
    return MeanCholesky(xi.mean, BlockBidiagonal(jnp.where(eye, changed, lower), factor.lower))


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


_bound_and_gradient = jax.jit(jax.value_and_grad(_bound))


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


def difference(xi: MeanCholesky, transitions: Transitions) -> Sites:
    """What q's natural parameters have beyond the prior's; every state's own part goes right."""
    precision = xi.precision_cholesky.gram()
    linear = precision @ xi.mean
    band = precision - prior_precision(transitions)
    sites = Sites.zeros(len(transitions.A), linear.shape[1])
    dim = linear.shape[1]
    own = sites.precision.at[1:, :dim, :dim].set(band.diagonal)
    across = own.at[1:-1, dim:, :dim].set(band.lower).at[1:-1, :dim, dim:].set(band.lower.mT)
    return Sites(sites.linear.at[1:, :dim].set(linear), across)


def learn_with_gradients(
    model: GP,
    data: Observations,
    inducing: States,
    scaled: np.ndarray,
    scales: np.ndarray,
    optimiser: optax.GradientTransformation | None,
    *,
    batch_size: int | None,
    seed: int,
    max_steps: int,
    tolerance: float | None,
    reach: np.ndarray,
    report: Report,
) -> tuple[np.ndarray, ChainSites, FitResult]:
    """One optimiser (L-BFGS if none is given) on the hyperparameters and ξ."""
    everything = _start(model, data, inducing, jnp.asarray(scaled))
    arguments = (model, data, inducing, jnp.asarray(scales))
    if optimiser is None:
        flat, unravel = ravel_pytree(everything)
        walls = np.full(len(flat), np.inf)
        walls[: len(scaled)] = reach  # only hyperparameters have an edge

        def function(vector: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = _bound_and_gradient(unravel(jnp.asarray(vector)), *arguments)
            return float(value), np.asarray(ravel_pytree(gradient)[0])

        best, _, result = maximise(
            function,
            np.asarray(flat),
            observations=len(data),
            reach=walls,
            max_steps=max_steps,
            report=report,
            flat=tolerance or 1e-6,
        )
        everything = unravel(jnp.asarray(best))
    else:
        everything, result = _with_optax(
            everything, arguments, optimiser, batch_size, seed, max_steps, tolerance, report
        )
    return np.asarray(everything.scaled), _as_sites(everything, *arguments), result


def _with_optax(
    start: Everything,
    arguments: tuple[GP, Observations, States, Array],
    optimiser: optax.GradientTransformation,
    batch_size: int | None,
    seed: int,
    max_steps: int,
    tolerance: float | None,
    report: Report,
) -> tuple[Everything, FitResult]:
    count = len(arguments[1])
    size = count if batch_size is None else min(batch_size, count)
    take = _optax_step(checked(optimiser))
    batches = Batches(count, size, seed)

    def step(state: tuple[Everything, Any], number: int) -> tuple[Any, Any, Any]:
        at = None if size == count else jnp.asarray(batches.next())
        new, value = take(state, *arguments, at)
        return new, value, float("nan")

    (end, _), result = ascend(
        step,
        (start, optimiser.init(start)),
        max_steps=max_steps,
        window=max(50, -(-count // size)) if size < count else 50,
        enough=(tolerance or 1e-6) * count,
        noisy=size < count,
        stop_early=size == count or tolerance is not None,
        report=report,
    )
    return end, result


@functools.lru_cache(maxsize=16)
def _optax_step(optimiser: optax.GradientTransformation) -> Any:
    @jax.jit
    def step(
        state: tuple[Everything, Any],
        model: GP,
        data: Observations,
        inducing: States,
        scales: Array,
        at: Int[Array, " batch"] | None,
    ) -> tuple[tuple[Everything, Any], Float[Array, ""]]:
        everything, memory = state
        batch = data if at is None else take_batch(data, at)
        value, gradient = jax.value_and_grad(_bound)(everything, model, batch, inducing, scales)
        down = jax.tree.map(lambda leaf: -leaf / len(data), gradient)
        updates, memory = optimiser.update(
            down, memory, everything, value=-value / len(data), grad=down
        )
        return (optax.apply_updates(everything, updates), memory), value

    return step
