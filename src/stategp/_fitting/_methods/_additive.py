"""Additive models: natural gradients on q, all components together."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from stategp._fitting._additive import AdditiveTask
from stategp._fitting._method import Collapsing
from stategp._fitting._methods._natural import Settler, verdict
from stategp._fitting._task import check_finite
from stategp._inference import (
    NodeSites,
    Settling,
    Watch,
    additive_infer,
    additive_objective,
    additive_start,
    additive_steps,
    leaves_of,
    no_node_sites,
    run,
    with_leaves,
)
from stategp._models import AdditiveGP
from stategp._posteriors import AdditivePosterior
from stategp.parameters import to_vector


class AdditiveNatural(Collapsing):
    """The variational optimum of all components by natural gradients."""

    name, model = "natural", AdditiveGP
    optimal = True
    slope = 1e-6
    takes_starts = False

    def objective(
        self, model: AdditiveGP, task: AdditiveTask, warm: NodeSites | None
    ) -> "_Objective":
        return _Objective(model, task, warm)

    def infer(
        self, model: AdditiveGP, task: AdditiveTask, warm: NodeSites | None
    ) -> AdditivePosterior:
        settings, data = task.settings, (task.table, task.layout)
        sites = no_node_sites(task.table) if warm is None else warm
        if model.likelihood.conjugate:
            state = additive_infer(model, *data, sites, 1, settings.settling)
            return task.posterior(model, state.q, None)

        def take(state: Settling) -> Settling:
            return additive_steps(model, *data, state, 1, settings.settling)

        state = take(additive_start(model, *data, sites))
        check_finite(model, state.q.elbo)
        search = Settler(
            model, task.table, state, take, settings.inference_steps, settings.tolerance
        )
        result = run(search, task.show, task.settings.keeper)
        return task.posterior(model, search.best.q, result)

    def at_end(
        self, objective: "_Objective", model: AdditiveGP, task: AdditiveTask
    ) -> AdditivePosterior:
        objective(np.asarray(to_vector(model)))
        state, result = objective.state, None
        if not model.likelihood.conjugate:
            watch = Watch(task.show)
            watch(float(state.q.elbo), float(state.step_size))
            result = watch.result(verdict(model, task.table, state, task.settings.tolerance))
        return task.posterior(model, state.q, result)


class _Objective:
    """The bound as a function of the hyperparameters; q starts from the last one found."""

    def __init__(self, model: AdditiveGP, task: AdditiveTask, warm: NodeSites | None):
        self.model, self.task = model, task
        self.nothing = no_node_sites(task.table)
        self.warm = self.nothing if warm is None else warm
        self.state: Any = None

    def __call__(self, vector: Any) -> tuple[float, np.ndarray]:
        for warm in (self.warm, self.nothing):
            value, gradient, self.state = additive_objective(
                jnp.asarray(vector), self.model, self.task.table, self.task.layout, warm
            )
            if np.isfinite(value) and np.all(np.isfinite(gradient)):
                self.warm = self.state.q.sites[0]
                break
        return float(value), np.asarray(gradient)

    def carried(self) -> list[Any]:
        """The sites that the last call found, for a file."""
        return leaves_of(self.warm)

    def carry(self, found: list[Any]) -> None:
        """Let the next call start from there."""
        self.warm = with_leaves(self.nothing, found)
