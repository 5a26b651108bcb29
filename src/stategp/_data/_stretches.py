"""Stretches of x of equal width, numbered from an origin: the same for every part of the data.

Edges are multiples of the width, computed as fractions, so that whole numbers near 10¹⁸ and parts
made on different machines have the same ones to the last digit.
"""

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from stategp._data._cells import WIDEST
from stategp._data._observations import relative_inputs
from stategp._data._views import ORDER, Origin, chebyshev_nodes

_MOST = 2**52  # numbers that float64 holds exactly
PER_LENGTHSCALE = 4  # stretches to the shortest lengthscale: a Matérn-7/2 may be twice as fast
PER_PERIOD = 32  # and to the shortest period, which leaves room for ten harmonics


class Stretches(NamedTuple):
    """Stretch k reaches from origin + k·width to origin + (k + 1)·width."""

    origin: Origin
    width: float

    @property
    def fastest(self) -> float:
        """The largest rate of a kernel whose f is as good as a polynomial on every stretch."""
        return WIDEST / self.width

    @property
    def shortest(self) -> float:
        """The shortest lengthscale that they were made for, or less."""
        return PER_LENGTHSCALE * self.width

    def locate(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The number of the stretch of every input, and its place in it, −1 to 1."""
        whole = x.dtype.kind == "i"
        away = Fraction(x.min().item()) - Fraction(self.origin)
        first = math.floor(away / Fraction(self.width))
        if abs(first) >= _MOST:
            raise ValueError(
                f"x = {x.min()} lies more stretches of width {self.width:g} away from "
                f"origin={self.origin} than can be counted: give an origin near the data"
            )
        base, rest = self.edge(first, whole=whole)
        after = relative_inputs("x", x, base) - rest
        number, inside = np.divmod(after, self.width)
        places = np.clip(2 * inside / self.width - 1, -1.0, 1.0)
        return first + number.astype(np.int64), places

    def edge(self, number: int, *, whole: bool) -> tuple[Origin, float]:
        """Where a stretch begins, as a number near by and what is missing."""
        exact = Fraction(self.origin) + number * Fraction(self.width)
        base: Origin = math.floor(exact) if whole else float(exact)
        return base, float(exact - Fraction(base))

    def nodes(self, number: np.ndarray, start: float) -> np.ndarray:
        """The nodes of stretches that are numbered from one that begins at `start`."""
        low = start + number * self.width
        return low[:, None] + self.width / 2 * (1 + chebyshev_nodes(ORDER))


class Occupied(NamedTuple):
    """Stretches with observations, in order."""

    stretches: Stretches
    number: np.ndarray
    whole: bool  # whether all inputs are whole numbers

    def ends(self) -> tuple[np.ndarray, float, Origin]:
        """Their edges by number, counted from the first; where that is, from an origin near by."""
        numbers = np.union1d(self.number, self.number + 1) - self.number[0]
        origin, start = self.stretches.edge(int(self.number[0]), whole=self.whole)
        return numbers, start, origin

    def edges(self) -> np.ndarray:
        """Where they begin and end, from that origin."""
        numbers, start, _ = self.ends()
        return numbers * self.stretches.width + start

    def nodes(self) -> np.ndarray:
        """The nodes of each."""
        return self.stretches.nodes(self.number - self.number[0], self.ends()[1])
