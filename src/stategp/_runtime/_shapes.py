"""Few shapes: every new size of an array is a new program to compile, which takes seconds.

Arrays are therefore padded up to one of few sizes with entries that change nothing: observations
of weight zero, inducing points that repeat the last one.
"""

import math

import numpy as np

_SMALLEST = 64
_QUADRUPLING = 4096  # up to here each size is four times the one before, then twice
FEW = 16_384  # above, eight sizes lie between n and 2n
_UNNOTICED = 2**18  # numbers that are computed in about a millisecond


def padded_size(count: int, least: int = _SMALLEST, few: int = FEW) -> int:
    """The smallest of the few sizes that is at least `count`, and at least `least`.

    From `few` on, no more than an eighth is added; give less where entries are dear.

    >>> padded_size(3), padded_size(700), padded_size(700, least=4096), padded_size(100_000)
    (64, 1024, 4096, 106496)
    >>> padded_size(1150), padded_size(1150, few=1024)
    (4096, 1152)
    """
    if count > few:
        step = 1 << max((count - 1).bit_length() - 4, 0)
        return -(-count // step) * step
    size = min(least, few)
    while size < count:
        size *= 4 if size < _QUADRUPLING else 2
    return min(size, few)


def least_size(numbers: int) -> int:
    """The smallest size worth a program of its own, if every entry holds so many numbers.

    Programs for fewer entries would run no faster than they are noticed.

    >>> least_size(9), least_size(121)
    (16384, 2048)
    """
    return min(FEW, max(_SMALLEST, 1 << (_UNNOTICED // max(numbers, 1)).bit_length() - 1))


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


def pad_inducing(locations: np.ndarray, least: int = _SMALLEST) -> np.ndarray:
    """Repeat the last inducing location up to one of few sizes: q and its bound stay the same."""
    return pad_last(locations, padded_size(len(locations), least))
