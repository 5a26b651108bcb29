"""From a posterior to a filter: the state at the last observation."""

import itertools
from typing import Any

import numpy as np

from stategp._arguments import positive_number
from stategp._posteriors._filter import Filter, Time
from stategp._posteriors._stepping import FilterState, States, Stepper


def start_filter(posterior: Any, forget: Any, window: Any) -> Filter:
    """`posterior.filter`, whose documentation says what it does."""
    if forget is not None and window is not None:
        raise ValueError("forget and window are two ways to forget: give one of them")
    x, origin = float(posterior.data.x[-1]), posterior.data.origin
    time = _as_given(x, origin)
    memory = None if forget is None else positive_number("forget", forget)
    span = None if window is None else positive_number("window", window)
    young = None if span is None else Stepper(posterior.model).prior
    rounding = 0.0 if isinstance(time, int) else 2 * float(np.spacing(abs(x) + abs(origin)))
    states = _last_states(posterior, x)
    return Filter(posterior.model, time, states, 0, memory, span, young, time, rounding)


def _last_states(posterior: Any, x: float) -> States:
    """The states at the last observation."""
    dims = [kernel.state_dim for kernel in posterior.model.kernels]
    last = float(posterior.relative_inducing[-1])
    if last <= x:
        states = [
            FilterState(np.asarray(q.mean)[-1, :d], np.asarray(q.covariance)[-1, :d, :d])
            for q, d in zip(posterior.marginals, dims, strict=True)
        ]
        return Stepper(posterior.model).advance(tuple(states), x - last, None)
    moments = posterior.predict_state([_as_given(x, posterior.data.origin)])
    mean, covariance = (np.asarray(v)[0] for v in moments)
    ends = np.cumsum([0, *dims]).tolist()
    return tuple(FilterState(mean[a:b], covariance[a:b, a:b]) for a, b in itertools.pairwise(ends))


def _as_given(x: float, origin: Time) -> Time:
    """An input as the user has it: whole numbers stay what they are."""
    return origin + int(x) if isinstance(origin, int) and x == int(x) else x + float(origin)
