"""How `condition` and `fit` are told to look for q and the hyperparameters, checked once."""

import dataclasses
import enum
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stategp._arguments import positive_number, whole_number

if TYPE_CHECKING:
    import optax

    from stategp._fitting._method import Method
    from stategp._inference import Keeper


class Regime(enum.Enum):
    """Who moves the hyperparameters, and on how much data; the value says it in words."""

    lbfgs = "all data with optimiser='lbfgs'"
    optax = "all data with optimiser='adam' or an Optax optimiser"
    minibatches = "minibatches (batch_size) with optimiser='adam' or an Optax optimiser"


@dataclasses.dataclass(frozen=True)
class Settings:
    """A method, and what it is told."""

    method: "Method"
    optimiser: "optax.GradientTransformation | None"  # None: L-BFGS
    batch_size: int | None
    step_size: Callable[[int], Any]
    starts: int
    seed: int
    max_steps: int | None
    tolerance: float | None
    keeper: "Keeper | None" = None  # remembers searches in a file

    @property
    def learning_steps(self) -> int:
        """The most steps of a search that moves hyperparameters."""
        return self.max_steps or _default_steps(self.optimiser is None)

    @property
    def inference_steps(self) -> int:
        """The most natural-gradient or Newton steps, where hyperparameters stay as they are."""
        return self.max_steps or 200

    @property
    def settling(self) -> float:
        """How little q may still move when inference counts as over, in nats per observation."""
        return self.tolerance or 1e-14


def choose_settings(
    find_method: Callable[[Regime], "Method"],
    *,
    stochastic: bool,
    optimiser: Any,
    batch_size: Any,
    step_size: Any,
    starts: Any,
    seed: Any,
    max_steps: Any,
    tolerance: Any,
) -> Settings:
    """The user's arguments, checked; `find_method` knows the methods of the model.

    `stochastic`: the model's bound is an estimate, whatever the size of a batch.
    """
    for name, number in [("batch_size", batch_size), ("max_steps", max_steps)]:
        if number is not None:
            whole_number(name, number, least=1)
    whole_number("starts", starts, least=1)
    whole_number("seed", seed, least=0)
    if tolerance is not None:
        positive_number("tolerance", tolerance)
    if optimiser is None:
        optimiser = "adam" if stochastic or batch_size is not None else "lbfgs"
    steps = max_steps or _default_steps(isinstance(optimiser, str) and optimiser == "lbfgs")
    chosen = _as_optimiser(optimiser, steps)
    regime = Regime.lbfgs if chosen is None else Regime.optax
    if batch_size is not None:
        if chosen is None:
            raise ValueError(
                "minibatches need optimiser='adam' or an Optax optimiser, got "
                f"optimiser={optimiser!r}"
            )
        regime = Regime.minibatches
    method = find_method(regime)
    if step_size is not None and not method.takes_step_size:
        raise ValueError(
            "step_size is the step size of natural gradients in minibatches and needs batch_size "
            "and method='natural' (additive models: an Optax optimiser and method='natural'); "
            "otherwise steps are as long as the bound allows"
        )
    if starts > 1 and not method.takes_starts:
        raise ValueError(
            "starts needs optimiser='lbfgs' and a method that optimises only hyperparameters; "
            f"method={method.name!r} with these arguments has one start"
        )
    schedule = _as_schedule(step_size, steps)
    return Settings(method, chosen, batch_size, schedule, starts, seed, max_steps, tolerance)


def _default_steps(lbfgs: bool) -> int:
    return 500 if lbfgs else 2000


def _as_schedule(step_size: Any, steps: int) -> Callable[[int], Any]:
    if step_size is None:
        return lambda number: 0.005 + 0.095 * math.cos(math.pi / 2 * min(number / steps, 1.0)) ** 2
    if callable(step_size):
        return step_size
    if positive_number("step_size", step_size) > 1:
        raise ValueError(f"step_size must lie in (0, 1], got {step_size}")
    return lambda number: step_size


def _as_optimiser(optimiser: Any, steps: int) -> "optax.GradientTransformation | None":
    if isinstance(optimiser, str) and optimiser == "lbfgs":
        return None
    if isinstance(optimiser, str) and optimiser == "adam":
        return _adam(steps)
    import optax  # slow to import

    if not isinstance(optimiser, optax.GradientTransformation):
        raise ValueError(
            f"optimiser must be 'lbfgs', 'adam' or an Optax optimiser, got {optimiser!r}"
        )
    return optimiser


@functools.lru_cache(maxsize=16)
def _adam(steps: int) -> "optax.GradientTransformation":
    """The same object for the same settings, so that nothing compiles twice."""
    import optax  # slow to import

    return optax.adam(optax.cosine_decay_schedule(0.03, steps, alpha=0.03))
