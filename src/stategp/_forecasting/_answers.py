"""Predictions as columns: means, medians, bounds of intervals."""

from typing import Any

import numpy as np
from scipy.special import ndtri

from stategp._posteriors import Posterior


def as_levels(levels: Any) -> tuple[float, ...]:
    """Probabilities of intervals, as a tuple."""
    try:
        probabilities = tuple(float(level) for level in np.atleast_1d(levels))
    except (TypeError, ValueError):
        probabilities = (np.nan,)
    if not all(0 < level < 1 for level in probabilities):
        raise ValueError(f"levels must lie between 0 and 1 (0.95 for 95 %), got {levels!r}")
    return probabilities


def bound_names(level: float) -> tuple[str, str]:
    """The columns of an interval: lower_95 and upper_95."""
    text = f"{100 * level:.6g}"
    return f"lower_{text}", f"upper_{text}"


def normal_columns(
    prefix: str, mean: Any, variance: Any, levels: tuple[float, ...], name: str = "mean"
) -> dict[str, np.ndarray]:
    mean, deviation = np.asarray(mean), np.sqrt(np.asarray(variance))
    columns = {name: mean}
    for level in levels:
        reach = ndtri(0.5 + level / 2) * deviation
        lower, upper = bound_names(level)
        columns |= {prefix + lower: mean - reach, prefix + upper: mean + reach}
    return columns


def no_columns(points: int, levels: tuple[float, ...]) -> dict[str, np.ndarray]:
    """The same columns where nothing is known."""
    nothing = np.full(points, np.nan)
    return normal_columns("", nothing, nothing, levels)


def function_columns(
    posterior: Posterior, x: np.ndarray, levels: tuple[float, ...]
) -> dict[str, np.ndarray]:
    mean, variance = posterior.predict_f(x)
    if np.ndim(mean) == 1:
        return normal_columns("", mean, variance, levels)
    return {
        key: column
        for i in range(mean.shape[1])
        for key, column in normal_columns(
            f"{i}_", mean[:, i], variance[:, i], levels, f"{i}_mean"
        ).items()
    }


def distribution_columns(there: Any, levels: tuple[float, ...]) -> dict[str, np.ndarray]:
    """Mean, median (unless it is the mean) and bounds, of a distribution at every point."""
    mean, variance = there.moments()
    if there.normal:
        return normal_columns("", mean, variance, levels)
    wanted = [0.5, *[side for level in levels for side in (0.5 - level / 2, 0.5 + level / 2)]]
    quantiles = np.asarray(there.quantiles(wanted))
    columns = {"mean": np.asarray(mean), "median": quantiles[0]}
    for i, level in enumerate(levels):
        lower, upper = bound_names(level)
        columns |= {lower: quantiles[1 + 2 * i], upper: quantiles[2 + 2 * i]}
    return columns
