"""The hyperparameters of a model as rows of a table."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import numpy as np

from stategp._models import AdditiveGP, DeepGP, MultiOutputGP, SpaceTimeGP, StackedGP
from stategp._runtime import on_device
from stategp.kernels import Product, Sum
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
    >>> rows = list_hyperparameters(sg.GP("trend: matern32 + weekly: (cosine(7) + cosine(3.5))"))
    >>> [row.name for row in rows][1:4]
    ['trend: lengthscale', 'weekly (cosine): variance', 'weekly (cosine): period']
    """
    if isinstance(model, DeepGP):
        for path in model.paths:
            name, number = path
            layer = model.layer(path)
            where = [name if number is None else f"{name} {number + 1}"]
            yield from _rows(layer.kernel, where, unit)
            yield from _rows(layer.mean, [*where, "mean"], unit)
    elif isinstance(model, AdditiveGP):
        for name, kernel in zip(model.names, model.kernels, strict=True):
            yield from _rows(kernel, [name], "")
        yield from _rows(model.mean, ["mean"], unit)
    elif isinstance(model, SpaceTimeGP):
        yield from _field(model, [], unit)
    elif isinstance(model, StackedGP):
        for number, part in enumerate(model.parts):
            if isinstance(part, SpaceTimeGP):
                yield from _field(part, [f"function {number}"], unit)
    elif isinstance(model, MultiOutputGP):
        yield from _outputs(model, unit)
        return
    else:
        several = len(model.kernels) > 1
        for number, (kernel, mean) in enumerate(zip(model.kernels, model.means, strict=True)):
            where = [f"function {number}"] if several else []
            yield from _rows(kernel, where, unit)
            yield from _rows(mean, [*where, "mean"], unit)
    yield from _rows(model.likelihood, ["likelihood"], unit)


def _field(model: SpaceTimeGP, where: list[str], unit: str) -> Iterator[Hyperparameter]:
    yield from _rows(model.space, [*where, "space"], "")
    yield from _rows(model.time, [*where, "time"], unit)
    yield from _rows(model.mean, [*where, "mean"], unit)


def _outputs(model: MultiOutputGP, unit: str) -> Iterator[Hyperparameter]:
    """Those of each output, and of the processes that they share."""
    if model.mixing is not None:
        for number, kernel in enumerate(model.kernels[: model.shared]):
            yield from _rows(kernel, [f"process {number + 1}"], unit)
    if isinstance(model.mixing, Parameter):
        for name, row in zip(model.function_names, np.asarray(model.mixing.value), strict=True):
            shares = dataclasses.replace(model.mixing, value=on_device(row), prior=None)
            yield from _rows(shares, [name], unit, "mixing")
    for number, name in enumerate(model.names):
        mine = model.functions_of(number)
        own = model.kernels[model.shared :][mine]  # none if all are shared
        for at, which in enumerate(model.function_names[mine]):
            if own:
                yield from _rows(own[at], [which], unit)
            yield from _rows(model.means[mine][at], [which, "mean"], unit)
        yield from _rows(model.likelihoods[number], [name, "likelihood"], unit)
    if model.ties is not None:
        R = np.asarray(model.noise_covariance())
        sizes = np.sqrt(np.diagonal(R))
        for number, name in enumerate(model.names[1:], start=1):
            row = on_device((R / sizes / sizes[:, None])[number, :number])
            ties = dataclasses.replace(model.ties, value=row)
            before = ", ".join(model.names[:number])
            yield from _rows(ties, [name, "likelihood"], unit, f"noise correlation with {before}")


def _rows(part: Any, where: list[str], unit: str, field: str = "") -> Iterator[Hyperparameter]:
    """The parameters below a part of the model, named by where they are."""
    if isinstance(part, Parameter):
        numbers = np.atleast_1d(np.asarray(part.value)).ravel()
        units = {"lengthscale": unit, "period": unit, "decay": unit}
        units["frequency"] = f"per {unit.removesuffix('s')}" if unit else ""
        how = "learned" if part.learned else "fixed"
        yield Hyperparameter(
            _named(where, field),
            ", ".join(f"{number:.5g}" for number in numbers),
            units.get(part.role, ""),
            how if part.prior is None else f"{how}, prior {part.prior}",
        )
    elif isinstance(part, Sum):
        for name, kernel in zip(part.names, part.kernels, strict=True):
            yield from _rows(kernel, [*where, name.replace("_", " ")], unit)
    elif isinstance(part, Product):
        sides = (part.left, part.right)
        kinds = [type(side).__name__.lower() for side in sides]
        for number, (side, kind) in enumerate(zip(sides, kinds, strict=True)):
            same = kinds[0] == kinds[1]
            yield from _rows(side, [*where, f"{kind} {number + 1}" if same else kind], unit)
    elif isinstance(part, tuple | list):
        for number, below in enumerate(part):
            yield from _rows(below, where, unit, f"{field} {number + 1}")
    elif isinstance(part, eqx.Module):
        for name, below in vars(part).items():
            yield from _rows(below, where, unit, f"{field} {name}")


def _named(where: list[str], field: str) -> str:
    """Where it is, what it is inside that, and what it is called: "weekly (cosine): variance"."""
    what = field.strip().replace("_", " ") or "value"
    if not where:
        return what
    inside = f" ({', '.join(where[1:])})" if len(where) > 1 else ""
    return f"{where[0]}{inside}: {what}"
