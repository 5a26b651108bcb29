"""The loop of every first-order method: step, record, look whether it still rises."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from stategp._inference._result import FitResult, Recorder, Report

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
    convergence. A place that is not finite ends the search, and so does Ctrl-C. What comes back
    has been evaluated: the best place of an exact search, the last good one of a noisy search.
    """
    record = Recorder(report)
    message, verdict = "the limit of steps was reached; raise max_steps", ""
    kept, highest = state, -np.inf
    try:
        for number in range(max_steps):
            new, value, size = step(state, number)
            value = float(value)
            if not np.isfinite(value):
                message, verdict = "the bound is not finite any more: use smaller steps", ""
                break
            record(value, float(size))
            if noisy or value >= highest:
                kept, highest = state, value
            state = new
            verdict = _verdict(record.trace, window, enough, noisy)
            if verdict == "flat" and stop_early:
                break
    except KeyboardInterrupt:
        return kept, record.result(False, "interrupted: this is what was reached until then")
    if verdict == "falls":
        return kept, record.result(False, "the bound falls: use smaller steps")
    if verdict == "flat":
        message = "the bound stopped rising"
    return kept, record.result(verdict == "flat", message)


def _verdict(trace: list[float], window: int, enough: float, noisy: bool) -> str:
    """Whether the last windows say that the objective is "flat" or "falls", or neither."""
    if len(trace) < 2 * window:
        return ""
    before, after = np.asarray(trace[-2 * window : -window]), np.asarray(trace[-window:])
    allowed = enough
    if noisy:
        allowed += 2 * float(np.sqrt((before.var() + after.var()) / window))
        change = float(after.mean() - before.mean())
    else:
        change = float(after.max() - before.max())
    if change < -allowed:
        return "falls"
    return "flat" if change < allowed else ""
