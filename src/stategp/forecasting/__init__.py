"""Front door for data frames with dates."""

from stategp.forecasting._axis import TimeAxis
from stategp.forecasting._forecaster import Fitted, Forecaster
from stategp.forecasting._rolling import cross_validate

__all__ = ["Fitted", "Forecaster", "TimeAxis", "cross_validate"]
