"""The data of a series, in whatever form they come."""

from typing import Any

from stategp._data import Observations, Summarised, Summary, observe
from stategp._models import GP
from stategp._runtime import Progress


def observations(
    model: GP, x: Any, y: Any, extras: dict[str, Any], weights: Any, show: Progress
) -> Observations:
    """From x and y, or from a summary in the place of both."""
    if not isinstance(x, Summary):
        if y is None:
            raise ValueError("y is missing: give x and y, or a summary (sg.summarise) alone")
        return observe(x, y, model.likelihood, extras=extras, weights=weights)
    given = {"y": y, "weights": weights} | extras
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name} is a part of the summary: give it to sg.summarise instead")
    return Summarised.of(x)
