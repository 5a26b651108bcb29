"""Forecasts from data frames with dates."""

from stategp._files import allow
from stategp._forecasting._answers import (
    as_levels,
    distribution_columns,
    function_columns,
    normal_columns,
)
from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._calendar import Occasion
from stategp._forecasting._choosing import Choice
from stategp._forecasting._date_texts import read_dates
from stategp._forecasting._defaults import default_kernel
from stategp._forecasting._design import Design, Scaling
from stategp._forecasting._effects import Effect, Event, Holidays
from stategp._forecasting._forecaster import Fitted, Forecaster
from stategp._forecasting._frames import (
    as_frame,
    clock_times,
    installed_kind,
    number_column,
    text_series,
    time_column,
    times_series,
)
from stategp._forecasting._instants import Instants, as_zone, instants_of
from stategp._forecasting._long import (
    Key,
    Long,
    failure_frame,
    long_frame,
    read_long,
    shown_key,
    taken,
)
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
from stategp._forecasting._steps import continued, months_apart

allow(Choice, Fitted, TimeAxis, answers=(Forecaster,))
allow(Effect, Event, Holidays, Design, Occasion, Scaling)

__all__ = [
    "Effect",
    "Event",
    "Fitted",
    "Forecaster",
    "Holidays",
    "Instants",
    "Key",
    "Long",
    "Source",
    "TimeAxis",
    "as_frame",
    "as_levels",
    "as_zone",
    "clock_times",
    "continued",
    "coverage",
    "cross_validate",
    "crps",
    "default_kernel",
    "distribution_columns",
    "failure_frame",
    "function_columns",
    "installed_kind",
    "instants_of",
    "interval_score",
    "long_frame",
    "looks_like_number",
    "mase",
    "months_apart",
    "msis",
    "normal_columns",
    "number_column",
    "pinball",
    "read_dates",
    "read_long",
    "read_numbers",
    "seasonal_scale",
    "shown_key",
    "smape",
    "taken",
    "text_series",
    "time_column",
    "times_series",
    "usual_season",
]
