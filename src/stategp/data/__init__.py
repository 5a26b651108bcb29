"""In what shape the data travels."""

from stategp.data._loaders import (
    Counts,
    Flights,
    Folds,
    Solar,
    aircraft,
    airline,
    coal,
    motorcycle,
    solar,
)
from stategp.data._observations import (
    Observations,
    check_support,
    distinct_inputs,
    extra_values,
    numbers,
    observe,
    place_inducing,
    relative_inputs,
)
from stategp.data._packing import WIDEST, cut_cells, pack_moments, pack_rows, pad_observations
from stategp.data._table import (
    Observed,
    Table,
    as_columns,
    column_names,
    observe_table,
    place_all,
)
from stategp.data._views import Expected, Moments, Rows, View

__all__ = [
    "WIDEST",
    "Counts",
    "Expected",
    "Flights",
    "Folds",
    "Moments",
    "Observations",
    "Observed",
    "Rows",
    "Solar",
    "Table",
    "View",
    "aircraft",
    "airline",
    "as_columns",
    "check_support",
    "coal",
    "column_names",
    "cut_cells",
    "distinct_inputs",
    "extra_values",
    "motorcycle",
    "numbers",
    "observe",
    "observe_table",
    "pack_moments",
    "pack_rows",
    "pad_observations",
    "place_all",
    "place_inducing",
    "relative_inputs",
    "solar",
]
