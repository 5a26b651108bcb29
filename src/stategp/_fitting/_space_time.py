"""A model over space and time: what its methods are given, and how a request becomes one."""

import dataclasses
import warnings
from typing import Any

import numpy as np

from stategp._data import Observations, observe_in_space, packed_rows, place_inducing
from stategp._fitting._mixed import MixedTask
from stategp._fitting._settings import Settings
from stategp._fitting._task import check_noise
from stategp._inference import (
    Limits,
    Outcome,
    extent_of_places,
    space_time_limits,
    space_time_scales,
    starting_space_time,
)
from stategp._models import SpaceTimeGP, Spots
from stategp._posteriors import SpaceTimePosterior
from stategp._runtime import Progress, on_device, pad_last, padded_size
from stategp.parameters import Parameter
from stategp.spatial import check_coordinates

MOST = 256  # inducing times by default, if there are as many distinct ones
_LEAST = 10  # places to learn from, if they are chosen by a share: fewer see no details
_ROUNDS = 3  # of learning again with more places
_FEW = 32  # inducing times from which on at most an eighth is added: their states are large


@dataclasses.dataclass(frozen=True)
class SpaceTimeTask(MixedTask):
    """Rows at places and times, the inducing times, and the model with its places."""

    @classmethod
    def around(
        cls,
        model: SpaceTimeGP,
        data: Observations,
        places: np.ndarray,
        inducing: np.ndarray,
        settings: Settings,
        show: Progress,
    ) -> "SpaceTimeTask":
        """In runs of rows that share an interval, unless they are to be drawn one by one."""
        guess = model.likelihood.guess(np.asarray(data.y), np.asarray(data.extra))
        if settings.batch_size is not None:
            made: SpaceTimeTask = cls.of(
                data, Spots(on_device(places)), inducing, settings, show, guess
            )
            return dataclasses.replace(made, places=places)
        rows = packed_rows(data, places, np.asarray(guess), inducing, Spots)
        size = padded_size(len(inducing), least=_FEW, few=_FEW)
        padded = on_device(pad_last(inducing, size))
        return cls(settings, show, data, places, rows, padded, len(inducing))

    def span_of(self, model: SpaceTimeGP, parameter: Parameter) -> float | None:
        if parameter is not model.space.lengthscale:
            return self.span
        return float(np.max(extent_of_places(model, np.asarray(self.places))))

    def scales(self, model: SpaceTimeGP) -> np.ndarray:
        return space_time_scales(model, self.data, np.asarray(self.places))

    def limits(self, model: SpaceTimeGP, *, swept: bool = False) -> Limits:
        return space_time_limits(model, np.asarray(self.data.y), np.asarray(self.places))

    def made(self, model: SpaceTimeGP, **parts: Any) -> SpaceTimePosterior:
        return SpaceTimePosterior(model=model, **parts)


def space_time_posterior(
    model: SpaceTimeGP, request: Any, settings: Settings, show: Progress
) -> SpaceTimePosterior:
    """The answer to a request."""
    data, places = observed_in_space(model, request)
    model = model.seen_from(data.origin)
    opened = request.open(model, lambda: starting_space_time(model, data, places))
    least = _LEAST if request.learn else 1
    start = opened.placed(places, seed=settings.seed, least=least)
    check_noise(start, data.extra)
    settings.method.check(start, data)
    request.open_checkpoint(settings, (data, places))
    start = start.in_modes()
    inducing = _place_times(request.inducing, data)
    task = SpaceTimeTask.around(start, data, places, inducing, settings, show)
    posterior: SpaceTimePosterior = settings.method.learn([start.standing()], task, None)
    if not request.learn:
        posterior = dataclasses.replace(posterior, model=posterior.model.like(model))
    else:
        posterior = _with_places_learned(posterior, task)
        posterior = _with_places_enough(_in_modes_again(posterior, task), task)
        posterior = dataclasses.replace(posterior, model=posterior.model.turned_back(places))
    _check_share(posterior)
    return posterior


def _with_places_learned(posterior: SpaceTimePosterior, task: SpaceTimeTask) -> SpaceTimePosterior:
    """Places and hyperparameters together, after the hyperparameters for places as they were.

    In this order the bound is at least that of places which stay.
    """
    model, result = posterior.model, posterior.fit_result
    if not model.moving or (result is not None and result.outcome is Outcome.interrupted):
        return posterior
    task.show.note("learning places, ")
    moved: SpaceTimePosterior = task.settings.method.learn([model.like(model)], task, None)
    return moved


def _with_places_enough(posterior: SpaceTimePosterior, task: SpaceTimeTask) -> SpaceTimePosterior:
    """More places if those chosen at the start explain too little at what was learned since."""
    for _ in range(_ROUNDS):
        model, result = posterior.model, posterior.fit_result
        if model.share is None or posterior.explained >= model.share:
            break
        if result is not None and result.outcome is Outcome.interrupted:
            break
        more = model.placed(np.asarray(task.places), least=_LEAST)
        if len(more.kernels) <= len(model.kernels):
            break
        posterior = task.settings.method.learn([more.in_modes()], task, None)
        posterior = _in_modes_again(posterior, task)
    return posterior


def _check_share(posterior: SpaceTimePosterior) -> None:
    share, found = posterior.model.share, posterior.explained
    if share is not None and found < share - 1e-9:
        warnings.warn(
            f"{len(posterior.inducing_places)} inducing places explain {found:.4g} of the variance "
            f"at the data, and {share:.4g} was asked for: give a number of places to have more",
            stacklevel=2,
        )


def _in_modes_again(posterior: SpaceTimePosterior, task: SpaceTimeTask) -> SpaceTimePosterior:
    """Which processes are independent under q is decided by hyperparameters: those just learned."""
    result = posterior.fit_result
    if posterior.model.modes is None or result is None or not result.converged:
        return posterior
    again: SpaceTimePosterior = task.settings.method.learn([posterior.model.in_modes()], task, None)
    return again if again.elbo > posterior.elbo else posterior


def observed_in_space(model: SpaceTimeGP, request: Any) -> tuple[Observations, np.ndarray]:
    """The observations in order of time, and their places."""
    data, places = observe_in_space(
        request.x,
        request.y,
        model.names,
        model.likelihood,
        extras=request.extras,
        weights=request.weights,
    )
    check_coordinates("the places of x", places, model.space.metric)
    own = model.space.lengthscale.value
    if own.ndim == 1 and len(own) != places.shape[1]:
        raise ValueError(
            f"the kernel over space has {len(own)} lengthscales, one for each dimension, but the "
            f"places of x have {places.shape[1]} coordinates"
        )
    return data, places


def _place_times(inducing: Any, data: Observations) -> np.ndarray:
    """Inducing times, measured from the origin."""
    if isinstance(inducing, str) and inducing == "auto":
        return place_inducing(min(MOST, len(data.edges())), data)
    if np.ndim(inducing) == 0 and not isinstance(inducing, str | int | np.integer):
        raise ValueError(
            "inducing of a model over space and time are its inducing times: a number, times, "
            f"'data' (every distinct time) or 'auto' (the same up to {MOST}), got {inducing!r}"
        )
    return place_inducing(inducing, data)
