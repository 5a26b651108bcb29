"""What there is to say about learned hyperparameters that ran away, in words."""

from typing import Any

import numpy as np

from stategp._fitting._task import Task
from stategp._runtime import on_device
from stategp.parameters import Parameter, named_parameters, with_value

FAR = 1e3  # ranges of the data beyond which a lengthscale says "constant"


def remarks_on(model: Any, task: Task, edges: np.ndarray) -> list[str]:
    """A sentence for every learned hyperparameter that the data do not hold.

    `edges` is −1 or 1 for every coordinate of the hyperparameter vector that lies on the lower or
    upper edge of the range that was searched.
    """
    remarks, position = [], 0
    for name, parameter in named_parameters(model):
        if not parameter.learned:
            continue
        size = parameter.value.size
        span = task.span_of(model, parameter)
        remark = _remark(name, parameter, edges[position : position + size], span)
        position += size
        if remark is not None:
            remarks.append(remark)
    return remarks


def remarks_at(model: Any, values: Any, edges: np.ndarray, span: float) -> list[str]:
    """The same for parameters that have other values than those of the model."""
    remarks, position = [], 0
    for (name, parameter), value in zip(named_parameters(model), values, strict=True):
        if not parameter.learned:
            continue
        size = value.size
        there = edges[position : position + size]
        position += size
        if there.any() or (parameter.role == "lengthscale" and np.any(value > FAR * span)):
            remark = _remark(name, with_value(parameter, on_device(value)), there, span)
            remarks += [remark] if remark is not None else []
    return remarks


def _remark(name: str, parameter: Parameter, edges: np.ndarray, span: float | None) -> str | None:
    values = np.atleast_1d(np.asarray(parameter.value)).ravel()
    if parameter.role == "tails" and np.any(edges > 0):
        return (
            f"the data have no outliers: the tails of {name.split()[0]} became those of a "
            "Gaussian, so a Gaussian likelihood is sufficient"
        )
    if parameter.role in ("noise", "scale") and np.any(edges < 0):
        return (
            f"the noise fell to the smallest that these data can show ({name} {values.min():.3g}): "
            "f can pass through every observation, and with less noise the bound would still rise"
        )
    if parameter.role == "lengthscale" and span and np.any(values > FAR * span):
        return (
            f"{name} rose to {values.max():.3g}, {values.max() / span:.2g} times the range of the "
            "data: they show only that it is long, and its component hardly varies over them"
        )
    if np.any(edges) and parameter.role != "place":  # places may lie on the border of the data
        value = values[np.argmax(np.abs(edges))]
        return f"{name} stopped at {value:.3g}, the end of the range searched"
    return None
