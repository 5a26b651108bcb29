"""Forecasts of several models together: their quantiles are averaged.

With every model the same normal variable z makes y, or log y, large or small: y = Σ weight · y(z)
is an increasing function of z, and quantiles, densities and scores follow. Where models disagree,
intervals lie between theirs instead of covering all of them.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

_FARTHEST = 300.0  # largest logarithm of a number whose square is one
_TAIL = 38.0  # beyond which a normal variable has no probability in double precision
_BISECTIONS = 60
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_HERMITE = np.polynomial.hermite_e.hermegauss(40)


class Part(NamedTuple):
    """A model by which y, or log y, is normal at every point."""

    weight: float
    log: bool
    mean: np.ndarray
    deviation: np.ndarray

    def value(self, z: Any) -> np.ndarray:
        """y for a standard normal variable."""
        at = self.mean + self.deviation * z
        return np.exp(np.minimum(at, _FARTHEST)) if self.log else at

    def slope(self, z: Any) -> np.ndarray:
        """Its derivative."""
        return self.deviation * self.value(z) if self.log else self.deviation


class Average(NamedTuple):
    """The distribution of y at every point, each on its own."""

    parts: tuple[Part, ...]

    @property
    def normal(self) -> bool:
        """Whether y is normal."""
        return not any(part.log for part in self.parts)

    def value(self, z: Any) -> np.ndarray:
        """y for a standard normal variable."""
        return np.asarray(sum(part.weight * part.value(z) for part in self.parts))

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance."""
        nodes, weights = _HERMITE
        values = np.stack([self.value(z) for z in nodes])
        shares = (weights / weights.sum())[:, None]
        mean = np.sum(shares * values, axis=0)
        return mean, np.sum(shares * (values - mean) ** 2, axis=0)

    def quantiles(self, levels: Iterable[float]) -> np.ndarray:
        return np.stack([self.value(z) for z in ndtri(np.asarray(list(levels)))])

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """P(Y ≤ y)."""
        below: np.ndarray = ndtr(self._variable(y))
        return below

    def log_density(self, y: np.ndarray) -> np.ndarray:
        z = self._variable(y)
        slope = sum(part.weight * part.slope(z) for part in self.parts)
        return np.asarray(-(z**2) / 2 - math.log(2 * math.pi) / 2 - np.log(slope))

    def crps(self, y: np.ndarray) -> np.ndarray:
        """Twice the mean of the pinball losses at all levels, by Gauss's rule."""
        levels = (_NODES + 1) / 2
        losses = [
            weight * (y - at) * (level - (y < at))
            for level, weight, at in zip(levels, _WEIGHTS, self.quantiles(levels), strict=True)
        ]
        return np.asarray(sum(losses))

    def _variable(self, y: np.ndarray) -> np.ndarray:
        """The z that makes y."""
        low, high = np.full_like(y, -_TAIL), np.full_like(y, _TAIL)
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            reached = self.value(middle) >= y
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        return (low + high) / 2
