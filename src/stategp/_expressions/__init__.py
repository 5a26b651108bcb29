"""Kernels written as text: ``matern52(30d) + periodic(1d) * matern32(2w)``.

- Kernels are added, multiplied, and multiplied by a positive number; parentheses group.
- ``trend: matern52 + yearly: periodic(1y)`` names the components.
- The first argument needs no name: the lengthscale (Matérn, squared exponential), the period
  (periodic, quasiperiodic, cosine, harmonic, oscillator) or the variance (constant).
  Hyperparameters that are not given get starting values from the data.
- Lengthscales, periods and decays are numbers or durations (``30d``, ``1d12h``); a duration is a
  number of days.
- A period (or frequency) in an expression is held fixed, because periods are usually known;
  ``periodic(learn(1y))`` learns it. All other values are starting values for learning;
  ``matern32(fixed(3))`` holds one fixed.
"""

from stategp._expressions._parse import parse_kernel
from stategp._expressions._tokens import tokenize
from stategp._expressions._write import write_kernel

__all__ = ["parse_kernel", "tokenize", "write_kernel"]
