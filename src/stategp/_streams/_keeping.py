"""Rows of a stream on disk, for likelihoods that read single observations, and for minibatches."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from stategp._data import Occupied, Sample, Store, Stored, Stretches, check_columns
from stategp._streams._columns import Roles
from stategp.likelihoods import Likelihood

_MOST = 2**20  # stretches, whose nodes take some hundred megabytes

Columns = dict[str, np.ndarray]


def keep(
    batches: Iterable[tuple[Columns, int]],
    roles: Roles,
    likelihood: Likelihood,
    stretches: Stretches,
    folder: Any,
    expected: int | None,
    watch: Callable[[int], None],
) -> Stored:
    """Good rows, many together, written to a file without a name; what a fit knows of them.

    `expected`: how many there will be, if that is known.
    """
    own = [isinstance(name, str) for name in (_extra_of(roles, likelihood), roles.weights)]
    store = Store(2 + sum(own), folder, expected)
    sample, number, ends = Sample(), np.zeros(0, np.int64), []
    beside: list[float | None] = [None, None]
    try:
        for columns, seen in batches:
            x, y, extra, weights = _checked(columns, roles, likelihood)
            watch(seen)
            if len(x) == 0:
                continue
            of_each = list(zip(own, (extra, weights), strict=True))
            beside = [None if has else float(values[0]) for has, values in of_each]
            at, t = stretches.locate(x)
            store.add(at, [t, y, *(values for has, values in of_each if has)])
            sample.add([x, y, extra, weights])
            number = np.union1d(number, at)
            ends += [x.min().item(), x.max().item()]
            ends = [min(ends), max(ends)]
            if len(number) > _MOST:
                raise ValueError(
                    f"more than {_MOST:,} stretches of {stretches.width:.3g} have observations: "
                    "state a longer `shortest` (and `period`)"
                )
        if sample.rows == 0:
            raise ValueError("there are no rows with an observation: at least one is needed")
    except BaseException:
        store.close()
        raise
    whole = all(isinstance(end, int) for end in ends)
    where = Occupied(stretches, number, whole)
    return Stored.of(store, sample, where, (ends[0], ends[1]), (beside[0], beside[1]))


def _extra_of(roles: Roles, likelihood: Likelihood) -> str | float | None:
    """The column of what the likelihood reads beside y, or one number for all."""
    return roles.extras.get(likelihood.extra or "")


def _checked(columns: Columns, roles: Roles, likelihood: Likelihood) -> list[np.ndarray]:
    """x, y, what is read beside it, and weights, of the rows that count."""

    def values(name: Any) -> Any:
        return columns[name] if isinstance(name, str) else name

    extras = {name: values(column) for name, column in roles.extras.items()}
    checked = check_columns(
        values(roles.time), values(roles.target), likelihood, extras, values(roles.weights)
    )
    counted = checked[3] > 0
    return checked if counted.all() else [column[counted] for column in checked]
