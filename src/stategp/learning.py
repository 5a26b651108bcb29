"""From a model and data to a posterior, by the method that the settings ask for."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from stategp.data import Observations
from stategp.inference import (
    ChainSites,
    Collapsed,
    FitResult,
    Recorder,
    Settling,
    ep_objective,
    evaluate_all,
    find_mode,
    has_settled,
    laplace_objective,
    learn_in_minibatches,
    learn_with_gradients,
    learn_with_optax,
    maximise,
    no_sites,
    propagate,
    pseudo_data,
    search_scales,
    starting_state,
    still,
    take_steps,
)
from stategp.likelihoods._bernoulli import LogisticBound
from stategp.models import GP
from stategp.parameters import all_parameters, to_vector, with_vector
from stategp.posterior import Posterior
from stategp.progress import Progress
from stategp.settings import Settings

_REACH = 18.5  # positive hyperparameters move by at most a factor e¹⁸·⁵ ≈ 10⁸ either way
_REAL_REACH = 1e4  # others, by that many times their natural size
_START_SPREAD = 1.5  # standard deviation, in log units, of further starting points


def learn(
    model: GP,
    data: Observations,
    inducing: np.ndarray,
    settings: Settings,
    show: Progress,
    warm: ChainSites | None,
) -> Posterior:
    """The posterior with hyperparameters learned, if any are open."""
    locations = jnp.asarray(inducing)
    if settings.method == "gradient" or settings.optimiser is not None:
        return _learn_first_order(model, data, locations, settings, show)
    if len(to_vector(model)) == 0:
        return _POSTERIORS[settings.method](model, data, locations, settings, show, warm)
    model, found, result = _best_of_starts(model, data, locations, settings, show, warm)
    if found is None:
        posterior = _POSTERIORS[settings.method](model, data, locations, settings, show, warm)
    else:
        posterior = _settled(model, data, locations, found, Recorder(show), "")
    return _with_result(posterior, result)


def _with_result(posterior: Posterior, learned: FitResult) -> Posterior:
    """What is said of the whole: learning, and inference if that went wrong."""
    inferred = posterior.fit_result
    if inferred is not None and not inferred.converged and learned.converged:
        message = f"{learned.message}; inference: {inferred.message}"
        learned = dataclasses.replace(learned, converged=False, message=message)
    return dataclasses.replace(posterior, fit_result=learned)


# --- L-BFGS on the hyperparameters ---------------------------------------------------------------


def _best_of_starts(
    model: GP,
    data: Observations,
    inducing: Any,
    settings: Settings,
    show: Progress,
    warm: ChainSites | None,
) -> tuple[GP, Settling | None, FitResult]:
    first = np.asarray(to_vector(model))
    scales = search_scales(model, data)
    random = np.random.default_rng(settings.seed)
    offsets = random.normal(0, _START_SPREAD, (settings.starts, len(first)))
    offsets[0] = 0.0
    best: tuple[float, GP, Settling | None, FitResult] | None = None
    for number, offset in enumerate(offsets, start=1):
        show.start(number, settings.starts)
        start = with_vector(model, jnp.asarray(first + offset * scales))
        tried = _climb(start, data, inducing, settings, show, warm)
        better = best is None or (tried[3].converged, tried[0]) > (best[3].converged, best[0])
        if better:
            best = tried
        if tried[3].message.startswith("interrupted"):
            break
    assert best is not None
    return best[1:]


def _climb(
    model: GP,
    data: Observations,
    inducing: Any,
    settings: Settings,
    show: Progress,
    warm: ChainSites | None,
) -> tuple[float, GP, Settling | None, FitResult]:
    """One search, repeated if a kernel's truncation has to follow its new parameters."""
    while True:
        value, model, found, result = _search(model, data, inducing, settings, show, warm)
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
    data: Observations,
    inducing: Any,
    settings: Settings,
    show: Progress,
    warm: ChainSites | None,
) -> tuple[float, GP, Settling | None, FitResult]:
    """L-BFGS from one start; for variational methods the q it ended with comes back too."""
    scales = search_scales(model, data)
    objective: Any
    if settings.method == "laplace":
        objective = laplace_objective(model, data, inducing)
    elif settings.method == "ep":
        objective = ep_objective(model, data, inducing, settings.ep)
    else:
        objective = Collapsed(_bounded(model, settings), data, inducing, warm)

    def function(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective(scaled * scales)
        return value, gradient * scales

    best, value, result = maximise(
        function,
        np.asarray(to_vector(model)) / scales,
        observations=len(data),
        reach=_reaches(model),
        max_steps=settings.max_steps,
        report=show,
        flat=settings.tolerance or 1e-5,
    )
    found = None
    if isinstance(objective, Collapsed):
        objective(best * scales)
        found = objective.state
    return value, with_vector(model, jnp.asarray(best * scales)), found, result


def _reaches(model: GP) -> np.ndarray:
    """How far each learned hyperparameter may go from its start."""
    reaches = [
        np.full(p.value.size, _REACH if p.constraint == "positive" else _REAL_REACH)
        for p in all_parameters(model)
        if p.learned
    ]
    return np.concatenate(reaches) if reaches else np.zeros(0)


def _bounded(model: GP, settings: Settings) -> GP:
    """The model with the likelihood that the method replaces it by."""
    if settings.method != "vb":
        return model
    return GP(model.kernels, LogisticBound(), model.means)


# --- first-order methods -------------------------------------------------------------------------


def _learn_first_order(
    model: GP, data: Observations, inducing: Any, settings: Settings, show: Progress
) -> Posterior:
    scales = search_scales(model, data)
    scaled = np.asarray(to_vector(model)) / scales
    arguments: Any = (model, data, inducing, scaled, scales, settings.optimiser)
    limits: Any = {"max_steps": settings.max_steps, "report": show}
    tolerance = settings.tolerance or 1e-6
    if settings.method == "gradient":
        scaled, sites, result = learn_with_gradients(
            *arguments,
            batch_size=settings.batch_size,
            seed=settings.seed,
            reach=_reaches(model),
            tolerance=tolerance,
            **limits,
        )
    elif settings.batch_size is not None:
        scaled, sites, result = learn_in_minibatches(
            *arguments,
            batch_size=settings.batch_size,
            step_size=settings.step_size,
            seed=settings.seed,
            tolerance=settings.tolerance,
            **limits,
        )
    else:
        scaled, sites, result = learn_with_optax(*arguments, tolerance=tolerance, **limits)
    model = with_vector(model, jnp.asarray(scaled * scales))
    if settings.method == "natural" and settings.batch_size is None:
        return _with_result(_natural(model, data, inducing, settings, show, sites), result)
    negative = settings.method == "gradient"  # its q is any Gaussian chain
    q = evaluate_all(model, data, inducing, sites, indefinite=negative)
    _check_finite(model, q.elbo)
    return Posterior(
        model, data, inducing, q.sites, q.marginals, float(q.elbo), result, indefinite=negative
    )


# --- posteriors ----------------------------------------------------------------------------------


def _natural(
    model: GP,
    data: Observations,
    inducing: Any,
    settings: Settings,
    show: Progress,
    warm: ChainSites | None,
) -> Posterior:
    """Natural-gradient steps until the bound stops rising."""
    inferring = _bounded(model, settings)
    guess = jnp.asarray(pseudo_data(model, data))
    record = Recorder(show)
    message, most = "", max(settings.max_steps, 200)
    starts = [None, no_sites(model, inducing)]  # what y points at, or if that fails the prior
    for sites in starts if warm is None else [warm, *starts]:
        shape, state = starting_state(inferring, data, inducing, guess, sites)
        state = take_steps(inferring, data, shape, state, 1, settings.tolerance or 1e-14)
        if np.isfinite(state.q.elbo):
            break
    _check_finite(model, state.q.elbo)
    record(float(state.q.elbo), 1.0)
    try:
        while not state.done and state.steps < most:
            size = float(state.step_size)
            state = take_steps(inferring, data, shape, state, 1, settings.tolerance or 1e-14)
            record(float(state.q.elbo), size)
    except KeyboardInterrupt:
        message = "interrupted: this is what was reached until then"
    return _settled(model, data, inducing, state, record, message)


def _settled(
    model: GP, data: Observations, inducing: Any, state: Settling, record: Recorder, message: str
) -> Posterior:
    """The posterior that a search for q ended with, and what to say of the search."""
    _check_finite(model, state.q.elbo)
    converged = not message and has_settled(model, data, state)
    if not message:
        message = "the bound stopped rising" if converged else _STUCK[bool(state.done)]
    result = None if model.likelihood.conjugate else record.result(converged, message)
    q = state.q
    return Posterior(model, data, inducing, q.sites, q.marginals, float(q.elbo), result)


_STUCK = {
    True: "no step of the natural gradient raises the bound any more",
    False: "the limit of steps was reached; raise max_steps",
}


def _laplace(
    model: GP, data: Observations, inducing: Any, settings: Settings, show: Any, warm: Any
) -> Posterior:
    state, evidence = find_mode(model, data, inducing)
    _check_finite(model, evidence)
    converged = has_settled(model, data, state)
    message = "the mode was found" if converged else "Newton's method did not find the mode"
    steps = int(state.steps)
    result = FitResult(converged, message, steps, (evidence,), (float("nan"),))
    q = state.q
    return Posterior(model, data, inducing, q.sites, q.marginals, evidence, result)


def _expectation_propagation(
    model: GP, data: Observations, inducing: Any, settings: Settings, show: Any, warm: Any
) -> Posterior:
    sites, marginals, state, evidence = propagate(model, data, inducing, settings.ep)
    _check_finite(model, evidence)
    converged = still(state)
    message = (
        "the sites stopped moving"
        if converged
        else "the sites keep moving: try sg.PowerEP with less power or damping"
    )
    result = FitResult(converged, message, int(state.steps), (float(evidence),), (float("nan"),))
    return Posterior(model, data, inducing, (sites,), (marginals,), float(evidence), result)


_POSTERIORS: dict[str, Callable[..., Posterior]] = {
    "natural": _natural,
    "vb": _natural,
    "laplace": _laplace,
    "ep": _expectation_propagation,
}


def _check_finite(model: GP, elbo: Any) -> None:
    if not np.isfinite(elbo):
        raise FloatingPointError(
            f"inference has no finite bound for {model!r}: either the signal is too many orders of "
            "magnitude above the noise for double precision, or f so uncertain that its expected "
            "log density overflows; use hyperparameters closer to the scales of the data"
        )
