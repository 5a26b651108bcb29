"""Gaussian processes for long series.

Importing stategp turns on JAX's 64-bit mode (everything here is double precision) and, unless one
is set, JAX's cache of compiled programs.
"""

import importlib
from typing import Any

import jax

jax.config.update("jax_enable_x64", True)

from stategp.compilation import keep_compiled_programs  # noqa: E402

keep_compiled_programs()

from stategp import chain, data, kernels, likelihoods, means, priors  # noqa: E402
from stategp.additive import AdditivePosterior  # noqa: E402
from stategp.automatic import Auto  # noqa: E402
from stategp.deep import DeepPosterior  # noqa: E402
from stategp.expressions import parse_kernel, write_kernel  # noqa: E402
from stategp.files import load  # noqa: E402
from stategp.fitting import NotConvergedWarning, condition, fit  # noqa: E402
from stategp.forecasting import Forecaster  # noqa: E402
from stategp.inference import Certificate, FitResult, PowerEP  # noqa: E402
from stategp.models import GP, AdditiveGP, DeepGP, Layer  # noqa: E402
from stategp.parameters import Parameter, fixed, parameter  # noqa: E402
from stategp.posterior import Posterior  # noqa: E402
from stategp.sampling import LogPosterior, log_posterior  # noqa: E402

_LAZY = {"GPClassifier": "estimators", "GPRegressor": "estimators", "plots": "", "report": ""}


def __getattr__(name: str) -> Any:
    """Front doors that need libraries of their own are opened when somebody comes."""
    if name not in _LAZY:
        raise AttributeError(f"module 'stategp' has no attribute {name!r}")
    module = importlib.import_module(f"stategp.{_LAZY[name] or name}")
    return getattr(module, name) if _LAZY[name] else module


__all__ = [
    "GP",
    "AdditiveGP",
    "AdditivePosterior",
    "Auto",
    "Certificate",
    "DeepGP",
    "DeepPosterior",
    "FitResult",
    "Forecaster",
    "GPClassifier",
    "GPRegressor",
    "Layer",
    "LogPosterior",
    "NotConvergedWarning",
    "Parameter",
    "Posterior",
    "PowerEP",
    "chain",
    "condition",
    "data",
    "fit",
    "fixed",
    "kernels",
    "likelihoods",
    "load",
    "log_posterior",
    "means",
    "parameter",
    "parse_kernel",
    "plots",
    "priors",
    "report",
    "write_kernel",
]
