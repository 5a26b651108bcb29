"""The same function with compiled kernels and without."""

from contextlib import contextmanager
from functools import partial

import jax
import numpy as np

from stategp._native import _kernels


@contextmanager
def in_jax():
    """Inside, what is traced for the first time does not use the kernels."""
    before, _kernels._PROBLEM = _kernels._PROBLEM, "compared with"
    try:
        yield
    finally:
        _kernels._PROBLEM = before


def both(function, *arguments):
    """The same function with and without the kernels, traced anew each time."""
    compiled = jax.jit(partial(function))(*arguments)
    with in_jax():
        twin = jax.jit(partial(function))(*arguments)
    return compiled, twin


def agree(compiled, twin, tolerance=1e-11):
    for ours, theirs in zip(jax.tree.leaves(compiled), jax.tree.leaves(twin), strict=True):
        size = np.max(np.abs(theirs)) if np.size(theirs) else 0.0
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance * size)


def sum_of(*kernels):
    return sum(kernels[1:], start=kernels[0])
