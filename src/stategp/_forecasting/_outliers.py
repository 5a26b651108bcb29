"""Observations that nothing around them explains: found, and given little weight.

An outlier differs from what comes before and from what comes after. A step differs from one of
them only, and what happens again a season later is a part of the season: these are no outliers.
"""

from typing import NamedTuple

import numpy as np

from stategp._forecasting._candidates import Outline

_FEWEST = 10  # observations
_AROUND = 3  # observations on each side that say what is usual
_GROSS = 15.0  # standard deviations from them, beyond which no model need be asked
_UNEXPECTED = 7.0  # standard deviations from what a model says, given all others
_LONGEST = 3  # outliers in a row: more are an event
_LARGEST_SHARE = 0.02  # of outliers: more are the nature of a series
_MOST = 1000  # observations that are compared with each other
_ALWAYS = 2  # outliers that even a short series may have
_ALIKE = 3.0  # times smaller, or larger: what is so large counts as the same kind
_CYCLES = 4  # of a season, in which its medians are robust
_AT_ENDS = 3.0  # how far, in ranges of the others, where a new level would look the same


class Surprises(NamedTuple):
    """What was expected of each observation, how far it lies from that, and which are outliers."""

    expected: np.ndarray
    scores: np.ndarray  # in standard deviations
    outliers: np.ndarray


def season_removed(x: np.ndarray, y: np.ndarray, outline: Outline) -> np.ndarray:
    """y without the medians of the phases of its longest season that has enough cycles."""
    steps = [season.steps for season in outline.seasons]
    enough = [length for length in steps if _CYCLES * length <= len(y)]
    if not enough:
        return y
    length = round(max(enough))
    phase = np.rint((x - x[0]) / outline.step).astype(np.int64) % length
    above = y - _slow_part(y, length)
    order, usual = np.argsort(phase, kind="stable"), np.zeros(length)
    places, starts = np.unique(phase[order], return_index=True)
    usual[places] = [np.median(part) for part in np.split(above[order], starts[1:])]
    return y - usual[phase]


def gross(x: np.ndarray, y: np.ndarray, outline: Outline) -> Surprises:
    """How far each observation lies from those around it, and which would spoil any model."""
    if len(y) < _FEWEST:
        return Surprises(y, np.zeros(len(y)), np.zeros(len(y), dtype=bool))
    level = season_removed(x, y, outline)
    away = level - _of_neighbours(level)
    size = 1.4826 * float(np.median(np.abs(away)))
    if size == 0:  # most are what those around them are
        size = float(np.quantile(np.abs(away), 1 - 2 * _LARGEST_SHARE))
    size = max(size, 1e-9 * float(np.median(np.abs(y))), 1e-300)
    scores = away / size
    return Surprises(y - away, scores, outliers(x, y, away, np.abs(scores) > _GROSS, outline))


def unexpected(
    x: np.ndarray, y: np.ndarray, expected: np.ndarray, scores: np.ndarray, outline: Outline
) -> Surprises:
    """The same, by what a model expects of each observation, given all the others."""
    far = np.abs(scores) > _UNEXPECTED
    if len(y) < _FEWEST or not far.any():
        return Surprises(expected, scores, np.zeros(len(y), dtype=bool))
    return Surprises(expected, scores, outliers(x, y, y - expected, far, outline))


def outliers(
    x: np.ndarray, y: np.ndarray, away: np.ndarray, far: np.ndarray, outline: Outline
) -> np.ndarray:
    """Those that are far from both sides, few in a row, and unlike others of their size."""
    level = season_removed(x, np.where(far, y - away, y), outline) + np.where(far, away, 0.0)
    found, near = np.zeros(len(y), dtype=bool), np.flatnonzero(~far)
    if len(near) < _FEWEST - 2:
        return found
    at_ends = []
    for row in np.flatnonzero(far):
        place = int(np.searchsorted(near, row))
        before, after = near[max(place - _AROUND, 0) : place], near[place : place + _AROUND]
        if len(before) and len(after):
            run = after[0] - before[-1] - 1
            from_both = [level[row] - np.median(level[side]) for side in (before, after)]
            apart = min(from_both, key=abs) if from_both[0] * from_both[1] > 0 else 0.0
            found[row] = run <= _LONGEST and abs(apart) > 0.5 * abs(away[row])
        else:
            at_ends.append(row)
    for row in at_ends:
        others = np.delete(y, np.append(np.flatnonzero(found), row))
        found[row] = abs(away[row]) > _AT_ENDS * float(np.ptp(others))
    found &= ~_repeated(x, away, far, outline)
    sizes = np.sort(np.abs(away[far]))
    for row in np.flatnonzero(found):
        alike = len(sizes) - int(np.searchsorted(sizes, abs(away[row]) / _ALIKE))
        found[row] = alike <= max(_ALWAYS, _LARGEST_SHARE * len(y))
    return found


def _repeated(x: np.ndarray, away: np.ndarray, far: np.ndarray, outline: Outline) -> np.ndarray:
    """Whether there is another one like it a season before or after."""
    found = np.zeros(len(x), dtype=bool)
    rows = np.flatnonzero(far)
    if len(rows) > _MOST:
        return found
    for season in outline.seasons:
        distance = np.abs(x[rows][:, None] - x[rows][None, :])
        cycles = np.rint(distance / season.period)
        same = (cycles >= 1) & (np.abs(distance - cycles * season.period) < 1.5 * outline.step)
        alike = np.abs(away[rows][:, None] - away[rows][None, :]) < 0.5 * np.abs(away[rows])
        found[rows] |= np.any(same & alike & (season.steps > _LONGEST), axis=1)
    return found


def _of_neighbours(y: np.ndarray) -> np.ndarray:
    """The median of those around each one, without it."""
    padded = np.pad(y, _AROUND, constant_values=np.nan)
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * _AROUND + 1)
    around: np.ndarray = np.nanmedian(np.delete(windows, _AROUND, axis=1), axis=1)
    return around


def _slow_part(y: np.ndarray, length: int) -> np.ndarray:
    """Between the medians of stretches as long as a season."""
    count = max(len(y) // length, 1)
    centres = (np.arange(count) + 0.5) * len(y) / count
    medians = [np.median(part) for part in np.array_split(y, count)]
    return np.interp(np.arange(len(y)) + 0.5, centres, medians)
