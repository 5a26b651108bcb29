"""What every method is given: the data, where the states are, how to look, and who watches."""

import abc
import dataclasses
from typing import Any

import numpy as np

from stategp._fitting._settings import Settings
from stategp._inference import FitResult, Limits
from stategp._models import GP, AdditiveGP, MixedGP
from stategp._runtime import Progress
from stategp.likelihoods import Gaussian
from stategp.parameters import Parameter, to_vector


@dataclasses.dataclass(frozen=True)
class Task(abc.ABC):
    """What is common to all kinds of models."""

    settings: Settings
    show: Progress

    @property
    @abc.abstractmethod
    def count(self) -> int:
        """The number of observations."""

    @property
    def span(self) -> float | None:
        """The range of the inputs, where there is one input."""
        return None

    def span_of(self, model: Any, parameter: Parameter) -> float | None:
        """The range of what a lengthscale of the model is measured along."""
        return self.span

    @abc.abstractmethod
    def scales(self, model: Any) -> np.ndarray:
        """The natural size of a step in each coordinate of the hyperparameter vector."""

    def limits(self, model: Any, *, swept: bool = False) -> Limits:
        """How low and how high each coordinate of the hyperparameter vector may go.

        `swept`: in a search whose bounds come from sweeps only.
        """
        size = len(to_vector(model))
        return Limits(np.full(size, -np.inf), np.full(size, np.inf))

    def beyond(self, model: Any) -> str:
        """What is wrong with hyperparameters that the data, if summed up, cannot follow."""
        return ""

    @abc.abstractmethod
    def refined(self, model: Any) -> "tuple[Any, Task] | None":
        """The model with kernels that follow their new parameters, if they need larger states."""


def larger_kernels(kernels: tuple[Any, ...]) -> list[Any] | None:
    """The kernels with truncations that follow their parameters, if any of them grows."""
    refined = [kernel.refined() for kernel in kernels]
    pairs = zip(refined, kernels, strict=True)
    return refined if any(new.state_dim > old.state_dim for new, old in pairs) else None


def with_result(posterior: Any, learned: FitResult) -> Any:
    """What is said of the whole: learning, and inference if that went wrong."""
    inferred = posterior.fit_result
    if inferred is not None and not inferred.converged and learned.converged:
        remark = f"inference: {inferred.message}"
        learned = learned.with_remarks(remark, outcome=inferred.outcome)
    return dataclasses.replace(posterior, fit_result=learned)


def check_finite(model: Any, elbo: Any) -> None:
    """Refuse to go on with a bound that is not a number."""
    if not np.isfinite(elbo):
        raise FloatingPointError(
            f"the bound is not finite for {model!r}: either the signal is too many orders of "
            "magnitude above the noise for double precision, or f is so uncertain that its "
            "expected log density overflows; use hyperparameters closer to the scales of the data"
        )


def check_noise(model: GP | AdditiveGP | MixedGP, extra: Any) -> None:
    """Refuse Gaussian observations without any noise."""
    if isinstance(model.likelihood, Gaussian):
        smallest = float(model.likelihood.variance) + float(np.min(np.asarray(extra)))
        if not smallest > 0:
            raise ValueError(
                "observations without noise: the likelihood's variance is zero, so "
                "noise_variance must be given and positive"
            )
