"""In what shape the data travels."""

from stategp._data._bundle import Bundle, check_bundle
from stategp._data._cells import WIDEST, Cells, cut_cells, cut_short_cells
from stategp._data._compression import Compressed, Waves, compress, divided
from stategp._data._drawn import Drawn
from stategp._data._growing import (
    Forgetting,
    inducing_at_edges,
    more_inducing,
    observe_more,
    summarise_more,
)
from stategp._data._merging import merge, merged, repeat
from stategp._data._observations import (
    AtInducing,
    Column,
    Observations,
    check_columns,
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
from stategp._data._on_stretches import OnStretches
from stategp._data._outputs import ByOutput, Outputs, by_output, observe_several, output_numbers
from stategp._data._packing import one_if_equal, pack_moments, pack_rows, pad_observations
from stategp._data._placed import PlacedRows
from stategp._data._pooled import Pooled, can_pool, pool
from stategp._data._sample import SAMPLED, Sample
from stategp._data._space_time import observe_in_space, packed_rows, times_and_places
from stategp._data._store import Store
from stategp._data._stored import InBatches, Sampled, Stored
from stategp._data._stretches import PER_LENGTHSCALE, PER_PERIOD, Occupied, Stretches
from stategp._data._summarised import Summarised
from stategp._data._summary import (
    Summary,
    has_sums,
    make_stretches,
    summable,
    summarise_columns,
)
from stategp._data._sums import GaussianSums, Tallies
from stategp._data._table import (
    Observed,
    Table,
    as_columns,
    column_names,
    observe_table,
    place_all,
)
from stategp._data._together import Together, seen_together
from stategp._data._views import ORDER, Expected, Moments, Rows, View, learns

__all__ = [
    "ORDER",
    "PER_LENGTHSCALE",
    "PER_PERIOD",
    "SAMPLED",
    "WIDEST",
    "AtInducing",
    "Bundle",
    "ByOutput",
    "Cells",
    "Column",
    "Compressed",
    "Drawn",
    "Expected",
    "Forgetting",
    "GaussianSums",
    "InBatches",
    "Moments",
    "Observations",
    "Observed",
    "Occupied",
    "OnStretches",
    "Outputs",
    "PlacedRows",
    "Pooled",
    "Rows",
    "Sample",
    "Sampled",
    "Store",
    "Stored",
    "Stretches",
    "Summarised",
    "Summary",
    "Table",
    "Tallies",
    "Together",
    "View",
    "Waves",
    "as_columns",
    "by_output",
    "can_pool",
    "check_bundle",
    "check_columns",
    "check_support",
    "column_names",
    "compress",
    "cut_cells",
    "cut_short_cells",
    "distinct_inputs",
    "distinct_steps",
    "divided",
    "extra_values",
    "has_sums",
    "inducing_at_edges",
    "inputs_as_given",
    "learns",
    "make_stretches",
    "merge",
    "merged",
    "more_inducing",
    "numbers",
    "observation_weights",
    "observe",
    "observe_in_space",
    "observe_more",
    "observe_several",
    "observe_table",
    "one_if_equal",
    "output_numbers",
    "pack_moments",
    "pack_rows",
    "packed_rows",
    "pad_observations",
    "place_all",
    "place_inducing",
    "pool",
    "relative_inputs",
    "repeat",
    "seen_together",
    "summable",
    "summarise_columns",
    "summarise_more",
    "times_and_places",
    "traced_inputs",
]
