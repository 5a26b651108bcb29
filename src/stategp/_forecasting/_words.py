"""What a forecaster chose and found, and what speaks against trusting it, as text."""

import numpy as np

from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._cautions import cautions_about
from stategp._forecasting._changes import level_changes
from stategp._forecasting._choosing import Choice
from stategp._forecasting._defaults import SEASONS
from stategp._forecasting._findings import (
    changes_in_words,
    findings,
    intervals_in_words,
    outliers_in_words,
)
from stategp._forecasting._learning import Series
from stategp._forecasting._pooling import pools
from stategp._forecasting._scales import Scale, limits_in_words
from stategp._models import GP
from stategp._posteriors import summands_of
from stategp.means import Periodic


def tell_apart(
    choices: tuple[Choice, ...], series: Series, y: np.ndarray, axis: TimeAxis
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What was found, and what speaks against trusting forecasts: a sentence for each.

    `y` is as it was given.
    """
    changes = level_changes(series)
    positive = any(choice.scale == Scale(log=True) for choice in choices)
    found = findings(choices, series, axis)
    found += limits_in_words(y, series.floor, series.cap, positive=positive)
    found.append(intervals_in_words(choices[0], series.x[-1], series.outline.step, len(series.y)))
    if changes:
        found.append(changes_in_words(changes, series, axis))
    if np.any(series.doubted):
        found.append(outliers_in_words(series.x[series.doubted], axis))
    return tuple(found), tuple(cautions_about(series, axis, changes))


def without_comparison(model: GP) -> str:
    """What the one model has that is fitted where none are compared."""
    parts = summands_of(model.kernels[0])
    told = ["a slope that changes"]
    mean = model.means[0]
    if isinstance(mean, Periodic):
        count = int(np.count_nonzero(np.hypot(mean.cosines.value, mean.sines.value)))
        name = next(n for n, period in SEASONS.items() if period == float(mean.period))
        told.append(f"a {name} pattern of {count} wave{'' if count == 1 else 's'}")
    told += [f"{name} waves that repeat exactly" for name in SEASONS if name in parts]
    told += ["a season that repeats exactly"] if "season" in parts else []
    told += ["smooth deviations"] if "short" in parts else []
    return f"one model without comparison: {', '.join(told)}"


def explain(
    choices: tuple[Choice, ...], kernel: str, found: tuple[str, ...], cautions: tuple[str, ...]
) -> str:
    """What was found and chosen, in words."""
    careful = [f"careful: {caution}" for caution in cautions]
    if not choices:
        given = f"the kernel was given, or is the default: {kernel}"
        return "\n".join([given, *found, *careful])
    lines = []
    for choice in choices:
        name = "f" if pools(choice) else choice.scale.name
        lines.append(f"  {100 * choice.weight:.0f} %  {name}: {choice.trend}")
    lead = "weights of the models whose quantiles are averaged:"
    return "\n".join([*found, lead, *lines, f"kernel of the first: {kernel}", *careful])
