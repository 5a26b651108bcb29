"""The posteriors of many series with more observations, and with series that are new."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stategp._data import Forgetting
from stategp._fitting import LearnedItem, Refined, learn_again
from stategp._forecasting import (
    Raw,
    lengths,
    more_of_each,
    read_long,
    read_pairs,
    read_series,
    sorted_out,
    tell_left_out,
)
from stategp._many._collecting import collect, merged, reordered
from stategp._many._fitting import fit_series
from stategp._many._posteriors import ManyPosteriors


def updated(
    many: ManyPosteriors,
    data: Any,
    columns: dict[str, str | None],
    *,
    refine: bool,
    forget: Any,
    window: Any,
    progress: Any,
) -> ManyPosteriors:
    """`ManyPosteriors.update`, whose documentation says what it does."""
    if refine and many.share != "none":
        raise ValueError(
            f"refine learns every series by itself, and these share hyperparameters "
            f"(share={many.share!r}): call sg.fit_many again, with all observations"
        )
    ways = lengths(many.source.axis, forget, window)
    failed = [
        problem if which < 0 else ""
        for problem, which in zip(many.problems, many.which, strict=True)
    ]
    rows = sorted_out(many.numbers, failed, _read(many, data, columns))
    grown = more_of_each(
        many.data,
        rows,
        lambda number: many.models[many.which[number]].likelihood,
        Forgetting.of(**ways),
    )
    kept = dict(many.kept)
    for number in sorted(kept.keys() & grown.keys()):
        raw, options = rows.more[number], {"refine": refine, "progress": False}
        try:
            kept[number] = kept[number].update(raw.x, raw.y, **raw.extras, **ways, **options)
        except ValueError as error:
            rows.wrong[number] = str(error)
            del grown[number]
    longer = many.data.with_series(grown, len(many))
    after = dataclasses.replace(many, data=longer, kept=kept)
    if refine:
        after = _refined(after, sorted(grown), progress)
    tell_left_out(many.names, rows.wrong)
    after = dataclasses.replace(after, left_out=rows.wrong)
    again = [_with_old_rows(many, number, raw) for number, raw in rows.again.items()]
    if not again and not rows.new:
        return after
    fresh = [*again, *rows.new]
    found = fit_series(many.model, many.source, fresh, "none", {}, progress)
    places = {number: len(many) + place for place, number in enumerate(rows.again)}
    order = [places.get(number, number) for number in range(len(many))]
    order += range(len(many) + len(again), len(many) + len(fresh))
    return reordered(merged([after, found]), order)


def _with_old_rows(many: ManyPosteriors, number: int, raw: Raw) -> Raw:
    """All rows of a series that could not be fitted, if those before were fit for it."""
    if raw.problem or many.data.counts[number] == 0:
        return raw
    old, likelihood = many.data[number], many.model.likelihood
    x, y = np.asarray(raw.x), np.asarray(raw.y)
    beside = {"weights": (old.weights, 1.0)}
    if likelihood.extra is not None:
        beside[likelihood.extra] = old.extra, likelihood.extra_default
    extras = {}
    for name, (before, usual) in beside.items():
        if name in raw.extras or np.any(np.asarray(before) != usual):
            extras[name] = np.append(before, raw.extras.get(name, np.full(len(y), usual)))
    x = np.append(many.data.inputs(number), x)
    return raw._replace(x=x, y=np.append(old.y, y), extras=raw.extras | extras)


def _read(many: ManyPosteriors, data: Any, columns: dict[str, str | None]) -> list[Raw]:
    """The series of whatever `fit_many` takes."""
    form = many.source
    columns_of_frame = isinstance(data, Mapping) and set(form.by) <= data.keys()
    if columns_of_frame or not isinstance(data, Mapping | Sequence):
        form = many.form
        long = read_long(data, form.by, form.time, form.target)
        return read_series(long, form.time, form.target, columns, form.axis.layout, form.axis)[1]
    for name in columns:
        raise ValueError(f"{name} is the name of a column, and needs a frame")
    return read_pairs(data)[1]


def _refined(many: ManyPosteriors, numbers: list[int], progress: Any) -> ManyPosteriors:
    """With hyperparameters of these series learned again; where that fails they stay."""
    learned = [_present(many, number) for number in range(len(many))]
    together = [number for number in numbers if number not in many.kept]
    series = []
    for number in together:
        template = learned[number].template
        assert template is not None
        model = template.with_values(learned[number].values)
        series.append(Refined(model, many.data[number], many.data.inputs(number)))
    for number, found in zip(together, learn_again(series, progress), strict=True):
        if found.template is not None:
            learned[number] = found
    some = [many.data[n] if many.which[n] >= 0 else None for n in range(len(many))]
    return collect(many.model, many.source, many.names, some, learned, many.share)


def _present(many: ManyPosteriors, number: int) -> LearnedItem:
    """What was learned of a series before."""
    if many.which[number] < 0:
        return LearnedItem(None, [], np.nan, None, many.problems[number])
    posterior = many.kept.get(number)
    if posterior is not None:
        return LearnedItem.of(posterior)
    template, values = many.templates[many.which[number]], many.values_of(number)
    evidence = float(many.log_likelihoods[number])
    return LearnedItem(template, values, evidence, many.results[number])
