"""Inducing locations that are learned with the hyperparameters."""

import dataclasses

import numpy as np

from stategp._data import Observations, OnStretches, place_inducing
from stategp._fitting._hyperparameters import search_edges
from stategp._fitting._method import Method
from stategp._fitting._methods._natural import Natural
from stategp._fitting._remarks import remarks_on
from stategp._fitting._series import SeriesTask
from stategp._inference import LBFGS, Located, as_gaps, run
from stategp._models import GP, Learned
from stategp._posteriors import Posterior
from stategp.parameters import to_vector, with_vector

_MOST = 100_000  # observations, which are passed over one by one
_NARROW, _WIDE = 1e-4, 1e2  # gaps between neighbours, in those they have at first on average


def check_learned(method: Method, data: Observations) -> None:
    """Refuse what locations cannot be learned with."""
    if type(method) is not Natural or isinstance(data, OnStretches):
        raise ValueError(
            "inducing locations are learned with method='natural' and optimiser='lbfgs', from "
            "the observations themselves; give their number or locations instead"
        )
    if len(data) > _MOST:
        raise ValueError(
            f"inducing locations can be learned from up to {_MOST:,} observations, there are "
            f"{len(data):,}: give a number of them, which are then placed by the data"
        )


def learn_locations(model: GP, data: Observations, task: SeriesTask) -> Posterior:
    """Hyperparameters for locations as they are at first, then both together."""
    first: Posterior = task.settings.method.learn([model], task, None)
    model, scales = first.model, task.scales(first.model)
    where = np.asarray(task.inducing)[: task.states]
    objective = Located(model, data, where, len(task.inducing))
    vector, gaps = np.asarray(to_vector(model)) / scales, as_gaps(where, objective.unit)
    cut = len(vector)

    def function(place: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope, along = objective(place[:cut] * scales, place[cut:])
        return value, np.concatenate([slope * scales, along])

    low, high = search_edges(model, task, vector, scales)
    reach = np.full(len(gaps) - 1, np.log(_WIDE))
    start = np.concatenate([vector, gaps])
    tolerance, slope = task.settings.tolerance, getattr(task.settings.method, "slope", 1e-7)
    search = LBFGS(
        function,
        start,
        observations=task.count,
        low=np.concatenate([low, gaps[:1] - len(gaps), np.full(len(reach), np.log(_NARROW))]),
        high=np.concatenate([high, gaps[:1] + len(gaps), reach]),
        max_steps=task.settings.learning_steps,
        flat=tolerance or 1e-5,
        gtol=tolerance or slope,
    )
    task.show.note("learning locations, ")
    result = run(search, task.show, task.settings.keeper)
    assert search.best is not None
    found = with_vector(model, search.best.vector[:cut] * scales)
    result = result.with_remarks(*remarks_on(found, task, search.at_edge()[:cut]))
    settled = SeriesTask.of(
        found, data, objective.locations(search.best.vector[cut:]), task.settings, task.show
    )
    posterior: Posterior = task.settings.method.infer(found, settled, None)
    return dataclasses.replace(posterior, fit_result=result)


def place_learned(learned: Learned, data: Observations) -> np.ndarray:
    """Where the locations start."""
    where = place_inducing(learned.start, data)
    if len(where) < 2:
        raise ValueError("learned inducing locations need at least two distinct inputs")
    return where
