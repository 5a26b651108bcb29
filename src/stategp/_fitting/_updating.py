"""A posterior with more observations: the chain made longer, q refreshed from where it stands."""

import dataclasses
import time
from typing import Any

import numpy as np

from stategp._data import (
    Observations,
    OnStretches,
    Summarised,
    more_inducing,
    observe_more,
    place_inducing,
)
from stategp._fitting._automatic import as_auto
from stategp._fitting._extending import extend
from stategp._fitting._methods import Natural, find_method
from stategp._fitting._requests import warm_start, warn_unless_converged
from stategp._fitting._series import SeriesTask, fill_up
from stategp._fitting._settings import choose_settings
from stategp._fitting._task import check_noise, with_result
from stategp._models import GP
from stategp._posteriors import Posterior
from stategp._runtime import Progress, finishing_compilations, make_room, refuse_traced

_USUAL = {
    "optimiser": None,
    "batch_size": None,
    "step_size": None,
    "starts": 1,
    "seed": 0,
    "max_steps": None,
    "tolerance": None,
}


def update(
    posterior: Posterior,
    x_new: Any,
    y_new: Any,
    *,
    refine: Any = False,
    inducing: Any = None,
    weights: Any = None,
    method: Any = None,
    progress: Any = None,
    **extras: Any,
) -> Posterior:
    """`posterior.update`, whose documentation says what it does."""
    began = time.perf_counter()
    _check(posterior, refine, method)
    likelihood = posterior.model.likelihood
    data, new = observe_more(
        posterior.data, x_new, y_new, likelihood, extras=extras, weights=weights
    )
    if len(new) == 0 and inducing is None and not refine:
        return posterior
    locations = _locations(posterior, data, new, inducing)
    settings = choose_settings(
        lambda regime: find_method(posterior.model, method or "natural", regime),
        stochastic=False,
        **_USUAL,
    )
    check_noise(posterior.model, data.extra)
    settings.method.check(posterior.model, data)
    show = Progress.of(progress)
    make_room()
    try:
        with finishing_compilations():
            task = SeriesTask.of(posterior.model, data, locations, settings, show)
            quick = not refine and isinstance(settings.method, Natural)
            found = extend(posterior, task, new) if quick else None
            if found is None:
                found = _found(posterior, task, data, locations, refine)
    finally:
        show.close()
    warn_unless_converged(found.fit_result)
    if not refine:
        before = posterior.fit_result
        return found if before is None else with_result(found, before)
    if found.fit_result is None:
        return found
    result = dataclasses.replace(found.fit_result, total_seconds=time.perf_counter() - began)
    return dataclasses.replace(found, fit_result=result)


def _found(
    posterior: Posterior, task: SeriesTask, data: Observations, locations: np.ndarray, refine: Any
) -> Posterior:
    model: GP = posterior.model
    warm = warm_start(model, data, posterior, fill_up(model, data, locations))
    method = task.settings.method
    found: Posterior = (
        method.learn([model], task, warm) if refine else method.infer(model, task, warm)
    )
    return found


def _check(posterior: Posterior, refine: Any, method: Any) -> None:
    refuse_traced("the posterior", posterior)
    if not isinstance(refine, bool | np.bool_):
        raise ValueError(f"refine must be True or False, got {refine!r}")
    if type(posterior) is not Posterior:
        raise ValueError(
            "a posterior with regressors, holidays or events is updated by its Forecaster: "
            "forecaster.update(frame)"
        )
    if isinstance(posterior.data, OnStretches):
        raise ValueError(
            f"this posterior is that of a {posterior.data.source}, which does not hold the "
            "observations that an update needs beside the new ones: "
            + (
                "add the summaries (summary + sg.summarise(…)) and call sg.condition"
                if isinstance(posterior.data, Summarised)
                else "call sg.condition with a stream of all rows"
            )
            + ", or follow new ones with posterior.filter()"
        )
    if method is None and not posterior.is_bound:
        raise ValueError(
            "this posterior was found by method='laplace' or 'ep', and does not say which: give "
            "update(…, method=…), the method of the fit"
        )


def _locations(
    posterior: Posterior, data: Observations, new: Observations, inducing: Any
) -> np.ndarray:
    if inducing is not None:
        if as_auto(inducing) is not None:
            raise ValueError(
                "inducing='auto' starts over: call sg.condition or sg.fit with all observations, "
                "or leave inducing out to keep those of the posterior"
            )
        return place_inducing(inducing, data)
    present = np.asarray(posterior.relative_inducing)
    return more_inducing(present, np.asarray(posterior.data.x), np.asarray(new.x))
