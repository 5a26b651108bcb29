"""From what was learned of each series to arrays that a file can hold."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stategp._data import Observations
from stategp._fitting import Learned
from stategp._forecasting import Key
from stategp._many._posteriors import ManyPosteriors
from stategp._many._reading import LongForm
from stategp._models import GP
from stategp._posteriors import Posterior


def collect(
    model: GP,
    source: LongForm,
    keys: Sequence[Key],
    series: Sequence[Observations | None],
    learned: Sequence[Learned],
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
    counts = [0 if data is None else len(data) for data in series]
    there = [data for data in series if data is not None]
    columns = [
        np.concatenate([np.zeros(0), *(np.asarray(getattr(data, name)) for data in there)])
        for name in ("x", "y", "extra", "weights")
    ]
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
        np.array(counts, dtype=np.int64),
        tuple(0 if data is None else data.origin for data in series),
        np.stack(columns),
        kept,
    )


def check_many(many: ManyPosteriors) -> None:
    """Refuse a file whose parts do not fit together."""
    count = len(many.names)
    each = (many.which, many.log_likelihoods, many.results, many.problems, many.counts)
    if any(len(part) != count for part in (*each, many.origins)):
        raise ValueError("the file has another number of series than of answers")
    if count and not -1 <= many.which.min() <= many.which.max() < len(many.models):
        raise ValueError("the file names a model that it does not hold")
    if many.columns.shape != (4, int(many.counts.sum())):
        raise ValueError("the file has another number of observations than it says")
    if len(many.values) != many.starts[-1]:
        raise ValueError("the file has another number of hyperparameters than its models")
