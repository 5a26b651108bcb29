"""L-BFGS on a few hyperparameters, with the reasons it stopped in words."""

import dataclasses
import time
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

Vector = np.ndarray

_FLAT = 1e-5  # the largest slope per observation at which a search counts as converged
_RESTARTS = 5  # a line search that broke down is often cured by forgetting the past


@dataclasses.dataclass(frozen=True)
class FitResult:
    """How an optimisation went.

    `trace` holds the objective (the bound, plus the log prior if there is one) after each step,
    `seconds` the time at which it was reached.
    """

    converged: bool
    message: str
    steps: int
    trace: tuple[float, ...]
    seconds: tuple[float, ...]

    def __str__(self) -> str:
        state = "converged" if self.converged else "NOT converged"
        return f"{state} after {self.steps} steps: {self.message}"


def maximise(
    function: Callable[[Vector], tuple[float, Vector]],
    start: Vector,
    *,
    observations: int,
    reach: float,
    max_steps: int,
    report: Callable[[int, float], None],
) -> tuple[Vector, float, FitResult]:
    """The vector that maximises `function`, at most `reach` from the start in every coordinate.

    Steps into places where the function is not finite are shortened. Ctrl-C ends the search and
    keeps the best point so far.
    """
    began = time.perf_counter()
    value, gradient = function(start)
    if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
        which = "bound" if not np.isfinite(value) else "gradient of the bound"
        message = f"the {which} is not finite at the starting values"
        return start, value, FitResult(False, message, 0, (value,), (0.0,))
    best: tuple[Vector, float, Vector] = (start, value, gradient)
    trace, seconds = [value], [time.perf_counter() - began]
    forbidden = -value / observations + 1e3 * (1 + abs(value) / observations)

    def negative(vector: Vector) -> tuple[float, Vector]:
        nonlocal best
        inside = np.clip(vector, start - reach, start + reach)
        excess = vector - inside  # outside, a wall that rises quadratically
        value, gradient = function(inside)
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            return forbidden, np.zeros_like(vector)
        if value > best[1]:
            best = inside, value, gradient
        slope = np.where(excess == 0, -gradient / observations, excess)
        return -value / observations + float(excess @ excess) / 2, slope

    def after_step(_: Vector) -> None:
        trace.append(best[1])
        seconds.append(time.perf_counter() - began)
        report(len(trace) - 1, best[1])

    message, converged = "", False
    try:
        for _ in range(_RESTARTS):
            outcome = minimize(
                negative,
                best[0],
                jac=True,
                method="L-BFGS-B",
                callback=after_step,
                options={"maxiter": max_steps - len(trace) + 1, "ftol": 1e-13, "gtol": 1e-7},
            )
            message = _in_words(outcome.message)
            # The optimiser's own word is not enough: it may stop where no step helps any more.
            converged = _is_flat(best, start, reach, observations)
            if converged or len(trace) > max_steps:
                break
    except KeyboardInterrupt:
        message = "interrupted: this is the best found until then"
    if np.any(np.abs(best[0] - start) >= reach):
        message += "; a hyperparameter stopped at the edge of the range searched"
    result = FitResult(converged, message, len(trace) - 1, tuple(trace), tuple(seconds))
    return best[0], best[1], result


def _is_flat(
    best: tuple[Vector, float, Vector], start: Vector, reach: float, observations: int
) -> bool:
    """Whether the gradient vanishes, except where the edge of the range holds the search back."""
    vector, _, gradient = best
    low, high = vector <= start - reach, vector >= start + reach
    held = (low & (gradient < 0)) | (high & (gradient > 0))
    return bool(np.all(np.abs(gradient[~held]) / observations < _FLAT))


def _in_words(message: object) -> str:
    text = str(message).upper()
    if "PGTOL" in text or "PROJECTED GRADIENT" in text:
        return "the gradient vanished"
    if "REL_REDUCTION" in text or "RELATIVE REDUCTION" in text:
        return "the bound stopped rising"
    if "ITERATIONS" in text or "EVALUATIONS" in text:
        return "the limit of steps was reached; raise max_steps"
    if "ABNORMAL" in text:
        return "the line search found no better point"
    return str(message)
