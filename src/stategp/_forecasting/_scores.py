"""How good a forecast was: errors, intervals and quantiles against what came."""

from typing import Any

import numpy as np


def mase(y: Any, forecast: Any, history: Any, season: int = 1) -> float:
    """Mean absolute scaled error: the mean absolute error over `seasonal_scale` of the history.

    Below 1 the forecast is better than repeating the last season is, one step ahead, in the
    history (Hyndman and Koehler 2006; the M4 competition).

    >>> mase([3.0, 5.0], [2.0, 3.0], history=[0.0, 2.0, 1.0, 2.0])
    1.125
    """
    y, forecast = _alike(y=y, forecast=forecast)
    return _mean(np.abs(y - forecast)) / seasonal_scale(history, season)


def smape(y: Any, forecast: Any) -> float:
    """Symmetric mean absolute percentage error: the mean of 200 |y − f| / (|y| + |f|), 0 to 200.

    Where both are zero the error is none.

    >>> smape([2.0, 0.0], [3.0, 0.0])
    20.0
    """
    y, forecast = _alike(y=y, forecast=forecast)
    size = np.abs(y) + np.abs(forecast)
    return _mean(200 * np.abs(y - forecast) / np.where(size == 0, 1.0, size))


def msis(
    y: Any, lower: Any, upper: Any, history: Any, season: int = 1, level: float = 0.95
) -> float:
    """Mean scaled interval score of intervals that hold y with the probability `level`.

    The width, plus 2 / (1 − level) times what the interval missed y by (40 times at 95 %), over
    `seasonal_scale` of the history (Gneiting and Raftery 2007; the M4 competition).

    >>> msis([1.0, 6.0], [0.0, 0.0], [4.0, 4.0], history=[0.0, 2.0, 0.0], level=0.5)
    4.0
    """
    return interval_score(y, lower, upper, level) / seasonal_scale(history, season)


def interval_score(y: Any, lower: Any, upper: Any, level: float = 0.95) -> float:
    """The numerator of `msis`: in the units of y, smaller is better.

    >>> interval_score([1.0, 6.0], [0.0, 0.0], [4.0, 4.0], level=0.5)
    8.0
    """
    _check_probability("level", level)
    y, lower, upper = _alike(y=y, lower=lower, upper=upper)
    missed = np.maximum(lower - y, 0) + np.maximum(y - upper, 0)
    return _mean(upper - lower + missed * 2 / (1 - level))


def pinball(y: Any, quantile: Any, probability: float) -> float:
    """Mean pinball (quantile) loss of a forecast that y stays below with this probability.

    >>> pinball([1.0, 6.0], [2.0, 2.0], 0.9)
    1.85
    """
    _check_probability("probability", probability)
    y, quantile = _alike(y=y, quantile=quantile)
    over = y - quantile
    return _mean(np.maximum(probability * over, (probability - 1) * over))


def crps(y: Any, quantiles: Any, probabilities: Any) -> float:
    """Continuous ranked probability score from quantiles: twice their mean pinball loss.

    `quantiles` has a row for each of the `probabilities`, which are to be evenly spaced: 0.05,
    0.1, …, 0.95. The more of them, the nearer it comes to the integral.

    >>> round(crps([1.0, 6.0], [[0.0, 0.0], [2.0, 2.0], [4.0, 4.0]], [0.25, 0.5, 0.75]), 4)
    2.1667
    """
    rows = [np.asarray(row, dtype=float) for row in quantiles]
    shares = np.asarray(probabilities, dtype=float)
    if shares.ndim != 1 or len(rows) != len(shares) or len(rows) == 0:
        raise ValueError(
            f"quantiles must have a row for each probability: {len(rows)} rows were given for "
            f"{shares.size} probabilities"
        )
    losses = [pinball(y, row, float(share)) for row, share in zip(rows, shares, strict=True)]
    return 2 * float(np.mean(losses))


def coverage(y: Any, lower: Any, upper: Any) -> float:
    """The share of observations inside their intervals, ends included.

    >>> coverage([1.0, 6.0], [0.0, 0.0], [4.0, 4.0])
    0.5
    """
    y, lower, upper = _alike(y=y, lower=lower, upper=upper)
    inside = ((lower <= y) & (y <= upper)).astype(float)
    return _mean(np.where(np.isfinite(y), inside, np.nan))


def seasonal_scale(history: Any, season: int = 1) -> float:
    """The mean absolute difference between observations `season` steps apart.

    That is the error of repeating the last season; errors divided by it can be averaged over
    series. NaN where there is no such difference, or none but zero.

    >>> seasonal_scale([0.0, 2.0, 1.0, 2.0], season=2)
    0.5
    """
    past = np.asarray(history, dtype=float)
    if past.ndim != 1 or isinstance(season, bool) or season != int(season) or season < 1:
        raise ValueError(
            "history must be a series of numbers and season a whole number of steps of at least 1, "
            f"got an array of shape {past.shape} and {season!r}"
        )
    size = _mean(np.abs(past[int(season) :] - past[: -int(season)]))
    return size if size > 0 else float("nan")


def usual_season(step: float) -> int:
    """The season of MASE and MSIS for a step in days, as in the M4 competition.

    24 for hours, 12 for months, 4 for quarters, 1 for anything else (days and weeks too).

    >>> usual_season(1 / 24), usual_season(7.0), usual_season(30.4)
    (24, 1, 12)
    """
    known = {24: (1 / 24, 1 / 24), 12: (28.0, 31.0), 4: (89.0, 93.0)}
    for season, (shortest, longest) in known.items():
        if shortest * 0.99 <= step <= longest * 1.01:
            return season
    return 1


def _alike(**arrays: Any) -> list[np.ndarray]:
    """As arrays of numbers, all of one shape."""
    found = {name: np.asarray(values, dtype=float) for name, values in arrays.items()}
    if len({array.shape for array in found.values()}) > 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in found.items())
        raise ValueError(f"a value is needed for every observation; the shapes are {shapes}")
    return list(found.values())


def _mean(values: np.ndarray) -> float:
    """Of what is there: observations that are missing do not count."""
    there = values[np.isfinite(values)]
    return float(np.mean(there)) if there.size else float("nan")


def _check_probability(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise ValueError(f"{name} must lie between 0 and 1 (0.95 for 95 %), got {value!r}")
