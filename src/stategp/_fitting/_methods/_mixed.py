"""Mixtures of processes: natural gradients on q, all chains together."""

from typing import Any

import numpy as np

from stategp._fitting._method import Collapsing
from stategp._fitting._methods._natural import Settler, verdict
from stategp._fitting._mixed import MixedTask
from stategp._fitting._task import check_finite
from stategp._inference import (
    GroupSites,
    Settling,
    Watch,
    leaves_of,
    mixed_infer,
    mixed_objective,
    mixed_start,
    mixed_steps,
    no_group_sites,
    run,
    with_leaves,
)
from stategp._models import MixedGP, bare
from stategp._posteriors import MixedPosterior
from stategp._runtime import on_device
from stategp.parameters import to_vector


class MixedNatural(Collapsing):
    """The variational optimum by natural gradients: exact, and one step, for Gaussian noise."""

    name, model = "natural", MixedGP
    optimal = True

    def objective(
        self, model: MixedGP, task: MixedTask, warm: GroupSites | None
    ) -> "MixedObjective":
        return MixedObjective(model, task, warm)

    def infer(self, model: MixedGP, task: MixedTask, warm: GroupSites | None) -> MixedPosterior:
        plain, settings = bare(model), task.settings
        data = task.rows, task.inducing
        nothing = no_group_sites(model, len(task.inducing))
        if model.likelihood.conjugate:
            state = mixed_infer(plain, *data, nothing, True)
            return task.posterior(model, state.q, None)

        def take(state: Settling) -> Settling:
            return mixed_steps(plain, *data, state, 1, settings.settling)

        # What y points at, or if that fails the prior.
        starts = [None, nothing]
        for sites in starts if warm is None else [warm, *starts]:
            state = take(mixed_start(plain, *data, sites))
            if np.isfinite(state.q.elbo):
                break
        check_finite(model, state.q.elbo)
        search = Settler(
            model, task.rows, state, take, settings.inference_steps, settings.tolerance
        )
        result = run(search, task.show, settings.keeper)
        return task.posterior(model, search.best.q, result)

    def at_end(
        self, objective: "MixedObjective", model: MixedGP, task: MixedTask
    ) -> MixedPosterior:
        objective(np.asarray(to_vector(model)))
        state, result = objective.state, None
        if not model.likelihood.conjugate:
            watch = Watch(task.show)
            watch(float(state.q.elbo), float(state.step_size))
            result = watch.result(verdict(model, task.rows, state, task.settings.tolerance))
        return task.posterior(model, state.q, result)


class MixedObjective:
    """The bound as a function of the hyperparameters; q starts from the last one found."""

    def __init__(self, model: MixedGP, task: MixedTask, warm: GroupSites | None):
        self.model, self.task = bare(model, learning=True), task
        self.nothing = no_group_sites(model, len(task.inducing))
        self.warm = warm
        self.state: Any = None

    def __call__(self, vector: Any) -> tuple[float, np.ndarray]:
        starts = [(self.nothing, True), (self.nothing, False)]
        if self.warm is not None:
            starts.insert(0, (self.warm, False))
        place = on_device(np.asarray(vector))
        for sites, fresh in starts[:1] if self.model.likelihood.conjugate else starts:
            value, gradient, self.state = mixed_objective(
                place, self.model, self.task.rows, self.task.inducing, sites, fresh
            )
            if np.isfinite(value) and np.all(np.isfinite(gradient)):
                self.warm = self.state.q.sites
                break
        return float(value), np.asarray(gradient)

    def carried(self) -> list[Any]:
        """The sites that the last call found, for a file."""
        return leaves_of(self.warm)

    def carry(self, found: list[Any]) -> None:
        """Let the next call start from there."""
        self.warm = with_leaves(self.nothing, found) if found else None
