"""Many series with more rows: which are there, which are new, and what is wrong with some.

What is wrong with the rows of one series is said in the table of failures, and does not stop the
others: its posterior is that of before.
"""

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stategp._data import Bundle, Forgetting, Observations, observe_more
from stategp._forecasting._long import Key, Long, read_long, shown_key
from stategp._forecasting._panel import Panel, merged, reordered
from stategp._forecasting._panel_refining import refined
from stategp._forecasting._parallel import fit_part, rows_of
from stategp._forecasting._reading import Raw, read_series
from stategp._forecasting._single import Wish
from stategp._forecasting._updating import lengths
from stategp.likelihoods import Likelihood

_APART = (
    "it was not fitted with the others, with which it shares hyperparameters: fit again, with all "
    "rows"
)


class NewRows(NamedTuple):
    """By the number of the series, or as new series."""

    more: dict[int, Raw]  # of series that have a posterior
    again: dict[int, Raw]  # of those that could not be fitted before
    new: list[Raw]
    wrong: dict[int, str]  # why rows are left out of a series that has a posterior


def sorted_out(numbers: Mapping[Key, int], problems: Sequence[str], raws: Sequence[Raw]) -> NewRows:
    """What there is to do with new rows."""
    rows = NewRows({}, {}, [], {})
    for raw in raws:
        number = numbers.get(raw.key)
        if number is None:
            rows.new.append(raw)
        elif problems[number]:
            rows.again[number] = raw
        elif raw.problem:
            rows.wrong[number] = raw.problem
        else:
            rows.more[number] = raw
    return rows


def more_of_each(
    data: Bundle,
    rows: NewRows,
    likelihood_of: Callable[[int], Likelihood],
    forgetting: Forgetting,
) -> dict[int, Observations]:
    """Series by their number, with new observations; what is wrong is added to `rows.wrong`."""
    grown = {}
    for number, raw in rows.more.items():
        extras = {name: value for name, value in raw.extras.items() if name != "weights"}
        try:
            grown[number] = observe_more(
                data[number], raw.x, raw.y, likelihood_of(number), extras=extras,
                weights=raw.extras.get("weights"), forgetting=forgetting,
            )[0]  # fmt: skip
        except ValueError as error:
            rows.wrong[number] = str(error)
    return grown


def tell_left_out(keys: Sequence[Key], left_out: Mapping[int, str]) -> None:
    """Warn whoever called `update`, three calls up."""
    if left_out:
        first = min(left_out)
        more = f" (and of {len(left_out) - 1:,} more)" if len(left_out) > 1 else ""
        warnings.warn(
            f"new rows of series {shown_key(keys[first])!r}{more} were left out: {left_out[first]}",
            stacklevel=4,
        )


def updated_panel(
    forecaster: Any,
    panel: Panel,
    frame: Any,
    *,
    refine: bool,
    weights: str | None,
    forget: Any,
    window: Any,
    progress: Any,
) -> Panel:
    """What many fits left behind, with the rows of a long frame.

    Models stay as they are, unless they are to be refined. Series that are new are fitted, and
    those that could not be fitted before, whose old rows are gone.
    """
    form, shared = panel.form, "share=" in panel.call
    if refine and shared:
        raise ValueError(
            "refine learns every series by itself, and these share hyperparameters: fit again, "
            "with all rows"
        )
    ways = lengths(form.axis, forget, window)
    long = read_long(frame, form.by, form.time, form.target)
    columns = {"weights": weights}
    _, raws = read_series(long, form.time, form.target, columns, form.axis.layout, form.axis)
    rows = sorted_out(panel.numbers, panel.problems, raws)
    options = {"refine": refine, "weights": weights, "progress": progress}
    alone = _longer_alone(panel, long, rows, options | {"forget": forget, "window": window})
    for number in [n for n in rows.more if any(light.log for light in panel.chosen[n])]:
        if np.any(np.asarray(rows.more[number].y) <= 0):
            rows.wrong[number] = (
                "a model of log y was chosen from the data, and new values are not positive: fit "
                "again, with all rows"
            )
            del rows.more[number]
    grown = more_of_each(
        panel.data,
        rows,
        lambda number: panel.models[panel.chosen[number][0].which].likelihood,
        Forgetting.of(**ways),
    )
    longer = panel.data.with_series(grown, len(panel.keys))
    after = dataclasses.replace(panel, data=longer, alone=alone)
    if refine:
        after = refined(after, sorted(grown), progress)
    tell_left_out(panel.keys, rows.wrong)
    after = dataclasses.replace(after, left_out=rows.wrong)
    fresh = [*rows.again.values(), *rows.new]
    if not fresh:
        return after
    if shared:
        return _with_failures(after, rows)
    part = rows_of(long, np.array([long.keys.index(raw.key) for raw in fresh]))
    named = {name: column for one in alone.values() for name, column in one.fitted.extras.items()}
    wish = Wish(form.time, form.target, named | columns, form.axis.layout, progress, {})
    found = fit_part(forecaster, part, list(form.by), wish, form.axis)
    places = {n: len(panel.keys) + found.numbers[raw.key] for n, raw in rows.again.items()}
    order = [places.get(number, number) for number in range(len(panel.keys))]
    order += [len(panel.keys) + found.numbers[raw.key] for raw in rows.new]
    return reordered(merged([after, found]), order)


def _longer_alone(
    panel: Panel, long: Long, rows: NewRows, options: dict[str, Any]
) -> dict[int, Any]:
    """The forecasters of series that have one of their own, with their rows, which are done."""
    alone = dict(panel.alone)
    for number in [number for number in rows.more if number in alone]:
        part = long.part(long.keys.index(rows.more.pop(number).key))
        one = dataclasses.replace(alone[number])
        try:
            one.update(part, **options)
        except ValueError as error:
            rows.wrong[number] = str(error)
        else:
            alone[number] = one
    return alone


def _with_failures(panel: Panel, rows: NewRows) -> Panel:
    """With series that cannot be fitted by themselves."""
    problems = [_APART if n in rows.again else words for n, words in enumerate(panel.problems)]
    count = len(panel.keys) + len(rows.new)
    return dataclasses.replace(
        panel,
        keys=(*panel.keys, *[raw.key for raw in rows.new]),
        problems=(*problems, *[_APART] * len(rows.new)),
        chosen=(*panel.chosen, *[()] * len(rows.new)),
        data=panel.data.with_series({}, count),
    )
