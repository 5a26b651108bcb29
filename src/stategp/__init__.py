"""Gaussian processes for long series.

Importing stategp turns on JAX's 64-bit mode (everything is computed in double precision) and,
unless one is configured, JAX's cache of compiled programs.
"""

# ruff: noqa: E402

import importlib
from typing import TYPE_CHECKING, Any

import jax

jax.config.update("jax_enable_x64", True)

from stategp._runtime import keep_compiled_programs

keep_compiled_programs()

from stategp import chain, data, kernels, likelihoods, means, metrics, priors, spatial
from stategp._data import Summary
from stategp._expressions import parse_kernel, write_kernel
from stategp._files import load, register
from stategp._fitting import (
    Auto,
    BayesNewton,
    ImportanceWeighted,
    Learned,
    LogPosterior,
    NotConvergedWarning,
    PowerEP,
    condition,
    fit,
    log_posterior,
)
from stategp._forecasting import Effect, Event, Forecaster, ForecastWarning, Holidays
from stategp._inference import Certificate, CheckpointWarning, FitResult, Outcome
from stategp._many import ManyPosteriors, fit_many
from stategp._models import (
    GP,
    AdditiveGP,
    DeepGP,
    JointGP,
    Layer,
    MultiOutputGP,
    SpaceTimeGP,
    StackedGP,
)
from stategp._native import describe_runtime
from stategp._posteriors import (
    AdditivePosterior,
    DeepPosterior,
    Filter,
    JointPosterior,
    MultiOutputPosterior,
    Posterior,
    SpaceTimePosterior,
    StackedPosterior,
)
from stategp._runtime import join_processes
from stategp._streams import Stream, stream, summarise
from stategp.parameters import Parameter, fixed, parameter

if TYPE_CHECKING:  # imported on first use, see __getattr__
    from stategp import plots, report
    from stategp._estimators import GPClassifier, GPRegressor

__version__ = "0.1.0.dev0"

_LAZY = {"GPClassifier": "_estimators", "GPRegressor": "_estimators", "plots": "", "report": ""}


def __getattr__(name: str) -> Any:
    """Parts that need optional libraries are imported on first use."""
    if name not in _LAZY:
        raise AttributeError(f"module 'stategp' has no attribute {name!r}")
    module = importlib.import_module(f"stategp.{_LAZY[name] or name}")
    return getattr(module, name) if _LAZY[name] else module


def __dir__() -> list[str]:
    """The public interface, including the parts that are imported on first use."""
    return sorted([*__all__, "__version__"])


__all__ = [
    "GP",
    "AdditiveGP",
    "AdditivePosterior",
    "Auto",
    "BayesNewton",
    "Certificate",
    "CheckpointWarning",
    "DeepGP",
    "DeepPosterior",
    "Effect",
    "Event",
    "Filter",
    "FitResult",
    "ForecastWarning",
    "Forecaster",
    "GPClassifier",
    "GPRegressor",
    "Holidays",
    "ImportanceWeighted",
    "JointGP",
    "JointPosterior",
    "Layer",
    "Learned",
    "LogPosterior",
    "ManyPosteriors",
    "MultiOutputGP",
    "MultiOutputPosterior",
    "NotConvergedWarning",
    "Outcome",
    "Parameter",
    "Posterior",
    "PowerEP",
    "SpaceTimeGP",
    "SpaceTimePosterior",
    "StackedGP",
    "StackedPosterior",
    "Stream",
    "Summary",
    "chain",
    "condition",
    "data",
    "describe_runtime",
    "fit",
    "fit_many",
    "fixed",
    "join_processes",
    "kernels",
    "likelihoods",
    "load",
    "log_posterior",
    "means",
    "metrics",
    "parameter",
    "parse_kernel",
    "plots",
    "priors",
    "register",
    "report",
    "spatial",
    "stream",
    "summarise",
    "write_kernel",
]
