"""L-BFGS on the hyperparameters, q always at its best for them: for series and additive models."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from stategp._fitting._remarks import remarks_on
from stategp._fitting._task import Task
from stategp._inference import LBFGS, Carries, FitResult, Outcome, run
from stategp.parameters import all_parameters, to_vector, with_vector

_START_SPREAD = 1.5  # standard deviation, in log units, of further starting points
REACH = 18.5  # positive hyperparameters move by at most a factor e¹⁸·⁵ ≈ 10⁸ either way
REAL_REACH = 1e4  # others, by that many times their natural size


# A value and a gradient for every vector of hyperparameters.
Objective = Callable[[Any], tuple[float, np.ndarray]]


@runtime_checkable
class _Method(Protocol):
    @property
    def slope(self) -> float: ...

    def objective(self, model: Any, task: Any, warm: Any) -> Objective: ...


class Learned(NamedTuple):
    """Where a search ended."""

    value: float
    model: Any
    task: Task  # as the model that was found needs it
    objective: Objective
    result: FitResult


def learn_hyperparameters(method: _Method, models: list[Any], task: Task, warm: Any) -> Learned:
    """The best end of searches that begin at the best of some models, and at random around it."""
    model = _best_start(method, models, task, warm)
    first, scales = np.asarray(to_vector(model)), task.scales(model)
    random = np.random.default_rng(task.settings.seed)
    offsets = random.normal(0, _START_SPREAD, (task.settings.starts, len(first)))
    offsets[0] = 0.0
    best: Learned | None = None
    for number, offset in enumerate(offsets, start=1):
        task.show.start(number, task.settings.starts)
        start = with_vector(model, first + offset * scales)
        try:
            tried = _climb(method, start, task, warm)
        except KeyboardInterrupt:
            if best is None:
                raise
            return best._replace(result=best.result.with_remarks(outcome=Outcome.interrupted))
        if best is None or tried.value > best.value:
            best = tried
        if tried.result.outcome is Outcome.interrupted:
            break
    assert best is not None
    return best


def _climb(method: _Method, model: Any, task: Task, warm: Any) -> Learned:
    """One search, repeated if a kernel's truncation has to follow its new parameters."""
    while True:
        end = _search(method, model, task, warm)
        try:
            refined = task.refined(end.model)
        except ValueError as error:  # more harmonics than anyone would want
            result = end.result.with_remarks(str(error), outcome=Outcome.unresolved)
            return end._replace(result=result)
        if refined is None or not end.result.converged:
            return end
        (model, task), warm = refined, None


def _search(method: _Method, model: Any, task: Task, warm: Any) -> Learned:
    """L-BFGS from one start."""
    scales = task.scales(model)
    objective = method.objective(model, task, warm)

    def function(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective(scaled * scales)
        return value, gradient * scales

    start = np.asarray(to_vector(model)) / scales
    low, high = search_edges(model, task, start, scales)
    tolerance = task.settings.tolerance
    search = LBFGS(
        function,
        start,
        observations=task.count,
        low=low,
        high=high,
        max_steps=task.settings.learning_steps,
        flat=tolerance or 1e-5,
        gtol=tolerance or method.slope,
        carries=objective if isinstance(objective, Carries) else None,
    )
    result = run(search, task.show, task.settings.keeper)
    assert search.best is not None
    learned = with_vector(model, search.best.vector * scales)
    result = result.with_remarks(*remarks_on(learned, task, search.at_edge()))
    beyond = task.beyond(learned)
    if not (beyond or result.converged):
        beyond = getattr(objective, "beyond", "")
    if beyond:
        result = result.with_remarks(beyond, outcome=Outcome.too_fast)
    return Learned(search.best.value, learned, task, objective, result)


def search_edges(
    model: Any, task: Task, start: np.ndarray, scales: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """How far each learned hyperparameter may go, in its own scale."""
    reach = np.concatenate(
        [np.zeros(0)]
        + [
            np.full(p.value.size, REACH if p.constraint == "positive" else REAL_REACH)
            for p in all_parameters(model)
            if p.learned
        ]
    )
    limits = task.limits(model)
    low = np.maximum(start - reach, limits.lowest / scales)
    return low, np.minimum(start + reach, limits.highest / scales)


def _best_start(method: _Method, models: list[Any], task: Task, warm: Any) -> Any:
    """The start with the highest objective."""
    vectors = [np.asarray(to_vector(model)) for model in models]
    if all(np.array_equal(vector, vectors[0]) for vector in vectors):
        return models[0]
    objective = method.objective(models[0], task, warm)
    values = [objective(vector)[0] for vector in vectors]
    return models[int(np.argmax(np.nan_to_num(values, nan=-np.inf)))]
