"""Deep models: stochastic natural gradients on every layer, or one optimiser on everything."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stategp._fitting._deep import DeepTask
from stategp._fitting._method import Ascending
from stategp._fitting._settings import Regime
from stategp._inference import (
    Ascent,
    Batches,
    DeepEverything,
    DeepState,
    FitResult,
    Output,
    checked,
    deep_bound,
    deep_step,
    first_sites,
    first_xi,
    xi_chains,
)
from stategp._models import DeepGP, Path
from stategp._posteriors import DeepPosterior
from stategp.parameters import to_vector, with_vector


class DeepNatural(Ascending):
    """Natural gradients on the chain of every layer, Optax on the hyperparameters."""

    name, model = "natural", DeepGP
    regimes = (Regime.optax, Regime.minibatches)
    takes_step_size = True

    def ascent(self, model: DeepGP, task: DeepTask, warm: DeepPosterior | None) -> Ascent:
        optimiser = checked(task.settings.optimiser)
        sites = first_sites(model) if warm is None else warm.sites
        start = DeepState.first(model, optimiser, sites)
        return _ascent(task, model, start, _natural_step(optimiser), _replaced)

    def at_end(
        self, model: DeepGP, task: DeepTask, warm: Any, state: DeepState, result: FitResult
    ) -> DeepPosterior:
        learned = with_vector(model, state.scaled)
        replaced = {path: int(count) for path, count in state.replaced.items() if count}
        if replaced:
            result = result.with_remarks(_about(replaced, len(result.trace)))
        return task.posterior(learned, state.sites, result, True)


class DeepGradient(Ascending):
    """One Optax optimiser on the hyperparameters and on ξ of every layer."""

    name, model = "gradient", DeepGP
    regimes = (Regime.optax, Regime.minibatches)

    def ascent(self, model: DeepGP, task: DeepTask, warm: DeepPosterior | None) -> Ascent:
        optimiser = checked(task.settings.optimiser)
        sites = first_sites(model) if warm is None else warm.sites
        start = first_xi(model, to_vector(model), sites, _indefinite(warm))
        return _ascent(task, model, (start, optimiser.init(start)), _gradient_step(optimiser))

    def at_end(
        self, model: DeepGP, task: DeepTask, warm: Any, state: Any, result: FitResult
    ) -> DeepPosterior:
        learned = with_vector(model, state[0].scaled)
        return task.posterior(learned, xi_chains(learned, state[0]), result, True)


def _about(replaced: dict[Path, int], steps: int) -> str:
    named = ", ".join(
        f"{count} of {name if number is None else f'{name}[{number}]'}"
        for (name, number), count in replaced.items()
    )
    return (
        f"of {steps} steps of every layer, these used Gauss–Newton precisions, where the natural "
        f"gradient led to no Gaussian: {named}"
    )


def _indefinite(warm: DeepPosterior | None) -> bool:
    return warm is not None and warm.indefinite


def _replaced(before: DeepState, after: DeepState) -> int:
    """How many layers moved by Gauss–Newton in the step between."""
    counts = [sum(int(count) for count in state.replaced.values()) for state in (before, after)]
    return counts[1] - counts[0]


def _ascent(task: DeepTask, model: DeepGP, start: Any, take: Any, replaced: Any = None) -> Ascent:
    """A step for every minibatch of every output, or for all data."""
    settings, key = task.settings, jax.random.key(task.settings.seed)
    scales = jnp.ones(len(to_vector(model)))
    batches = [
        Batches(len(output.x), min(settings.batch_size, len(output.x)), settings.seed + number)
        for number, output in enumerate(task.outputs)
        if settings.batch_size is not None
    ]

    def step(state: Any, number: int) -> tuple[Any, Any, Any]:
        size = jnp.asarray(settings.step_size(number), dtype=float)
        at = tuple(jnp.asarray(batch.at(number)) for batch in batches) or None
        step_key = jax.random.fold_in(key, number)
        new, value = take(state, model, task.outputs, at, scales, size, step_key)
        return new, value, size if settings.method.takes_step_size else jnp.nan

    return Ascent(
        start,
        step,
        max_steps=settings.learning_steps,
        window=max(1, min(200, settings.learning_steps // 3)),
        enough=(settings.tolerance or 1e-4) * task.count,
        noisy=True,
        stop_early=settings.tolerance is not None,
        replaced=replaced,
    )


def _take(outputs: tuple[Output, ...], at: Any) -> tuple[Output, ...]:
    if at is None:
        return outputs
    return tuple(
        Output(o.x[i], o.y[i], o.extra[i], o.weights[i] * (len(o.x) / len(i)))
        for o, i in zip(outputs, at, strict=True)
    )


@functools.lru_cache(maxsize=16)
def _natural_step(optimiser: Any) -> Any:
    @jax.jit
    def step(
        state: DeepState, model: DeepGP, outputs: Any, at: Any, scales: Array, size: Any, key: Any
    ) -> tuple[DeepState, Float[Array, ""]]:
        return deep_step(optimiser, state, model, _take(outputs, at), scales, size, key)

    return step


@functools.lru_cache(maxsize=16)
def _gradient_step(optimiser: Any) -> Any:
    import optax  # slow to import

    @jax.jit
    def step(
        state: Any, model: DeepGP, outputs: Any, at: Any, scales: Array, size: Any, key: Any
    ) -> tuple[Any, Float[Array, ""]]:
        everything, memory = state
        value, gradient = jax.value_and_grad(deep_bound)(
            everything, model, _take(outputs, at), scales, key
        )
        down = jax.tree.map(lambda leaf: -leaf, gradient)
        updates, memory = optimiser.update(down, memory, everything, value=-value, grad=down)
        moved: DeepEverything = optax.apply_updates(everything, updates)
        return (moved, memory), value

    return step
