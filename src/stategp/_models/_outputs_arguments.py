"""What users give to a model of several outputs, checked."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from stategp._arguments import as_whole
from stategp._models._loadings import Loadings
from stategp.likelihoods import from_name
from stategp.parameters import Parameter, declare, parameter


def is_list(parts: Any) -> bool:
    """Whether there is one for each of something."""
    return isinstance(parts, list | tuple | Mapping)


def length_of(parts: Any) -> int | None:
    """How many there are, if there is one for each of something."""
    return len(parts) if isinstance(parts, list | tuple) else None


def named_parts(kernels: Any) -> tuple[tuple[str, ...] | None, tuple[Any, ...]]:
    """Kernels, and the names of outputs if they came with them."""
    if isinstance(kernels, Mapping):
        names, parts = tuple(map(str, kernels)), tuple(kernels.values())
    else:
        names, parts = None, tuple(kernels) if isinstance(kernels, list | tuple) else (kernels,)
    if not parts:
        raise ValueError("kernels is empty: a model needs at least one")
    return names, parts


def as_names(outputs: Any) -> tuple[str, ...]:
    """The names of outputs, from a list or their number."""
    count = as_whole(outputs)
    if count is not None and count > 0:
        return tuple(map(str, range(count)))
    if isinstance(outputs, list | tuple) and outputs:
        return tuple(map(str, outputs))
    raise ValueError(f"outputs must be a list of names or a positive number, got {outputs!r}")


def as_mixing(mixing: Any) -> Parameter | Loadings:
    """An open parameter without a shape for "learned"; a user's function with its shape."""
    if isinstance(mixing, Loadings):
        return mixing
    if callable(mixing) and not isinstance(mixing, Parameter):
        return Loadings.of(mixing)
    if isinstance(mixing, str):
        if mixing != "learned":
            raise ValueError(
                "mixing must be None, 'learned', an array with a row for each output and a column "
                f"for each kernel, or a function of x that gives one, got {mixing!r}"
            )
        return parameter()
    if isinstance(mixing, Parameter) and not mixing.given:
        return mixing
    return declare(
        "mixing", mixing, default=np.zeros((1, 1)), constraint="real", role="shape", ndim=2
    )


def outputs_mixed(matrix: Parameter | Loadings | None, likelihood: Any) -> int | None:
    """How many outputs a mixing matrix is for, if it tells: it has a row for each function."""
    if matrix is None or not _shape(matrix) or is_list(likelihood):
        return None
    named = from_name(likelihood) if isinstance(likelihood, str) else likelihood
    functions = getattr(named, "latents", 1)
    rows = int(_shape(matrix)[0])
    return None if rows % functions else rows // functions


def shaped_mixing(
    matrix: Parameter | Loadings, functions: int, processes: int
) -> Parameter | Loadings:
    """The matrix with a row for each function and a column for each process."""
    if isinstance(matrix, Loadings) or matrix.value.ndim:
        if _shape(matrix) != (functions, processes):
            raise ValueError(
                f"mixing must have a row for each of {functions} outputs (for each function, where "
                f"likelihoods read several) and a column for each of {processes} kernels, got "
                f"shape {_shape(matrix)}"
            )
        return matrix
    start = np.eye(functions, processes) + 0.1
    return declare("mixing", matrix, default=start, constraint="real", role="shape", ndim=2)


def _shape(matrix: Parameter | Loadings) -> tuple[int, ...]:
    shape: tuple[int, ...] = matrix.shape if isinstance(matrix, Loadings) else matrix.value.shape
    return shape


def agreed_count(known: dict[str, int | None]) -> int:
    """How many outputs there are, by everything that tells it."""
    told = {name: count for name, count in known.items() if count is not None}
    if not told:
        raise ValueError("how many outputs are there? give outputs=…, their number or their names")
    if len(set(told.values())) > 1:
        said = ", ".join(f"{count} by {name}" for name, count in told.items())
        raise ValueError(f"the number of outputs is not clear: {said}")
    return next(iter(told.values()))


def for_each(parts: Any, count: int) -> tuple[Any, ...]:
    """One for each output."""
    return tuple(parts) if isinstance(parts, list | tuple) else (parts,) * count
