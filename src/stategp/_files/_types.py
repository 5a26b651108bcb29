"""Does a value fit the annotation of its field?

As deep as annotations say: tuples, dictionaries, unions, and the kind and number of dimensions of
arrays. What no rule here knows fits.
"""

import collections.abc
import functools
import types
import typing
from typing import Any, Literal, Union

import numpy as np


@functools.lru_cache(maxsize=256)
def annotations(cls: type) -> dict[str, Any]:
    """The annotations of a class, where they can be resolved."""
    try:
        return typing.get_type_hints(cls)
    except (NameError, TypeError, AttributeError):  # names that exist for type checkers only
        return {}


def misfit(cls: type, fields: dict[str, Any]) -> str | None:
    """Which field does not fit its annotation, in words; None if all do."""
    expected = annotations(cls)
    for name, value in fields.items():
        if name in expected and not fits(value, expected[name]):
            return f"{name} should be {_words(expected[name])}, and is {_shown(value)}"
    return None


def fits(value: Any, expected: Any) -> bool:
    """Whether a value is what an annotation asks for."""
    origin, parts = typing.get_origin(expected), typing.get_args(expected)
    if origin in (Union, types.UnionType):
        return any(fits(value, part) for part in parts)
    if origin is Literal:
        return any(type(value) is type(part) and value == part for part in parts)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(parts) == 2 and parts[1] is Ellipsis:
            return all(fits(item, parts[0]) for item in value)
        return len(value) == len(parts) and all(map(fits, value, parts))
    if origin is list:
        return isinstance(value, list) and all(fits(item, parts[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(
            fits(key, parts[0]) and fits(item, parts[1]) for key, item in value.items()
        )
    if collections.abc.Callable in (origin, expected):
        return callable(value)
    return _is_a(value, origin or expected)


def _is_a(value: Any, kind: Any) -> bool:
    if kind is None:
        return value is None
    if kind is bool:
        return isinstance(value, bool | np.bool_)
    if kind is int or kind is float:
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        return whole or (kind is float and isinstance(value, float | np.floating))
    try:
        return isinstance(value, kind) if isinstance(kind, type) else True
    except TypeError:  # a protocol that cannot be looked for at run time
        return True


def _words(expected: Any) -> str:
    return expected.__name__ if isinstance(expected, type) else str(expected)


def _shown(value: Any) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"an array of {value.dtype} with shape {tuple(value.shape)}"
    text = repr(value)
    return text if len(text) < 60 else f"a {type(value).__name__}"
