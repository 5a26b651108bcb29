"""Front door for data frames with dates."""

from stategp._files import allow
from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._defaults import default_kernel
from stategp._forecasting._forecaster import Fitted, Forecaster
from stategp._forecasting._frames import as_frame, clock_times, number_column, time_column
from stategp._forecasting._rolling import cross_validate

allow(Fitted, TimeAxis, answers=(Forecaster,))

__all__ = [
    "Fitted",
    "Forecaster",
    "TimeAxis",
    "as_frame",
    "clock_times",
    "cross_validate",
    "default_kernel",
    "number_column",
    "time_column",
]
