"""The one loop of every search: watched, limited, interrupted at will.

A search knows where it starts, how to take a step and when to stop. `run` takes the steps, keeps
the trace, tells whoever watches, and turns Ctrl-C into an outcome. L-BFGS is a search whose steps
SciPy takes (`_lbfgs.py`); all others are `Stepwise`.
"""

import abc
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from stategp._inference._result import FitResult, Outcome

Report = Callable[[int, float], None]


class Watch:
    """Keeps the trace of a search and tells whoever watches."""

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

    def result(self, outcome: Outcome, remarks: tuple[str, ...] = ()) -> FitResult:
        """What has been recorded."""
        return FitResult(
            outcome,
            max(len(self.trace) - 1, 0),
            tuple(self.trace),
            tuple(self.seconds),
            tuple(self.step_sizes),
            remarks,
        )


class Search(abc.ABC):
    """A search for the best of something.

    `best` is the best place so far, None before there is one.
    """

    best: Any = None

    @abc.abstractmethod
    def climb(self, watch: Watch) -> Outcome:
        """Search to the end, calling `watch` after each step and keeping `best` up to date."""

    def remarks(self) -> tuple[str, ...]:
        """Further remarks about the end of the search."""
        return ()


def run(search: Search, report: Report) -> FitResult:
    """Search to the end, or until Ctrl-C; what was found is then `search.best`."""
    watch = Watch(report)
    try:
        outcome = search.climb(watch)
    except KeyboardInterrupt:
        if search.best is None:
            raise
        outcome = Outcome.interrupted
    return watch.result(outcome, search.remarks())


class Step(NamedTuple):
    """What a step leads to, and what is known about the place it was taken from or arrived at."""

    state: Any  # where the next step starts
    value: Any  # the objective at `known`
    size: Any
    known: Any  # the state that has been evaluated


class Stepwise(Search):
    """A search that goes step by step."""

    max_steps: int
    keeps_last = True  # whether the last place is the best; otherwise the highest is

    @abc.abstractmethod
    def start(self) -> Any:
        """Where the first step starts."""

    @abc.abstractmethod
    def step(self, state: Any, number: int) -> Step:
        """One step."""

    @abc.abstractmethod
    def judge(self, state: Any, watch: Watch) -> Outcome | None:
        """How the search ended, if the last step ended it."""

    def exhausted(self, watch: Watch) -> Outcome:
        """What to say when the steps have run out."""
        return Outcome.out_of_steps

    def climb(self, watch: Watch) -> Outcome:
        state, highest = self.start(), -np.inf
        for number in range(self.max_steps):
            step = self.step(state, number)
            value = float(step.value)
            if not np.isfinite(value):
                if self.best is None:
                    self.best = step.known
                return Outcome.not_finite
            watch(value, float(step.size))
            if self.keeps_last or value >= highest:
                self.best, highest = step.known, value
            state = step.state
            outcome = self.judge(state, watch)
            if outcome is not None:
                return outcome
        return self.exhausted(watch)
