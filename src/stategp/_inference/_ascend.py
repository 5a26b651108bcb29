"""First-order methods: step after step, and a look at whether the objective still rises."""

from collections.abc import Callable
from typing import Any

import numpy as np

from stategp._inference._result import Outcome
from stategp._inference._search import Step, Stepwise, Watch

# From a state and the number of the step: the new state, the objective before it, the step's size.
Take = Callable[[Any, int], tuple[Any, Any, Any]]


class Ascent(Stepwise):
    """Steps until the objective rises by less than `enough` from one window to the next.

    `noisy`: each value is an estimate, and a rise smaller than twice its standard error counts as
    none. Without `stop_early` all steps are taken, and the last windows decide what is said about
    convergence. `replaced` counts, from the states before and after a step, the layers that moved
    otherwise than along the natural gradient. The best place is one that has been evaluated: the
    highest of an exact search, the last good one of a noisy search.
    """

    def __init__(
        self,
        start: Any,
        take: Take,
        *,
        max_steps: int,
        window: int,
        enough: float,
        noisy: bool,
        stop_early: bool,
        replaced: Callable[[Any, Any], int] | None = None,
    ):
        self.first, self.take, self.max_steps = start, take, max_steps
        self.window, self.enough, self.noisy, self.stop_early = window, enough, noisy, stop_early
        self.keeps_last, self.replaced = noisy, replaced

    def start(self) -> Any:
        return self.first

    def step(self, state: Any, number: int) -> Step:
        new, value, size = self.take(state, number)
        replaced = None if self.replaced is None else self.replaced(state, new)
        return Step(new, value, size, known=state, replaced=replaced)

    def judge(self, state: Any, watch: Watch) -> Outcome | None:
        flat = self.stop_early and self._verdict(watch.trace) is Outcome.converged
        return Outcome.converged if flat else None

    def exhausted(self, watch: Watch) -> Outcome:
        return self._verdict(watch.trace) or Outcome.out_of_steps

    def _verdict(self, trace: list[float]) -> Outcome | None:
        """What the last two windows say: converged, falling, or nothing."""
        if len(trace) < 2 * self.window:
            return None
        before = np.asarray(trace[-2 * self.window : -self.window])
        after = np.asarray(trace[-self.window :])
        allowed = self.enough
        if self.noisy:
            allowed += 2 * float(np.sqrt((before.var() + after.var()) / self.window))
            change = float(after.mean() - before.mean())
        else:
            change = float(after.max() - before.max())
        if change < -allowed:
            return Outcome.falling
        return Outcome.converged if change < allowed else None
