"""Several outputs: from what the user asked for to a posterior."""

import dataclasses
from typing import Any

import numpy as np

from stategp._data import Outputs, observe_several, place_inducing, seen_together
from stategp._fitting._automatic import as_auto
from stategp._fitting._mixed import MixedTask
from stategp._fitting._mixed_choice import choose_mixed, refuse_what_others_take
from stategp._fitting._settings import Settings
from stategp._fitting._task import check_noise
from stategp._inference import Limits, outputs_limits, outputs_scales, starting_outputs
from stategp._models import GP, MultiOutputGP, seen_from
from stategp._posteriors import MultiOutputPosterior
from stategp._runtime import Progress
from stategp.kernels import Matern32


@dataclasses.dataclass(frozen=True)
class OutputsTask(MixedTask):
    """The rows of several outputs."""

    seen: Outputs

    def scales(self, model: MultiOutputGP) -> np.ndarray:
        return outputs_scales(model, self.seen)

    def limits(self, model: MultiOutputGP, *, swept: bool = False) -> Limits:
        return outputs_limits(model, self.seen)

    def made(self, model: MultiOutputGP, **parts: Any) -> MultiOutputPosterior:
        return MultiOutputPosterior(model=model, **parts)


def outputs_posterior(
    model: MultiOutputGP, request: Any, settings: Settings, show: Progress
) -> MultiOutputPosterior:
    """The posterior that was asked for."""
    refuse_what_others_take(request.inducing, model)
    mixing = model.mixing
    if mixing is not None and not mixing.given and not request.learn:
        raise ValueError(
            "the mixing matrix is to be learned: use sg.fit, or give it to the model "
            "(mixing=array with a row for each output)"
        )
    seen = observe_several(
        model.names,
        model.likelihoods,
        request.x,
        request.y,
        extras=request.extras,
        weights=request.weights,
    )
    model = seen_from(model, seen.data.origin)

    def start(stretch: float) -> MultiOutputGP:
        opened: MultiOutputGP = request.open(model, lambda: starting_outputs(model, seen, stretch))
        return opened

    first = start(1.0)
    for likelihood, data in zip(first.likelihoods, seen.series, strict=True):
        if data is not None:
            check_noise(GP(Matern32(), likelihood), data.extra)
    settings.method.check(first, seen)
    request.open_checkpoint(settings, seen)
    guess = guess_rows(model, seen)
    beside = None if model.ties is None else seen_together(seen, model.outputs)

    def task_at(inducing: np.ndarray) -> OutputsTask:
        task: OutputsTask = OutputsTask.of(
            seen.data, seen.places, inducing, settings, show, guess, beside=beside, seen=seen
        )
        return task

    auto = as_auto(request.inducing)
    if auto is None:
        task = task_at(place_inducing(request.inducing, seen.data))
        posterior: MultiOutputPosterior = settings.method.learn([first], task, None)
    else:
        posterior = choose_mixed(start, seen.data, auto, task_at, settings, show)
    return posterior if request.learn else dataclasses.replace(posterior, model=model)


def guess_rows(model: MultiOutputGP, seen: Outputs) -> np.ndarray:
    """What each observation says of f, in the order of the rows; of several functions, columns."""
    guess = np.zeros((len(seen.places), model.functions))
    for number, data in enumerate(seen.series):
        if data is not None:
            columns = np.asarray(data.y), np.asarray(data.extra)
            likelihood, mine = model.likelihoods[number], seen.places == number
            told = likelihood.guess(*columns).reshape(-1, likelihood.latents)
            guess[mine, : likelihood.latents] = told
    return guess if model.functions > 1 else guess[:, 0]
