"""The data of a series, in whatever form they come."""

from typing import Any

import jax
import numpy as np

from stategp._data import (
    PER_LENGTHSCALE,
    WIDEST,
    Observations,
    Stretches,
    Summarised,
    Summary,
    observe,
)
from stategp._inference import fastest_rate
from stategp._models import GP
from stategp._runtime import Progress, on_device
from stategp._streams import Draws, Stream
from stategp.parameters import Parameter, map_parameters, with_value

_FINENESS = 2000  # lengthscales to the range of the data, for a stream that states none
_SHORTER = 4  # times that a lengthscale may become, if one was given


def observations(
    model: GP,
    x: Any,
    y: Any,
    extras: dict[str, Any],
    weights: Any,
    show: Progress,
    *,
    draws: Draws | None = None,
    stretches: Stretches | None = None,
) -> Observations:
    """From x and y, or from a summary or a stream in the place of both.

    `draws`: how minibatches will be asked for. `stretches`: those of a stream that states none, by
    default made for the kernel.
    """
    if not isinstance(x, Summary | Stream):
        if y is None:
            raise ValueError(
                "y is missing: give x and y, or a summary (sg.summarise) or stream (sg.stream) "
                "alone"
            )
        return observe(x, y, model.likelihood, extras=extras, weights=weights)
    kind = type(x).__name__.lower()
    for name, value in ({"y": y, "weights": weights} | extras).items():
        if value is not None:
            door = "sg.summarise" if isinstance(x, Summary) else "sg.stream"
            raise ValueError(f"{name} is a part of the {kind}: give it to {door} instead")
    if isinstance(x, Stream):
        stated = x.stretches or stretches
        if draws is not None:
            if jax.process_count() > 1:
                raise ValueError(
                    "minibatches are drawn by one process, and there are several: leave batch_size "
                    "out, or fit in one process"
                )
            as_read = x.drawn(
                model.likelihood, lambda *ends: stated or _stretches_for(model, *ends), draws
            )
            if as_read is not None:
                return as_read
        stretches = stated or _stretches_for(model, *x.ends())
        if draws is not None or not x.sums_suffice(model.likelihood):
            return x.stored(model.likelihood, stretches, show, single=draws is not None)
        x = x.summary(model.likelihood, stretches=stretches, progress=show)
    return Summarised.of(x)


def refuse_sums(model: Any, x: Any) -> None:
    """Refuse summaries and streams for models that need the observations."""
    if isinstance(x, Summary | Stream):
        raise ValueError(
            f"a {type(x).__name__.lower()} is for an sg.GP, which has one input; an "
            f"{type(model).__name__} is fitted to the observations themselves"
        )


def usual_stretches(first: float, last: float) -> Stretches:
    """Stretches where nothing is known but the first and the last input."""
    return Stretches(0, ((last - first) or 1.0) / _FINENESS / PER_LENGTHSCALE)


def _stretches_for(model: GP, first: float, last: float) -> Stretches:
    """Stretches for the kernel: its lengthscales where they are given, else far shorter ones."""
    span = (last - first) or 1.0
    shortest: list[float] = []

    def shorter(parameter: Parameter) -> Parameter:
        if parameter.role in ("period", "frequency") and not parameter.given:
            raise ValueError(
                "the kernel has a period that is to be learned, and a stream is read once: give "
                "the period a starting value, or state the shortest (sg.stream(…, period=…, "
                "shortest=…))"
            )
        if parameter.role not in ("lengthscale", "decay"):
            return parameter
        if not parameter.given:
            value = np.full(parameter.value.shape, span / _FINENESS)
        else:
            value = np.asarray(parameter.value) / (_SHORTER if parameter.learned else 1)
        shortest.append(float(np.min(value)))
        return with_value(parameter, on_device(value))

    rate = fastest_rate(map_parameters(shorter, model))
    width = min(shortest, default=span / _FINENESS) / PER_LENGTHSCALE
    return Stretches(0, min(width, WIDEST / rate) if rate > 0 else width)
