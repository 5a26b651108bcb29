"""One optimiser on everything: the hyperparameters, and ξ of every chain.

What is climbed is a function of `Everything` and of four arguments: the model, its data, where the
states are, and the scales of the hyperparameters. The kinds of models bring their own.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from stategp._fitting._hyperparameters import search_edges
from stategp._fitting._method import scaled_limits, scaled_start
from stategp._inference import LBFGS, Ascent, Batches, FitResult, Limits, Search, checked, run
from stategp.chain import MeanCholesky
from stategp.kernels import Kernel

Bound = Callable[..., Float[Array, ""]]
Take = Callable[[Any, Int[Array, " batch"], int], Any]  # a minibatch of so many observations


class Everything(NamedTuple):
    """Hyperparameters (each in its own scale) and ξ of every chain, without constraints."""

    scaled: Float[Array, " parameters"]
    xi: tuple[MeanCholesky, ...]  # the diagonals of the factors as logarithms


def refuse_deterministic(kernels: tuple[Kernel, ...]) -> None:
    """Without noise between them, states have no precision."""
    for kernel in kernels:
        if any(block.deterministic for block in kernel.blocks()):
            raise ValueError(
                "method='gradient' needs the precision of the states, which deterministic "
                f"kernels do not have: {kernel!r}; use method='natural'"
            )


def climb(
    bound: Bound, take: Take, start: Everything, arguments: Any, task: Any
) -> tuple[Everything, FitResult]:
    """Where the optimiser of the task's settings takes everything."""
    model = arguments[0]
    if task.settings.optimiser is None:
        search, ended = _with_lbfgs(bound, start, arguments, task)
    else:
        limits = scaled_limits(model, task)
        search, ended = _with_optax(bound, take, start, arguments, task, limits)
    result = run(search, task.show, task.settings.keeper)
    return ended(search.best), result


def _with_lbfgs(
    bound: Bound, start: Everything, arguments: Any, task: Any
) -> tuple[Search, Callable[[Any], Everything]]:
    """L-BFGS on everything, and how to read where it ended."""
    flat, unravel = ravel_pytree(start)
    edges = search_edges(arguments[0], task, *scaled_start(arguments[0], task))
    low, high = np.full(len(flat), -np.inf), np.full(len(flat), np.inf)
    count = len(edges[0])  # only hyperparameters have an edge
    low[:count], high[:count] = edges
    value_and_gradient = _with_gradient(bound)

    def function(vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = value_and_gradient(unravel(jnp.asarray(vector)), *arguments)
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
    bound: Bound, take: Take, start: Everything, arguments: Any, task: Any, limits: Limits
) -> tuple[Search, Callable[[Any], Everything]]:
    """Optax on everything, and how to read where it ended."""
    settings, count = task.settings, task.count
    size = count if settings.batch_size is None else min(settings.batch_size, count)
    optimiser = checked(settings.optimiser)
    move, batches = _optax_step(bound, take, optimiser, count), Batches(count, size, settings.seed)

    def step(state: tuple[Everything, Any], number: int) -> tuple[Any, Any, Any]:
        at = None if size == count else jnp.asarray(batches.at(number))
        new, value = move(state, *arguments, limits, at)
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
def _with_gradient(bound: Bound) -> Any:
    return jax.jit(jax.value_and_grad(bound))


@functools.lru_cache(maxsize=16)
def _optax_step(bound: Bound, take: Take, optimiser: Any, count: int) -> Any:
    import optax  # slow to import

    @jax.jit
    def step(
        state: tuple[Everything, Any],
        model: Any,
        data: Any,
        places: Any,
        scales: Array,
        limits: Limits,
        at: Int[Array, " batch"] | None,
    ) -> tuple[tuple[Everything, Any], Float[Array, ""]]:
        everything, memory = state
        batch = data if at is None else take(data, at, count)
        value, gradient = jax.value_and_grad(bound)(everything, model, batch, places, scales)
        down = jax.tree.map(lambda leaf: -leaf / count, gradient)
        updates, memory = optimiser.update(
            down, memory, everything, value=-value / count, grad=down
        )
        moved: Everything = optax.apply_updates(everything, updates)
        scaled = jnp.clip(moved.scaled, *limits)  # only hyperparameters have limits
        return (moved._replace(scaled=scaled), memory), value

    return step
