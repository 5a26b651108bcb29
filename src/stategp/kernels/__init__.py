"""State-space kernels: priors of functions."""

from stategp.kernels._base import ClosedForm, Kernel
from stategp.kernels._compose import (
    Product,
    Sum,
    group_blocks,
    kernel_in_closed_form,
    outlines_of,
)
from stategp.kernels._deterministic import Constant, Cosine
from stategp.kernels._divergence_free import DivergenceFreeOscillator
from stategp.kernels._from_sde import FromSDE
from stategp.kernels._leg import LatentExponentiallyGenerated
from stategp.kernels._located import Function, Scaled, StepFunction
from stategp.kernels._matern import Matern, Matern12, Matern32, Matern52, Matern72
from stategp.kernels._oscillator import Oscillator
from stategp.kernels._periodic import Harmonic, Periodic, QuasiPeriodic
from stategp.kernels._piecewise import Piecewise
from stategp.kernels._sde import LinearSDE
from stategp.kernels._squared_exponential import SquaredExponential
from stategp.kernels._trends import DampedTrend, IntegratedWiener, Linear, Wiener

__all__ = [
    "ClosedForm",
    "Constant",
    "Cosine",
    "DampedTrend",
    "DivergenceFreeOscillator",
    "FromSDE",
    "Function",
    "Harmonic",
    "IntegratedWiener",
    "Kernel",
    "LatentExponentiallyGenerated",
    "Linear",
    "LinearSDE",
    "Matern",
    "Matern12",
    "Matern32",
    "Matern52",
    "Matern72",
    "Oscillator",
    "Periodic",
    "Piecewise",
    "Product",
    "QuasiPeriodic",
    "Scaled",
    "SquaredExponential",
    "StepFunction",
    "Sum",
    "Wiener",
    "group_blocks",
    "kernel_in_closed_form",
    "outlines_of",
]
