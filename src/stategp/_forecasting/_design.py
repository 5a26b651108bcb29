"""The columns that effects multiply, at any time: values of regressors, and days of the calendar.

Every effect is linear in its coefficients. A linear effect has a column for each lag, an occasion a
column that is one on its days. An effect that varies with a season has its columns again, times the
waves of the season. A smooth effect is a Gaussian process of the value, through its
values at some knots; its columns are such that the coefficients are independent a priori. A change
of level has a column that is one from then on, a change of slope one that grows from then on.
"""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._calendar import Occasion, day_numbers
from stategp._forecasting._effects import Effect
from stategp._forecasting._steps import shown_time

_KNOTS = 16  # of a smooth effect, at most
_BEYOND = 1.0  # standard deviations beyond the values seen, up to which it goes on
_STEPS = 2.0  # between knots that its lengthscale has, at least
_WAVES = 2  # over which an effect varies with a season
_ROUNDED = 1e-12  # relative: times go to another origin and back
CHANGES = "changes"  # the component of changes of level
BENDS = "changepoints"  # that of changes of slope
SLOPES = -3  # their group
_CLOSE = 1e-6  # of the shortest step: times that differ by less are the same


class Column(NamedTuple):
    """A column: the component that it belongs to, its name, and the number of its group.

    The coefficients of a group are of one size; that of group −1 is learned, for occasions. Those
    of group −2 are changes of level, those of group −3 of slope, whose size is learned, too.
    """

    component: str
    name: str
    group: int


@dataclasses.dataclass(frozen=True, eq=False)
class Scaling:
    """How the values of a regressor become columns, as the data has them."""

    centre: float
    deviation: float
    binary: bool  # whether all values are 0 or 1
    knots: np.ndarray  # of a smooth effect, in standard units
    averages: np.ndarray  # of its columns

    @property
    def width(self) -> int:
        """How many columns there are."""
        return max(len(self.knots), 1)

    def standard(self, values: np.ndarray) -> np.ndarray:
        return (values - self.centre) / self.deviation

    def columns(self, values: np.ndarray) -> np.ndarray:
        """A row for each value."""
        z = self.standard(values)
        if len(self.knots) == 0:
            return z[:, None]
        return smooth_columns(z, self.knots) - self.averages


@dataclasses.dataclass(frozen=True, eq=False)
class Design:
    """What is known of regressors and occasions, and the columns that follow from it."""

    axis: TimeAxis
    effects: tuple[Effect, ...]
    occasions: tuple[Occasion, ...]
    scalings: tuple[Scaling, ...]
    times: np.ndarray  # at which values of regressors are known, in order, as numbers
    values: np.ndarray  # a row for each time, a column for each effect; NaN is unknown
    changes: tuple[float, ...] = ()  # times from which on the level is another, as numbers
    bends: tuple[float, ...] = ()  # times from which on the slope is another
    unit: float = 1.0  # of time, in which slopes are measured

    @staticmethod
    def of_changes(axis: TimeAxis, changes: tuple[float, ...]) -> "Design":
        """Changes of level, and nothing else."""
        return Design(axis, (), (), (), np.zeros(0), np.zeros((0, 0)), changes)

    @staticmethod
    def of(
        axis: TimeAxis,
        effects: tuple[Effect, ...],
        occasions: tuple[Occasion, ...],
        rows: tuple[np.ndarray, np.ndarray],
        seen: np.ndarray,
    ) -> "Design":
        """From times and values; `seen` are those rows that have a target."""
        x, values = rows
        nothing = Design(axis, effects, occasions, (), np.zeros(0), np.zeros((0, len(effects))))
        scalings = tuple(
            _scaling(effect, values[seen, number]) for number, effect in enumerate(effects)
        )
        return dataclasses.replace(nothing.knowing(x, values), scalings=scalings)

    def bending(self, times: tuple[float, ...], x: np.ndarray) -> "Design":
        """With changes of slope, measured over the time that the observations at x span."""
        return dataclasses.replace(self, bends=times, unit=float(np.ptp(x)) or 1.0)

    def knowing(self, x: np.ndarray, values: np.ndarray) -> "Design":
        """With further values, which replace those known at the same times."""
        if not self.effects:
            return self
        x = np.asarray(x, dtype=float)
        distinct, first, which = np.unique(x, return_index=True, return_inverse=True)
        self._refuse_two_values(x, values, values[first][which])
        known = self._among(distinct, self.times)
        table = self.values.copy()
        if known.any():
            at, given = nearest(self.times, distinct[known]), values[first][known]
            table[at] = np.where(np.isfinite(given), given, table[at])
        times = np.concatenate([self.times, distinct[~known]])
        order = np.argsort(times, kind="stable")
        table = np.concatenate([table, values[first][~known]])[order]
        return dataclasses.replace(self, times=times[order], values=table)

    def _refuse_two_values(self, x: np.ndarray, values: np.ndarray, alike: np.ndarray) -> None:
        differ = ~((values == alike) | (np.isnan(values) & np.isnan(alike)))
        if differ.any():
            row, column = np.argwhere(differ)[0]
            raise ValueError(
                f"column {self.effects[column].column!r} has two values at "
                f"{self.axis.times(x[[row]])[0]}, {alike[row, column]:g} and "
                f"{values[row, column]:g}: a regressor has one value at a time"
            )

    def _among(self, x: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Which of x are among the times (in order), up to rounding."""
        if len(times) == 0:
            return np.zeros(len(x), dtype=bool)
        return np.abs(times[nearest(times, x)] - x) <= self._rounding

    @property
    def _rounding(self) -> float:
        steps = np.diff(self.times)
        return _CLOSE * float(np.min(steps)) if len(steps) else 0.0

    @property
    def columns(self) -> tuple[Column, ...]:
        """Of the matrix, in order."""
        columns = []
        for group, (effect, scaling) in enumerate(zip(self.effects, self.scalings, strict=True)):
            for lag in effect.lags:
                name = effect.column if lag == 0 else f"{effect.column}, lag {lag}"
                columns += [Column(effect.column, name, group)] * scaling.width
                if effect.season is not None:
                    varying = Column(effect.column, f"{name}, over {effect.season}", group)
                    columns += [varying] * (2 * _WAVES * scaling.width)
        days = (Column(day.component, day.name, -1) for day in self.occasions)
        per = "per day" if self.axis.dates else "per unit of time"
        levels, slopes = (
            [shown_time(time, self.axis) for time in times] for times in (self.changes, self.bends)
        )
        return (
            *columns,
            *days,
            *(Column(CHANGES, f"level from {time}", -2) for time in levels),
            *(Column(BENDS, f"slope from {time}, {per}", SLOPES) for time in slopes),
        )

    def matrix(self, x: np.ndarray) -> np.ndarray:
        """The columns at any times; between those known, regressors are interpolated."""
        x = np.asarray(x, dtype=float)
        parts = [np.zeros((len(x), 0))]
        for number, (effect, scaling) in enumerate(zip(self.effects, self.scalings, strict=True)):
            for lag in effect.lags:
                values = self._between(x, self._lagged(number, lag), scaling.binary)
                columns = scaling.columns(values)
                parts.append(columns)
                if effect.season is not None:
                    parts += [wave[:, None] * columns for wave in self._waves(x, effect.season)]
        if self.occasions:
            days = day_numbers(x, self.axis)
            parts += [np.isin(days, day.days)[:, None].astype(float) for day in self.occasions]
        since = [time - _ROUNDED * (1 + abs(time)) for time in self.changes]
        parts += [(x >= time)[:, None].astype(float) for time in since]
        parts += [np.maximum(x - time, 0.0)[:, None] / self.unit for time in self.bends]
        return np.concatenate(parts, axis=1)

    def _waves(self, x: np.ndarray, season: Any) -> list[np.ndarray]:
        turns = 2 * np.pi * x / self.axis.length("season", season)
        orders = range(1, _WAVES + 1)
        return [wave(order * turns) for order in orders for wave in (np.cos, np.sin)]

    def _lagged(self, number: int, lag: int) -> np.ndarray:
        values = self.values[:, number]
        return np.concatenate([np.full(min(lag, len(values)), np.nan), values[: -lag or None]])[
            : len(values)
        ]

    def _between(self, x: np.ndarray, values: np.ndarray, binary: bool) -> np.ndarray:
        known = np.isfinite(values)
        times, values = self.times[known], values[known]
        if len(times) == 0:
            return np.full(len(x), np.nan)
        if binary:  # what is on or off stays so until the next row
            at = np.searchsorted(times, x + self._rounding, side="right") - 1
            return values[np.maximum(at, 0)]
        return np.interp(x, times, values)

    def unknown(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """The times at which the value of a regressor, or one it lags behind, is not known."""
        x = np.asarray(x, dtype=float)
        missing = {}
        for number, effect in enumerate(self.effects):
            there = np.ones(len(x), dtype=bool)
            for lag in effect.lags:
                there &= self._among(x, self.times[np.isfinite(self._lagged(number, lag))])
            if not there.all():
                missing[effect.column] = x[~there]
        return missing


def nearest(times: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The number of the time (in order) that each x is nearest to."""
    after = np.clip(np.searchsorted(times, x), 0, len(times) - 1)
    before = np.maximum(after - 1, 0)
    return np.where(np.abs(times[before] - x) < np.abs(times[after] - x), before, after)


def _scaling(effect: Effect, values: np.ndarray) -> Scaling:
    values = values[np.isfinite(values)]
    nothing = np.zeros(0)
    if len(values) == 0:
        raise ValueError(f"column {effect.column!r} has no numbers where the target is given")
    binary = bool(np.all((values == 0) | (values == 1)))
    if binary and effect.kind == "linear":
        return Scaling(0.0, 1.0, True, nothing, nothing)
    scaling = Scaling(float(values.mean()), float(values.std()) or 1.0, binary, nothing, nothing)
    if effect.kind == "linear":
        return scaling
    z = scaling.standard(np.unique(values))
    knots = np.linspace(z[0] - _BEYOND, z[-1] + _BEYOND, _KNOTS)
    averages = smooth_columns(scaling.standard(values), knots).mean(axis=0)
    return dataclasses.replace(scaling, knots=knots, averages=averages)


def smooth_columns(z: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Columns whose products are a covariance of the values, Matérn-5/2.

    Exactly at the knots, nearly between them; outside they stay as they are at the ends. The
    lengthscale is one, or longer if the knots are far apart.
    """
    lengthscale = max(1.0, _STEPS * (knots[1] - knots[0]))
    z, knots = z / lengthscale, knots / lengthscale
    vectors = np.linalg.eigh(_matern52(knots, knots))
    root = vectors.eigenvectors / np.sqrt(vectors.eigenvalues)
    columns: np.ndarray = _matern52(np.clip(z, knots[0], knots[-1]), knots) @ root
    return columns


def _matern52(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    r = np.sqrt(5.0) * np.abs(one[:, None] - other[None])
    covariance: np.ndarray = (1 + r + r**2 / 3) * np.exp(-r)
    return covariance
