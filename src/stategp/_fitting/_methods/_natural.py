"""Natural gradients on all data."""

from collections.abc import Callable
from typing import Any

import numpy as np

from stategp._fitting._method import Collapsing
from stategp._fitting._series import SeriesTask
from stategp._fitting._task import check_finite
from stategp._inference import (
    ChainSites,
    Collapsed,
    FitResult,
    Outcome,
    Settling,
    Sight,
    Step,
    Stepwise,
    Watch,
    has_settled,
    infer,
    no_sites,
    run,
    starting_state,
    take_steps,
)
from stategp._models import GP
from stategp._posteriors import Posterior
from stategp.parameters import to_vector


class Settler(Stepwise):
    """Steps of q with step-size control, until it has converged."""

    def __init__(
        self,
        model: Any,
        data: Any,
        start: Settling,
        take: Callable[[Settling], Settling],
        max_steps: int,
        tolerance: float | None,
    ):
        self.model, self.data, self.first, self.take = model, data, start, take
        self.max_steps, self.tolerance = max_steps + 1, tolerance  # the first is the start

    def start(self) -> Settling:
        return self.first

    def step(self, state: Settling, number: int) -> Step:
        if number == 0:
            return Step(state, state.q.elbo, 1.0, known=state)
        size = float(state.step_size)
        state = self.take(state)
        return Step(state, state.q.elbo, size, known=state)

    def judge(self, state: Settling, watch: Watch) -> Outcome | None:
        return verdict(self.model, self.data, state, self.tolerance) if state.done else None


def verdict(model: Any, data: Any, state: Settling, tolerance: float | None) -> Outcome:
    """How a search for q ended."""
    if has_settled(model, data, state, tolerance):
        return Outcome.converged
    return Outcome.no_better_step if state.done else Outcome.out_of_steps


# Nats per observation that q still moves when nothing is left to gain: digits cost few steps.
_CLOSE = 1e-18
_MANY = 1e4  # observations beyond which the nats do not grow with them, nor how far one is off


def closeness(data: Any) -> float:
    """Nats per observation that q still moves when nothing is left to gain."""
    return _CLOSE * min(1.0, _MANY / float(data.total))


class Natural(Collapsing):
    """The variational optimum by natural gradients: exact, and one step, for Gaussian noise."""

    name, model = "natural", GP
    optimal = True
    takes_summaries = takes_rows = True

    def fitted(self, model: GP) -> GP:
        """The model whose bound is climbed."""
        return model

    def objective(self, model: GP, task: SeriesTask, warm: ChainSites | None) -> Collapsed:
        return Collapsed(self.fitted(model), task.data, task.inducing, warm)

    def infer(self, model: GP, task: SeriesTask, warm: ChainSites | None) -> Posterior:
        if model.likelihood.conjugate:
            return self._posterior(model, task, infer(model, task.data, task.inducing), None)
        fitted = self.fitted(model)
        view, guess = Sight(task.data, task.inducing)(fitted)
        settling = task.settings.settling
        # What y points at, or if that fails the prior.
        starts = [None, no_sites(model, task.inducing)]
        for sites in starts if warm is None else [warm, *starts]:
            shape, state = starting_state(fitted, view, task.inducing, guess, sites)
            state = take_steps(fitted, view, shape, state, 1, settling)
            if np.isfinite(state.q.elbo):
                break
        check_finite(model, state.q.elbo)

        def take(state: Settling) -> Settling:
            return take_steps(fitted, view, shape, state, 1, settling)

        search = Settler(
            model, task.data, state, take, task.settings.inference_steps, task.settings.tolerance
        )
        result = run(search, task.show, task.settings.keeper)
        return self._posterior(model, task, search.best, result)

    def at_end(self, objective: Collapsed, model: GP, task: SeriesTask) -> Posterior:
        state = objective.settled(to_vector(model))
        result = None
        if not model.likelihood.conjugate:
            outcome = verdict(model, task.data, state, task.settings.tolerance)
            watch = Watch(task.show)
            watch(float(state.q.elbo), float(state.step_size))
            result = watch.result(outcome)
        return self._posterior(model, task, state, result)

    def _posterior(
        self, model: GP, task: SeriesTask, state: Settling, result: FitResult | None
    ) -> Posterior:
        q = state.q
        close = float(state.moved) <= closeness(task.data) * float(task.data.total)
        settled = model.likelihood.conjugate or (type(self) is Natural and close)
        return task.posterior(model, q.sites, q.marginals, q.elbo, result, settled=settled)
