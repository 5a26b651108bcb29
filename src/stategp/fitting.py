"""`condition` and `fit`: from a model and data to a posterior."""

import dataclasses
import functools
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
import optax

from stategp.automatic import Auto, as_auto, choose
from stategp.data import Observations, observe, place_inducing
from stategp.inference import (
    ChainSites,
    Collapsed,
    FitResult,
    PowerEP,
    Recorder,
    Settling,
    ep_objective,
    evaluate_all,
    find_mode,
    has_settled,
    infer,
    laplace_objective,
    learn_in_minibatches,
    learn_with_gradients,
    learn_with_optax,
    maximise,
    propagate,
    pseudo_data,
    search_scales,
    starting_model,
    starting_state,
    still,
    take_steps,
    transfer_sites,
)
from stategp.likelihoods import Bernoulli, Gaussian
from stategp.likelihoods._bernoulli import LogisticBound
from stategp.models import GP
from stategp.parameters import Parameter, map_parameters, to_vector, with_vector
from stategp.posterior import Posterior

Inducing = int | Literal["data", "auto"] | Auto | Any
Method = Literal["natural", "gradient", "laplace", "ep", "vb"] | PowerEP | Any
Optimiser = Literal["lbfgs", "adam"] | optax.GradientTransformation | Any

_REACH = 18.5  # hyperparameters move by at most a factor e¹⁸·⁵ ≈ 10⁸ either way
_START_SPREAD = 1.5  # standard deviation, in log units, of further starting points
_METHODS = ("natural", "gradient", "laplace", "ep", "vb")


class NotConvergedWarning(UserWarning):
    """A fit stopped before it reached an optimum."""


def condition(
    model: GP | Any,
    x: Any,
    y: Any,
    *,
    inducing: Inducing = "auto",
    noise_variance: Any = None,
    exposure: Any = None,
    trials: Any = None,
    weights: Any = None,
    method: Method = "natural",
    optimiser: Optimiser = None,
    batch_size: int | None = None,
    step_size: Any = None,
    seed: int = 0,
    max_steps: int | None = None,
    tolerance: float | None = None,
    progress: bool | None = None,
) -> Posterior:
    """The posterior for the hyperparameters as they are.

    Arguments:
        model: what is believed about the function and how it is observed.
        x: inputs, one-dimensional, in any order; repeated values are fine.
        y: observations; NaN means missing.
        inducing: how the posterior is represented: "auto" (as many inducing points as it takes,
            see `posterior.certificate`; `sg.Auto(tolerance=…)` says how exactly), a number (placed
            by the quantiles of x over its range), an increasing array of locations, or "data",
            which loses nothing.
        noise_variance: Gaussian observations: known noise variances, one number or one per
            observation, added to that of the likelihood.
        exposure: counts: what the rate is multiplied by, one number or one per observation.
        trials: binomial observations: out of how many.
        weights: how often each observation counts, once unless given.
        method: how the posterior is approximated. "natural": the variational optimum by natural
            gradients, which for Gaussian observations is exact and takes one step. "gradient": the
            same optimum by the optimiser, on the mean and precision factor of q. "laplace", "ep"
            (or `sg.PowerEP`) and, for logistic Bernoulli, "vb" are other approximations.
        optimiser: "lbfgs", "adam", or any Optax optimiser; for `fit` and for method="gradient".
            L-BFGS unless minibatches are asked for, then Adam.
        batch_size: observations per step; all of them unless given.
        step_size: of the natural gradient in minibatches: a number, or an Optax schedule.
        seed: of minibatches.
        max_steps: the most steps.
        tolerance: when to stop. L-BFGS: the slope per observation. Otherwise: how much the bound
            rises per observation.
        progress: whether to show the bound on standard error; by default, when that is a
            terminal.

    >>> import numpy as np, stategp as sg
    >>> model = sg.GP(sg.kernels.Matern32(lengthscale=2.0), sg.likelihoods.Gaussian(variance=0.1))
    >>> posterior = sg.condition(model, np.arange(10), np.sin(np.arange(10)), inducing=5)
    """
    _check_model(model)
    settings = _Settings.of(
        model, method, optimiser, batch_size, step_size, 1, seed, max_steps, tolerance
    )
    extras = {"noise_variance": noise_variance, "exposure": exposure, "trials": trials}
    data = observe(x, y, model.likelihood, extras=extras, weights=weights)
    settings.check(model, data)
    frozen = map_parameters(_freeze, model)
    posterior = _run(lambda _: frozen, data, inducing, settings, progress)
    return dataclasses.replace(posterior, model=model)


def fit(
    model: GP | Any,
    x: Any,
    y: Any,
    *,
    inducing: Inducing = "auto",
    noise_variance: Any = None,
    exposure: Any = None,
    trials: Any = None,
    weights: Any = None,
    method: Method = "natural",
    optimiser: Optimiser = None,
    batch_size: int | None = None,
    step_size: Any = None,
    starts: int = 1,
    seed: int = 0,
    max_steps: int | None = None,
    tolerance: float | None = None,
    progress: bool | None = None,
) -> Posterior:
    """Learn the hyperparameters, then infer.

    Maximises the bound (plus the log priors, if parameters have any). Hyperparameters that were
    not given start from values taken from the data, fixed ones stay. A fit that did not converge
    warns and says so in `posterior.fit_result`; Ctrl-C keeps what has been reached.

    Arguments:
        model, x, y, inducing, noise_variance, exposure, trials, weights, method, optimiser,
            batch_size, step_size, max_steps, tolerance, progress: as for `condition`.
        starts: how many starting points L-BFGS tries; the best result is kept.
        seed: of the random starting points beyond the first, and of minibatches.

    >>> import numpy as np, stategp as sg
    >>> x = np.linspace(0, 10, 50)
    >>> posterior = sg.fit(sg.GP(sg.kernels.Matern52()), x, np.sin(x) + 0.1 * np.cos(9 * x))
    >>> posterior.fit_result.converged
    True
    """
    _check_model(model)
    settings = _Settings.of(
        model, method, optimiser, batch_size, step_size, starts, seed, max_steps, tolerance
    )
    extras = {"noise_variance": noise_variance, "exposure": exposure, "trials": trials}
    data = observe(x, y, model.likelihood, extras=extras, weights=weights)
    settings.check(starting_model(model, data), data)
    return _run(
        lambda stretch: starting_model(model, data, stretch), data, inducing, settings, progress
    )


@dataclasses.dataclass(frozen=True)
class _Settings:
    """How to look for q and the hyperparameters, checked."""

    method: str
    ep: PowerEP
    optimiser: optax.GradientTransformation | None  # None: L-BFGS
    batch_size: int | None
    step_size: Callable[[int], Any]
    starts: int
    seed: int
    max_steps: int
    tolerance: float | None

    @staticmethod
    def of(
        model: GP,
        method: Any,
        optimiser: Any,
        batch_size: Any,
        step_size: Any,
        starts: int,
        seed: int,
        max_steps: int | None,
        tolerance: float | None,
    ) -> "_Settings":
        name = "ep" if isinstance(method, PowerEP) else method
        if name not in _METHODS:
            names = ", ".join(map(repr, _METHODS))
            raise ValueError(f"method must be one of {names} or an sg.PowerEP, got {method!r}")
        for what, number in [("batch_size", batch_size), ("max_steps", max_steps)]:
            if number is not None and (isinstance(number, bool) or number < 1):
                raise ValueError(f"{what} must be at least 1, got {number}")
        if starts < 1:
            raise ValueError(f"starts must be at least 1, got {starts}")
        if tolerance is not None and not tolerance > 0:
            raise ValueError(f"tolerance must be positive, got {tolerance}")
        if optimiser is None:
            optimiser = "lbfgs" if batch_size is None else "adam"
        steps = max_steps or (500 if optimiser == "lbfgs" else 2000)
        chosen = _as_optimiser(optimiser, steps)
        if batch_size is not None and (chosen is None or name not in ("natural", "gradient")):
            raise ValueError(
                "minibatches go with method='natural' or 'gradient' and with optimiser='adam' or "
                f"an Optax optimiser, not with method={name!r}, optimiser={optimiser!r}"
            )
        if chosen is not None and name not in ("natural", "gradient"):
            raise ValueError(f"method={name!r} goes with optimiser='lbfgs', got {optimiser!r}")
        if starts > 1 and (chosen is not None or name == "gradient"):
            raise ValueError("starts goes with optimiser='lbfgs' and other methods than 'gradient'")
        if step_size is None:
            step_size = optax.cosine_decay_schedule(0.1, steps, alpha=0.05)
        if not callable(step_size):
            if not 0 < step_size <= 1:
                raise ValueError(f"step_size must lie in (0, 1], got {step_size}")
            step_size = optax.constant_schedule(step_size)
        ep = method if isinstance(method, PowerEP) else PowerEP()
        return _Settings(
            name, ep, chosen, batch_size, step_size, starts, seed, steps, tolerance
        )

    def check(self, model: GP, data: Observations) -> None:
        """Refuse what the method cannot do with this model and these data."""
        likelihood = model.likelihood
        if isinstance(likelihood, Gaussian):
            smallest = float(likelihood.variance) + float(jnp.min(data.extra))
            if not smallest > 0:
                raise ValueError(
                    "observations without noise: the likelihood's variance is zero, so "
                    "noise_variance must be given and positive"
                )
        if self.method in ("laplace", "ep", "vb") and likelihood.latents > 1:
            raise ValueError(
                f"method={self.method!r} is for likelihoods with one latent function, not for "
                f"{type(likelihood).__name__}; use method='natural'"
            )
        logistic = isinstance(likelihood, Bernoulli) and likelihood.link == "logit"
        if self.method == "vb" and not logistic:
            raise ValueError(
                "method='vb' is a bound on the logistic function, for Bernoulli(link='logit') "
                f"only, not for {likelihood!r}; use method='natural'"
            )
        if self.method == "ep" and np.any(np.asarray(data.weights) != 1):
            raise ValueError("method='ep' does not take weights; use method='natural'")


def _as_optimiser(optimiser: Any, steps: int) -> optax.GradientTransformation | None:
    if optimiser == "lbfgs":
        return None
    if optimiser == "adam":
        return _adam(steps)
    if not isinstance(optimiser, optax.GradientTransformation):
        raise ValueError(
            f"optimiser must be 'lbfgs', 'adam' or an Optax optimiser, got {optimiser!r}"
        )
    return optimiser


@functools.lru_cache(maxsize=16)
def _adam(steps: int) -> optax.GradientTransformation:
    """The same object for the same settings, so that nothing compiles twice."""
    return optax.adam(optax.cosine_decay_schedule(0.03, steps, alpha=0.03))


def _run(
    start: Callable[[float], GP],
    data: Observations,
    inducing: Inducing,
    settings: _Settings,
    progress: bool | None,
) -> Posterior:
    show = _Progress(sys.stderr.isatty() if progress is None else progress)
    auto = as_auto(inducing)
    try:
        if auto is None:
            locations = place_inducing(inducing, data)
            posterior = _learn(start(1.0), data, locations, settings, show, None)
        else:
            previous: list[Posterior] = []

            def learn(model: GP, locations: np.ndarray) -> Posterior:
                show.note(f"{len(locations)} inducing points, ")
                warm = _warm_start(model, data, previous, locations)
                posterior = _learn(model, data, locations, settings, show, warm)
                previous.append(posterior)
                return posterior

            def bound(model: GP, locations: np.ndarray) -> float:
                show.note(f"checking {len(locations)} inducing points, ")
                warm = _warm_start(model, data, previous, locations)
                return float(infer(model, data, jnp.asarray(locations), warm).q.elbo)

            posterior = choose(start, data, auto, bound=bound, learn=learn)
    finally:
        show.close()
    result = posterior.fit_result
    if result is not None and not result.converged:
        warnings.warn(f"the fit did not converge: {result}", NotConvergedWarning, stacklevel=3)
    return posterior


def _warm_start(
    model: GP, data: Observations, previous: list[Posterior], locations: np.ndarray
) -> ChainSites | None:
    """The last posterior, seen from other inducing points."""
    if not previous or model.likelihood.conjugate:
        return None
    last = previous[-1]
    return transfer_sites(
        model, last.model, data, last.relative_inducing, last.marginals, jnp.asarray(locations)
    )


def _learn(
    model: GP,
    data: Observations,
    inducing: np.ndarray,
    settings: _Settings,
    show: "_Progress",
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
    settings: _Settings,
    show: "_Progress",
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
    settings: _Settings,
    show: "_Progress",
    warm: ChainSites | None,
) -> tuple[float, GP, Settling | None, FitResult]:
    """One search, repeated if a kernel's truncation has to follow its new parameters."""
    while True:
        value, model, found, result = _search(model, data, inducing, settings, show, warm)
        try:
            kernels = tuple(kernel.refined() for kernel in model.kernels)
        except ValueError as error:  # more harmonics than anyone would want
            message = f"{result.message}; {error}"
            return value, model, found, dataclasses.replace(result, converged=False, message=message)
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
    settings: _Settings,
    show: "_Progress",
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
        reach=_REACH,
        max_steps=settings.max_steps,
        report=show,
        flat=settings.tolerance or 1e-5,
    )
    found = None
    if isinstance(objective, Collapsed):
        objective(best * scales)
        found = objective.state
    return value, with_vector(model, jnp.asarray(best * scales)), found, result


def _bounded(model: GP, settings: _Settings) -> GP:
    """The model with the likelihood that the method replaces it by."""
    if settings.method != "vb":
        return model
    return GP(model.kernels, LogisticBound(), model.means)


# --- first-order methods -------------------------------------------------------------------------


def _learn_first_order(
    model: GP, data: Observations, inducing: Any, settings: _Settings, show: "_Progress"
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
            reach=_REACH,
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
    settings: _Settings,
    show: "_Progress",
    warm: ChainSites | None,
) -> Posterior:
    """Natural-gradient steps until the bound stops rising."""
    inferring = _bounded(model, settings)
    guess = jnp.asarray(pseudo_data(model, data))
    record = Recorder(show)
    message, most = "", max(settings.max_steps, 200)
    starts = [None] if warm is None else [warm, None]
    for sites in starts:
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
    model: GP, data: Observations, inducing: Any, settings: _Settings, show: Any, warm: Any
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
    model: GP, data: Observations, inducing: Any, settings: _Settings, show: Any, warm: Any
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
            f"inference lost all its digits for {model!r}: the signal is too many orders of "
            "magnitude above the noise for double precision; use hyperparameters closer to the "
            "scales of the data"
        )


def _freeze(parameter: Parameter) -> Parameter:
    return dataclasses.replace(parameter, learned=False)


def _check_model(model: object) -> None:
    if not isinstance(model, GP):
        raise ValueError(f"model must be an sg.GP, got {type(model).__name__}: {model!r}")


class _Progress:
    """One line on standard error, rewritten a few times a second."""

    def __init__(self, visible: bool):
        self.visible, self.last, self.shown = visible, 0.0, False
        self.prefix, self.remark = "", ""

    def note(self, remark: str) -> None:
        """What the steps to come are for."""
        self.remark = remark

    def start(self, number: int, starts: int) -> None:
        self.prefix = f"start {number} of {starts}, " if starts > 1 else ""

    def __call__(self, step: int, value: float) -> None:
        now = time.perf_counter()
        if self.visible and now - self.last > 0.2:
            self.last, self.shown = now, True
            sys.stderr.write(f"\r\033[Kfit: {self.remark}{self.prefix}step {step}, bound {value:.6g}")
            sys.stderr.flush()

    def close(self) -> None:
        if self.shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
