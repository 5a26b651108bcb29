"""A posterior with more observations: the chain made longer, q refreshed from where it stands."""

import dataclasses
import time
from typing import Any, NamedTuple

import numpy as np

from stategp._data import (
    Forgetting,
    Observations,
    OnStretches,
    Summarised,
    Summary,
    inducing_at_edges,
    more_inducing,
    observe_more,
    place_inducing,
    summarise_more,
)
from stategp._fitting._automatic import as_auto
from stategp._fitting._doors import observations
from stategp._fitting._extending import extend
from stategp._fitting._methods import Natural, closeness, find_method
from stategp._fitting._requests import warm_start, warn_unless_converged
from stategp._fitting._revising_end import may_revise_end, revise_end, with_settled_q
from stategp._fitting._series import SeriesTask, fill_up
from stategp._fitting._settings import choose_settings
from stategp._fitting._task import check_noise, with_result
from stategp._models import GP
from stategp._posteriors import Posterior
from stategp._runtime import Progress, finishing_compilations, make_room, refuse_traced
from stategp._streams import Stream
from stategp.likelihoods import Gaussian

_USUAL = {
    "optimiser": None,
    "batch_size": None,
    "step_size": None,
    "starts": 1,
    "seed": 0,
    "max_steps": None,
}


def update(
    posterior: Posterior,
    x_new: Any,
    y_new: Any = None,
    *,
    refine: Any = False,
    inducing: Any = None,
    weights: Any = None,
    forget: Any = None,
    window: Any = None,
    method: Any = None,
    progress: Any = None,
    **extras: Any,
) -> Posterior:
    """`posterior.update`, whose documentation says what it does."""
    began = time.perf_counter()
    _check(posterior, x_new, refine, method)
    show = Progress.of(progress)
    grown = _grown(posterior, x_new, y_new, weights, Forgetting.of(forget, window), extras, show)
    data, new = grown.data, grown.new
    if (new is None or len(new) == 0) and inducing is None and not refine:
        return posterior
    locations = _locations(posterior, grown, inducing)
    settings = choose_settings(
        lambda regime: find_method(posterior.model, method or "natural", regime),
        stochastic=False,
        tolerance=None if refine or method is not None else closeness(data),
        **_USUAL,
    )
    check_noise(posterior.model, data.extra)
    settings.method.check(posterior.model, data)
    make_room()
    try:
        with finishing_compilations():
            task = SeriesTask.of(posterior.model, data, locations, settings, show)
            quick = grown.only_more and not refine and isinstance(settings.method, Natural)
            found, start = None, posterior
            if quick and new is not None:
                start = _settled(posterior, task, new)
                found = _extended(start, task, new)
            if found is None:
                found = _found(start, task, data, locations, refine)
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


def _settled(posterior: Posterior, task: SeriesTask, new: Observations) -> Posterior:
    """With q at its optimum, if that may spare looking at all observations in every step."""
    likelihood, method = posterior.model.likelihood, task.settings.method
    if isinstance(likelihood, Gaussian) or type(method) is not Natural:
        return posterior
    if not posterior.is_bound or not may_revise_end(posterior, task, new):
        return posterior
    return with_settled_q(posterior, task)


def _extended(posterior: Posterior, task: SeriesTask, new: Observations) -> Posterior | None:
    """Without looking at all observations, where that is possible."""
    if isinstance(posterior.model.likelihood, Gaussian):
        return extend(posterior, task, new)
    return revise_end(posterior, task, new) if type(task.settings.method) is Natural else None


class _Grown(NamedTuple):
    """What there was and what has come."""

    data: Observations  # all that counts
    new: Observations | None
    only_more: bool  # the old observations are there as they were


def _grown(
    posterior: Posterior,
    x: Any,
    y: Any,
    weights: Any,
    forgetting: Forgetting,
    extras: dict[str, Any],
    show: Progress,
) -> _Grown:
    old, likelihood = posterior.data, posterior.model.likelihood
    if isinstance(x, Summary | Stream):
        # Checks that nothing is given beside it, and reads a stream.
        stretches = old.stretches if isinstance(old, Summarised) else None
        given = observations(posterior.model, x, y, extras, weights, show, stretches=stretches)
        x = given.summary if isinstance(given, Summarised) else None
    elif y is None:
        raise ValueError("y_new is missing: give x_new and y_new")
    if not isinstance(old, Summarised):
        data, new = observe_more(
            old, x, y, likelihood, extras=extras, weights=weights, forgetting=forgetting
        )
        return _Grown(data, new, not forgetting)
    together, added = summarise_more(
        old, x, y, likelihood, extras=extras, weights=weights, forgetting=forgetting
    )
    return _Grown(together, added, False)


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


def _check(posterior: Posterior, x_new: Any, refine: Any, method: Any) -> None:
    refuse_traced("the posterior", posterior)
    if not isinstance(refine, bool | np.bool_):
        raise ValueError(f"refine must be True or False, got {refine!r}")
    if type(posterior) is not Posterior:
        raise ValueError(
            "a posterior with regressors, holidays or events is updated by its Forecaster: "
            "forecaster.update(frame)"
        )
    summed = isinstance(posterior.data, Summarised)
    if isinstance(posterior.data, OnStretches) and not summed:
        raise ValueError(
            f"this posterior is that of a {posterior.data.source} of rows that had to be read one "
            "by one, and does not hold them: call sg.condition with a stream of all rows, or "
            "follow new ones with posterior.filter()"
        )
    if isinstance(x_new, Summary | Stream) and not summed:
        raise ValueError(
            f"this posterior holds its observations one by one, and a {type(x_new).__name__} "
            "cannot be added to them: give x_new and y_new, or begin with a summary of the old ones"
        )
    if method is None and not posterior.is_bound:
        raise ValueError(
            "this posterior was found by method='laplace' or 'ep', and does not say which: give "
            "update(…, method=…), the method of the fit"
        )


def _locations(posterior: Posterior, grown: _Grown, inducing: Any) -> np.ndarray:
    data, new, old = grown.data, grown.new, posterior.data
    if inducing is not None:
        if as_auto(inducing) is not None:
            raise ValueError(
                "inducing='auto' starts over: call sg.condition or sg.fit with all observations, "
                "or leave inducing out to keep those of the posterior"
            )
        return place_inducing(inducing, data)
    present = np.asarray(posterior.relative_inducing)
    if new is None:
        return present
    if isinstance(data, Summarised):
        assert isinstance(old, Summarised)
        assert isinstance(new, Summarised)
        return inducing_at_edges(present, old, new, data)
    locations = more_inducing(present, np.asarray(old.x), np.asarray(new.x))
    # Where the first observations have been forgotten, one state before the others is enough.
    first = int(np.searchsorted(locations, float(data.x[0]), side="right")) - 1
    return locations if grown.only_more else locations[max(first, 0) :]
