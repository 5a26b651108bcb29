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
from stategp._fitting._hyperparameters import search_edges
from stategp._fitting._method import Method, scaled_limits, scaled_start
from stategp._fitting._methods._natural_first_order import take_batch
from stategp._fitting._series import SeriesTask
from stategp._fitting._settings import Regime
from stategp._inference import (
    LBFGS,
    Ascent,
    Batches,
    ChainSites,
    Limits,
    Search,
    Sight,
    States,
    checked,
    difference,
    evaluate_all,
    geometry,
    latent_moments,
    logarithmic,
    prior_chain,
    prior_mean,
    run,
)
from stategp._models import GP
from stategp._posteriors import Posterior
from stategp.chain import MeanCholesky, PairMarginals, kl_divergence
from stategp.parameters import log_prior, with_vector


class Everything(NamedTuple):
    """Hyperparameters (each in its own scale) and ξ of every chain, without constraints."""

    scaled: Float[Array, " parameters"]
    xi: tuple[MeanCholesky, ...]  # the diagonals of the factors as logarithms


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


class Gradient(Method):
    """One optimiser on the hyperparameters and on ξ."""

    name, model = "gradient", GP
    regimes = (Regime.lbfgs, Regime.optax, Regime.minibatches)
    pads = False  # the precision of the states needs them apart

    def check(self, model: GP, data: Any) -> None:
        for kernel in model.kernels:
            if any(block.deterministic for block in kernel.blocks()):
                raise ValueError(
                    "method='gradient' needs the precision of the states, which deterministic "
                    f"kernels do not have: {kernel!r}; use method='natural'"
                )

    def learn(self, models: list[GP], task: SeriesTask, warm: Any) -> Posterior:
        return self.infer(models[0], task, warm)

    def infer(self, model: GP, task: SeriesTask, warm: Any) -> Posterior:
        scaled, scales = scaled_start(model, task)
        start = _start(model, task.data, task.inducing, jnp.asarray(scaled))
        arguments = (model, task.data, task.inducing, jnp.asarray(scales))
        search, ended = (
            _with_lbfgs(start, arguments, task, search_edges(model, task, scaled, scales))
            if task.settings.optimiser is None
            else _with_optax(start, arguments, task, scaled_limits(model, task))
        )
        result = run(search, task.show, task.settings.keeper)
        everything = ended(search.best)
        sites = _as_sites(everything, *arguments)
        learned = with_vector(model, everything.scaled * jnp.asarray(scales))
        view, _ = Sight(task.data, task.inducing)(learned)
        q = evaluate_all(learned, view, task.inducing, sites, indefinite=True)
        return task.posterior(learned, q.sites, q.marginals, q.elbo, result, indefinite=True)


def _with_lbfgs(
    start: Everything, arguments: Any, task: SeriesTask, edges: tuple[np.ndarray, np.ndarray]
) -> tuple[Search, Any]:
    """L-BFGS on everything, and how to read where it ended."""
    flat, unravel = ravel_pytree(start)
    low, high = np.full(len(flat), -np.inf), np.full(len(flat), np.inf)
    count = len(edges[0])  # only hyperparameters have an edge
    low[:count], high[:count] = edges

    def function(vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = _bound_and_gradient(unravel(jnp.asarray(vector)), *arguments)
        return float(value), np.asarray(ravel_pytree(gradient)[0])

    search = LBFGS(
        function,
        np.asarray(flat),
        observations=task.count,
        low=low,
        high=high,
        max_steps=task.settings.learning_steps,
        flat=task.settings.tolerance or 1e-6,
    )
    return search, lambda best: unravel(jnp.asarray(best.vector))


def _with_optax(
    start: Everything, arguments: Any, task: SeriesTask, limits: Limits
) -> tuple[Search, Any]:
    """Optax on everything, and how to read where it ended."""
    settings, count = task.settings, task.count
    size = count if settings.batch_size is None else min(settings.batch_size, count)
    optimiser = checked(settings.optimiser)
    take, batches = _optax_step(optimiser), Batches(count, size, settings.seed)

    def step(state: tuple[Everything, Any], number: int) -> tuple[Any, Any, Any]:
        at = None if size == count else jnp.asarray(batches.at(number))
        new, value = take(state, *arguments, limits, at)
        return new, value, float("nan")

    search = Ascent(
        (start, optimiser.init(start)),
        step,
        max_steps=settings.learning_steps,
        window=max(50, -(-count // size)) if size < count else 50,
        enough=(settings.tolerance or 1e-6) * count,
        noisy=size < count,
        stop_early=size == count or settings.tolerance is not None,
    )
    return search, lambda best: best[0]


@functools.lru_cache(maxsize=16)
def _optax_step(optimiser: optax.GradientTransformation) -> Any:
    @jax.jit
    def step(
        state: tuple[Everything, Any],
        model: GP,
        data: Observations,
        inducing: States,
        scales: Array,
        limits: Limits,
        at: Int[Array, " batch"] | None,
    ) -> tuple[tuple[Everything, Any], Float[Array, ""]]:
        everything, memory = state
        batch = data if at is None else take_batch(data, at)
        value, gradient = jax.value_and_grad(_bound)(everything, model, batch, inducing, scales)
        down = jax.tree.map(lambda leaf: -leaf / len(data), gradient)
        updates, memory = optimiser.update(
            down, memory, everything, value=-value / len(data), grad=down
        )
        moved: Everything = optax.apply_updates(everything, updates)
        scaled = jnp.clip(moved.scaled, *limits)  # only hyperparameters have limits
        return (moved._replace(scaled=scaled), memory), value

    return step
