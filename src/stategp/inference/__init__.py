"""How we find q, and the hyperparameters."""

from stategp.inference._conjugate import Inferred, infer, objective_and_gradient
from stategp.inference._lbfgs import FitResult, maximise
from stategp.inference._starting_values import search_scales, starting_model

__all__ = [
    "FitResult",
    "Inferred",
    "infer",
    "maximise",
    "objective_and_gradient",
    "search_scales",
    "starting_model",
]
