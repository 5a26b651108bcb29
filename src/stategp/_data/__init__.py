"""In what shape the data travels."""

from stategp._data._bundle import Bundle, check_bundle
from stategp._data._cells import WIDEST, Cells, cut_cells, cut_short_cells
from stategp._data._compression import Compressed, Waves, compress, divided
from stategp._data._observations import (
    AtInducing,
    Column,
    Observations,
    check_support,
    distinct_inputs,
    distinct_steps,
    extra_values,
    inputs_as_given,
    numbers,
    observation_weights,
    observe,
    place_inducing,
    relative_inputs,
    traced_inputs,
)
from stategp._data._packing import one_if_equal, pack_moments, pack_rows, pad_observations
from stategp._data._pooled import Pooled, can_pool, pool
from stategp._data._table import (
    Observed,
    Table,
    as_columns,
    column_names,
    observe_table,
    place_all,
)
from stategp._data._views import ORDER, Expected, Moments, Rows, View, learns

__all__ = [
    "ORDER",
    "WIDEST",
    "AtInducing",
    "Bundle",
    "Cells",
    "Column",
    "Compressed",
    "Expected",
    "Moments",
    "Observations",
    "Observed",
    "Pooled",
    "Rows",
    "Table",
    "View",
    "Waves",
    "as_columns",
    "can_pool",
    "check_bundle",
    "check_support",
    "column_names",
    "compress",
    "cut_cells",
    "cut_short_cells",
    "distinct_inputs",
    "distinct_steps",
    "divided",
    "extra_values",
    "inputs_as_given",
    "learns",
    "numbers",
    "observation_weights",
    "observe",
    "observe_table",
    "one_if_equal",
    "pack_moments",
    "pack_rows",
    "pad_observations",
    "place_all",
    "place_inducing",
    "pool",
    "relative_inputs",
    "traced_inputs",
]
