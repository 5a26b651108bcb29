"""In what shape the data travels."""

from stategp.data._loaders import Solar, solar
from stategp.data._observations import (
    Observations,
    extra_values,
    numbers,
    observe,
    place_inducing,
    relative_inputs,
)

__all__ = [
    "Observations",
    "Solar",
    "extra_values",
    "numbers",
    "observe",
    "place_inducing",
    "relative_inputs",
    "solar",
]
