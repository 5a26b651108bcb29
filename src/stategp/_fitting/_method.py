"""What a way of inference is.

A method finds q for hyperparameters as they are (`infer`) and learns them (`learn`). It belongs to
one kind of model, and says which optimisers and how much data it can work with. Two kinds of
methods share most of what they do:

- `Collapsing`: q is at its best for every vector of hyperparameters, and L-BFGS climbs what that
  gives. The method provides the objective.
- `Ascending`: hyperparameters and q move together, step by step. The method provides the step.

A new method is a subclass in a file of its own, and a place in the list of `_methods/__init__.py`.
One that is not in the list can be used as an object, `method=Mine()`. These classes are exported by
`stategp._fitting`: they are not part of the public interface, and may change with every version.
"""

import abc
import dataclasses
from collections.abc import Callable
from types import UnionType
from typing import Any, ClassVar

import numpy as np

from stategp._fitting._hyperparameters import Objective, learn_hyperparameters
from stategp._fitting._settings import Regime
from stategp._fitting._task import Task, with_result
from stategp._inference import Ascent, FitResult, Limits, Outcome, run
from stategp._runtime import hearing
from stategp.parameters import to_vector

__all__ = ["Ascending", "Collapsing", "Method", "Objective"]


class Method(abc.ABC):
    """A way to find q and the hyperparameters."""

    name: ClassVar[str]
    model: ClassVar[type | UnionType]  # the kind of model it is for
    regimes: ClassVar[tuple[Regime, ...]] = (Regime.lbfgs,)
    plain_bound: ClassVar[bool] = True  # climbs the bound on log p(y) that `Certificate` speaks of
    optimal: ClassVar[bool] = False  # ends at the best q for its hyperparameters
    pads: ClassVar[bool] = True  # does not mind inducing points that are repeated to fill up
    takes_starts: ClassVar[bool] = False
    takes_step_size: ClassVar[bool] = False
    takes_summaries: ClassVar[bool] = False  # never looks at single observations
    takes_rows: ClassVar[bool] = False  # looks at observations in passes or batches of rows on disk

    def check(self, model: Any, data: Any) -> None:
        """Refuse, in words, what the method cannot do with this model and these data."""
        return

    def shortfall(self, model: Any) -> str | None:
        """What keeps the bound below that of the best q, in words; None if nothing does."""
        return None if self.optimal else "the search for q"  # which may end short of it

    @abc.abstractmethod
    def infer(self, model: Any, task: Any, warm: Any) -> Any:
        """The posterior for hyperparameters as they are, from the q called `warm` if given."""

    @abc.abstractmethod
    def learn(self, models: list[Any], task: Any, warm: Any) -> Any:
        """The posterior with hyperparameters learned, from the best of some starts."""


class Collapsing(Method):
    """L-BFGS on the hyperparameters, with q at its best for them."""

    takes_starts = True
    slope: float = 1e-7  # per observation, at which L-BFGS stops

    @abc.abstractmethod
    def objective(self, model: Any, task: Any, warm: Any) -> Objective:
        """What L-BFGS climbs: a value and a gradient for every vector of hyperparameters."""

    def at_end(self, objective: Any, model: Any, task: Any) -> Any:
        """The posterior of the hyperparameters where a search of the objective ended."""
        return self.infer(model, task, None)

    def learn(self, models: list[Any], task: Any, warm: Any) -> Any:
        if len(to_vector(models[0])) == 0:
            return self.infer(models[0], task, warm)
        end = learn_hyperparameters(self, models, task, warm)
        return _despite_interrupt(
            lambda: with_result(self.at_end(end.objective, end.model, end.task), end.result)
        )


class Ascending(Method):
    """Hyperparameters and q move together, step by step."""

    @abc.abstractmethod
    def ascent(self, model: Any, task: Any, warm: Any) -> Ascent:
        """The search, ready to start."""

    @abc.abstractmethod
    def at_end(self, model: Any, task: Any, warm: Any, state: Any, result: FitResult) -> Any:
        """The posterior of the state where the search, begun from `warm`, ended."""

    def infer(self, model: Any, task: Any, warm: Any) -> Any:
        search = self.ascent(model, task, warm)
        result = run(search, task.show, task.settings.keeper)
        return _despite_interrupt(lambda: self.at_end(model, task, warm, search.best, result))

    def learn(self, models: list[Any], task: Any, warm: Any) -> Any:
        return self.infer(models[0], task, warm)


def _despite_interrupt(finish: Callable[[], Any]) -> Any:
    """The posterior of what was learned: no Ctrl-C may lose it for want of one last inference."""
    try:
        with hearing():
            return finish()
    except KeyboardInterrupt:
        posterior = finish()
        result = posterior.fit_result.with_remarks(outcome=Outcome.interrupted)
        return dataclasses.replace(posterior, fit_result=result)


def scaled_start(model: Any, task: Task) -> tuple[np.ndarray, np.ndarray]:
    """The hyperparameters, each in its own scale, and the scales."""
    scales = task.scales(model)
    return np.asarray(to_vector(model)) / scales, scales


def scaled_limits(model: Any, task: Task) -> Limits:
    """How far first-order steps may take each hyperparameter, in its own scale."""
    limits, scales = task.limits(model, swept=True), task.scales(model)
    return Limits(limits.lowest / scales, limits.highest / scales)
