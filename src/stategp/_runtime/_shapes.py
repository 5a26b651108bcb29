"""Few shapes: every new size of an array is a new program to compile, which takes seconds.

Arrays are therefore padded up to one of few sizes with entries that change nothing: observations
of weight zero, inducing points that repeat the last one.
"""

import math

import numpy as np

_SMALLEST = 16
_DOUBLING = 1024  # up to here sizes double; above, eight of them lie between n and 2n


def padded_size(count: int) -> int:
    """The smallest of the few sizes that is at least `count`.

    >>> padded_size(3), padded_size(700), padded_size(100_000)
    (16, 1024, 106496)
    """
    if count <= _DOUBLING:
        return max(_SMALLEST, 1 << max(count - 1, 0).bit_length())
    step = 1 << max((count - 1).bit_length() - 4, 0)
    return -(-count // step) * step


def padded_blocks(blocks: float | int) -> int:
    """Few numbers of blocks, at most an eighth more than needed.

    >>> padded_blocks(3.2), padded_blocks(61.0)
    (4, 64)
    """
    whole = math.ceil(blocks)
    step = 1 << max((whole - 1).bit_length() - 4, 0)
    return -(-whole // step) * step


def pad_last(array: np.ndarray, size: int) -> np.ndarray:
    """Repeat the last entry up to a size."""
    widths = [(0, size - len(array))] + [(0, 0)] * (array.ndim - 1)
    return np.pad(array, widths, mode="edge")


def pad_inducing(locations: np.ndarray) -> np.ndarray:
    """Repeat the last inducing location up to one of few sizes: q and its bound stay the same."""
    return pad_last(locations, padded_size(len(locations)))
