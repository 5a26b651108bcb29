"""A prior of hyperparameters that is learned from many series.

In the coordinates of searches, logarithms of what is positive, it is a normal density with a mean
and a deviation for each coordinate, found by expectation–maximisation with the posterior of each
series approximated by a Gaussian (Laplace).

A series teaches if its search found a place that its data hold. One that does not vary, or whose
hyperparameters ran away or are far from those of all others, says nothing of them, and would say it
with certainty; it still borrows.
"""

import math
from typing import NamedTuple

import numpy as np

from stategp._fitting._remarks import FAR
from stategp._fitting._sharing import (
    OWN,
    Climb,
    Limits,
    Shared,
    climber,
    flags_of,
    varies,
    with_prior_of,
)
from stategp._fitting._templates import Template
from stategp._fitting._together import Ensemble, Member, Tell, member_at
from stategp._inference import End, Outcome
from stategp._models import GP
from stategp.parameters import Parameter, all_parameters, map_parameters
from stategp.priors import LogNormal, Normal

_ROUNDS = 30
_SETTLED = 0.01  # change of the prior, in its deviations, at which it counts as found
_LEAST, _MOST = 0.02, 5.0  # deviations of the prior
_FIRST = 0.3  # the least to begin with
_OUTLYING = 6.0  # deviations from the centre beyond which a series is of another kind
_APART = 1e-4  # for second derivatives, in the scale of a coordinate


class _State(NamedTuple):
    """Where every series is, and the prior that this says."""

    under: Template
    members: list[Member]
    ends: list[End | None]
    centre: np.ndarray
    spread: np.ndarray
    apart: frozenset[int] = frozenset()  # series that turned out to be of another kind


def share_prior(members: list[Member], limits: Limits, tell: Tell) -> Shared:
    """Each series with its own hyperparameters, under a prior that all of them teach."""
    template = members[0].template
    common, climb = _taught(template), climber(limits, tell)
    ends, stopped = climb(members)
    known = _teachers(members, ends)
    if not common.any() or len(known) < 2 or stopped:
        return Shared(template.given, template, members, ends, None)
    found = np.stack([vector_of(members[n], ends[n]) for n in known])
    centre = np.median(found, axis=0)
    spread = np.clip(1.4826 * np.median(np.abs(found - centre), axis=0), _FIRST, _MOST)
    state = _State(template, members, ends, centre, spread)
    try:
        for _ in range(_ROUNDS):
            state, settled = _next(state, template, common, climb)
            if settled:
                break
    except KeyboardInterrupt:
        pass  # the last round that was complete
    return Shared(state.under.given, state.under, state.members, state.ends, None)


def _next(
    state: _State, template: Template, common: np.ndarray, climb: Climb
) -> tuple[_State, bool]:
    """Every series under the prior, the prior that they teach then, and whether that is it."""
    prior = state.centre, state.spread
    model, given = (_with_prior(template, *prior, m) for m in (template.model, template.given))
    under = Template(given, model)
    middle = np.where(common, state.centre, np.nan)
    members = [
        _nearer(member, under, end, middle)
        for member, end in zip(state.members, state.ends, strict=True)
    ]
    ends, stopped = climb(members)
    if stopped:
        raise KeyboardInterrupt
    known = [n for n in _teachers(members, ends) if n not in state.apart]
    if len(known) < 2:
        return _State(under, members, ends, *prior, state.apart), True
    found = np.stack([vector_of(members[n], ends[n]) for n in known])
    near = np.all((np.abs(found - state.centre) <= _OUTLYING * state.spread)[:, common], axis=1)
    apart = state.apart
    if np.sum(near) > 1:
        found, apart = (
            found[near],
            apart | {n for n, here in zip(known, near, strict=True) if not here},
        )
        known = [n for n in known if n not in apart]
    blurred = _variances([members[n] for n in known], found, state.spread)
    centre = np.mean(found, axis=0)
    spread = np.sqrt(np.mean((found - centre) ** 2 + blurred, axis=0))
    spread = np.clip(spread, _LEAST, _MOST)
    change = np.maximum(
        np.abs(centre - state.centre) / spread, np.abs(np.log(spread / state.spread))
    )
    settled = bool(np.all(change[common] < _SETTLED))
    return _State(under, members, ends, centre, spread, apart), settled


def _taught(template: Template) -> np.ndarray:
    """The coordinates whose prior is learned: not those that have one already."""
    has = [
        parameter.prior is not None
        for parameter in all_parameters(template.model)
        if parameter.learned
        for _ in range(math.prod(parameter.value.shape))
    ]
    return ~np.isin(template.roles, OWN) & ~np.array(has, dtype=bool)


def _teachers(members: list[Member], ends: list[End | None]) -> list[int]:
    """The series that say something of others; if hardly any, all that vary."""
    varying = [n for n, end in enumerate(ends) if sound(end) and varies(members[n].data.y)]
    held = [n for n in varying if teaches(members[n], ends[n])]
    return held if len(held) > 1 else varying


def sound(end: End | None) -> bool:
    """Whether a search ended somewhere."""
    return end is not None and math.isfinite(end.value)


def teaches(member: Member, end: End | None) -> bool:
    """Whether a search ended at an optimum that is held by the data."""
    if end is None or not sound(end) or end.outcome is not Outcome.converged or end.edges.any():
        return False
    x, long = np.asarray(member.data.x), np.isin(member.template.roles, "lengthscale")
    longest = float(np.max(vector_of(member, end)[long], initial=-np.inf))
    return longest <= math.log(FAR * float(x[-1] - x[0])) if x[-1] > x[0] else True


def vector_of(member: Member, end: End | None) -> np.ndarray:
    """Where it ended, in the coordinates of searches."""
    assert end is not None
    return end.vector * member.scales


def _nearer(member: Member, under: Template, end: End | None, centre: np.ndarray) -> Member:
    """The search of the next round: from where the last ended, or from the middle of the prior."""
    member = member._replace(template=under, leaves=under.leaves)
    first = member.template.vector(member.values) if end is None else vector_of(member, end)
    middle = np.where(np.isnan(centre), first, centre)
    values = member.template.at(member.values, first)
    return member_at(member, values, [first, middle])


def _variances(members: list[Member], found: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Of the coordinates given each series, by the curvature of its objective."""
    values, vectors = np.linalg.eigh(curvatures(members, found))
    # The prior alone curves that much; where differences say less they are rounding.
    values = np.maximum(values, (1 / np.max(spread)) ** 2)
    return np.einsum("sik,sk,sik->si", vectors, 1 / values, vectors)


def curvatures(members: list[Member], found: np.ndarray) -> np.ndarray:
    """Of the objective of each series there, by differences of slopes."""
    size = found.shape[1]
    ensemble = Ensemble(members)
    _, here = ensemble(found)
    curvature = np.zeros((len(members), size, size))
    apart = _APART * np.median([member.scales for member in members], axis=0)
    for number in range(size):
        there = found.copy()
        there[:, number] += apart[number]
        curvature[:, number] = (here - ensemble(there)[1]) / apart[number]
    curvature = (curvature + np.swapaxes(curvature, 1, 2)) / 2
    return np.where(np.isfinite(curvature), curvature, 0.0)


def _with_prior(template: Template, centre: np.ndarray, spread: np.ndarray, model: GP) -> GP:
    """The model with normal priors in the coordinates of searches.

    A log-normal density has its mode, as a density of the value, a squared spread below the median:
    with the median that much higher it is the normal density of the logarithm.
    """
    flags = flags_of(template, _taught(template))
    position, marks = 0, iter(zip(all_parameters(template.model), flags, strict=True))

    def attach(old: Parameter) -> Parameter:
        nonlocal position
        like, shared = next(marks)
        size = math.prod(like.value.shape) if like.learned else 0
        middle, width = centre[position : position + size], spread[position : position + size]
        position += size
        if not shared:
            return old
        m, s = (float(np.mean(middle)), float(np.sqrt(np.mean(width**2))))
        if like.constraint == "positive":
            return with_prior_of(old, LogNormal(math.exp(m + s**2), s))
        return with_prior_of(old, Normal(m, s))

    return map_parameters(attach, model)
