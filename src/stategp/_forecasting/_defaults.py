"""One model without comparison, for long series and few inducing points.

A trend that goes on, a pattern of days and weeks by regression, waves of a year, and short-term
deviations where neighbours are alike.
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from stategp._data import distinct_inputs
from stategp._durations import days, describe
from stategp._expressions import tokenize
from stategp._forecasting._patterns import exact_pattern, pattern_values
from stategp._inference import strongest_period
from stategp.kernels import Kernel
from stategp.means import Periodic
from stategp.parameters import Parameter, fixed, map_parameters
from stategp.priors import LogNormal

SEASONS = {"daily": 1.0, "weekly": 7.0, "yearly": 365.25}  # in days
SHARE = 0.2  # of the variance that a period nobody named must explain
FEWEST_CYCLES = 4.0  # over which it must be seen
_OF_A_DAY = 10  # harmonics that a pattern may have, or as many of each day of the week
_WAVES = 4  # strongest ones that a kernel may have: each takes two components of the state
_ROOM = 10_000  # times from which a pattern is learned; of more, the means of as many stretches
_FAINT = 0.01  # of the strongest wave's variance: weaker ones are left out
_PER_WAVE = 6  # such stretches to the shortest wave
_CYCLES = 200  # the latest, from which it is learned
_NOTHING = 1e-12  # of the largest value: a wave so small is rounding
_SHORTEST = 300  # short-term deviations last no less than that part of the span
_CORRELATED, _ENOUGH, _LOOKED_AT, _SMOOTH = 0.3, 50, 20_000, 7
# Of the priors, in logarithms; others 1.
_SPREADS = {"variance": 2.0, "period": 0.02, "lengthscale": 0.5, "slope diffusivity": 3.0}


class Default(NamedTuple):
    """A kernel as text, and the pattern that the mean function has beside it, if there is one."""

    kernel: str
    pattern: Periodic | None
    season: str  # of the pattern

    @property
    def words(self) -> str:
        """What it is."""
        if self.pattern is None:
            return self.kernel
        count = int(np.count_nonzero(_power(self.pattern)))
        waves = f"{count} wave{'' if count == 1 else 's'}"
        return f"{self.kernel}, beside a {self.season} pattern of {waves}"


def default_model(
    x: np.ndarray, f: np.ndarray, dates: bool, *, mean: bool = True, fastest: float = np.inf
) -> Default:
    """A trend that goes on, the seasons that x and f support, short-term deviations.

    Dates: a day, a week, a year, where the data span at least two of them and have at least four
    observations in each. What repeats every day or week is a pattern of as many harmonics as rise
    above noise, for the mean function. With `mean` false the user has one: the trend falls back to
    it, and the strongest harmonics are waves of the kernel, as those of years always are. Numbers:
    the strongest period of the spectrum, if it explains a fifth of what a smooth curve leaves.
    Short-term deviations, where what all that leaves is correlated from one observation to the
    next. Lengthscales and variances are where learning starts. No harmonic changes at a rate above
    `fastest`.
    """
    order = np.argsort(x, kind="stable")
    x, f = np.asarray(x, dtype=float)[order], np.asarray(f, dtype=float)[order]
    distinct = distinct_inputs(x)
    if len(distinct) < 3:
        return Default("trend: integrated_wiener", None, "")
    span, spacing = float(distinct[-1] - distinct[0]), float(np.median(np.diff(distinct)))

    def length(value: float) -> str:
        return describe(value) if dates else f"{value:.3g}"

    parts: dict[str, str] = {}
    pattern, season, left = None, "", f
    if dates:
        # Four in each, or nearly: quarters of a year have up to 92 days.
        room = {n: p for n, p in SEASONS.items() if span >= 2 * p and spacing <= p / 3.9}
        clock = max(
            (name for name in room if name != "yearly"), key=SEASONS.__getitem__, default=None
        )
        if clock is not None:
            most = _OF_A_DAY * (7 if clock == "weekly" and "daily" in room else 1)
            found = _pattern(x, left, room[clock], most, spacing, fastest)
            if _power(found).any():
                left = left - pattern_values(found, x)
                if mean:
                    pattern, season = found, clock
                else:
                    parts |= _waves(found, clock, "daily" if "daily" in room else clock)
        if "yearly" in room:
            found = _pattern(x, left, room["yearly"], _WAVES, spacing, fastest)
            if _power(found).any():
                left = left - pattern_values(found, x)
                parts |= _waves(found, "yearly", "yearly")
    else:
        period, share = strongest_period(x, f, FEWEST_CYCLES)
        if share > max(SHARE, share_of_noise(len(x))):
            found = _pattern(x, left, period, _WAVES, spacing, fastest)
            orders = np.flatnonzero(_power(found))
            most = 2 if len(orders) == 0 else max(int(orders[-1]) + 1, 2)
            variance = float(np.var(f))
            parts["season"] = (
                f"periodic(learn({period:.6g}), variance={variance:.3g}, order={most})"
            )
            left = left - pattern_values(found, x)
    variance = float(np.var(left)) or 1.0
    goes_on = f"integrated_wiener({variance / span**3:.3g})"
    falls_back = f"matern52({length(span)}, variance={variance:.3g})"  # to the mean function
    parts = {"trend": goes_on if mean else falls_back, **parts}
    if _neighbours_correlate(x, left):
        short = length(max(np.sqrt(span * spacing), span / _SHORTEST))
        parts["short"] = f"matern32({short}, variance={variance / 10:.3g})"
    return Default(" + ".join(f"{name}: {part}" for name, part in parts.items()), pattern, season)


def _pattern(
    x: np.ndarray, f: np.ndarray, period: float, most: int, spacing: float, fastest: float
) -> Periodic:
    """The harmonics of a period that rise above noise, from means over stretches if x is long."""
    slow = fastest * period / (2 * np.pi)
    most = max(int(min(most, np.ceil(period / spacing / 2) - 1, slow)), 1)
    late = x >= x[-1] - _CYCLES * period
    x, f = x[late], f[late]
    if len(x) > _ROOM:
        width = period / most / _PER_WAVE
        x, f = _means(x, f, width, x[-1] - _ROOM * width)
    found, _, _ = exact_pattern(x, f, period, most)
    there = np.sqrt(_power(found)) > _NOTHING * np.max(np.abs(f))
    count = int(np.max(np.flatnonzero(there), initial=0)) + 1
    cosines, sines = (
        fixed(np.where(there, np.asarray(side.value), 0.0)[:count])
        for side in (found.cosines, found.sines)
    )
    return Periodic(level=found.level, period=found.period, cosines=cosines, sines=sines)


def _means(
    x: np.ndarray, f: np.ndarray, width: float, since: float
) -> tuple[np.ndarray, np.ndarray]:
    """Over stretches of a width, the latest of them."""
    x, f = x[x > since], f[x > since]
    _, number, counts = np.unique((x - since) // width, return_inverse=True, return_counts=True)
    return np.bincount(number, x) / counts, np.bincount(number, f) / counts


def _power(pattern: Periodic) -> np.ndarray:
    """The variance of every harmonic."""
    squares: np.ndarray = (
        np.asarray(pattern.cosines.value) ** 2 + np.asarray(pattern.sines.value) ** 2
    )
    return squares / 2


def _waves(pattern: Periodic, name: str, of_days: str) -> dict[str, str]:
    """The strongest harmonics, as waves that repeat exactly: they take no inducing points.

    Those that repeat every day are a part of their own.
    """
    power, period = _power(pattern), float(pattern.period.value)
    strongest = np.sort(np.argsort(-power)[:_WAVES])
    parts: dict[str, list[str]] = {}
    for j in strongest[power[strongest] > _FAINT * np.max(power)]:
        wave = f"cosine({period / (j + 1):.10g}, variance={power[j]:.3g})"
        parts.setdefault(of_days if (j + 1) % round(period) == 0 else name, []).append(wave)
    return {part: f"({' + '.join(waves)})" for part, waves in parts.items()}


def share_of_noise(count: int) -> float:
    """What the strongest period explains of pure noise, one time in a hundred (Lomb–Scargle)."""
    free = max(count - 8, 1)  # six are spent on the smooth curve, two on the period
    return float(1 - (0.01 / count) ** (2 / free))


def _neighbours_correlate(x: np.ndarray, left: np.ndarray) -> bool:
    """Whether what a smooth curve leaves goes on from one observation to the next.

    A trend would otherwise follow it and forecast nonsense. Ranks, so that outliers do not matter.
    """
    if len(x) < _ENOUGH:
        return False
    start = max(len(x) - _LOOKED_AT, 0)  # neighbours, not a sample
    x, left = x[start:], left[start:]
    scaled = 2 * (x - x[0]) / (x[-1] - x[0] or 1.0) - 1
    design = np.polynomial.legendre.legvander(scaled, _SMOOTH)
    rest = left - design @ np.linalg.lstsq(design, left, rcond=None)[0]
    if np.ptp(rest) <= 1e-9 * np.max(np.abs(left)):  # rounding, or nothing at all
        return False
    return rank_correlation(rest[1:], rest[:-1]) > _CORRELATED


def rank_correlation(left: np.ndarray, right: np.ndarray) -> float:
    """Spearman's, NaN if one of the two is constant. (That of scipy.stats is slow to import.)"""

    def ranks(values: np.ndarray) -> np.ndarray:
        """Equal numbers share their mean rank; the mean of all is zero."""
        _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
        ranked: np.ndarray = (np.cumsum(counts) - counts / 2 - len(values) / 2)[which]
        return ranked

    one, other = ranks(left), ranks(right)
    size = float(np.sqrt(np.sum(one**2) * np.sum(other**2)))
    return float(np.sum(one * other)) / size if size > 0 else float("nan")


def with_weak_priors(kernel: Kernel) -> Kernel:
    """Every parameter that is learned is expected near its start, within a factor of ten or so.

    Without that, what the data does not show (a second harmonic, the decay of a season) is learned
    as zero or infinity, by way of many steps.
    """

    def expect(parameter: Parameter) -> Parameter:
        if not (parameter.learned and parameter.given):
            return parameter
        median = float(f"{np.exp(np.mean(np.log(np.asarray(parameter.value)))):.4g}")
        prior = LogNormal(median=median, spread=_SPREADS.get(parameter.role, 1.0))
        return dataclasses.replace(parameter, prior=prior)

    return map_parameters(expect, kernel)


def refuse_durations(text: str) -> None:
    """Lengths with units in a kernel mean nothing where times are plain numbers."""
    for token in tokenize(text):
        if token.kind in ("number", "quoted"):
            try:
                days(token.text.strip("\"'"))
            except ValueError:
                continue
            raise ValueError(
                f"the kernel {text!r} has the length {token.text}, but the times are numbers: "
                "give it as a number too"
            )
