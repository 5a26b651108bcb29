"""Checks of arguments, with uniform messages."""

import math
import operator
from typing import Any

import numpy as np


def whole_number(name: str, value: Any, *, least: int | None = None) -> int:
    """The argument as an int; raises a ValueError with its name if it is not one, or too small.

    >>> whole_number("starts", 3, least=1)
    3
    >>> whole_number("starts", 2.5, least=1)
    Traceback (most recent call last):
    ValueError: starts must be a whole number of at least 1, got 2.5
    """
    number = as_whole(value)
    if number is None or (least is not None and number < least):
        bound = "" if least is None else f" of at least {least}"
        raise ValueError(f"{name} must be a whole number{bound}, got {value!r}")
    return number


def as_whole(value: Any) -> int | None:
    """The value as an int if it is a whole number; booleans and 3.0 are not."""
    if isinstance(value, bool | np.ndarray):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def positive_number(name: str, value: Any) -> float:
    """The argument as a float; a ValueError that names it unless it is positive and finite.

    >>> positive_number("tolerance", 1e-3)
    0.001
    >>> positive_number("tolerance", "small")
    Traceback (most recent call last):
    ValueError: tolerance must be a positive number, got 'small'
    """
    number = as_number(value)
    if number is None or not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be a positive number, got {value!r}")
    return number


def as_number(value: Any) -> float | None:
    """The value as a float if it is a real number; booleans and text are not."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:  # an int beyond all floats
            return math.inf if value > 0 else -math.inf
    return None
