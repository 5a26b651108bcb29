"""The number of inducing points of mixtures of processes."""

from collections.abc import Callable
from typing import Any

import numpy as np

from stategp._data import Observations
from stategp._fitting._automatic import Auto, choose
from stategp._fitting._mixed import MixedTask
from stategp._fitting._settings import Settings
from stategp._inference import mixed_infer, no_group_sites
from stategp._models import Learned, MixedGP, bare
from stategp._runtime import Progress


def choose_mixed(
    start: Callable[[float], Any],
    data: Observations,
    auto: Auto,
    task_at: Callable[[np.ndarray], MixedTask],
    settings: Settings,
    show: Progress,
) -> Any:
    """The posterior with as many inducing points as the tolerance asks for."""

    def learn(models: list[Any], locations: np.ndarray) -> Any:
        show.note(f"{len(locations)} inducing points, ")
        return settings.method.learn(models, task_at(locations), None)

    def bound(model: Any, locations: np.ndarray) -> float:
        show.note(f"checking {len(locations)} inducing points, ")
        task = task_at(locations)
        nothing = no_group_sites(model, len(task.inducing))
        return float(mixed_infer(bare(model), task.rows, task.inducing, nothing, True).q.elbo)

    return choose(start, data, auto, bound=bound, learn=learn, settings=settings)


def refuse_what_others_take(inducing: Any, model: MixedGP) -> None:
    """Refuse learned locations, which only an `sg.GP` has."""
    if isinstance(inducing, Learned):
        raise ValueError(
            f"learned inducing locations are for an sg.GP; for an {type(model).__name__} give "
            "'auto', 'data', a number or locations"
        )
