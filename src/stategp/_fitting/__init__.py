"""From a model and data to a posterior."""

from stategp._files import allow
from stategp._fitting._automatic import Auto
from stategp._fitting._fitting import condition, fit
from stategp._fitting._many import (
    Item,
    LearnedItem,
    check_share,
    goes_together,
    learn_many,
    settings_of,
)
from stategp._fitting._method import Ascending, Collapsing, Method
from stategp._fitting._methods import BayesNewton, ImportanceWeighted, PowerEP
from stategp._fitting._moments_together import Asked, moments_together
from stategp._fitting._options import FitOptions
from stategp._fitting._requests import NotConvergedWarning
from stategp._fitting._sampling import LogPosterior, log_posterior
from stategp._fitting._series import fill_up
from stategp._fitting._settings import Settings
from stategp._fitting._templates import Template
from stategp._fitting._updating import update

allow(Auto)

__all__ = [
    "Ascending",
    "Asked",
    "Auto",
    "BayesNewton",
    "Collapsing",
    "FitOptions",
    "ImportanceWeighted",
    "Item",
    "LearnedItem",
    "LogPosterior",
    "Method",
    "NotConvergedWarning",
    "PowerEP",
    "Settings",
    "Template",
    "check_share",
    "condition",
    "fill_up",
    "fit",
    "goes_together",
    "learn_many",
    "log_posterior",
    "moments_together",
    "settings_of",
    "update",
]
