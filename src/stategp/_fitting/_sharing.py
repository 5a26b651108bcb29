"""Hyperparameters that have one value for many series.

Levels and slopes of mean functions say where a series is, and stay its own. Everything else is
shared, in the coordinates of searches.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from stategp._fitting._templates import Template, Values
from stategp._fitting._together import (
    Ensemble,
    Member,
    Tell,
    climb_together,
    member_at,
)
from stategp._inference import LBFGS, End, FitResult, Outcome, run
from stategp._models import GP, bare
from stategp._runtime import on_device
from stategp.parameters import (
    Parameter,
    all_parameters,
    log_prior,
    map_parameters,
    with_value,
    with_vector,
)

OWN = ("level", "slope", "centre")  # roles of parameters that every series has for itself
_ROUNDING = 1e-14  # of y, relative
Climb = Callable[[Sequence[Member]], tuple[list[End | None], bool]]


class Limits(NamedTuple):
    """When a search ends."""

    max_steps: int
    flat: float
    gtol: float


def climber(limits: Limits, tell: Tell) -> Climb:
    """Searches of many members, as the limits say."""
    return lambda members: climb_together(members, **limits._asdict(), tell=tell)


class Shared(NamedTuple):
    """What series have in common, and where each of them is then."""

    model: GP  # for another series
    template: Template
    members: list[Member]
    ends: list[End | None]
    result: FitResult | None  # of the search for what is shared, if it was one


def share_values(members: list[Member], limits: Limits, report: Any, tell: Tell) -> Shared:
    """The hyperparameters that make all series together likeliest.

    A series that does not vary would be likeliest without noise, whatever the others are: it takes
    what those have found, if there are any.
    """
    template = members[0].template
    common = ~np.isin(template.roles, OWN)
    plain, prior = _without_priors(template, common)
    everyone = [member._replace(template=plain, leaves=plain.leaves) for member in members]
    members = [member for member in everyone if varies(member.data.y)] or everyone
    scales = np.median([member.scales for member in members], axis=0)
    first = np.stack([plain.vector(member.values) for member in members])
    # Coordinates: what is shared, then what each series has for itself.
    own = np.concatenate([member.scales[~common] for member in members])
    units = np.concatenate([scales[common], own])

    ensemble = Ensemble(members)

    def spread(vector: np.ndarray) -> np.ndarray:
        whole = np.empty_like(first)
        whole[:, common] = vector[: common.sum()]
        whole[:, ~common] = vector[common.sum() :].reshape(len(members), -1)
        return whole

    def function(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        vectors = spread(scaled * units)
        values, gradients = ensemble(vectors)
        value, slope = prior(vectors[0])
        together = np.sum(gradients[:, common], axis=0) + slope[common]
        gradient = np.concatenate([together, gradients[:, ~common].ravel()])
        return float(np.sum(values)) + value, gradient * units

    starts = [
        np.concatenate([np.median(vectors[:, common], axis=0), first[:, ~common].ravel()]) / units
        for vectors in _scouts(members)
    ]
    heights = [function(start)[0] for start in starts]
    start = starts[int(np.argmax(np.nan_to_num(heights, nan=-np.inf)))]
    low, high = _edges(members, common, scales, start)
    count = sum(len(member.data) for member in members)
    search = LBFGS(
        function, start, observations=count, low=low, high=high,
        max_steps=limits.max_steps, flat=limits.flat, gtol=limits.gtol,
    )  # fmt: skip
    result = run(search, report)
    assert search.best is not None
    found = iter(spread(search.best.vector * units))
    teaching = {id(member) for member in members}
    values = []
    for member in everyone:
        vector = plain.vector(member.values)
        if id(member) in teaching:
            vector = next(found)
        vector[common] = search.best.vector[: common.sum()] * scales[common]
        values.append(plain.at(member.values, vector))
    # What each has for itself, to the end: the sum of all hardly notices a single one.
    finish = [member_at(m, v, free=~common) for m, v in zip(everyone, values, strict=True)]
    ends, stopped = climber(limits, tell)(finish)
    if stopped:
        result = result.with_remarks(outcome=Outcome.interrupted)
    return Shared(_with_fixed(template, values[0]), plain, finish, ends, result)


def varies(y: Any) -> bool:
    """Whether observations differ by more than the rounding of their level."""
    y = np.asarray(y)
    return bool(np.ptp(y) > _ROUNDING * np.max(np.abs(y)))


def _scouts(members: list[Member]) -> list[np.ndarray]:
    """The vectors of all members at each of their starting points."""
    most = max(len(member.problem.starts) for member in members)
    return [
        np.stack([m.problem.starts[min(n, len(m.problem.starts) - 1)] * m.scales for m in members])
        for n in range(most)
    ]


def _edges(
    members: list[Member], common: np.ndarray, scales: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    low = np.stack([m.problem.low * m.scales for m in members])
    high = np.stack([m.problem.high * m.scales for m in members])
    own = np.concatenate([member.scales[~common] for member in members])
    units = np.concatenate([scales[common], own])
    lowest = np.concatenate([low[:, common].min(axis=0), low[:, ~common].ravel()]) / units
    highest = np.concatenate([high[:, common].max(axis=0), high[:, ~common].ravel()]) / units
    return np.minimum(lowest, start), np.maximum(highest, start)


def _without_priors(
    template: Template, common: np.ndarray
) -> tuple[Template, Callable[[np.ndarray], tuple[float, np.ndarray]]]:
    """The template without the priors of what is shared, and these, to be counted once."""
    flags = flags_of(template, common)
    shared, own = iter(flags), iter(flags)
    only = map_parameters(lambda p: with_prior_of(p) if not next(shared) else p, template.model)
    rest = map_parameters(lambda p: with_prior_of(p) if next(own) else p, template.model)
    only = bare(only, learning=True)
    if not any(parameter.prior is not None for parameter in all_parameters(only)):
        return Template(template.given, rest), lambda vector: (0.0, np.zeros(len(vector)))

    @jax.jit
    def density(vector: Any) -> Any:
        return jax.value_and_grad(lambda v: log_prior(with_vector(only, v)))(vector)

    def prior(vector: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = density(on_device(vector))
        return float(value), np.asarray(gradient)

    return Template(template.given, rest), prior


def with_prior_of(parameter: Parameter, prior: Any = None) -> Parameter:
    return dataclasses.replace(parameter, prior=prior)


def flags_of(template: Template, common: np.ndarray) -> list[bool]:
    """Whether each parameter of the model is learned and shared."""
    flags, position = [], 0
    for parameter in all_parameters(template.model):
        flags.append(bool(parameter.learned and common[position]))
        position += math.prod(parameter.value.shape) if parameter.learned else 0
    return flags


def _with_fixed(template: Template, values: Values) -> GP:
    """The model of the user with what is shared fixed."""
    flags = iter(flags_of(template, ~np.isin(template.roles, OWN)))
    left = iter(values)

    def fix(old: Parameter) -> Parameter:
        value = next(left)
        if not next(flags):
            return old
        return dataclasses.replace(with_value(old, on_device(value)), learned=False, prior=None)

    return map_parameters(fix, template.given)
