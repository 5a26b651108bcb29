"""Equal observations as one that counts several times: labels, counts and rounded values repeat."""

import equinox as eqx
import numpy as np

from stategp._data._observations import Observations
from stategp._data._sample import row_hashes

_LOOKED_AT = 2**14  # observations from which it is told how many are equal
_WORTH = 2.0  # of them to each different one from which on it pays

Columns = list[np.ndarray]  # x, y, what is read beside it, weights


def repeat(columns: Columns) -> bool:
    """Whether so many are equal that merging pays, from all that are made at some of the inputs."""
    at = row_hashes(columns[:1])
    last = min(_LOOKED_AT, len(at)) - 1
    if last < 0:
        return False
    chosen = at <= np.partition(at, last)[last]
    different = np.unique(row_hashes([column[chosen] for column in columns[:3]]))
    return int(np.sum(chosen)) >= _WORTH * len(different)


def merge(columns: Columns) -> Columns:
    """Each different observation once, with the sum of the weights of those that are equal to it.

    In the order of the first of each.
    """
    order = np.argsort(row_hashes(columns[:3]), kind="stable")
    apart = np.zeros(len(order), bool)
    apart[:1] = True
    for column in columns[:3]:  # rows with equal hashes may differ, though they hardly ever do
        sorted_column = column[order]
        apart[1:] |= sorted_column[1:] != sorted_column[:-1]
    first = np.flatnonzero(apart)
    weights = np.add.reduceat(np.asarray(columns[3], float)[order], first)
    back = np.argsort(order[first])
    chosen = order[first][back]
    return [*(column[chosen] for column in columns[:3]), weights[back]]


def merged(data: Observations) -> Observations:
    """The same observations where few are equal, else each different one once."""
    x = np.asarray(data.x)
    if 2 * np.count_nonzero(np.diff(x) == 0) < len(x):  # they are in order of x
        return data
    columns = [x, *(np.asarray(v) for v in (data.y, data.extra, data.weights))]
    if not repeat(columns):
        return data
    fewer: Observations = eqx.tree_at(
        lambda d: (d.x, d.y, d.extra, d.weights), data, tuple(merge(columns))
    )
    return fewer
