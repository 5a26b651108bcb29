"""Forecasts of several models together: their quantiles are averaged.

With every model the same normal variable z makes y, or log y, large or small: y = Σ weight · y(z)
is an increasing function of z, and quantiles, densities and scores follow. Where models disagree,
intervals lie between theirs instead of covering all of them.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from stategp._forecasting._scales import Scale

_TAIL = 38.0  # beyond which a normal variable has no probability in double precision
_BISECTIONS = 60
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_HERMITE = np.polynomial.hermite_e.hermegauss(40)
_GRID = np.linspace(-9.0, 9.0, 361)
_FINE = (_GRID, np.exp(-(_GRID**2) / 2))  # also where values are cut off
_CREDIBLE = (0.025, 0.975)
_SKEWED = 0.45  # deviation of a logarithm up to which its tail is that of a normal variable


class Part(NamedTuple):
    """A model by which y is normal at every point, as it is or on another scale."""

    weight: float
    log: bool
    mean: np.ndarray
    deviation: np.ndarray
    floor: float | None = None
    cap: float | None = None
    learned: np.ndarray | None = None  # the deviation before it was widened for intervals

    @property
    def scale(self) -> Scale:
        return Scale(self.log, self.floor, self.cap)

    @property
    def for_mean(self) -> "Part":
        """The same as far as the mean goes: without widening, and without the far tail of log y.

        What makes a logarithm uncertain are mostly values near zero. They say nothing of the large
        values that a normal logarithm would have, and which would make the mean.
        """
        deviation = self.deviation if self.learned is None else self.learned
        if self.log and (self.floor is None or self.cap is None):
            deviation = np.minimum(deviation, _SKEWED)
        return self._replace(deviation=deviation)

    def value(self, z: Any) -> np.ndarray:
        """y for a standard normal variable."""
        return self.scale.backward(self.mean + self.deviation * z)

    def slope(self, z: Any) -> np.ndarray:
        """Its derivative."""
        return self.deviation * self.scale.slope(self.value(z))


def average_of(parts: Iterable[Part]) -> "Average":
    """Their average, kept positive where log y is one of the scales."""
    parts = list(parts)
    scales = kept_positive([part.scale for part in parts])
    return Average(
        tuple(part._replace(floor=scale.floor) for part, scale in zip(parts, scales, strict=True))
    )


def kept_positive(scales: list[Scale]) -> list[Scale]:
    """The scales of models together: y itself is cut off at zero beside log y."""
    if Scale(log=True) not in scales:
        return scales
    return [Scale(floor=0.0) if scale == Scale() else scale for scale in scales]


class Average(NamedTuple):
    """The distribution of y at every point, each on its own."""

    parts: tuple[Part, ...]

    @property
    def normal(self) -> bool:
        """Whether y is normal."""
        return all(part.scale == Scale() for part in self.parts)

    def value(self, z: Any) -> np.ndarray:
        """y for a standard normal variable."""
        return np.asarray(sum(part.weight * part.value(z) for part in self.parts))

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance.

        Intervals are widened for what is not known of models. That would raise the mean of log y,
        which is as models have learned it, without the far tail, and within 95 % of the
        distribution.
        """
        nodes, weights = _HERMITE if self.normal else _FINE
        values = np.stack([self.value(z) for z in nodes])
        shares = (weights / weights.sum())[:, None]
        centre = np.sum(shares * values, axis=0)
        variance = np.sum(shares * (values - centre) ** 2, axis=0)
        if self.normal:
            return centre, variance
        middle = Average(tuple(part.for_mean for part in self.parts))
        mean = np.sum(shares * np.stack([middle.value(z) for z in nodes]), axis=0)
        lowest, highest = self.quantiles(_CREDIBLE)
        return np.clip(mean, lowest, highest), variance

    def quantiles(self, levels: Iterable[float]) -> np.ndarray:
        return np.stack([self.value(z) for z in ndtri(np.asarray(list(levels)))])

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """P(Y ≤ y)."""
        below: np.ndarray = ndtr(self._variable(y))
        return below

    def log_density(self, y: np.ndarray) -> np.ndarray:
        z = self._variable(y)
        slope = np.asarray(sum(part.weight * part.slope(z) for part in self.parts))
        there = slope > 0
        density = -(z**2) / 2 - math.log(2 * math.pi) / 2 - np.log(np.where(there, slope, 1.0))
        return np.where(there, density, self._log_mass(z))

    def _log_mass(self, z: np.ndarray) -> np.ndarray:
        """The log probability of y on a limit where values are cut off."""
        return np.where(self.value(z - 1.0) == self.value(z), log_ndtr(z), -np.inf)

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
            reached = self.value(middle) > y
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        return low
