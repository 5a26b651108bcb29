"""The posteriors of many series with more observations, and with series that are new."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stategp._data import Forgetting
from stategp._fitting import LearnedItem, Refined, learn_again
from stategp._forecasting import (
    Raw,
    known_series,
    lengths,
    more_of_each,
    read_long,
    read_pairs,
    read_series,
)
from stategp._many._collecting import collect, merged
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
    found, new = known_series(many.numbers, many.problems, _read(many, data, columns))
    grown = more_of_each(
        many.data,
        found,
        lambda number: many.models[many.which[number]].likelihood,
        Forgetting.of(**ways),
    )
    kept = dict(many.kept)
    for number in kept.keys() & grown.keys():
        raw, options = found[number], {"refine": refine, "progress": False}
        kept[number] = kept[number].update(raw.x, raw.y, **raw.extras, **ways, **options)
    longer = many.data.with_series(grown, len(many))
    after = dataclasses.replace(many, data=longer, kept=kept)
    if refine:
        after = _refined(after, sorted(grown), progress)
    if not new:
        return after
    return merged([after, fit_series(many.model, many.source, new, "none", {}, progress)])


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
