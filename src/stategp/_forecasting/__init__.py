"""Front door for data frames with dates."""

from stategp._files import allow
from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._forecaster import Fitted, Forecaster
from stategp._forecasting._rolling import cross_validate

allow(Fitted, TimeAxis, answers=(Forecaster,))

__all__ = ["Fitted", "Forecaster", "TimeAxis", "cross_validate"]
