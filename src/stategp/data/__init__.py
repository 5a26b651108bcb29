"""In what shape the data travels."""

from stategp.data._loaders import Solar, solar
from stategp.data._observations import (
    Observations,
    numbers,
    observe,
    place_inducing,
    relative_inputs,
)

__all__ = [
    "Observations",
    "Solar",
    "numbers",
    "observe",
    "place_inducing",
    "relative_inputs",
    "solar",
]
