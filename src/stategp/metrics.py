"""Scores of forecasts, as NumPy functions of what was forecast and what came.

Observations that are missing (NaN) do not count.

>>> import stategp as sg
>>> sg.metrics.coverage([1.0, 6.0], lower=[0.0, 0.0], upper=[4.0, 4.0])
0.5
"""

from stategp._forecasting import (
    coverage,
    crps,
    interval_score,
    mase,
    msis,
    pinball,
    seasonal_scale,
    smape,
    usual_season,
)

__all__ = [
    "coverage",
    "crps",
    "interval_score",
    "mase",
    "msis",
    "pinball",
    "seasonal_scale",
    "smape",
    "usual_season",
]
