"""From what was learned of each series to arrays that a file can hold."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from stategp._data import Bundle, Observations
from stategp._fitting import LearnedItem
from stategp._forecasting import Key, LongForm
from stategp._many._posteriors import ManyPosteriors
from stategp._models import GP
from stategp._posteriors import Posterior


def collect(
    model: GP,
    source: LongForm,
    keys: Sequence[Key],
    series: Sequence[Observations | None],
    learned: Sequence[LearnedItem],
    share: str,
) -> ManyPosteriors:
    """Everything that was learned, as arrays."""
    kinds: dict[Any, int] = {}
    models: list[GP] = []
    which, values = [], [np.zeros(0)]
    kept: dict[int, Posterior] = {}
    for number, one in enumerate(learned):
        if one.template is None:
            which.append(-1)
            continue
        if one.posterior is not None:
            kept[number] = one.posterior
        key = one.template.kind
        if key not in kinds:
            kinds[key] = len(models)
            models.append(one.template.model)
        which.append(kinds[key])
        values += [np.ravel(value) for value in one.values]
    return ManyPosteriors(
        model,
        source,
        share,
        tuple(keys),
        tuple(models),
        np.array(which, dtype=np.int64),
        np.concatenate(values),
        np.array([one.log_evidence for one in learned]),
        tuple(one.result for one in learned),
        tuple(one.problem for one in learned),
        Bundle.of(series),
        kept,
    )


def merged(parts: Sequence[ManyPosteriors]) -> ManyPosteriors:
    """The series of all parts, in their order; they were fitted with the same model."""
    kinds: dict[Any, int] = {}
    models: list[GP] = []
    which: list[int] = []
    kept: dict[int, Posterior] = {}
    for part in parts:
        places = []
        for template in part.templates:
            if template.kind not in kinds:
                kinds[template.kind] = len(models)
                models.append(template.model)
            places.append(kinds[template.kind])
        places.append(-1)  # at the end, where a series that failed finds it
        kept |= {len(which) + number: posterior for number, posterior in part.kept.items()}
        which += [places[one] for one in part.which.tolist()]
    return dataclasses.replace(
        parts[0],
        names=tuple(name for part in parts for name in part.names),
        models=tuple(models),
        which=np.array(which, dtype=np.int64),
        values=np.concatenate([part.values for part in parts]),
        log_likelihoods=np.concatenate([part.log_likelihoods for part in parts]),
        results=tuple(result for part in parts for result in part.results),
        problems=tuple(problem for part in parts for problem in part.problems),
        data=Bundle.joined([part.data for part in parts]),
        kept=kept,
    )


def reordered(many: ManyPosteriors, order: Sequence[int]) -> ManyPosteriors:
    """Only these series, in this order."""
    there, ends = many.data.counts > 0, many.starts
    return dataclasses.replace(
        many,
        names=tuple(many.names[n] for n in order),
        which=many.which[list(order)],
        values=np.concatenate([np.zeros(0), *(many.values[ends[n] : ends[n + 1]] for n in order)]),
        log_likelihoods=many.log_likelihoods[list(order)],
        results=tuple(many.results[n] for n in order),
        problems=tuple(many.problems[n] for n in order),
        data=Bundle.of([many.data[n] if there[n] else None for n in order]),
        kept={place: many.kept[n] for place, n in enumerate(order) if n in many.kept},
        left_out={place: many.left_out[n] for place, n in enumerate(order) if n in many.left_out},
    )


def check_many(many: ManyPosteriors) -> None:
    """Refuse a file whose parts do not fit together."""
    count = len(many.names)
    each = (many.which, many.log_likelihoods, many.results, many.problems, many.data)
    if any(len(part) != count for part in each):
        raise ValueError("the file has another number of series than of answers")
    if count and not -1 <= many.which.min() <= many.which.max() < len(many.models):
        raise ValueError("the file names a model that it does not hold")
    if not all(0 <= number < count for number in (*many.kept, *many.left_out)):
        raise ValueError("the file tells of a series that it does not hold")
    if len(many.values) != many.starts[-1]:
        raise ValueError("the file has another number of hyperparameters than its models")
