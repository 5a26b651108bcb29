"""What there is to show of a posterior: pictures and report draw this."""

from stategp._story._checks import Checks, user_units
from stategp._story._hyperparameters import Hyperparameter
from stategp._story._story import Band, Curve, Story, tell
from stategp._story._thinning import Columns, find_gaps, in_columns

__all__ = [
    "Band",
    "Checks",
    "Columns",
    "Curve",
    "Hyperparameter",
    "Story",
    "find_gaps",
    "in_columns",
    "tell",
    "user_units",
]
