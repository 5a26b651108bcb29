"""From a model and data to a posterior, by the method that the settings ask for."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from stategp.data import Observations
from stategp.inference import (
    MOST_STEPS,
    STILL,
    ChainSites,
    Collapsed,
    FitResult,
    Recorder,
    Settling,
    ep_objective,
    evaluate_all,
    has_settled,
    infer,
    laplace_evidence,
    laplace_objective,
    learn_in_minibatches,
    learn_with_gradients,
    learn_with_optax,
    maximise,
    newton_steps,
    no_sites,
    propagated,
    propagation_step,
    pseudo_data,
    search_scales,
    starting_mode,
    starting_propagation,
    starting_state,
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
    models: list[GP],
    data: Observations,
    inducing: np.ndarray,
    settings: Settings,
    show: Progress,
    warm: ChainSites | None,
) -> Posterior:
    """The posterior with hyperparameters learned, if any are open, from the best of some starts."""
    locations, model = jnp.asarray(inducing), models[0]
    if settings.method == "gradient" or settings.optimiser is not None:
        return _learn_first_order(model, data, locations, settings, show)
    if len(to_vector(model)) == 0:
        return _POSTERIORS[settings.method](model, data, locations, settings, show, warm)
    model = _best_start(models, data, locations, settings, warm)
    model, found, result = _best_of_starts(model, data, locations, settings, show, warm)
    if found is None:
        posterior = _POSTERIORS[settings.method](model, data, locations, settings, show, warm)
    else:
        posterior = _settled(model, data, locations, found, Recorder(show), "", settings)
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
    objective = _objective(model, data, inducing, settings, warm)

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
        gtol=settings.tolerance or 1e-7,
    )
    found = None
    if isinstance(objective, Collapsed):
        objective(best * scales)
        found = objective.state
    return value, with_vector(model, jnp.asarray(best * scales)), found, result


def _objective(
    model: GP, data: Observations, inducing: Any, settings: Settings, warm: ChainSites | None
) -> Any:
    """What L-BFGS climbs: a value and a gradient for every vector of hyperparameters."""
    if settings.method == "laplace":
        return laplace_objective(model, data, inducing)
    if settings.method == "ep":
        return ep_objective(model, data, inducing, settings.ep)
    return Collapsed(_bounded(model, settings), data, inducing, warm)


def _best_start(
    models: list[GP],
    data: Observations,
    inducing: Any,
    settings: Settings,
    warm: ChainSites | None,
) -> GP:
    """The start with the highest objective."""
    vectors = [np.asarray(to_vector(model)) for model in models]
    if all(np.array_equal(vector, vectors[0]) for vector in vectors):
        return models[0]
    objective = _objective(models[0], data, inducing, settings, warm)
    values = [objective(vector)[0] for vector in vectors]
    return models[int(np.argmax(np.nan_to_num(values, nan=-np.inf)))]


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
    if settings.method == "gradient":
        scaled, sites, result = learn_with_gradients(
            *arguments,
            batch_size=settings.batch_size,
            seed=settings.seed,
            reach=_reaches(model),
            tolerance=settings.tolerance,
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
        scaled, sites, result = learn_with_optax(
            *arguments, tolerance=settings.tolerance or 1e-6, **limits
        )
    model = with_vector(model, jnp.asarray(scaled * scales))
    if settings.method == "natural" and settings.batch_size is None:
        warm = None if model.likelihood.conjugate else sites
        return _with_result(_natural(model, data, inducing, settings, show, warm), result)
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
    """Natural-gradient steps until q stands still."""
    if model.likelihood.conjugate:
        found = infer(model, data, inducing)
        return _settled(model, data, inducing, found, Recorder(show), "", settings)
    inferring = _bounded(model, settings)
    guess = jnp.asarray(pseudo_data(model, data))
    starts = [None, no_sites(model, inducing)]  # what y points at, or if that fails the prior
    for sites in starts if warm is None else [warm, *starts]:
        shape, state = starting_state(inferring, data, inducing, guess, sites)
        state = take_steps(inferring, data, shape, state, 1, settings.settling)
        if np.isfinite(state.q.elbo):
            break

    def step(state: Settling) -> Settling:
        return take_steps(inferring, data, shape, state, 1, settings.settling)

    state, record, message = _settle(model, state, step, settings, show)
    return _settled(model, data, inducing, state, record, message, settings)


def _settle(
    model: GP,
    state: Settling,
    step: Callable[[Settling], Settling],
    settings: Settings,
    show: Progress,
) -> tuple[Settling, Recorder, str]:
    """Step by step, so that it can be watched and interrupted."""
    _check_finite(model, state.q.elbo)
    record = Recorder(show)
    record(float(state.q.elbo), 1.0)
    try:
        while not state.done and state.steps <= settings.inference_steps:
            size = float(state.step_size)
            state = step(state)
            record(float(state.q.elbo), size)
    except KeyboardInterrupt:
        return state, record, _INTERRUPTED
    return state, record, ""


def _settled(
    model: GP,
    data: Observations,
    inducing: Any,
    state: Settling,
    record: Recorder,
    message: str,
    settings: Settings,
) -> Posterior:
    """The posterior that a search for q ended with, and what to say of the search."""
    _check_finite(model, state.q.elbo)
    result = None
    if not model.likelihood.conjugate:
        result = _inference_result(model, data, state, record, message, settings)
    q = state.q
    return Posterior(model, data, inducing, q.sites, q.marginals, float(q.elbo), result)


def _inference_result(
    model: GP,
    data: Observations,
    state: Settling,
    record: Recorder,
    message: str,
    settings: Settings,
) -> FitResult:
    converged = not message and has_settled(model, data, state, settings.tolerance)
    if not message:
        message = "the bound stopped rising" if converged else _STUCK[bool(state.done)]
    return record.result(converged, message)


_INTERRUPTED = "interrupted: this is what was reached until then"
_STUCK = {
    True: "no step raises the bound any more",
    False: "the limit of steps was reached; raise max_steps",
}


def _laplace(
    model: GP, data: Observations, inducing: Any, settings: Settings, show: Progress, warm: Any
) -> Posterior:
    """Newton steps to the mode."""
    shape, state = starting_mode(model, data, inducing, jnp.asarray(pseudo_data(model, data)))

    def step(state: Settling) -> Settling:
        return newton_steps(model, data, shape, state, 1, settings.settling)

    state, record, message = _settle(model, step(state), step, settings, show)
    result = _inference_result(model, data, state, record, message, settings)
    q = state.q
    evidence = float(laplace_evidence(model, data, shape, q.marginals[0]))
    _check_finite(model, evidence)
    return Posterior(model, data, inducing, q.sites, q.marginals, evidence, result, is_bound=False)


def _expectation_propagation(
    model: GP, data: Observations, inducing: Any, settings: Settings, show: Progress, warm: Any
) -> Posterior:
    """Steps of EP until the sites stand still."""
    guess = jnp.asarray(pseudo_data(model, data))
    shape, state = starting_propagation(model, data, inducing, guess)
    record, message, most = Recorder(show), "", settings.max_steps_given or MOST_STEPS
    still = settings.tolerance or STILL
    state, evidence = propagation_step(model, data, shape, state, settings.ep)
    try:
        while True:
            record(float(evidence), settings.ep.damping)
            if not state.change > still or state.steps >= most:
                break
            state, evidence = propagation_step(model, data, shape, state, settings.ep)
    except KeyboardInterrupt:
        message = _INTERRUPTED
    _check_finite(model, evidence)
    converged = not message and bool(state.change <= still)
    if not message:
        message = (
            "the sites stopped moving"
            if converged
            else "the sites keep moving: try sg.PowerEP with less power or damping"
        )
    sites, marginals = propagated(model, shape, state)
    result = record.result(converged, message)
    return Posterior(
        model, data, inducing, (sites,), (marginals,), float(evidence), result, is_bound=False
    )


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
