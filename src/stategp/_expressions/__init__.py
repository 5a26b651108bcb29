"""Kernels written as text: ``matern52(30d) + periodic(1d) * matern32(2w)``.

- Kernels are added, multiplied, and multiplied by a positive number; parentheses group.
- ``trend: matern52 + yearly: periodic(1y)`` names the components.
- The first argument needs no name: the lengthscale (Matérn, squared exponential), the period
  (periodic, quasiperiodic, cosine, harmonic, oscillator) or the variance (constant). What is not
  given is started from the data.
- Lengthscales, periods and decays are numbers or durations (``30d``, ``1d12h``); a duration is a
  number of days.
- A period (or frequency) that is written down is held fixed, since a year is a year;
  ``periodic(learn(1y))`` learns it. Everything else is a starting value to learn from;
  ``matern32(fixed(3))`` holds it fixed.
"""

from stategp._expressions._parse import parse_kernel
from stategp._expressions._tokens import tokenize
from stategp._expressions._write import write_kernel

__all__ = ["parse_kernel", "tokenize", "write_kernel"]
