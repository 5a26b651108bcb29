"""Likelihoods that read several functions together: from what was asked for to a posterior."""

import dataclasses
from typing import Any

import numpy as np

from stategp._data import observe, place_inducing
from stategp._fitting._automatic import as_auto
from stategp._fitting._mixed import MixedTask
from stategp._fitting._mixed_choice import choose_mixed, refuse_what_others_take
from stategp._fitting._settings import Settings
from stategp._inference import Limits, pseudo_data, search_limits, search_scales, starting_model
from stategp._models import JointGP, seen_from
from stategp._posteriors import JointPosterior
from stategp._runtime import Progress


@dataclasses.dataclass(frozen=True)
class JointTask(MixedTask):
    """The observations of one series, each of which reads all functions."""

    def scales(self, model: JointGP) -> np.ndarray:
        return search_scales(model.as_gp, self.data)

    def limits(self, model: JointGP, *, swept: bool = False) -> Limits:
        return search_limits(model.as_gp, np.asarray(self.data.y), swept=True)

    def made(self, model: JointGP, **parts: Any) -> JointPosterior:
        return JointPosterior(model=model, **parts)


def joint_posterior(
    model: JointGP, request: Any, settings: Settings, show: Progress
) -> JointPosterior:
    """The posterior that was asked for."""
    refuse_what_others_take(request.inducing, model)
    options = {"extras": request.extras, "weights": request.weights}
    data = observe(request.x, request.y, model.likelihood, **options)
    model = seen_from(model, data.origin)

    def start(stretch: float) -> JointGP:
        def begin() -> JointGP:
            gp = starting_model(model.as_gp, data, stretch)
            return JointGP(gp.kernels, gp.likelihood, gp.means)

        opened: JointGP = request.open(model, begin)
        return opened

    settings.method.check(start(1.0), data)
    request.open_checkpoint(settings, data)
    guess = pseudo_data(model.as_gp, data)

    def task_at(inducing: np.ndarray) -> JointTask:
        task: JointTask = JointTask.of(data, (), inducing, settings, show, guess)
        return task

    auto = as_auto(request.inducing)
    if auto is None:
        task = task_at(place_inducing(request.inducing, data))
        posterior: JointPosterior = settings.method.learn([start(1.0)], task, None)
    else:
        posterior = choose_mixed(start, data, auto, task_at, settings, show)
    return posterior if request.learn else dataclasses.replace(posterior, model=model)
