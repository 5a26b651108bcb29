"""L-BFGS, with the reasons it stopped in words."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from stategp._inference._result import FitResult, Recorder, Report

Vector = np.ndarray

_FLAT = 1e-5  # the largest slope per observation at which a search counts as converged
_VANISHED, _STOPPED = "the gradient vanished", "the bound stopped rising"
_RESTARTS = 5  # a line search that broke down is often cured by forgetting the past


def maximise(
    function: Callable[[Vector], tuple[float, Vector]],
    start: Vector,
    *,
    observations: int,
    reach: float | Vector,
    max_steps: int,
    report: Report,
    flat: float = _FLAT,
    gtol: float = 1e-7,
    lowest: float | Vector = -np.inf,
    remark: str = "",
) -> tuple[Vector, float, FitResult]:
    """The vector that maximises `function`, at most `reach` from the start in every coordinate.

    No coordinate goes below its `lowest`; `remark` is what to say if one ends there.

    Converged means that the slope per observation is below `flat` in every coordinate; the search
    goes on until it is below `gtol`.

    Steps into places where the function is not finite are shortened. Ctrl-C ends the search and
    keeps the best point so far.
    """
    record = Recorder(report)
    low, high = np.maximum(start - reach, lowest), start + reach
    value, gradient = function(start)
    if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
        which = "bound" if not np.isfinite(value) else "gradient of the bound"
        message = f"the {which} is not finite at the starting values"
        record(value)
        return start, value, record.result(False, message)
    best: tuple[Vector, float, Vector] = (start, value, gradient)
    record(value)
    forbidden = -value / observations + 1e3 * (1 + abs(value) / observations)

    def negative(vector: Vector) -> tuple[float, Vector]:
        nonlocal best
        inside = np.clip(vector, low, high)
        excess = vector - inside  # outside, a wall that rises quadratically
        value, gradient = function(inside)
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            return forbidden, np.zeros_like(vector)
        if value > best[1]:
            best = inside, value, gradient
        slope = np.where(excess == 0, -gradient / observations, excess)
        return -value / observations + float(excess @ excess) / 2, slope

    def after_step(_: Vector) -> None:
        record(best[1])

    message, converged = "", False
    try:
        for _ in range(_RESTARTS):
            outcome = minimize(
                negative,
                best[0],
                jac=True,
                method="L-BFGS-B",
                callback=after_step,
                options={"maxiter": max_steps - len(record.trace) + 1, "ftol": 1e-13, "gtol": gtol},
            )
            message = _in_words(outcome.message)
            # The optimiser's own word is not enough: it may stop where no step helps any more.
            converged = _is_flat(best, low, high, observations * flat)
            if converged or len(record.trace) > max_steps:
                break
    except KeyboardInterrupt:
        message = "interrupted: this is the best found until then"
    if not converged and message in (_VANISHED, _STOPPED):
        message += ", though its slope has not vanished: scales beyond double precision?"
    if np.any(best[0] <= lowest):
        message += f"; {remark}"
    if np.any((best[0] <= start - reach) | (best[0] >= high)):
        message += "; a hyperparameter stopped at the edge of the range searched"
    return best[0], best[1], record.result(converged, message)


def _is_flat(best: tuple[Vector, float, Vector], low: Vector, high: Vector, limit: float) -> bool:
    """Whether the gradient vanishes, except where the edge of the range holds the search back."""
    vector, _, gradient = best
    held = ((vector <= low) & (gradient < 0)) | ((vector >= high) & (gradient > 0))
    return bool(np.all(np.abs(gradient[~held]) < limit))


def _in_words(message: object) -> str:
    text = str(message).upper()
    if "PGTOL" in text or "PROJECTED GRADIENT" in text:
        return _VANISHED
    if "REL_REDUCTION" in text or "RELATIVE REDUCTION" in text:
        return _STOPPED
    if "ITERATIONS" in text or "EVALUATIONS" in text:
        return "the limit of steps was reached; raise max_steps"
    if "ABNORMAL" in text:
        return "the line search found no better point"
    return str(message)
