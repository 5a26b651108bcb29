"""L-BFGS on the hyperparameters, q always at its optimum for them."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np

from stategp._fitting._task import Task, bounded, reaches
from stategp._inference import (
    ChainSites,
    Collapsed,
    FitResult,
    Settling,
    ep_objective,
    laplace_objective,
    maximise,
    noise_limits,
    search_scales,
)
from stategp._models import GP
from stategp.parameters import to_vector, with_vector

_START_SPREAD = 1.5  # standard deviation, in log units, of further starting points


def best_of_starts(
    model: GP,
    task: Task,
    warm: ChainSites | None,
) -> tuple[GP, Settling | None, FitResult]:
    first = np.asarray(to_vector(model))
    scales = search_scales(model, task.data)
    random = np.random.default_rng(task.settings.seed)
    offsets = random.normal(0, _START_SPREAD, (task.settings.starts, len(first)))
    offsets[0] = 0.0
    best: tuple[float, GP, Settling | None, FitResult] | None = None
    for number, offset in enumerate(offsets, start=1):
        task.show.start(number, task.settings.starts)
        start = with_vector(model, jnp.asarray(first + offset * scales))
        tried = _climb(start, task, warm)
        better = best is None or (tried[3].converged, tried[0]) > (best[3].converged, best[0])
        if better:
            best = tried
        if tried[3].message.startswith("interrupted"):
            break
    assert best is not None
    return best[1:]


def _climb(
    model: GP,
    task: Task,
    warm: ChainSites | None,
) -> tuple[float, GP, Settling | None, FitResult]:
    """One search, repeated if a kernel's truncation has to follow its new parameters."""
    while True:
        value, model, found, result = _search(model, task, warm)
        try:
            kernels = tuple(kernel.refined() for kernel in model.kernels)
        except ValueError as error:  # more harmonics than anyone would want
            message = f"{result.message}; {error}"
            return (
                value,
                model,
                found,
                dataclasses.replace(result, converged=False, message=message),
            )
        grown = any(
            new.state_dim > old.state_dim for new, old in zip(kernels, model.kernels, strict=True)
        )
        if not grown or not result.converged:
            return value, model, found, result
        model, warm = GP(kernels, model.likelihood, model.means), None


def _search(
    model: GP,
    task: Task,
    warm: ChainSites | None,
) -> tuple[float, GP, Settling | None, FitResult]:
    """L-BFGS from one start; for variational methods the q it ended with comes back too."""
    scales, limits = search_scales(model, task.data), noise_limits(model, np.asarray(task.data.y))
    objective = _objective(model, task, warm)

    def function(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective(scaled * scales)
        return value, gradient * scales

    best, value, result = maximise(
        function,
        np.asarray(to_vector(model)) / scales,
        observations=len(task.data),
        reach=reaches(model),
        max_steps=task.settings.max_steps,
        report=task.show,
        flat=task.settings.tolerance or 1e-5,
        gtol=task.settings.tolerance or 1e-7,
        lowest=limits.lowest / scales,
        remark=limits.remark,
    )
    found = objective.settled(best * scales) if isinstance(objective, Collapsed) else None
    return value, with_vector(model, jnp.asarray(best * scales)), found, result


def _objective(model: GP, task: Task, warm: ChainSites | None) -> Any:
    """What L-BFGS climbs: a value and a gradient for every vector of hyperparameters."""
    if task.settings.method == "laplace":
        return laplace_objective(model, task.data, task.inducing)
    if task.settings.method == "ep":
        return ep_objective(model, task.data, task.inducing, task.settings.ep)
    return Collapsed(bounded(model, task), task.data, task.inducing, warm)


def best_start(
    models: list[GP],
    task: Task,
    warm: ChainSites | None,
) -> GP:
    """The start with the highest objective."""
    vectors = [np.asarray(to_vector(model)) for model in models]
    if all(np.array_equal(vector, vectors[0]) for vector in vectors):
        return models[0]
    objective = _objective(models[0], task, warm)
    values = [objective(vector)[0] for vector in vectors]
    return models[int(np.argmax(np.nan_to_num(values, nan=-np.inf)))]
