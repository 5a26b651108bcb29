"""From a model and data to a posterior."""

from stategp._files import allow
from stategp._fitting._again import Refined, as_it_is, learn_again
from stategp._fitting._automatic import Auto
from stategp._fitting._checkpointing import Checkpoints
from stategp._fitting._doors import usual_stretches
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
from stategp._fitting._parts import NOT_BEGUN, TOGETHER, InParts, table_checkpoints
from stategp._fitting._requests import NotConvergedWarning
from stategp._fitting._sampling import LogPosterior, log_posterior
from stategp._fitting._series import fill_up
from stategp._fitting._settings import Settings
from stategp._fitting._shared_offsets import Offset, Pupil, learn_offsets
from stategp._fitting._sharing import varies
from stategp._fitting._templates import Template
from stategp._fitting._updating import update

allow(Auto)

__all__ = [
    "NOT_BEGUN",
    "TOGETHER",
    "Ascending",
    "Asked",
    "Auto",
    "BayesNewton",
    "Checkpoints",
    "Collapsing",
    "FitOptions",
    "ImportanceWeighted",
    "InParts",
    "Item",
    "LearnedItem",
    "LogPosterior",
    "Method",
    "NotConvergedWarning",
    "Offset",
    "PowerEP",
    "Pupil",
    "Refined",
    "Settings",
    "Template",
    "as_it_is",
    "check_share",
    "condition",
    "fill_up",
    "fit",
    "goes_together",
    "learn_again",
    "learn_many",
    "learn_offsets",
    "log_posterior",
    "moments_together",
    "settings_of",
    "table_checkpoints",
    "update",
    "usual_stretches",
    "varies",
]
