"""One model without comparison: a trend, and the seasons that the data can show."""

import dataclasses

import numpy as np

from stategp._data import distinct_inputs
from stategp._durations import days, describe
from stategp._expressions import tokenize
from stategp._inference import strongest_period
from stategp.kernels import Kernel
from stategp.parameters import Parameter, map_parameters
from stategp.priors import LogNormal

SEASONS = {"daily": 1.0, "weekly": 7.0, "yearly": 365.25}  # in days
_HARMONICS = 2  # each takes two components of the state, and time grows with their cube
SHARE = 0.2  # of the variance that a period nobody named must explain
FEWEST_CYCLES = 4.0  # over which it must be seen
_SHORTEST = 300  # short-term deviations last no less than that part of the span
_CORRELATED, _ENOUGH, _LOOKED_AT, _SMOOTH = 0.3, 50, 20_000, 7
# Of the priors, in logarithms; others 1.
_SPREADS = {"variance": 2.0, "period": 0.02, "lengthscale": 0.5}


def default_kernel(x: np.ndarray, f: np.ndarray, dates: bool) -> str:
    """A smooth trend, a season for every period that x and f support, short-term deviations.

    Dates: a day, a week, a year, where the data spans at least two of them and has at least four
    observations in each. Numbers: the strongest period of the spectrum, if it explains a fifth of
    what a smooth curve leaves. Short-term deviations, where what all that leaves is correlated from
    one observation to the next. Lengthscales and variances are where learning starts.
    """
    order = np.argsort(x, kind="stable")
    x, f = np.asarray(x, dtype=float)[order], np.asarray(f, dtype=float)[order]
    distinct = distinct_inputs(x)
    if len(distinct) < 3:
        return "trend: matern52"
    span, spacing = float(distinct[-1] - distinct[0]), float(np.median(np.diff(distinct)))
    variance = float(np.var(f)) or 1.0

    def length(value: float) -> str:
        return describe(value) if dates else f"{value:.3g}"

    parts, periods = [f"trend: matern52({length(span)}, variance={variance:.3g})"], []
    if dates:
        for name, period in SEASONS.items():
            # Four in each, or nearly: quarters of a year have up to 92 days.
            if span >= 2 * period and spacing <= period / 3.9:
                parts.append(f"{name}: ({_cosines(period, variance)})")
                periods.append(period)
    else:
        period, share = strongest_period(x, f, FEWEST_CYCLES)
        if share > max(SHARE, share_of_noise(len(x))):
            parts.append(f"season: periodic(learn({period:.6g}), variance={variance:.3g}, order=2)")
            periods.append(period)
    if _neighbours_correlate(x, f, periods):
        short = length(max(np.sqrt(span * spacing), span / _SHORTEST))
        parts.append(f"short: matern32({short}, variance={variance / 100:.3g})")
    return " + ".join(parts)


def share_of_noise(count: int) -> float:
    """What the strongest period explains of pure noise, one time in a hundred (Lomb–Scargle)."""
    free = max(count - 8, 1)  # six are spent on the smooth curve, two on the period
    return float(1 - (0.01 / count) ** (2 / free))


def _neighbours_correlate(x: np.ndarray, f: np.ndarray, periods: list[float]) -> bool:
    """Whether what a smooth curve and the seasons leave goes on from one observation to the next.

    A trend would otherwise follow it and forecast nonsense. Ranks, so that outliers do not matter.
    """
    if len(x) < _ENOUGH:
        return False
    start = max(len(x) - _LOOKED_AT, 0)  # neighbours, not a sample
    x, f = x[start:], f[start:]
    scaled = 2 * (x - x[0]) / (x[-1] - x[0] or 1.0) - 1
    columns = [np.polynomial.legendre.legvander(scaled, _SMOOTH)]
    for period in periods:
        angle = 2 * np.pi * x[:, None] / (period / np.arange(1, _HARMONICS + 1))
        columns += [np.cos(angle), np.sin(angle)]
    design = np.concatenate(columns, axis=1)
    left = f - design @ np.linalg.lstsq(design, f, rcond=None)[0]
    if np.ptp(left) <= 1e-9 * np.max(np.abs(f)):  # rounding, or nothing at all
        return False
    return rank_correlation(left[1:], left[:-1]) > _CORRELATED


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


def _cosines(period: float, variance: float) -> str:
    """A pattern that repeats exactly: unlike one that changes, it takes no inducing points."""
    return " + ".join(
        f"cosine({describe(period / j)}, variance={variance / 4**j:.3g})"
        for j in range(1, _HARMONICS + 1)
    )


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
