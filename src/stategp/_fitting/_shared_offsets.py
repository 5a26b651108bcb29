"""What many series teach about hyperparameters whose priors are in units of each series.

An offset is the logarithm of a hyperparameter over the median of its log-normal prior, so that it
means the same for every series. Those with the same name have one normal density, found by
expectation–maximisation with the posterior of each series approximated by a Gaussian (Laplace), or
one value, which makes all series together likeliest. Models may differ in other hyperparameters.
"""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from stategp._data import Observations
from stategp._fitting._counter import Counter
from stategp._fitting._many import limits_of, members_of
from stategp._fitting._shared_prior import curvatures, teaches, vector_of
from stategp._fitting._sharing import Limits, climber
from stategp._fitting._together import Ensemble, Member, Tell, member_at
from stategp._inference import LBFGS, End, Outcome, run
from stategp._models import GP
from stategp._runtime import Progress, finishing_compilations

_ROUNDS = 30
_SETTLED = 0.01  # change of the densities, in their deviations, at which they count as found


class Pupil(NamedTuple):
    """A series with a model whose hyperparameters that are learned all have log-normal priors."""

    model: GP
    data: Observations
    names: tuple[Hashable, ...]  # of the offset of each of them
    unsure: np.ndarray  # variances of the logarithms of the units that the priors are in


class Offset(NamedTuple):
    """The density of an offset over series whose units are known, or, without spread, its value."""

    centre: float
    spread: float


class _Densities(NamedTuple):
    """Of all offsets."""

    centre: np.ndarray
    spread: np.ndarray

    @property
    def table(self) -> list[Offset]:
        return [Offset(float(c), float(s)) for c, s in zip(*self, strict=True)]


class _Search(NamedTuple):
    """That of a pupil: where its offsets are among all of them, and what they are relative to."""

    member: Member
    which: np.ndarray
    middle: np.ndarray  # log medians
    unsure: np.ndarray


def learn_offsets(
    pupils: Sequence[Pupil],
    share: str,
    options: dict[str, Any],
    *,
    stretches: Sequence[float],
    progress: Any = None,
) -> dict[Hashable, Offset]:
    """What all series say of every offset; Ctrl-C goes on to the caller.

    To begin with an offset has the prior that it is given. That is also the prior of its centre,
    and as much as one more series says of its spread: few series change it little.
    """
    names = list(dict.fromkeys(name for pupil in pupils for name in pupil.names))
    numbers = {name: number for number, name in enumerate(names)}
    members = members_of(pupils, stretches)
    searches, spread = [], np.ones(len(names))
    for pupil, member in zip(pupils, members, strict=True):
        which = np.array([numbers[name] for name in pupil.names], dtype=int)
        medians, spreads = member.template.log_normals(member.leaves)
        spread[which] = spreads
        searches.append(_Search(member, which, np.log(medians), pupil.unsure))
    # As a density of the logarithm a log-normal one has its mode a squared spread below the median.
    usual = _Densities(-(spread**2), spread)
    show = Progress.of(progress)
    counter = Counter(show, len(members))
    counter.words = "learning what series share:"
    try:
        with finishing_compilations():
            limits = limits_of(pupils[0].model, options)
            found = (
                _one_value(searches, usual, limits, show)
                if share == "all"
                else _densities(searches, usual, limits, counter.rounds(len(members)))
            )
    finally:
        show.close()
    return dict(zip(names, found.table, strict=True))


# --- a density --------------------------------------------------------------------------------


def _densities(
    searches: list[_Search], usual: _Densities, limits: Limits, tell: Tell
) -> _Densities:
    """Every series under the densities, the densities that they teach then, and so on."""
    climb, found = climber(limits, tell), usual
    ends: list[End | None] = [None] * len(searches)
    for _ in range(_ROUNDS):
        members = [_under(s, found, end) for s, end in zip(searches, ends, strict=True)]
        ends, stopped = climb(members)
        if stopped:
            raise KeyboardInterrupt
        before, found = found, _taught(searches, members, ends, usual, found)
        change = np.maximum(
            np.abs(found.centre - before.centre) / found.spread,
            np.abs(np.log(found.spread / before.spread)),
        )
        if np.all(change < _SETTLED):
            break
    return found


def _under(search: _Search, known: _Densities, end: End | None) -> Member:
    """The series under these densities, from where its search ended or where they have it."""
    member, which = search.member, search.which
    spread = np.sqrt(known.spread[which] ** 2 + search.unsure)
    centre = search.middle + known.centre[which]
    leaves = member.template.with_log_normals(member.leaves, np.exp(centre + spread**2), spread)
    under = member._replace(leaves=leaves)
    if end is None:
        return under
    first = vector_of(member, end)
    return member_at(under, member.template.at(member.values, first), [first, centre])


def _taught(
    searches: list[_Search],
    members: list[Member],
    ends: list[End | None],
    usual: _Densities,
    known: _Densities,
) -> _Densities:
    """The densities that all series say, given the present ones.

    The unit of a short series is itself uncertain: an offset a, in units that are known, is seen as
    a + e, with e of the variance `unsure`. Given a + e, a has the gain k = s²/(s² + unsure).
    """
    said = [np.zeros((3, 0))]
    for numbers in _by_template(members):
        numbers = [n for n in numbers if teaches(members[n], ends[n])]
        if not numbers:
            continue
        found = np.stack([vector_of(members[n], ends[n]) for n in numbers])
        which = np.stack([searches[n].which for n in numbers])
        middle = np.stack([searches[n].middle for n in numbers])
        unsure = np.stack([searches[n].unsure for n in numbers])
        centre, square = known.centre[which], known.spread[which] ** 2
        blurred = _variances([members[n] for n in numbers], found, np.sqrt(square + unsure))
        gain = square / (square + unsure)
        mean = centre + gain * (found - middle - centre)
        variance = gain**2 * blurred + gain * unsure
        said.append(np.stack([which.ravel(), mean.ravel(), variance.ravel()]))
    places, mean, variance = np.concatenate(said, axis=1)
    which, size = places.astype(int), len(usual.centre)
    count, sums = (np.bincount(which, w, minlength=size) for w in (None, mean))
    precise, loose = known.spread**-2, usual.spread**-2
    centre = (sums * precise + usual.centre * loose) / (count * precise + loose)
    squares = np.bincount(which, (mean - centre[which]) ** 2 + variance, minlength=size)
    return _Densities(centre, np.sqrt((squares + usual.spread**2) / (count + 1)))


def _variances(members: list[Member], found: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Of the offsets given each series, by the curvature of its objective."""
    curved = curvatures(members, found) * spread[:, :, None] * spread[:, None, :]
    values, vectors = np.linalg.eigh(curved)
    # In units of its spread the prior alone has curvature one: data at a maximum add to that.
    values = np.maximum(values, 1.0)
    unit: np.ndarray = np.einsum("sik,sk,sik->si", vectors, 1 / values, vectors)
    return unit * spread**2


def _by_template(members: list[Member]) -> list[list[int]]:
    found: dict[int, list[int]] = {}
    for number, member in enumerate(members):
        found.setdefault(id(member.template), []).append(number)
    return list(found.values())


# --- one value --------------------------------------------------------------------------------


def _one_value(
    searches: list[_Search], usual: _Densities, limits: Limits, show: Progress
) -> _Densities:
    """The offsets that make all series together likeliest, the prior of each counted once."""
    members, size = [search.member for search in searches], len(usual.centre)
    groups = _by_template(members)
    ensembles = [Ensemble([members[n] for n in numbers]) for numbers in groups]
    places = [np.stack([searches[n].which for n in numbers]) for numbers in groups]
    middles = [np.stack([searches[n].middle for n in numbers]) for numbers in groups]
    again = np.zeros(size)  # how often a prior is counted too much
    for which in places:
        again += np.bincount(which.ravel(), minlength=size)
    again = np.maximum(again - 1, 0)

    def function(offsets: np.ndarray) -> tuple[float, np.ndarray]:
        away = (offsets - usual.centre) / usual.spread
        total, slope = float(np.sum(again * away**2)) / 2, again * away / usual.spread
        for ensemble, which, middle in zip(ensembles, places, middles, strict=True):
            values, gradients = ensemble(middle + offsets[which])
            total += float(np.sum(values))
            slope += np.bincount(which.ravel(), gradients.ravel(), minlength=size)
        return total, slope

    low, high = np.full(size, np.inf), np.full(size, -np.inf)
    for search in searches:
        problem, scales = search.member.problem, search.member.scales
        np.minimum.at(low, search.which, problem.low * scales - search.middle)
        np.maximum.at(high, search.which, problem.high * scales - search.middle)
    ascent = LBFGS(
        function, np.zeros(size), observations=sum(len(member.data) for member in members),
        low=low, high=high, max_steps=limits.max_steps, flat=limits.flat, gtol=limits.gtol,
    )  # fmt: skip
    if run(ascent, show).outcome is Outcome.interrupted:
        raise KeyboardInterrupt
    assert ascent.best is not None
    return _Densities(ascent.best.vector, np.zeros(size))
