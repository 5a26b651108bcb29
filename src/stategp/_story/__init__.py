"""The content of figures and reports of a posterior."""

from stategp._story._account import Account
from stategp._story._charts import (
    Axis,
    Dots,
    Fill,
    Line,
    Mark,
    Panel,
    Rug,
    Rule,
    Spans,
    Stems,
    interval_name,
)
from stategp._story._checks import Checks, user_units
from stategp._story._hyperparameters import Hyperparameter
from stategp._story._maps import Layer, Maps, maps_of
from stategp._story._panels import (
    check_panels,
    component_panels,
    outcome_in_words,
    seconds,
    series_panel,
    trace_panel,
)
from stategp._story._portrait import Portrait, portray
from stategp._story._recount import recount
from stategp._story._story import Band, Curve, Season, Story, tell
from stategp._story._thinning import Columns, find_gaps, in_columns
from stategp._story._verdict import Remark

__all__ = [
    "Account",
    "Axis",
    "Band",
    "Checks",
    "Columns",
    "Curve",
    "Dots",
    "Fill",
    "Hyperparameter",
    "Layer",
    "Line",
    "Maps",
    "Mark",
    "Panel",
    "Portrait",
    "Remark",
    "Rug",
    "Rule",
    "Season",
    "Spans",
    "Stems",
    "Story",
    "check_panels",
    "component_panels",
    "find_gaps",
    "in_columns",
    "interval_name",
    "maps_of",
    "outcome_in_words",
    "portray",
    "recount",
    "seconds",
    "series_panel",
    "tell",
    "trace_panel",
    "user_units",
]
