"""What a forecaster would do with a table, before anything is fitted."""

import numpy as np

from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._cautions import cautions_about
from stategp._forecasting._changes import level_changes
from stategp._forecasting._defaults import default_model
from stategp._forecasting._findings import changes_in_words, outliers_in_words
from stategp._forecasting._forecaster import Forecaster
from stategp._forecasting._learning import Series
from stategp._forecasting._single import chooses
from stategp.likelihoods import Gaussian


def plan_in_words(x: np.ndarray, y: np.ndarray, axis: TimeAxis) -> dict[str, str]:
    """The models that would be compared, and what of the data shows without them."""
    if not chooses(Forecaster(), Gaussian(), x):
        return {"one model": default_model(x, y, axis.dates).words}
    series = Series.of(x, y, None, dates=axis.dates, robust=True)
    changes = level_changes(series)
    names = [
        season.name if axis.dates else f"of {season.period:.4g}"
        for season in series.outline.seasons
    ]
    scales = series.candidates()
    trends = "; or ".join(candidate.trend for candidate in scales[0])
    models = f"{' and '.join(scale[0].scale.name for scale in scales)}: {trends}"
    told = {"seasons": ", ".join(names) or "none", "models to compare": models}
    found = [changes_in_words(changes, series, axis)] if changes else []
    if np.any(series.doubted):
        found.append(outliers_in_words(series.x[series.doubted], axis))
    said = {"found": "; ".join(found), "careful": "; ".join(cautions_about(series, axis, changes))}
    return told | {name: text for name, text in said.items() if text}
