"""Forecasts from data frames with dates."""

from stategp._files import allow
from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._calendar import Occasion
from stategp._forecasting._cautions import ForecastWarning
from stategp._forecasting._choosing import Choice
from stategp._forecasting._date_texts import read_dates
from stategp._forecasting._defaults import default_kernel
from stategp._forecasting._design import Design, Scaling
from stategp._forecasting._effects import Effect, Event, Holidays
from stategp._forecasting._forecaster import Fitted, Forecaster
from stategp._forecasting._frames import as_frame, clock_times, number_column, time_column
from stategp._forecasting._instants import as_zone, instants_of
from stategp._forecasting._number_texts import looks_like_number, read_numbers
from stategp._forecasting._rolling import cross_validate
from stategp._forecasting._scores import (
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
from stategp._forecasting._sources import Source

allow(Choice, Fitted, TimeAxis, answers=(Forecaster,))
allow(Effect, Event, Holidays, Design, Occasion, Scaling)

__all__ = [
    "Effect",
    "Event",
    "Fitted",
    "ForecastWarning",
    "Forecaster",
    "Holidays",
    "Source",
    "TimeAxis",
    "as_frame",
    "as_zone",
    "clock_times",
    "coverage",
    "cross_validate",
    "crps",
    "default_kernel",
    "instants_of",
    "interval_score",
    "looks_like_number",
    "mase",
    "msis",
    "number_column",
    "pinball",
    "read_dates",
    "read_numbers",
    "seasonal_scale",
    "smape",
    "time_column",
    "usual_season",
]
