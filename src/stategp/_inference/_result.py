"""What an optimisation leaves behind, and how it is watched while it runs."""

import dataclasses
import time
from collections.abc import Callable

Report = Callable[[int, float], None]


@dataclasses.dataclass(frozen=True)
class FitResult:
    """How an optimisation went.

    After each step: `trace` holds the objective (the bound, plus the log prior if there is one),
    `step_sizes` the size of the step where the method has one (else NaN), `seconds` the time.
    """

    converged: bool
    message: str
    steps: int
    trace: tuple[float, ...]
    seconds: tuple[float, ...]
    step_sizes: tuple[float, ...] = ()

    def __str__(self) -> str:
        state = "converged" if self.converged else "NOT converged"
        return f"{state} after {self.steps} steps: {self.message}"


class Recorder:
    """Keeps the trace of an optimisation and tells whoever watches."""

    def __init__(self, report: Report):
        self.began, self.report = time.perf_counter(), report
        self.trace: list[float] = []
        self.seconds: list[float] = []
        self.step_sizes: list[float] = []

    def __call__(self, value: float, step_size: float = float("nan")) -> None:
        self.trace.append(value)
        self.seconds.append(time.perf_counter() - self.began)
        self.step_sizes.append(step_size)
        self.report(len(self.trace) - 1, value)

    def result(self, converged: bool, message: str) -> FitResult:
        """What has been recorded."""
        steps = max(len(self.trace) - 1, 0)
        return FitResult(
            converged,
            message,
            steps,
            tuple(self.trace),
            tuple(self.seconds),
            tuple(self.step_sizes),
        )
