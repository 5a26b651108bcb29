"""The hyperparameters of a model as rows of a table."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import numpy as np

from stategp.kernels import Sum
from stategp.parameters import Parameter


@dataclasses.dataclass(frozen=True)
class Hyperparameter:
    """A row of the table of hyperparameters."""

    name: str
    value: str
    unit: str
    how: str  # learned, fixed, …


def list_hyperparameters(model: Any, unit: str = "") -> Iterator[Hyperparameter]:
    """One row for each hyperparameter; `unit` is that of x.

    >>> import stategp as sg
    >>> [row.name for row in list_hyperparameters(sg.GP(sg.kernels.Matern32()))]
    ['variance', 'lengthscale', 'likelihood variance']
    """
    several = len(model.kernels) > 1
    for number, (kernel, mean) in enumerate(zip(model.kernels, model.means, strict=True)):
        before = f"function {number}: " if several else ""
        yield from _rows(kernel, before, unit)
        yield from _rows(mean, f"{before}mean", unit)
    yield from _rows(model.likelihood, "likelihood", unit)


def _rows(part: Any, name: str, unit: str) -> Iterator[Hyperparameter]:
    """The parameters below a part of the model, named by where they are."""
    if isinstance(part, Parameter):
        numbers = np.atleast_1d(np.asarray(part.value)).ravel()
        units = {"lengthscale": unit, "period": unit, "decay": unit}
        units["frequency"] = f"per {unit.removesuffix('s')}" if unit else ""
        how = "learned" if part.learned else "fixed"
        yield Hyperparameter(
            name.strip() or "value",
            ", ".join(f"{number:.5g}" for number in numbers),
            units.get(part.role, ""),
            how if part.prior is None else f"{how}, prior {part.prior}",
        )
    elif isinstance(part, Sum):
        for own, kernel in zip(part.names, part.kernels, strict=True):
            yield from _rows(kernel, f"{name}{own}", unit)
    elif isinstance(part, tuple | list):
        for number, below in enumerate(part):
            yield from _rows(below, f"{name} {number + 1}", unit)
    elif isinstance(part, eqx.Module):
        for field, below in vars(part).items():
            yield from _rows(below, f"{name} {field}", unit)
