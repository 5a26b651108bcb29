"""What `condition` and `fit` take, as editors and type checkers see it."""

import datetime
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, runtime_checkable

import numpy as np

from stategp._fitting._automatic import Auto
from stategp._fitting._methods import Method
from stategp._models import Learned
from stategp._runtime import Progress

if TYPE_CHECKING:
    import optax


@runtime_checkable
class _Array(Protocol):
    """An array of NumPy, JAX, pandas, …"""

    def __array__(self) -> np.ndarray: ...


Numbers = Sequence[float] | Sequence[bool] | _Array
Table = Mapping[str, Numbers] | Sequence[Sequence[float]] | _Array
Inducing = int | Literal["data", "auto"] | Auto | Learned | Numbers
MethodName = Literal[
    "natural", "gradient", "laplace", "ep", "vb", "posterior_linearisation", "extended",
    "unscented", "gauss_newton", "bayes_newton",
    "importance_weighted",
]  # fmt: skip


class ConditionOptions(TypedDict, total=False):
    """The options of `condition`, as editors and type checkers see them."""

    inducing: Inducing | Mapping[str, Inducing] | Sequence[Inducing]
    noise_variance: float | Numbers | None
    exposure: float | Numbers | None
    trials: float | Numbers | None
    censored: float | Numbers | None
    weights: float | Numbers | None
    method: MethodName | Method
    optimiser: "Literal['lbfgs', 'adam'] | optax.GradientTransformation | None"
    batch_size: int | None
    step_size: float | Callable[[int], Any] | None
    seed: int
    max_steps: int | None
    tolerance: float | None
    progress: bool | Progress | None


class FitOptions(ConditionOptions, total=False):
    """The options of `fit`, as editors and type checkers see them."""

    starts: int
    checkpoint: str | os.PathLike[str] | None
    every: str | float | datetime.timedelta
    resume: bool
