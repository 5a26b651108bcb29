"""Forecasts of several models together: a mixture of normal and log-normal distributions."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

_BISECTIONS = 60
_FARTHEST = 300.0  # largest logarithm of a number whose square is one
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


class Part(NamedTuple):
    """y, or log y, is normal at every point."""

    weight: float
    log: bool
    mean: np.ndarray
    deviation: np.ndarray

    def quantile(self, level: float) -> np.ndarray:
        at = self.mean + self.deviation * ndtri(level)
        return np.exp(np.minimum(at, _FARTHEST)) if self.log else at

    def cdf(self, y: np.ndarray) -> np.ndarray:
        at = y
        if self.log:
            at = np.log(y, where=y > 0, out=np.full_like(y, -np.inf))
        below: np.ndarray = ndtr((at - self.mean) / np.maximum(self.deviation, 1e-300))
        return below

    def log_density(self, y: np.ndarray) -> np.ndarray:
        at = y
        if self.log:
            at = np.log(y, where=y > 0, out=np.full_like(y, -np.inf))
        t = (at - self.mean) / self.deviation
        density = -(t**2) / 2 - np.log(self.deviation * np.sqrt(2 * np.pi))
        return np.where(np.isfinite(at), density - (at if self.log else 0.0), -np.inf)

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of y."""
        variance = self.deviation**2
        if not self.log:
            return self.mean, variance
        mean = np.exp(np.minimum(self.mean + variance / 2, _FARTHEST))
        return mean, mean**2 * np.expm1(np.minimum(variance, _FARTHEST))


class Mixture(NamedTuple):
    """The distribution of y at every point, each on its own."""

    parts: tuple[Part, ...]

    @property
    def normal(self) -> bool:
        """Whether it is a single normal distribution."""
        return len(self.parts) == 1 and not self.parts[0].log

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance."""
        each = [part.moments() for part in self.parts]
        shares = [part.weight for part in self.parts]
        mean = sum(w * m for w, (m, _) in zip(shares, each, strict=True))
        variance = sum(w * (v + (m - mean) ** 2) for w, (m, v) in zip(shares, each, strict=True))
        return np.asarray(mean), np.asarray(variance)

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """P(Y ≤ y)."""
        return np.asarray(sum(part.weight * part.cdf(y) for part in self.parts))

    def log_density(self, y: np.ndarray) -> np.ndarray:
        logs = [np.log(part.weight) + part.log_density(y) for part in self.parts]
        return np.asarray(logsumexp(np.stack(logs), axis=0))

    def quantiles(self, levels: Iterable[float]) -> np.ndarray:
        return np.stack([self._quantile(level) for level in levels])

    def _quantile(self, level: float) -> np.ndarray:
        """By bisection between the smallest and the largest quantile of the parts."""
        each = np.stack([part.quantile(level) for part in self.parts])
        low, high = each.min(axis=0), each.max(axis=0)
        for _ in range(_BISECTIONS if len(self.parts) > 1 else 0):
            middle = low / 2 + high / 2
            reached = self.cdf(middle) >= level
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        return high

    def crps(self, y: np.ndarray) -> np.ndarray:
        """Twice the mean of the pinball losses at all levels, by Gauss's rule."""
        levels = (_NODES + 1) / 2
        losses = [
            weight * (y - at) * (level - (y < at))
            for level, weight, at in zip(levels, _WEIGHTS / 2, self.quantiles(levels), strict=True)
        ]
        return np.asarray(2 * sum(losses))
