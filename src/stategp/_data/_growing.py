"""Data that grow: more observations beside those of a fit, and inducing points for them."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from stategp._arguments import positive_number
from stategp._data._observations import (
    Observations,
    distinct_inputs,
    inputs_as_given,
    nearest_of,
    numbers,
    observe,
    relative_inputs,
)
from stategp._data._summarised import Summarised
from stategp._data._summary import Summary, summarise_columns
from stategp._data._views import Origin
from stategp.likelihoods import Likelihood

_WIDE = 1.5  # intervals so many times the usual one get more states when data fall into them


_NOTHING = 1e-16  # share up to which double precision has nothing left of an observation


class Forgetting(NamedTuple):
    """How the past is forgotten when new observations come: not at all, little by little, or all.

    `memory`: after so long an observation counts e⁻¹ ≈ 37 % as much. `span`: those that are older
    than this, measured from the last one, do not count at all.
    """

    memory: float | None = None
    span: float | None = None

    @staticmethod
    def of(forget: Any, window: Any) -> "Forgetting":
        """From arguments, at most one of which may be given."""
        if forget is not None and window is not None:
            raise ValueError("forget and window are two ways to forget: give one of them")
        memory = None if forget is None else positive_number("forget", forget)
        return Forgetting(memory, None if window is None else positive_number("window", window))

    def __bool__(self) -> bool:
        return self.memory is not None or self.span is not None

    def shares(self, old: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What counts of observations at these inputs, in order, when the new ones have come.

        With a memory, old ones lose what the time since the last of them takes, however old they
        were then; the shares of several updates so multiply to that of one.
        """
        end = max(float(old[-1]), float(np.max(new, initial=-math.inf)))
        if self.span is not None:
            return 1.0 * (old >= end - self.span), 1.0 * (new >= end - self.span)
        memory = math.inf if self.memory is None else self.memory
        passed = np.full(len(old), math.exp(-(end - float(old[-1])) / memory))
        return passed, np.exp(-(end - new) / memory)


def observe_more(
    data: Observations,
    x: Any,
    y: Any,
    likelihood: Likelihood,
    *,
    extras: Mapping[str, Any] | None = None,
    weights: Any = None,
    forgetting: Forgetting = Forgetting(),  # noqa: B008, never changed
) -> tuple[Observations, Observations]:
    """All observations together, in order of x, and the new ones, both from the same origin.

    New observations can be none, or missing. Of equal inputs the old observations come first.
    Those of which nothing counts any more are left out.
    """
    inputs, targets = inputs_as_given("x_new", x), numbers("y_new", y)
    if len(inputs) != len(targets):
        raise ValueError(
            f"x_new and y_new must have equal lengths, got {len(inputs)} and {len(targets)}"
        )
    if len(inputs) == 0 or np.all(np.isnan(targets)):
        none: Any = np.zeros(0)
        return data, Observations(none, none, none, none, data.origin)
    new = observe(inputs, targets, likelihood, extras=extras, weights=weights)
    whole = inputs.dtype.kind == "i" or bool(np.all((inputs % 1 == 0) & (abs(inputs) < 2.0**63)))
    origin = data.origin if whole else float(data.origin)
    placed: Any = _from_origin(inputs[~np.isnan(targets)], origin)
    added = Observations(placed, new.y, new.extra, new.weights, origin)
    columns: list[Any] = [
        np.concatenate([np.asarray(getattr(part, name)) for part in (data, added)])
        for name in ("x", "y", "extra", "weights")
    ]
    if forgetting:
        shares = np.concatenate(forgetting.shares(np.asarray(data.x), placed))
        columns[3] = columns[3] * shares
        some = columns[3] > _NOTHING * np.max(columns[3])
        kept = shares > 0 if forgetting.memory is None else some
        columns = [column[kept] for column in columns]
    if placed[0] < data.x[-1]:
        order = np.argsort(columns[0], kind="stable")
        columns = [column[order] for column in columns]
    return Observations(columns[0], columns[1], columns[2], columns[3], origin), added


def _from_origin(inputs: np.ndarray, origin: Origin) -> np.ndarray:
    """Differences in order, as `observe` has them."""
    if isinstance(origin, int) and inputs.dtype.kind == "f":
        inputs = inputs.astype(np.int64)  # whole numbers, however they were written
    return np.sort(relative_inputs("x_new", inputs, origin), kind="stable")


def summarise_more(
    data: Summarised,
    x: Any,
    y: Any,
    likelihood: Likelihood,
    *,
    extras: Mapping[str, Any],
    weights: Any,
    forgetting: Forgetting = Forgetting(),  # noqa: B008, never changed
) -> tuple[Summarised, Summarised | None]:
    """The sums with more observations, which are a summary too or not; and the new ones alone.

    With a memory, old sums count less by one factor, and each new observation by its age.
    """
    old, added = data.summary, x
    _check_forgetting(forgetting, x)
    if not isinstance(x, Summary):
        columns = inputs_as_given("x_new", x), numbers("y_new", y)
        if len(columns[0]) == 0 or np.all(np.isnan(columns[1])):
            return data, None
        if forgetting:
            some = ~np.isnan(columns[1])
            places = relative_inputs("x_new", columns[0], data.origin)
            end = np.max(places[some])
            passed, counted = forgetting.shares(np.asarray(data.x)[-1:], np.minimum(places, end))
            old = old.scaled(float(passed[0]))
            weights = counted if weights is None else counted * numbers("weights", weights)
        added = summarise_columns(*columns, old.stretches, likelihood, extras, weights)
    whole = old + added
    if forgetting:
        counts = whole.sums.weight > _NOTHING * np.max(whole.sums.weight)
        whole = whole.beginning(int(np.argmax(counts)))
    return Summarised.of(whole), Summarised.of(added)


def _check_forgetting(forgetting: Forgetting, x: Any) -> None:
    """Refuse what needs observations one by one."""
    if forgetting.span is not None:
        raise ValueError(
            "sums over a stretch cannot be divided at the beginning of a window: add the summaries "
            "of the time that is to count, and call sg.condition; or let old sums fade, forget=…"
        )
    if forgetting and isinstance(x, Summary):
        raise ValueError(
            "rows that are summed up cannot be weighed by their age: give x_new and y_new; or "
            "weigh them as they are summed up (weights=…), and call sg.condition with "
            "old.scaled(…) + new"
        )


def inducing_at_edges(
    inducing: np.ndarray, old: Summarised, new: Summarised, data: Summarised
) -> np.ndarray:
    """`more_inducing` where all of them are at edges of stretches; from the origin of `data`."""
    present, before, after = (
        places + float(part.origin - data.origin)
        for places, part in ((inducing, old), (np.asarray(old.x), old), (np.asarray(new.x), new))
    )
    added = np.setdiff1d(more_inducing(present, before, after), present)
    snapped = nearest_of(added, data.edges()) if len(added) else added
    locations = distinct_inputs(data.at_edges(np.union1d(present, snapped) + float(data.origin)))
    first = np.searchsorted(locations, float(data.x[0]), side="right") - 1
    faded = before[0] < data.x[0]  # then one state before the others is enough
    return locations[max(int(first), 0) :] if faded else locations


def more_inducing(inducing: np.ndarray, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Inducing points, and more of them where new inputs lie beyond or in gaps between them.

    `old` are the inputs that they were for. Where each of these had its own state, new ones get
    theirs. Otherwise the usual distance between inducing points is kept: an interval that is much
    longer, or has no end, is divided into steps of that length, and those steps that hold new
    inputs get a state at both ends.
    """
    if _all_among(old, inducing):
        return np.union1d(inducing, new)
    step = _usual_step(inducing, old)
    interval = np.searchsorted(inducing, new, side="left")
    added = [inducing]
    for number in np.unique(interval):
        inside = new[interval == number]
        if number < len(inducing) and inducing[number] in inside:
            inside = inside[inside < inducing[number]]
        if len(inside):
            added.append(_divided(inducing, int(number), inside, step))
    return distinct_inputs(np.sort(np.concatenate(added)))


def _all_among(inputs: np.ndarray, inducing: np.ndarray) -> bool:
    """Whether each input, in order, is one of the inducing points."""
    if np.count_nonzero(inputs[1:] > inputs[:-1]) >= len(inducing):
        return False  # more of them than there are inducing points
    at = np.minimum(np.searchsorted(inducing, inputs), len(inducing) - 1)
    return bool(np.all(inducing[at] == inputs))


def _usual_step(inducing: np.ndarray, x: np.ndarray) -> float:
    if len(inducing) > 1:
        return float(np.median(np.diff(inducing)))
    return float(x[-1] - x[0]) or 1.0


def _divided(inducing: np.ndarray, number: int, inside: np.ndarray, step: float) -> np.ndarray:
    """The ends of the steps of an interval that hold something."""
    if number == 0:  # backwards from the first state
        return -_beyond(-inducing[0], -inside, step, np.inf)
    left = inducing[number - 1]
    right = inducing[number] if number < len(inducing) else np.inf
    if right - left <= _WIDE * step:
        return inducing[:0]
    return _beyond(left, inside, step, right)


def _beyond(start: float, inside: np.ndarray, step: float, end: float) -> np.ndarray:
    counts = np.ceil((inside - start) / step)
    ends = np.unique(np.concatenate([counts, counts - 1]))
    places = start + step * ends[ends > 0]
    return places[places < end - step / 4]
