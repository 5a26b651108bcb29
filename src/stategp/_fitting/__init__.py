"""From a model and data to a posterior."""

from stategp._files import allow
from stategp._fitting._automatic import Auto
from stategp._fitting._fitting import condition, fit
from stategp._fitting._method import Ascending, Collapsing, Method
from stategp._fitting._methods import PowerEP
from stategp._fitting._requests import NotConvergedWarning
from stategp._fitting._sampling import LogPosterior, log_posterior
from stategp._fitting._settings import Settings
from stategp._fitting._updating import update

allow(Auto)

__all__ = [
    "Ascending",
    "Auto",
    "Collapsing",
    "LogPosterior",
    "Method",
    "NotConvergedWarning",
    "PowerEP",
    "Settings",
    "condition",
    "fit",
    "log_posterior",
    "update",
]
