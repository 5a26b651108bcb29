"""What every way of learning is given, and what they share."""

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from stategp._data import Observations
from stategp._fitting._settings import Settings
from stategp._inference import ChainSites, FitResult
from stategp._models import GP
from stategp._posteriors import Posterior
from stategp._runtime import Progress
from stategp.chain import PairMarginals, Sites
from stategp.likelihoods import LogisticBound
from stategp.parameters import all_parameters

_REACH = 18.5  # positive hyperparameters move by at most a factor e¹⁸·⁵ ≈ 10⁸ either way
_REAL_REACH = 1e4  # others, by that many times their natural size


class Task(NamedTuple):
    """The data, where the states are, how to look, and who watches."""

    data: Observations
    inducing: Float[Array, " states"]  # padded to one of few sizes
    states: int  # how many of them count
    settings: Settings
    show: Progress


def as_posterior(
    model: GP,
    task: Task,
    sites: ChainSites,
    marginals: tuple[PairMarginals, ...],
    elbo: Any,
    result: FitResult | None,
    **flags: Any,
) -> Posterior:
    """What was found, without the inducing points that only fill up."""
    kept = [unpadded(*own, task.states) for own in zip(sites, marginals, strict=True)]
    sites, marginals = tuple(own for own, _ in kept), tuple(own for _, own in kept)
    inducing = task.inducing[: task.states]
    return Posterior(model, task.data, inducing, sites, marginals, float(elbo), result, **flags)


def unpadded(sites: Sites, pairs: PairMarginals, states: int) -> tuple[Sites, PairMarginals]:
    """A chain without the inducing points that only fill up."""
    keep = np.append(np.arange(states), len(pairs.mean) - 1)  # the last interval stays last
    sites, pairs = jax.tree.map(lambda leaf: leaf[keep], (sites, pairs))
    return sites, _joined(pairs)


def _joined(pairs: PairMarginals) -> PairMarginals:
    """The last state is the same, to the last digit, seen from both sides."""
    dim = pairs.mean.shape[1] // 2
    mean = pairs.mean.at[-1, :dim].set(pairs.mean[-2, dim:])
    covariance = pairs.covariance.at[-1, :dim, :dim].set(pairs.covariance[-2, dim:, dim:])
    return PairMarginals(mean, covariance)


def bounded(model: GP, task: Task) -> GP:
    """The model with the likelihood that the method replaces it by."""
    if task.settings.method != "vb":
        return model
    return GP(model.kernels, LogisticBound(), model.means)


def reaches(model: Any) -> np.ndarray:
    """How far each learned hyperparameter may go from its start."""
    reaches = [
        np.full(p.value.size, _REACH if p.constraint == "positive" else _REAL_REACH)
        for p in all_parameters(model)
        if p.learned
    ]
    return np.concatenate(reaches) if reaches else np.zeros(0)


def with_result(posterior: Any, learned: FitResult) -> Any:
    """What is said of the whole: learning, and inference if that went wrong."""
    inferred = posterior.fit_result
    if inferred is not None and not inferred.converged and learned.converged:
        message = f"{learned.message}; inference: {inferred.message}"
        learned = dataclasses.replace(learned, converged=False, message=message)
    return dataclasses.replace(posterior, fit_result=learned)


def check_finite(model: Any, elbo: Any) -> None:
    if not np.isfinite(elbo):
        raise FloatingPointError(
            f"inference has no finite bound for {model!r}: either the signal is too many orders of "
            "magnitude above the noise for double precision, or f so uncertain that its expected "
            "log density overflows; use hyperparameters closer to the scales of the data"
        )
