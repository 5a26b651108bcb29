"""What many series taught about the default models, and the models that know it."""

import dataclasses
import math
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from stategp._fitting import Offset
from stategp._forecasting._candidates import Candidate
from stategp._runtime import on_device
from stategp.parameters import Parameter, all_parameters, map_parameters, with_value
from stategp.priors import LogNormal

_OF_TIME = ("lengthscale", "rate")  # in units of the step, which is known
# The relative variance of a median absolute deviation is 1.36 over the number of normal variables
# (its efficiency is 0.3675), that of its square four times as much.
_UNSURE = 2 / 0.3675


@dataclasses.dataclass(frozen=True)
class Lessons:
    """The offsets of hyperparameters from the medians of their priors, by their names."""

    offsets: dict[Hashable, Offset]
    series: int  # that taught them
    share: str  # "prior" or "all"

    @property
    def words(self) -> str:
        """What was shared, as a sentence."""
        units = ", in units of the time step and the typical change of each"
        return shared_in_words(self.share, self.series) + (units if self.share == "all" else "")

    def given_to(self, candidate: Candidate, changes: int) -> Candidate:
        """The candidate of a series with so many changes, with what was taught about it."""
        names, unsure = iter(names_of(candidate)), iter(doubts(candidate, changes))

        def teach(parameter: Parameter) -> Parameter:
            if not parameter.learned:
                return parameter
            offset, doubt = self.offsets.get(next(names)), next(unsure)
            return parameter if offset is None else _taught(parameter, offset, doubt)

        kernel, likelihood = map_parameters(teach, (candidate.kernel, candidate.likelihood))
        return candidate._replace(kernel=kernel, likelihood=likelihood)


def shared_in_words(share: str, series: int) -> str:
    """What so many series have in common."""
    if share == "all":
        return f"shared: hyperparameters are those of {series:,} series together"
    return f"shared: the prior of hyperparameters was learned from {series:,} series"


class _Name(NamedTuple):
    """Of a hyperparameter: what has the same one means the same."""

    trend: str
    log: bool
    parameter: str


def names_of(candidate: Candidate) -> tuple[Hashable, ...]:
    """Of every hyperparameter that is learned."""
    named = candidate.kernel.named_parameters().items()
    known = {id(parameter): name for name, parameter in named}
    return tuple(
        _Name(candidate.trend, candidate.scale.log, known.get(id(parameter), "noise"))
        for parameter in _learned(candidate)
    )


def doubts(candidate: Candidate, changes: int) -> np.ndarray:
    """The variances of the logarithms of what hyperparameters are measured in."""
    of_time = np.array([p.role in _OF_TIME for p in _learned(candidate)], dtype=bool)
    return np.where(of_time, 0.0, _UNSURE / changes)


def _learned(candidate: Candidate) -> list[Parameter]:
    found: Any = all_parameters((candidate.kernel, candidate.likelihood))
    return [parameter for parameter in found if parameter.learned]


def _taught(parameter: Parameter, offset: Offset, doubt: float) -> Parameter:
    """Near where the others are; or there, if the offset has no spread."""
    prior = parameter.prior
    assert isinstance(prior, LogNormal)
    there = float(prior.median) * math.exp(offset.centre)
    moved = with_value(parameter, on_device(np.asarray(there)))
    if offset.spread == 0:
        return dataclasses.replace(moved, learned=False, prior=None)
    # The mode of the density is `there`: its median is a squared spread above, in logarithms.
    square = offset.spread**2 + doubt
    prior = LogNormal(median=there * math.exp(square), spread=math.sqrt(square))
    return dataclasses.replace(moved, prior=prior)
