"""The loop of every first-order method: step, record, look whether it still rises."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from stategp.inference._result import FitResult, Recorder, Report

State = TypeVar("State")
Step = Callable[[State, int], tuple[State, Any, Any]]  # new state, objective before it, step size


def ascend(
    step: Step[State],
    state: State,
    *,
    max_steps: int,
    window: int,
    enough: float,
    noisy: bool,
    stop_early: bool,
    report: Report,
) -> tuple[State, FitResult]:
    """Take steps until the objective rises by less than `enough` from one window to the next.

    `noisy`: each value is an estimate, and a rise smaller than twice its standard error counts as
    none. Without `stop_early` all steps are taken, and the last windows decide what is said about
    convergence. A step to a place that is not finite ends the search at the state before it.
    Ctrl-C ends it too and keeps the state reached.
    """
    record = Recorder(report)
    message, flat = "the limit of steps was reached; raise max_steps", False
    last_good = state
    try:
        for number in range(max_steps):
            new, value, size = step(state, number)
            value = float(value)
            if not np.isfinite(value):
                message = f"the bound is not finite after step {number}: use smaller steps"
                return last_good, record.result(False, message)
            last_good, state = state, new
            record(value, float(size))
            flat = _is_flat(record.trace, window, enough, noisy)
            if flat and stop_early:
                message = "the bound stopped rising"
                break
    except KeyboardInterrupt:
        return state, record.result(False, "interrupted: this is what was reached until then")
    if flat and not stop_early:
        message = "all steps taken, the bound no longer rises"
    return state, record.result(flat, message)


def _is_flat(trace: list[float], window: int, enough: float, noisy: bool) -> bool:
    if len(trace) < 2 * window:
        return False
    before, after = np.asarray(trace[-2 * window : -window]), np.asarray(trace[-window:])
    allowed = enough
    if noisy:
        allowed += 2 * float(np.sqrt((before.var() + after.var()) / window))
        return bool(after.mean() - before.mean() < allowed)
    return bool(after.max() - before.max() < allowed)
