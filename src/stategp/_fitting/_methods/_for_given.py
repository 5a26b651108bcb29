"""Methods that find q for given hyperparameters: a site for every observation, moved in steps."""

from types import UnionType
from typing import Any, ClassVar

import numpy as np

from stategp._arguments import as_number
from stategp._fitting._method import Method
from stategp._fitting._methods._laplace import refuse_several_latents
from stategp._fitting._methods._natural import Natural
from stategp._fitting._series import SeriesTask
from stategp._inference import Outcome, Stepwise, Watch
from stategp._models import GP, SpaceTimeGP
from stategp._posteriors import Posterior
from stategp.parameters import to_vector

MOST_STEPS = 500
STILL = 1e-9  # the largest relative change of a site that counts as none


class ForGiven(Method):
    """`damping` is the fraction of each update that is applied."""

    damping: float  # a field of each

    name: ClassVar[str]
    model: ClassVar[type | UnionType] = GP
    plain_bound: ClassVar[bool] = False

    def __post_init__(self) -> None:
        share = as_number(self.damping)
        if share is None or not 0 < share <= 1:
            raise ValueError(f"damping must lie in (0, 1], got {self.damping!r}")

    def check(self, model: GP | SpaceTimeGP, data: Any) -> None:
        refuse_several_latents(self.name, model)
        if len(to_vector(model)) and not model.likelihood.conjugate:
            raise ValueError(
                f"method={self.name!r} finds f for given hyperparameters: learn them by another, "
                "as in posterior = sg.fit(model, x, y), then "
                f"sg.condition(posterior.model, x, y, method={self.name!r})"
            )

    def learn(self, models: list[GP], task: SeriesTask, warm: Any) -> Posterior:
        if models[0].likelihood.conjugate:
            return Natural().learn(models, task, None)
        posterior: Posterior = self.infer(models[0], task, warm)
        return posterior


class UntilStill(Stepwise):
    """Steps until the sites stand still; states have a `change`, NaN where there is no way on."""

    def __init__(self, method: Any, model: GP, task: SeriesTask, shape: Any, first: Any):
        self.method, self.model, self.task = method, model, task
        self.shape, self.first = shape, first
        self.max_steps = task.settings.max_steps or MOST_STEPS
        self.enough = task.settings.tolerance or STILL

    def start(self) -> Any:
        return self.first

    def judge(self, state: Any, watch: Watch) -> Outcome | None:
        if state.change <= self.enough:
            return Outcome.converged
        return Outcome.sites_moving if np.isnan(state.change) else None

    def exhausted(self, watch: Watch) -> Outcome:
        return Outcome.sites_moving
