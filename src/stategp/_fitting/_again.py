"""Hyperparameters of many series learned again, from their present values."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stategp._data import Observations
from stategp._fitting._fitting import fit
from stategp._fitting._many import Item, LearnedItem, learn_many
from stategp._models import GP
from stategp._posteriors import Posterior
from stategp.parameters import Parameter, map_parameters


class Refined(NamedTuple):
    """A series, with the model that its search begins with."""

    model: GP
    data: Observations
    x: np.ndarray  # as the user has it


def learn_again(series: Sequence[Refined], progress: Any) -> list[LearnedItem]:
    """What each learns, beginning with its own model."""
    items = [Item(map_parameters(as_it_is, one.model), one.data) for one in series]

    def alone(number: int) -> Posterior:
        (model, data), x = items[number], series[number].x
        name = model.likelihood.extra
        extras: dict[str, Any] = {} if name is None else {name: np.asarray(data.extra)}
        weights = np.asarray(data.weights)
        posterior: Posterior = fit(
            model, x, np.asarray(data.y), weights=weights, **extras, progress=False
        )
        return posterior

    return learn_many(items, alone, stretches=(1.0,), progress=progress)[0] if items else []


def as_it_is(parameter: Parameter) -> Parameter:
    """A parameter whose search starts from its present value."""
    return dataclasses.replace(parameter, given=True)
