"""Names of hyperparameters, as columns of a table."""

from typing import Any

from stategp._models import GP
from stategp.parameters import all_parameters


def names_of(model: GP) -> list[str]:
    """A name for every number among the hyperparameters, in the order of the fields.

    Those of the kernel are named as by `kernel.named_parameters()`.

    >>> import stategp as sg
    >>> names_of(sg.GP("trend: matern32 + cosine(7)", mean=sg.means.Constant()))[:2]
    ['trend__variance', 'trend__lengthscale']
    """
    known: dict[int, str] = {}
    several = len(model.kernels) > 1
    for number, (kernel, mean) in enumerate(zip(model.kernels, model.means, strict=True)):
        prefix = f"function{number}__" if several else ""
        for name, parameter in kernel.named_parameters().items():
            known[id(parameter)] = f"{prefix}{name}"
        known |= _of_fields(mean, f"{prefix}mean")
    known |= _of_fields(model.likelihood, "likelihood")
    names: list[str] = []
    for parameter in all_parameters(model):
        name = known.get(id(parameter), "parameter")
        size = parameter.value.size
        names += [name] if parameter.value.ndim == 0 else [f"{name}_{i}" for i in range(size)]
    return [f"{name}_{names[:n].count(name) + 1}" if name in names[:n] else name
            for n, name in enumerate(names)]  # fmt: skip


def _of_fields(part: Any, prefix: str) -> dict[int, str]:
    """The parameters that are fields of a part, by their identity."""
    fields = {id(value): name for name, value in vars(part).items()}
    return {
        id(parameter): f"{prefix}__{fields.get(id(parameter), 'parameter')}"
        for parameter in all_parameters(part)
    }
