"""In what shape the data travels."""

from stategp.data._loaders import Counts, Folds, Solar, aircraft, coal, motorcycle, solar
from stategp.data._observations import (
    Observations,
    check_support,
    extra_values,
    numbers,
    observe,
    place_inducing,
    relative_inputs,
)

__all__ = [
    "Counts",
    "Folds",
    "Observations",
    "Solar",
    "aircraft",
    "check_support",
    "coal",
    "extra_values",
    "motorcycle",
    "numbers",
    "observe",
    "place_inducing",
    "relative_inputs",
    "solar",
]
