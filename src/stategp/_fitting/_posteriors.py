"""Inference for hyperparameters as they are, step by step: watched, and interrupted at will."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from stategp._fitting._task import Task, as_posterior, bounded, check_finite
from stategp._inference import (
    MOST_STEPS,
    STILL,
    ChainSites,
    FitResult,
    Recorder,
    Settling,
    Sight,
    has_settled,
    infer,
    laplace_evidence,
    newton_steps,
    no_sites,
    propagated,
    propagation_step,
    pseudo_data,
    starting_mode,
    starting_propagation,
    starting_state,
    take_steps,
)
from stategp._models import GP
from stategp._posteriors import Posterior


def natural(
    model: GP,
    task: Task,
    warm: ChainSites | None,
) -> Posterior:
    """Natural-gradient steps until q stands still."""
    if model.likelihood.conjugate:
        found = infer(model, task.data, task.inducing)
        return settled(model, task, found, Recorder(task.show), "")
    inferring = bounded(model, task)
    view, guess = Sight(task.data, task.inducing)(inferring)
    starts = [None, no_sites(model, task.inducing)]  # what y points at, or if that fails the prior
    for sites in starts if warm is None else [warm, *starts]:
        shape, state = starting_state(inferring, view, task.inducing, guess, sites)
        state = take_steps(inferring, view, shape, state, 1, task.settings.settling)
        if np.isfinite(state.q.elbo):
            break

    def step(state: Settling) -> Settling:
        return take_steps(inferring, view, shape, state, 1, task.settings.settling)

    state, record, message = _settle(model, state, step, task)
    return settled(model, task, state, record, message)


def _settle(
    model: GP,
    state: Settling,
    step: Callable[[Settling], Settling],
    task: Task,
) -> tuple[Settling, Recorder, str]:
    """Step by step, so that it can be watched and interrupted."""
    check_finite(model, state.q.elbo)
    record = Recorder(task.show)
    record(float(state.q.elbo), 1.0)
    try:
        while not state.done and state.steps <= task.settings.inference_steps:
            size = float(state.step_size)
            state = step(state)
            record(float(state.q.elbo), size)
    except KeyboardInterrupt:
        return state, record, _INTERRUPTED
    return state, record, ""


def settled(
    model: GP,
    task: Task,
    state: Settling,
    record: Recorder,
    message: str,
) -> Posterior:
    """The posterior that a search for q ended with, and what to say of the search."""
    check_finite(model, state.q.elbo)
    result = None
    if not model.likelihood.conjugate:
        result = _inference_result(model, task, state, record, message)
    q = state.q
    return as_posterior(model, task, q.sites, q.marginals, q.elbo, result)


def _inference_result(
    model: GP,
    task: Task,
    state: Settling,
    record: Recorder,
    message: str,
) -> FitResult:
    converged = not message and has_settled(model, task.data, state, task.settings.tolerance)
    if not message:
        message = "the bound stopped rising" if converged else STUCK[bool(state.done)]
    return record.result(converged, message)


_INTERRUPTED = "interrupted: this is what was reached until then"
STUCK = {
    True: "no step raises the bound any more",
    False: "the limit of steps was reached; raise max_steps",
}


def _laplace(model: GP, task: Task, warm: Any) -> Posterior:
    """Newton steps to the mode."""
    shape, state = starting_mode(
        model, task.data, task.inducing, jnp.asarray(pseudo_data(model, task.data))
    )

    def step(state: Settling) -> Settling:
        return newton_steps(model, task.data, shape, state, 1, task.settings.settling)

    state, record, message = _settle(model, step(state), step, task)
    result = _inference_result(model, task, state, record, message)
    q = state.q
    evidence = float(laplace_evidence(model, task.data, shape, q.marginals[0]))
    check_finite(model, evidence)
    return as_posterior(model, task, q.sites, q.marginals, evidence, result, is_bound=False)


def _expectation_propagation(model: GP, task: Task, warm: Any) -> Posterior:
    """Steps of EP until the sites stand still."""
    guess = jnp.asarray(pseudo_data(model, task.data))
    shape, state = starting_propagation(model, task.data, task.inducing, guess)
    record, message, most = Recorder(task.show), "", task.settings.max_steps_given or MOST_STEPS
    still = task.settings.tolerance or STILL
    state, evidence = propagation_step(model, task.data, shape, state, task.settings.ep)
    try:
        while True:
            record(float(evidence), task.settings.ep.damping)
            if not state.change > still or state.steps >= most:
                break
            state, evidence = propagation_step(model, task.data, shape, state, task.settings.ep)
    except KeyboardInterrupt:
        message = _INTERRUPTED
    check_finite(model, evidence)
    converged = not message and bool(state.change <= still)
    if not message:
        message = (
            "the sites stopped moving"
            if converged
            else "the sites keep moving: try sg.PowerEP with less power or damping"
        )
    sites, marginals = propagated(model, shape, state)
    result = record.result(converged, message)
    return as_posterior(model, task, (sites,), (marginals,), evidence, result, is_bound=False)


_METHODS: dict[str, Callable[..., Posterior]] = {
    "natural": natural,
    "vb": natural,
    "laplace": _laplace,
    "ep": _expectation_propagation,
}


def infer_posterior(model: GP, task: Task, warm: ChainSites | None) -> Posterior:
    """The posterior for hyperparameters as they are."""
    return _METHODS[task.settings.method](model, task, warm)
