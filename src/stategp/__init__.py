"""Gaussian processes for long series.

Importing stategp turns on JAX's 64-bit mode: everything here is double precision.
"""

import jax

jax.config.update("jax_enable_x64", True)
