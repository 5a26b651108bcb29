"""beartype for jaxtyping, without looking at every argument twice.

jaxtyping makes two functions of each that it checks: one that takes the arguments, before the call,
and one that takes them again and the result, after it. Sizes that the arguments have are remembered
between the two, so the second needs to look at the result alone. (tests/test_checking.py: what was
refused still is.)
"""

import re
from collections.abc import Callable
from typing import Any, get_args, get_origin

from beartype import beartype


def check(function: Callable[..., Any]) -> Callable[..., Any]:
    """The type checker that pyproject.toml gives to jaxtyping."""
    if _takes_the_result(function):
        annotations = function.__annotations__
        function.__annotations__ = {k: v for k, v in annotations.items() if k == "return"}
    same = _signature(function)
    if same not in _CHECKED:
        _CHECKED[same] = beartype(function)
    return _CHECKED[same]


# Functions inside of functions are made, and checked, anew with every call of the outer one.
_CHECKED: dict[Any, Callable[..., Any]] = {}


def _signature(function: Callable[..., Any]) -> tuple[Any, ...]:
    """All that matters for checking: jaxtyping's functions do nothing but take arguments."""
    code, optional = function.__code__, function.__kwdefaults__ or {}
    names = code.co_varnames, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
    defaults = len(function.__defaults__ or ()), tuple(optional), code.co_flags
    types = tuple((name, _key(kind)) for name, kind in function.__annotations__.items())
    return function.__module__, function.__qualname__, names, defaults, types


def _key(kind: Any) -> Any:
    """Of a type. Those of jaxtyping are new ones wherever they are written, with the same words."""
    if isinstance(kind, list):
        return tuple(map(_key, kind))
    if isinstance(kind, type) and hasattr(kind, "dim_str"):
        return kind.array_type, str(kind.dtypes), kind.dim_str
    if get_origin(kind) is not None:
        return get_origin(kind), tuple(map(_key, get_args(kind)))
    return _Same(kind)


class _Same:
    """Anything as a key, equal to itself alone."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __hash__(self) -> int:
        return id(self.thing)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.thing is other.thing


def _takes_the_result(function: Callable[..., Any]) -> bool:
    """Whether this is the second: its last argument, ret0 or the like, is what it returns."""
    code, defaults = function.__code__, function.__kwdefaults__ or {}
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if not code.co_kwonlyargcount or arguments[-1] in defaults:
        return False
    return bool(re.fullmatch(r"ret\d+", arguments[-1]))
