"""When a forecast should not be trusted, or another model asked for, in sentences."""

import warnings

import numpy as np

from stategp._durations import describe
from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._changes import Change
from stategp._forecasting._defaults import SEASONS
from stategp._forecasting._learning import Series

_FEW = 12  # observations
_ROOM = 0.25  # of a season that the data must span for its absence to be worth a word
_RECENT = 0.1  # of the data, in which a change of level is recent
_SMALL_COUNTS = 30  # the median, above which counts are as good as measurements
_FEWEST_SCORED = 20  # forecasts, of which the share inside intervals says something
_CHANCE = 3.0  # standard deviations of that share


class ForecastWarning(UserWarning):
    """A forecast that should be trusted less than its intervals say.

    >>> import warnings, stategp as sg
    >>> warnings.simplefilter("ignore", sg.ForecastWarning)
    """


def cautions_about(series: Series, axis: TimeAxis, changes: list[Change]) -> list[str]:
    """What a reader of forecasts from this series should know."""
    y, outline = series.y[~series.doubted], series.outline
    told = []
    if len(series.y) < _FEW:
        told.append(f"there are only {len(series.y)} observations: they say little")
    if axis.dates:
        told += _unseen_seasons(series)
    if np.ptp(y) == 0:
        told.append("all observations are equal: forecasts hardly say more than that")
    elif series.beside.likelihood is None:
        told += _counts(y)
    recent = [c for c in changes if series.x[c.row] >= series.x[-1] - _RECENT * outline.span]
    if recent:
        since = len(series.y) - recent[-1].row
        told.append(
            f"the level changed suddenly by {recent[-1].size:+.3g}, only {since} observations "
            "before the end of the data: forecasts go on from the new level"
        )
    return told


def _unseen_seasons(series: Series) -> list[str]:
    outline = series.outline
    known = {season.name for season in outline.seasons}
    for name, period in SEASONS.items():
        if name not in known and outline.step <= period / 3.9 and outline.span >= _ROOM * period:
            return [
                f"the data span {describe(max(outline.span, outline.step))}, less than two periods "
                f"of a {name} season: forecasts have none"
            ]
    return []


def _counts(y: np.ndarray) -> list[str]:
    if y.min() < 0 or not np.all(y == np.round(y)):
        return []
    if set(np.unique(y).tolist()) == {0.0, 1.0}:
        return ['these look like yes and no: Forecaster(likelihood="bernoulli")']
    if float(np.median(y)) < _SMALL_COUNTS:
        return [
            'these look like counts: Forecaster(likelihood="poisson") or "negative-binomial" has '
            "whole numbers, none of them negative"
        ]
    return []


def caution_of_scores(inside: float, level: float, count: int) -> list[str]:
    """What the share of observations inside intervals says, after `cross_validate`."""
    chance = _CHANCE * float(np.sqrt(level * (1 - level) / max(count, 1)))
    if count < _FEWEST_SCORED or abs(inside - level) <= max(chance, 0.03):
        return []
    how = "narrow" if inside < level else "wide"
    return [
        f"in cross-validation {100 * inside:.0f} % of {count:,} observations were inside the "
        f"{100 * level:.6g} % interval: intervals are too {how}"
    ]


def warn_of_horizon(axis: TimeAxis, times: np.ndarray, ahead: np.ndarray) -> None:
    """Warn if a forecast goes further than the data go back."""
    span, length = float(np.ptp(times)), float(ahead[-1] - times.max()) if len(ahead) else 0.0
    if len(times) > 1 and length > span * (1 + 1e-9):
        shown = [describe(value) if axis.dates else f"{value:.3g}" for value in (length, span)]
        warnings.warn(
            f"the forecast goes {shown[0]} ahead, but the data span only {shown[1]}: nothing in "
            "them shows how good it is",
            ForecastWarning,
            stacklevel=3,
        )
