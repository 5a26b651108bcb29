"""On which scale y is normal: as it is, its logarithm, or stretched between limits."""

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from stategp.likelihoods import Bounded, Gaussian, LogNormal
from stategp.parameters import Value

_FARTHEST = 300.0  # largest logarithm of a number whose square is one
_LARGEST_CHANGE = 0.7  # typical, of a logarithm from one observation to the next


class Scale(NamedTuple):
    """y itself, cut off at the floor; or (`log`) what `sg.likelihoods.Bounded` calls g(y)."""

    log: bool = False
    floor: float | None = None
    cap: float | None = None

    @property
    def _lowest(self) -> float | None:
        return 0.0 if self.floor is None and self.cap is None else self.floor

    @property
    def name(self) -> str:
        """What is modelled."""
        if not self.log:
            return "y"
        if self.cap is None:
            return f"log(y - {self.floor:g})" if self.floor else "log y"
        return "log odds" if self.floor is not None else "log(cap - y)"

    def forward(self, y: np.ndarray) -> np.ndarray:
        """The values that a model sees."""
        if not self.log:
            return y
        logs = [np.log(distance) for distance in self._distances(y)]
        if self.cap is None:
            return logs[0]
        return -logs[-1] if self.floor is None else logs[0] - logs[1]

    def backward(self, values: np.ndarray) -> np.ndarray:
        """The way back."""
        if not self.log:
            plain = self.floor is None and self.cap is None
            return values if plain else np.clip(values, self.floor, self.cap)
        if self.cap is None:
            return (self._lowest or 0.0) + np.exp(np.minimum(values, _FARTHEST))
        if self.floor is None:
            return self.cap - np.exp(np.minimum(-values, _FARTHEST))
        return np.asarray(self.floor + (self.cap - self.floor) * expit(values))

    def _distances(self, y: np.ndarray) -> list[np.ndarray]:
        """From the floor, and from the cap, if there are such."""
        below = [] if self._lowest is None else [y - self._lowest]
        return below if self.cap is None else [*below, self.cap - y]

    def slope(self, y: np.ndarray) -> np.ndarray:
        """The derivative of the way back, where it leads to y."""
        if self.log:
            return np.exp(-self.log_slopes(y))
        inside = np.ones(np.shape(y), dtype=bool)
        if self.floor is not None:
            inside &= y > self.floor
        if self.cap is not None:
            inside &= y < self.cap
        return inside.astype(float)

    def log_slopes(self, y: np.ndarray) -> np.ndarray:
        """The logarithm of the derivative of `forward`: what changes densities."""
        if not self.log:
            return np.zeros_like(y)
        return np.asarray(np.log(sum(1 / distance for distance in self._distances(y))))

    def takes(self, y: np.ndarray) -> np.ndarray:
        """Which observations have a value on this scale."""
        found = np.isfinite(y)
        for distance in self._distances(y) if self.log else []:
            found &= distance > 0
        return found

    def likelihood(self, variance: Value) -> Gaussian | LogNormal | Bounded:
        """How y depends on f."""
        if not self.log:
            return Gaussian(variance=variance)
        if self.floor is None and self.cap is None:
            return LogNormal(variance=variance)
        return Bounded(self.floor, self.cap, variance=variance)


def scales_of(y: np.ndarray, floor: float | None, cap: float | None) -> tuple[Scale, ...]:
    """The scales to compare.

    Logarithms are for what is above the floor, or positive, and does not change by a large share
    from one observation to the next. With a cap, only a scale that has one will do.
    """
    if cap is not None:
        return (Scale(True, floor, cap),)
    plain, log = Scale(False, floor), Scale(True, floor)
    if not np.all(log.takes(y)):
        return (plain,)
    changes = np.abs(np.diff(log.forward(y)))
    return (plain, log) if float(np.median(changes)) < _LARGEST_CHANGE else (plain,)


def moved_inside(y: np.ndarray, floor: float | None, cap: float | None) -> np.ndarray:
    """y, where there is a cap: what lies on a limit goes half way to the nearest that does not."""
    if cap is None:
        return y
    inside = y[(y != floor) & (y != cap)]
    for limit, sign in ((floor, 1.0), (cap, -1.0)):
        if limit is None or not np.any(y == limit):
            continue
        others = np.abs(inside - limit)
        width = abs(limit) if floor is None else cap - floor
        nearest = float(others.min()) if len(others) else 0.02 * (width or 1.0)
        y = np.where(y == limit, limit + sign * nearest / 2, y)
    return y


def refuse_beyond(y: np.ndarray, floor: float | None, cap: float | None, name: str) -> None:
    """Raise an error if observations lie beyond the limits."""
    for limit, called, sign in ((floor, "below the floor", -1.0), (cap, "above the cap", 1.0)):
        rows = np.flatnonzero(sign * (y - limit) > 0) if limit is not None else np.zeros(0, int)
        if len(rows):
            first = f"the first is {y[rows[0]]:g}, in row {rows[0]}"
            raise ValueError(
                f"{name} has {len(rows)} values {called} of {limit:g} ({first}): give another "
                "limit, or remove them"
            )


def limits_in_words(
    y: np.ndarray, floor: float | None, cap: float | None, *, positive: bool
) -> list[str]:
    """What is done about the limits, and about observations that lie on them.

    `positive`: whether y was found to be, and forecasts are kept so.
    """
    if floor is None and cap is None:
        return ["floor: all observations are positive, and no forecast is negative"][:positive]
    on = int(np.sum((y == floor) | (y == cap)))
    lie = f"{on} observation{' lies' if on == 1 else 's lie'} on "
    count = "counts" if on == 1 else "count"
    if cap is not None:
        moved = f"; {lie}a limit and {count} as half way to the next inside" if on else ""
        return [f"limits: forecasts approach them, and do not reach them{moved}"]
    if on:
        return [f"floor: {lie}it, so that y itself is modelled and forecasts are cut off there"]
    return ["floor: models of y are cut off there; those of logarithms do not reach it"]
