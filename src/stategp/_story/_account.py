"""What there is to say of any fit, whatever was fitted."""

import dataclasses
import importlib.metadata
import platform
from typing import Any

import numpy as np

from stategp._story._hyperparameters import Hyperparameter, list_hyperparameters


@dataclasses.dataclass(frozen=True, kw_only=True)
class Account:
    """A title, how the fit went, what was learned, and with what."""

    title: str
    trace: np.ndarray  # objective at each step of the fit
    total_seconds: float  # that the fit took, from the call to the answer
    converged: bool | None  # None: nothing was optimised
    outcome: str  # of the fit, in words
    model: str
    hyperparameters: tuple[Hyperparameter, ...]
    notes: tuple[str, ...]  # about the curves, for the reader
    call: str
    versions: dict[str, str]


def account(
    posterior: Any, *, title: str, unit: str, notes: tuple[str, ...], call: str | None
) -> dict[str, Any]:
    """The fields of an account."""
    fit = posterior.fit_result
    return {
        "title": title,
        "trace": np.array(fit.trace if fit else ()),
        "total_seconds": fit.total_seconds if fit else float("nan"),
        "converged": fit.converged if fit else None,
        "outcome": str(fit) if fit else "",
        "model": repr(posterior.model),
        "hyperparameters": tuple(list_hyperparameters(posterior.model, unit)),
        "notes": notes,
        "call": "" if call is None else call,
        "versions": _versions(),
    }


def _versions() -> dict[str, str]:
    names = ("stategp", "jax", "numpy", "scipy")
    return {name: importlib.metadata.version(name) for name in names} | {
        "python": platform.python_version()
    }
