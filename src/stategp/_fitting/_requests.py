"""From what the user asked for to a posterior, by the kind of model."""

import dataclasses
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from stategp._data import (
    InBatches,
    Observations,
    OnStretches,
    observe_table,
    place_all,
    place_inducing,
)
from stategp._fitting._additive import AdditiveTask
from stategp._fitting._automatic import Auto, as_auto, choose
from stategp._fitting._checkpointing import Checkpoints, fingerprint
from stategp._fitting._deep import DeepTask, observe_outputs
from stategp._fitting._doors import observations, refuse_sums
from stategp._fitting._joint import joint_posterior
from stategp._fitting._locations import check_learned, learn_locations, place_learned
from stategp._fitting._methods import Natural, find_method
from stategp._fitting._newton_fields import is_newton_field, newton_field
from stategp._fitting._outputs import outputs_posterior
from stategp._fitting._series import SeriesTask, fill_up
from stategp._fitting._settings import Settings, choose_settings
from stategp._fitting._space_time import space_time_posterior
from stategp._fitting._stacked import stacked_posterior
from stategp._fitting._task import check_noise
from stategp._inference import (
    FEW,
    ChainSites,
    Collapsed,
    FitResult,
    Sight,
    TooFastError,
    infer,
    place_layers,
    starting_additive,
    starting_model,
    transfer_sites,
)
from stategp._models import (
    GP,
    AdditiveGP,
    DeepGP,
    JointGP,
    Learned,
    MultiOutputGP,
    SpaceTimeGP,
    StackedGP,
    seen_from,
)
from stategp._posteriors import AdditivePosterior, DeepPosterior, Posterior
from stategp._runtime import (
    Progress,
    exchanged,
    finishing_compilations,
    in_step,
    make_room,
    mesh_of_devices,
    on_device,
    on_one_device,
    refuse_traced,
)
from stategp._streams import Draws
from stategp.parameters import Parameter, map_parameters, to_vector


class NotConvergedWarning(UserWarning):
    """A fit stopped before it reached an optimum."""


@dataclasses.dataclass(frozen=True)
class Request:
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
    checkpoints: Checkpoints | None
    learn: bool  # whether hyperparameters may move

    def open(self, model: Any, start: Any) -> Any:
        """The model to begin with: all hyperparameters fixed, or the open ones from the data."""
        return start() if self.learn else map_parameters(_freeze, model)

    def open_checkpoint(self, settings: Settings, data: Any) -> None:
        """Begin to remember searches in a file, or go on from it, if that was asked for."""
        if settings.keeper is not None and self.checkpoints is not None:
            how = {"method": self.method, "inducing": self.inducing} | self.options
            parts = {"the model": self.model, "the data": data, "the options": how}
            prints = {name: fingerprint(part) for name, part in parts.items()}
            settings.keeper.open(prints, resume=self.checkpoints.resume)


def answer(request: Request) -> Any:
    """The posterior that was asked for, by the kind of model."""
    began = time.perf_counter()
    warm = request.model if isinstance(request.model, DeepPosterior) else None
    model = request.model if warm is None else warm.model
    kinds = GP | AdditiveGP | MultiOutputGP | JointGP | SpaceTimeGP | StackedGP | DeepGP
    if not isinstance(model, kinds):
        raise ValueError(
            "model must be an sg.GP, an sg.AdditiveGP, an sg.MultiOutputGP, an sg.JointGP, an "
            "sg.SpaceTimeGP, an sg.StackedGP or an sg.DeepGP, got "
            f"{type(model).__name__}: {model!r}"
        )
    refuse_traced("the model", model)
    if not isinstance(model, GP):
        refuse_sums(model, request.x)
    settings = None
    if not isinstance(model, StackedGP):
        settings = choose_settings(
            lambda regime: find_method(model, request.method, regime),
            stochastic=isinstance(model, DeepGP),
            **request.options,
        )
    if settings is None or is_newton_field(model, settings):
        posterior = _in_turns(model, request, settings)
        warn_unless_converged(posterior.fit_result)
        return _timed(posterior, began)
    if request.checkpoints is not None:
        settings = dataclasses.replace(settings, keeper=request.checkpoints.keeper())
    show = Progress.of(request.progress)
    make_room()
    try:
        with finishing_compilations():
            match model:
                case GP():
                    posterior = _series(model, request, settings, show)
                case AdditiveGP():
                    posterior = _additive(model, request, settings, show)
                case MultiOutputGP():
                    posterior = outputs_posterior(model, request, settings, show)
                case JointGP():
                    posterior = joint_posterior(model, request, settings, show)
                case SpaceTimeGP():
                    posterior = space_time_posterior(model, request, settings, show)
                case DeepGP():
                    posterior = _deep(model, warm, request, settings, show)
    finally:
        show.close()
    if settings.keeper is not None:
        settings.keeper.finish()
    warn_unless_converged(posterior.fit_result)
    return _timed(posterior, began)


def _timed(posterior: Any, began: float) -> Any:
    """With the time of the whole call."""
    result: FitResult | None = posterior.fit_result
    if result is None:
        return posterior
    timed = dataclasses.replace(result, total_seconds=time.perf_counter() - began)
    return dataclasses.replace(posterior, fit_result=timed)


def _in_turns(model: Any, request: Request, settings: Settings | None) -> Any:
    """The answer where it takes those to several requests, one after the other."""
    show = Progress.of(request.progress)
    try:
        if settings is None:
            return stacked_posterior(model, request, show, answer)
        return newton_field(model, request, settings, show, answer)
    finally:
        show.close()


def _series(model: GP, request: Request, settings: Settings, show: Progress) -> Posterior:
    size = settings.batch_size
    draws = None if size is None else Draws(size, settings.seed)
    given = request.x, request.y, request.extras, request.weights
    data = observations(model, *given, show, draws=draws)
    model = seen_from(model, data.origin)
    if not isinstance(data, InBatches):
        if mesh_of_devices() is None or isinstance(data, OnStretches) or len(data) < FEW:
            return _of_series(model, data, request, settings, show)
        _check_the_same(model, data)
        with in_step():
            alone: Posterior = on_one_device(_of_series(model, data, request, settings, show))
        return alone
    try:
        with in_step():
            posterior = _of_series(model, data, request, settings, show)
    finally:
        data.close()
    left = posterior.data
    assert isinstance(left, InBatches)
    return dataclasses.replace(on_one_device(posterior), data=left.released())


def _check_the_same(model: GP, data: Observations) -> None:
    """Refuse rows that are to be divided among processes unless all have been given the same."""
    told = exchanged(fingerprint((model, data)).encode())
    for process, other in enumerate(told):
        if other != told[0]:
            raise ValueError(
                f"process {process} was given another model, x or y than process 0, and they are "
                f"to divide the {len(data):,} rows of x and y among them: give all processes the "
                "same, or a stream of which each reads its share (sg.stream); to fit another "
                "series in each, keep it there with "
                "jax.config.update('jax_default_device', jax.local_devices()[0])"
            )


def _check_method(model: GP, data: Observations, settings: Settings) -> None:
    """Refuse sums, and rows on disk, where a method needs the observations themselves."""
    if not isinstance(data, OnStretches):
        return
    data.check(model.likelihood)
    kept = isinstance(data, InBatches)
    method = settings.method
    if not (method.takes_rows if kept else method.takes_summaries):
        raise ValueError(
            f"method={method.name!r} with these arguments looks at observations one by one, which "
            f"a {data.source} does not hold: use method='natural' and optimiser='lbfgs'"
            + (", or batch_size" if kept else ", without batch_size")
        )


def _of_series(
    model: GP, data: Observations, request: Request, settings: Settings, show: Progress
) -> Posterior:
    _check_method(model, data, settings)

    def start(stretch: float) -> GP:
        opened: GP = request.open(model, lambda: starting_model(model, data, stretch))
        return opened

    check_noise(start(1.0), data.extra)
    settings.method.check(start(1.0), data)
    request.open_checkpoint(settings, data)
    auto = as_auto(request.inducing)
    if isinstance(request.inducing, Learned):
        check_learned(settings.method, data)
        where = place_learned(request.inducing, data)
        task = SeriesTask.of(model, data, where, settings, show)
        posterior: Posterior = learn_locations(start(1.0), data, task)
    elif auto is None:
        inducing = place_inducing(request.inducing, data)
        task = SeriesTask.of(model, data, inducing, settings, show)
        posterior = settings.method.learn([start(1.0)], task, None)
    else:
        posterior = _with_chosen_inducing(start, data, auto, settings, show)
    return posterior if request.learn else dataclasses.replace(posterior, model=model)


def _with_chosen_inducing(
    start: Callable[[float], GP], data: Observations, auto: Auto, settings: Settings, show: Progress
) -> Posterior:
    previous: list[Posterior] = []

    def learn(models: list[GP], locations: np.ndarray) -> Posterior:
        show.note(f"{len(locations)} inducing points, ")
        last = previous[-1] if previous else None
        warm = warm_start(models[0], data, last, fill_up(models[0], data, locations))
        task = SeriesTask.of(models[0], data, locations, settings, show)
        posterior: Posterior = settings.method.learn(models, task, warm)
        previous.append(posterior)
        return posterior

    def bound(model: GP, locations: np.ndarray, *, alone: bool = False) -> float:
        show.note(f"checking {len(locations)} inducing points, ")
        padded = fill_up(model, data, locations)
        # Where there are several optima, bounds are compared at the same one.
        several = bool(previous) and not model.likelihood.log_concave
        warm = warm_start(model, data, previous[-1] if several else None, padded)
        inducing = on_device(padded)
        # What the search for hyperparameters has compiled, or will, finds q as well.
        shared = type(settings.method) is Natural and not model.likelihood.conjugate
        try:
            if shared and len(to_vector(model)) and not alone:
                found = Collapsed(model, data, inducing, warm).settled(to_vector(model))
            else:
                found = infer(model, data, inducing, warm)
            return float(found.q.elbo)
        except TooFastError:  # for a summary
            return float("nan")

    chosen: Posterior = choose(
        start, data, auto, bound=bound, scan=partial(bound, alone=True), learn=learn,
        settings=settings,
    )  # fmt: skip
    return chosen


def _additive(
    model: AdditiveGP, request: Request, settings: Settings, show: Progress
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
    request.open_checkpoint(settings, rows)
    inducing = place_all(request.inducing, rows, model.names)
    task = AdditiveTask.of(start, rows, inducing, settings, show)
    posterior: AdditivePosterior = settings.method.learn([start], task, None)
    return posterior if request.learn else dataclasses.replace(posterior, model=model)


def _deep(
    model: DeepGP,
    warm: DeepPosterior | None,
    request: Request,
    settings: Settings,
    show: Progress,
) -> DeepPosterior:
    if not (isinstance(request.inducing, str) and request.inducing == "auto"):
        raise ValueError("inducing points of a deep model are given to each sg.Layer")
    series = observe_outputs(model, request.x, request.y, request.extras, request.weights)
    request.open_checkpoint(settings, series)
    task = DeepTask.of(series, settings, show)
    start = request.open(model, lambda: model)
    start = place_layers(start, [np.asarray(output.x) for output in task.outputs])
    posterior: DeepPosterior = settings.method.learn([start], task, warm)
    if request.learn:
        return posterior
    return dataclasses.replace(posterior, model=posterior.model.like(model))


def warn_unless_converged(result: FitResult | None) -> None:
    """Say so where a search ended before an optimum."""
    if result is not None and not result.converged:
        warnings.warn(f"the fit did not converge: {result}", NotConvergedWarning, stacklevel=4)


def warm_start(
    model: GP, data: Observations, last: Posterior | None, locations: np.ndarray
) -> ChainSites | None:
    """A posterior found before, seen from other inducing points."""
    if last is None or model.likelihood.conjugate:
        return None
    inducing = on_device(locations)
    view, _ = Sight(data, inducing)(model)
    chain = last.chain
    return transfer_sites(model, chain.model, view, chain.inducing, chain.marginals, inducing)


def _freeze(parameter: Parameter) -> Parameter:
    return dataclasses.replace(parameter, learned=False)
