"""The hyperparameters of a kernel by name: `lengthscale`, in sums `trend__lengthscale`."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx

from stategp.kernels._base import Kernel
from stategp.parameters import Parameter, changed


def named_parameters(kernel: Kernel) -> dict[str, Parameter]:
    """Every hyperparameter; those of a part under the name of the part."""
    own = {name: value for name, value in vars(kernel).items() if isinstance(value, Parameter)}
    return own | {
        f"{part}__{name}": value
        for part, inner in kernel.parts().items()
        for name, value in named_parameters(inner).items()
    }


def with_parameters(kernel: Kernel, values: Mapping[str, Any]) -> Kernel:
    """The same kernel with other values of the hyperparameters named."""
    known = named_parameters(kernel)
    for name in values:
        if name not in known:
            raise ValueError(
                f"{kernel!r} has no hyperparameter {name!r}; it has {', '.join(known) or 'none'}"
            )
    if not values:
        return kernel
    parts = kernel.parts()
    if parts:
        for part in parts:
            inner = {
                name: values[f"{part}__{name}"]
                for name in named_parameters(parts[part])
                if f"{part}__{name}" in values
            }
            parts[part] = with_parameters(parts[part], inner)
        kernel = kernel.with_parts(parts)
    names = [name for name in values if isinstance(getattr(kernel, name, None), Parameter)]
    if not names:
        return kernel
    replaced: Kernel = eqx.tree_at(
        lambda k: [getattr(k, name) for name in names],
        kernel,
        [changed(name, known[name], values[name]) for name in names],
        is_leaf=lambda node: isinstance(node, Parameter),
    )
    return replaced.refined()
