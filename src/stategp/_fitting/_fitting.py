"""`condition` and `fit`: from a model and data to a posterior."""

import dataclasses
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypedDict, Unpack, overload, runtime_checkable

import jax.numpy as jnp
import numpy as np
import optax

from stategp._data import Observations, observe, observe_table, place_all, place_inducing
from stategp._fitting._additive import AdditiveTask
from stategp._fitting._automatic import Auto, as_auto, choose
from stategp._fitting._deep import DeepTask, observe_outputs
from stategp._fitting._methods import Method, find_method
from stategp._fitting._series import SeriesTask
from stategp._fitting._settings import Settings, choose_settings
from stategp._fitting._task import check_noise
from stategp._inference import (
    ChainSites,
    FitResult,
    Sight,
    infer,
    place_layers,
    starting_additive,
    starting_model,
    transfer_sites,
)
from stategp._models import GP, AdditiveGP, DeepGP
from stategp._posteriors import AdditivePosterior, DeepPosterior, Posterior
from stategp._runtime import (
    Progress,
    finishing_compilations,
    make_room,
    pad_inducing,
    refuse_traced,
)
from stategp.parameters import Parameter, map_parameters


@runtime_checkable
class _Array(Protocol):
    """An array of NumPy, JAX, pandas, …"""

    def __array__(self) -> np.ndarray: ...


Numbers = Sequence[float] | Sequence[bool] | _Array
Table = Mapping[str, Numbers] | Sequence[Sequence[float]] | _Array
Inducing = int | Literal["data", "auto"] | Auto | Numbers
MethodName = Literal["natural", "gradient", "laplace", "ep", "vb"]


class NotConvergedWarning(UserWarning):
    """A fit stopped before it reached an optimum."""


class ConditionOptions(TypedDict, total=False):
    """The options of `condition`, as editors and type checkers see them."""

    inducing: Inducing | Mapping[str, Inducing] | Sequence[Inducing]
    noise_variance: float | Numbers | None
    exposure: float | Numbers | None
    trials: float | Numbers | None
    weights: float | Numbers | None
    method: MethodName | Method
    optimiser: Literal["lbfgs", "adam"] | optax.GradientTransformation | None
    batch_size: int | None
    step_size: float | Callable[[int], Any] | None
    seed: int
    max_steps: int | None
    tolerance: float | None
    progress: bool | Progress | None


class FitOptions(ConditionOptions, total=False):
    """The options of `fit`, as editors and type checkers see them."""

    starts: int


@overload
def condition(
    model: GP, x: Numbers, y: Numbers, **options: Unpack[ConditionOptions]
) -> Posterior: ...
@overload
def condition(
    model: AdditiveGP, x: Table, y: Numbers, **options: Unpack[ConditionOptions]
) -> AdditivePosterior: ...
@overload
def condition(
    model: DeepGP | DeepPosterior, x: Any, y: Any, **options: Unpack[ConditionOptions]
) -> DeepPosterior: ...
def condition(
    model: Any,
    x: Any,
    y: Any,
    *,
    inducing: Any = "auto",
    noise_variance: Any = None,
    exposure: Any = None,
    trials: Any = None,
    weights: Any = None,
    method: Any = "natural",
    optimiser: Any = None,
    batch_size: Any = None,
    step_size: Any = None,
    seed: Any = 0,
    max_steps: Any = None,
    tolerance: Any = None,
    progress: Any = None,
) -> Any:
    """The posterior for fixed hyperparameters.

    Arguments:
        model: the prior of the function and how it is observed. Instead of a deep model its
            posterior can be given; the search then starts from it.
        x: inputs, one-dimensional, in any order; repeated values are fine. Additive models: an
            array with a column for each kernel, a dictionary of columns or a data frame.
        y: observations; NaN means missing.
        inducing: the inducing points: "auto" (one at every input if that is cheap, else as many as
            are needed, see `posterior.certificate`; `sg.Auto(tolerance=…)` sets the accuracy), a
            number (placed at quantiles of x over its range), an increasing array of locations, or
            "data" (every input, no approximation). Additive models: one of these for all inputs, or
            a dictionary or list with one for each; their number is not chosen automatically: "auto"
            is 64, or the number of distinct values if that is smaller, and `sg.Auto` is refused.
        noise_variance: Gaussian observations: known noise variances, one number or one per
            observation, added to that of the likelihood.
        exposure: counts: what the rate is multiplied by, one number or one per observation.
        trials: binomial observations: the number of trials, one number or one per observation.
        weights: the number of times each observation counts, by default once.
        method: how the posterior is approximated. "natural": the variational optimum by natural
            gradients, which for Gaussian observations is exact and takes one step. "gradient": the
            same optimum by a general optimiser, on the mean and precision factor of q. Other
            approximations are "laplace", "ep" (or `sg.PowerEP`) and, for logistic Bernoulli, "vb".
        optimiser: "lbfgs", "adam", or any Optax optimiser; for `fit` and for method="gradient".
            By default L-BFGS, or Adam with minibatches.
        batch_size: observations per step; by default all of them.
        step_size: step size of the natural gradient in minibatches: a number, or an Optax schedule.
        seed: seed of the minibatches.
        max_steps: the maximum number of steps.
        tolerance: when to stop. Inference: how little q moves, in nats per observation (EP: the
            largest relative change of a site). L-BFGS: the gradient per observation. Optax: how
            little the bound rises per observation; with minibatches all steps are taken unless
            this is given.
        progress: whether to show the bound on standard error; by default only on a terminal.

    >>> import numpy as np, stategp as sg
    >>> model = sg.GP(sg.kernels.Matern32(lengthscale=2.0), sg.likelihoods.Gaussian(variance=0.1))
    >>> posterior = sg.condition(model, np.arange(10), np.sin(np.arange(10)), inducing=5)
    """
    request = _Request(
        model=model,
        x=x,
        y=y,
        inducing=inducing,
        extras={"noise_variance": noise_variance, "exposure": exposure, "trials": trials},
        weights=weights,
        method=method,
        options={
            "optimiser": optimiser,
            "batch_size": batch_size,
            "step_size": step_size,
            "starts": 1,
            "seed": seed,
            "max_steps": max_steps,
            "tolerance": tolerance,
        },
        progress=progress,
        learn=False,
    )
    return _answer(request)


@overload
def fit(model: GP, x: Numbers, y: Numbers, **options: Unpack[FitOptions]) -> Posterior: ...
@overload
def fit(
    model: AdditiveGP, x: Table, y: Numbers, **options: Unpack[FitOptions]
) -> AdditivePosterior: ...
@overload
def fit(
    model: DeepGP | DeepPosterior, x: Any, y: Any, **options: Unpack[FitOptions]
) -> DeepPosterior: ...
def fit(
    model: Any,
    x: Any,
    y: Any,
    *,
    inducing: Any = "auto",
    noise_variance: Any = None,
    exposure: Any = None,
    trials: Any = None,
    weights: Any = None,
    method: Any = "natural",
    optimiser: Any = None,
    batch_size: Any = None,
    step_size: Any = None,
    starts: Any = 1,
    seed: Any = 0,
    max_steps: Any = None,
    tolerance: Any = None,
    progress: Any = None,
) -> Any:
    """Learn the hyperparameters, then infer the posterior.

    Maximises the bound (plus the log priors, if parameters have any). Hyperparameters without a
    value get starting values from the data; fixed ones do not change. A fit that did not converge
    gives a warning and says so in `posterior.fit_result`. After Ctrl-C the best result so far is
    returned.

    Arguments are those of `condition`, and these two:

    Arguments:
        starts: the number of starting points for L-BFGS; the best result is kept.
        seed: seed of minibatches, and of the random starting points after the first.

    >>> import numpy as np, stategp as sg
    >>> x = np.linspace(0, 10, 50)
    >>> posterior = sg.fit(sg.GP(sg.kernels.Matern52()), x, np.sin(x) + 0.1 * np.cos(9 * x))
    >>> posterior.fit_result.converged
    True
    """
    request = _Request(
        model=model,
        x=x,
        y=y,
        inducing=inducing,
        extras={"noise_variance": noise_variance, "exposure": exposure, "trials": trials},
        weights=weights,
        method=method,
        options={
            "optimiser": optimiser,
            "batch_size": batch_size,
            "step_size": step_size,
            "starts": starts,
            "seed": seed,
            "max_steps": max_steps,
            "tolerance": tolerance,
        },
        progress=progress,
        learn=True,
    )
    return _answer(request)


@dataclasses.dataclass(frozen=True)
class _Request:
    """What the user asked for."""

    model: Any
    x: Any
    y: Any
    inducing: Any
    extras: dict[str, Any]
    weights: Any
    method: Any
    options: dict[str, Any]
    progress: Any
    learn: bool  # whether hyperparameters may move

    def open(self, model: Any, start: Any) -> Any:
        """The model to begin with: all hyperparameters fixed, or the open ones from the data."""
        return start() if self.learn else map_parameters(_freeze, model)


def _answer(request: _Request) -> Any:
    """The posterior that was asked for, by the kind of model."""
    began = time.perf_counter()
    warm = request.model if isinstance(request.model, DeepPosterior) else None
    model = request.model if warm is None else warm.model
    if not isinstance(model, GP | AdditiveGP | DeepGP):
        raise ValueError(
            "model must be an sg.GP, an sg.AdditiveGP or an sg.DeepGP, got "
            f"{type(model).__name__}: {model!r}"
        )
    refuse_traced("the model", model)
    settings = choose_settings(
        lambda regime: find_method(model, request.method, regime),
        stochastic=isinstance(model, DeepGP),
        **request.options,
    )
    show = Progress.of(request.progress)
    make_room()
    try:
        with finishing_compilations():
            match model:
                case GP():
                    posterior: Any = _series(model, request, settings, show)
                case AdditiveGP():
                    posterior = _additive(model, request, settings, show)
                case DeepGP():
                    posterior = _deep(model, warm, request, settings, show)
    finally:
        show.close()
    result: FitResult | None = posterior.fit_result
    _warn(result)
    if result is None:
        return posterior
    timed = dataclasses.replace(result, total_seconds=time.perf_counter() - began)
    return dataclasses.replace(posterior, fit_result=timed)


def _series(model: GP, request: _Request, settings: Settings, show: Progress) -> Posterior:
    extras, weights = request.extras, request.weights
    data = observe(request.x, request.y, model.likelihood, extras=extras, weights=weights)

    def start(stretch: float) -> GP:
        opened: GP = request.open(model, lambda: starting_model(model, data, stretch))
        return opened

    check_noise(start(1.0), data.extra)
    settings.method.check(start(1.0), data)
    auto = as_auto(request.inducing)
    if auto is None:
        task = SeriesTask.of(data, place_inducing(request.inducing, data), settings, show)
        posterior: Posterior = settings.method.learn([start(1.0)], task, None)
    else:
        posterior = _with_chosen_inducing(start, data, auto, settings, show)
    return posterior if request.learn else dataclasses.replace(posterior, model=model)


def _with_chosen_inducing(
    start: Callable[[float], GP], data: Observations, auto: Auto, settings: Settings, show: Progress
) -> Posterior:
    previous: list[Posterior] = []

    def learn(models: list[GP], locations: np.ndarray) -> Posterior:
        show.note(f"{len(locations)} inducing points, ")
        warm = _warm_start(models[0], data, previous, pad_inducing(locations))
        task = SeriesTask.of(data, locations, settings, show)
        posterior: Posterior = settings.method.learn(models, task, warm)
        previous.append(posterior)
        return posterior

    def bound(model: GP, locations: np.ndarray) -> float:
        show.note(f"checking {len(locations)} inducing points, ")
        padded = pad_inducing(locations)
        # Where there are several optima, bounds are compared at the same one.
        start = previous if not model.likelihood.log_concave else []
        warm = _warm_start(model, data, start, padded)
        return float(infer(model, data, jnp.asarray(padded), warm).q.elbo)

    return choose(start, data, auto, bound=bound, learn=learn, settings=settings)


def _additive(
    model: AdditiveGP, request: _Request, settings: Settings, show: Progress
) -> AdditivePosterior:
    rows = observe_table(
        model.names,
        request.x,
        request.y,
        model.likelihood,
        extras=request.extras,
        weights=request.weights,
    )
    start = request.open(model, lambda: starting_additive(model, rows))
    check_noise(start, rows.extra)
    settings.method.check(start, rows)
    inducing = place_all(request.inducing, rows, model.names)
    task = AdditiveTask.of(start, rows, inducing, settings, show)
    posterior: AdditivePosterior = settings.method.learn([start], task, None)
    return posterior if request.learn else dataclasses.replace(posterior, model=model)


def _deep(
    model: DeepGP,
    warm: DeepPosterior | None,
    request: _Request,
    settings: Settings,
    show: Progress,
) -> DeepPosterior:
    if not (isinstance(request.inducing, str) and request.inducing == "auto"):
        raise ValueError("inducing points of a deep model are given to each sg.Layer")
    series = observe_outputs(model, request.x, request.y, request.extras, request.weights)
    task = DeepTask.of(series, settings, show)
    start = request.open(model, lambda: model)
    start = place_layers(start, [np.asarray(output.x) for output in task.outputs])
    posterior: DeepPosterior = settings.method.learn([start], task, warm)
    if request.learn:
        return posterior
    return dataclasses.replace(posterior, model=posterior.model.like(model))


def _warn(result: FitResult | None) -> None:
    if result is not None and not result.converged:
        warnings.warn(f"the fit did not converge: {result}", NotConvergedWarning, stacklevel=4)


def _warm_start(
    model: GP, data: Observations, previous: list[Posterior], locations: np.ndarray
) -> ChainSites | None:
    """The last posterior, seen from other inducing points."""
    if not previous or model.likelihood.conjugate:
        return None
    last = previous[-1]
    inducing = jnp.asarray(locations)
    view, _ = Sight(data, inducing)(model)
    chain = last.chain
    return transfer_sites(model, chain.model, view, chain.inducing, chain.marginals, inducing)


def _freeze(parameter: Parameter) -> Parameter:
    return dataclasses.replace(parameter, learned=False)
