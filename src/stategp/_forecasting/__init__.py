"""Forecasts from data frames with dates."""

from stategp._data import Bundle, check_bundle
from stategp._files import allow, check_when_read
from stategp._forecasting._answers import (
    as_levels,
    distribution_columns,
    function_columns,
    no_columns,
    normal_columns,
)
from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._calendar import Occasion
from stategp._forecasting._cautions import ForecastWarning
from stategp._forecasting._choosing import Choice
from stategp._forecasting._date_texts import read_dates
from stategp._forecasting._design import Design, Scaling
from stategp._forecasting._effects import Effect, Event, Holidays
from stategp._forecasting._fitted import Fitted
from stategp._forecasting._forecaster import Forecaster
from stategp._forecasting._frames import (
    as_frame,
    clock_times,
    number_column,
    text_series,
    time_column,
)
from stategp._forecasting._instants import as_zone, instants_of
from stategp._forecasting._jointly import Joint
from stategp._forecasting._long import (
    Key,
    as_failures,
    failure_frame,
    long_frame,
    read_long,
    shown_key,
)
from stategp._forecasting._long_answers import Answer, after, answer_frame, asked_rows, each_ahead
from stategp._forecasting._number_texts import looks_like_number, read_numbers
from stategp._forecasting._panel import Light, Panel, check_panel
from stategp._forecasting._panel_updating import more_of_each, sorted_out, tell_left_out
from stategp._forecasting._plan import plan_in_words
from stategp._forecasting._reading import LongForm, Raw, read_pairs, read_series
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
from stategp._forecasting._updating import lengths

allow(Choice, Fitted, LongForm, TimeAxis, answers=(Forecaster,))
allow(Bundle, Joint, Light, Panel)
check_when_read({Bundle: check_bundle, Panel: check_panel})
allow(Effect, Event, Holidays, Design, Occasion, Scaling)

__all__ = [
    "Answer",
    "Effect",
    "Event",
    "Fitted",
    "ForecastWarning",
    "Forecaster",
    "Holidays",
    "Key",
    "LongForm",
    "Raw",
    "Source",
    "TimeAxis",
    "after",
    "answer_frame",
    "as_failures",
    "as_frame",
    "as_levels",
    "as_zone",
    "asked_rows",
    "clock_times",
    "coverage",
    "cross_validate",
    "crps",
    "distribution_columns",
    "each_ahead",
    "failure_frame",
    "function_columns",
    "instants_of",
    "interval_score",
    "lengths",
    "long_frame",
    "looks_like_number",
    "mase",
    "more_of_each",
    "msis",
    "no_columns",
    "normal_columns",
    "number_column",
    "pinball",
    "plan_in_words",
    "read_dates",
    "read_long",
    "read_numbers",
    "read_pairs",
    "read_series",
    "seasonal_scale",
    "shown_key",
    "smape",
    "sorted_out",
    "tell_left_out",
    "text_series",
    "time_column",
    "usual_season",
]
