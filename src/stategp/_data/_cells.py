"""Stretches of x on which f is as good as a polynomial.

A kernel whose equation has eigenvalues up to ρ gives means and variances that are sums of
xᵏ exp(±ρx) and xᵏ exp(±2ρx), which sixteen nodes interpolate to rounding on a stretch no longer
than 1.5/ρ, and eight on a stretch no longer than 0.09/ρ.
"""

import math
from typing import NamedTuple

import numpy as np

from stategp._data._views import ORDER, chebyshev_nodes
from stategp._runtime import padded_size

WIDEST = 1.5  # the longest cell of `ORDER` nodes, times the fastest rate of the kernel
FEW_NODES = 8  # of cells that are short because there are so many observations
_WORTH = 2048  # observations to a short cell from which on fewer nodes pay


_FEW = 1024  # cells up to which those that fill up cost nothing


def padded_cells(count: int) -> int:
    """One of few numbers of cells: each of them has many nodes, so that few are added."""
    return padded_size(count, few=_FEW)


class Cells(NamedTuple):
    """Runs of observations that lie between the same inducing points, close together."""

    first: np.ndarray
    size: np.ndarray
    low: np.ndarray  # the smallest and the largest x in each
    high: np.ndarray
    order: int = ORDER  # how many nodes each has

    def part(self, some: slice) -> "Cells":
        return Cells(self.first[some], self.size[some], self.low[some], self.high[some], self.order)

    def nodes(self) -> np.ndarray:
        half = (self.high - self.low)[:, None] / 2
        nodes = self.low[:, None] + half * (1 + chebyshev_nodes(self.order))
        return np.clip(nodes, self.low[:, None], self.high[:, None])


def cut_cells(
    x: np.ndarray, inducing: np.ndarray, widest: float, most: int, order: int = ORDER
) -> Cells | None:
    """Cells no longer than `widest`; None if that takes more than `most` of them."""
    edges = np.searchsorted(x, inducing, side="left")  # an x on an inducing point lies right of it
    first = np.unique(np.concatenate([[0], edges[edges < len(x)]]))
    last = np.append(first[1:], len(x)) - 1
    pieces = np.maximum(np.ceil((x[last] - x[first]) / widest), 1)
    if not pieces.sum() <= most:
        return None
    pieces = pieces.astype(int)
    owner = np.repeat(np.arange(len(first)), pieces)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    starts = x[first][owner] + (x[last] - x[first])[owner] * number / pieces[owner]
    inner = np.maximum(np.searchsorted(x, starts, side="left"), first[owner])
    inner = np.unique(np.concatenate([first, inner[number > 0]]))
    size = np.diff(np.append(inner, len(x)))
    return Cells(inner, size, x[inner], x[inner + size - 1], order)


def cut_short_cells(x: np.ndarray, inducing: np.ndarray, widest: float) -> Cells | None:
    """Cells that do with fewer nodes; None if they would hold too few observations to pay.

    `widest` is that of cells with all nodes. What n nodes leave of exp(zt), −1 ≤ t ≤ 1, is about
    2 (z/2)ⁿ / n!.
    """
    left = (WIDEST / 2) ** ORDER / math.factorial(ORDER)
    shorter = 2 * (left * math.factorial(FEW_NODES)) ** (1 / FEW_NODES) / WIDEST
    return cut_cells(x, inducing, shorter * widest, len(x) // _WORTH, FEW_NODES)
