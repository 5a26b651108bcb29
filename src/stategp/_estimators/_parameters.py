"""Hyperparameters of the kernel as scikit-learn spells parameters of parts: kernel__lengthscale.

A kernel never changes, so that setting one of them replaces the kernel of the estimator.
"""

from collections.abc import Mapping
from typing import Any

from sklearn.base import BaseEstimator

from stategp._models import as_kernel

_MARK = "kernel__"


class WithKernel(BaseEstimator):  # type: ignore[misc]  # it has no types
    """An estimator whose parameter `kernel` has parameters of its own."""

    kernel: Any

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; with `deep`, those of the kernel (`kernel__lengthscale`) too."""
        parameters: dict[str, Any] = super().get_params(deep)
        if deep:
            parameters |= {
                f"{_MARK}{name}": value for name, value in _parameters(self.kernel).items()
            }
        return parameters

    def set_params(self, **params: Any) -> "WithKernel":
        """Change parameters by name, those of the kernel as `kernel__lengthscale`."""
        inner = {
            name.removeprefix(_MARK): value
            for name, value in params.items()
            if name.startswith(_MARK)
        }
        super().set_params(**{k: v for k, v in params.items() if not k.startswith(_MARK)})
        if inner:
            self.kernel = _replaced(self.kernel, inner)
        return self


def _columns(kernel: Any) -> dict[str, Any] | None:
    """The kernels of the columns by name, or by number if they are a list; None if there is one."""
    if isinstance(kernel, Mapping):
        return {str(name): part for name, part in kernel.items()}
    if isinstance(kernel, list | tuple):
        return {str(number): part for number, part in enumerate(kernel)}
    return None


def _parameters(kernel: Any) -> dict[str, Any]:
    columns = _columns(kernel)
    if columns is not None:
        return {
            f"{column}__{name}": value
            for column, part in columns.items()
            for name, value in _parameters(part).items()
        }
    try:
        return {} if kernel is None else dict(as_kernel(kernel).named_parameters())
    except ValueError:  # no kernel: `fit` says so
        return {}


def _replaced(kernel: Any, values: Mapping[str, Any]) -> Any:
    if kernel is None:
        raise ValueError(
            f"{_MARK}{next(iter(values))} was set, but no kernel is given; give one, such as "
            "kernel='matern52'"
        )
    columns = _columns(kernel)
    if columns is None:
        return as_kernel(kernel).with_parameters(**values)
    known = _parameters(kernel)
    for name in values:
        if name not in known:
            raise ValueError(f"no kernel has the hyperparameter {name!r}; there are {_few(known)}")
    replaced = [
        _replaced(part, inner) if (inner := _under(column, values, columns)) else part
        for column, part in columns.items()
    ]
    if isinstance(kernel, Mapping):
        return dict(zip(kernel, replaced, strict=True))
    return type(kernel)(replaced)


def _under(column: str, values: Mapping[str, Any], columns: Mapping[str, Any]) -> dict[str, Any]:
    """The values for one column; a name may begin with those of two columns: the longer counts."""

    def owner(name: str) -> str:
        return max((c for c in columns if name.startswith(f"{c}__")), key=len)

    mark = f"{column}__"
    return {n.removeprefix(mark): value for n, value in values.items() if owner(n) == column}


def _few(names: Mapping[str, Any]) -> str:
    shown = list(names)
    return ", ".join(shown[:12]) + (", …" if len(shown) > 12 else "")
