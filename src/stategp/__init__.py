"""Gaussian processes for long series.

Importing stategp turns on JAX's 64-bit mode (everything is computed in double precision) and,
unless one is configured, JAX's cache of compiled programs.
"""

import gc
import importlib
from typing import TYPE_CHECKING, Any

# Modules are many objects and no garbage: looking for it takes a quarter of the time of importing.
_collecting = gc.isenabled()
gc.disable()

try:
    import jax

    jax.config.update("jax_enable_x64", True)

    from stategp._runtime import keep_compiled_programs

    keep_compiled_programs()

    from stategp import chain, data, kernels, likelihoods, means, priors, spatial
    from stategp._data import Summary
    from stategp._expressions import parse_kernel, write_kernel
    from stategp._fitting import (
        Auto,
        BayesNewton,
        ImportanceWeighted,
        LogPosterior,
        NotConvergedWarning,
        PowerEP,
        condition,
        fit,
        log_posterior,
    )
    from stategp._inference import Certificate, CheckpointWarning, FitResult, Outcome
    from stategp._models import (
        GP,
        AdditiveGP,
        DeepGP,
        JointGP,
        Layer,
        Learned,
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
finally:
    if _collecting:
        gc.enable()

if TYPE_CHECKING:  # imported on first use, see __getattr__
    from stategp import metrics, plots, report
    from stategp._estimators import GPClassifier, GPRegressor
    from stategp._forecasting import Effect, Event, Forecaster, ForecastWarning, Holidays
    from stategp._loading import load, register
    from stategp._many import ManyPosteriors, fit_many

__version__ = "0.1.0.dev0"

# What not everybody needs, and where it is: parts with optional libraries, and large ones.
_LATER = {
    "_estimators": ("GPClassifier", "GPRegressor"),
    "_forecasting": ("Effect", "Event", "ForecastWarning", "Forecaster", "Holidays"),
    "_loading": ("load", "register"),
    "_many": ("ManyPosteriors", "fit_many"),
}
_MODULES = ("metrics", "plots", "report")


def __getattr__(name: str) -> Any:
    """Parts that not everybody needs are imported on first use."""
    if name in _MODULES:
        return importlib.import_module(f"stategp.{name}")
    for module, names in _LATER.items():
        if name in names:
            found = getattr(importlib.import_module(f"stategp.{module}"), name)
            globals()[name] = found  # so that it is looked for once
            return found
    raise AttributeError(f"module 'stategp' has no attribute {name!r}")


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
