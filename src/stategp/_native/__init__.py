"""The recursions along a chain as compiled kernels, and what stategp runs on."""

from stategp._native._describe import Runtime, describe_runtime
from stategp._native._holding import hold
from stategp._native._kernels import call, in_use, problem

__all__ = ["Runtime", "call", "describe_runtime", "hold", "in_use", "problem"]
