"""Shapes and types of all arguments and results, checked at run time by jaxtyping and beartype.

jaxtyping puts its decorator `jaxtyped` on every function of the package while that is imported.
Its own makes several functions of each and binds the arguments of every call, which took a tenth of
the time of all tests. What is here takes its place: it looks at the arguments, calls the function,
and looks at the result, with the sizes in mind that the arguments had. (tests/test_checking.py:
what was refused still is.)
"""

import inspect
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, get_args, get_origin

import jaxtyping
from beartype import beartype
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import TypeCheckError, _decorator
from jaxtyping._storage import pop_shape_memo, push_shape_memo

_theirs = _decorator.jaxtyped
check = beartype  # the type checker that pyproject.toml gives to jaxtyping, for what is no function


def jaxtyped(thing: Any = None, /, *, typechecker: Any = None) -> Any:
    """In the place of jaxtyping's: functions as `checked` has them, all else as before."""
    if thing is None:
        return partial(jaxtyped, typechecker=typechecker)
    return checked(thing) if inspect.isfunction(thing) else _theirs(thing, typechecker=typechecker)


jaxtyping.jaxtyped = _decorator.jaxtyped = jaxtyped


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which refuses arguments and results that are not what it says of them."""
    if hasattr(function, "refuses"):  # what a class has from another one
        return function
    takes, returns = _checkers(function)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if jaxtyping.config.jaxtyping_disable:
            return function(*args, **kwargs)
        push_shape_memo({})
        try:
            try:
                takes(*args, **kwargs)
            except (BeartypeCallHintViolation, TypeError) as error:
                inspect.signature(function).bind(*args, **kwargs)  # what Python itself refuses
                raise _refusal("parameters", function, error) from error
            result = function(*args, **kwargs)
            try:
                returns(ret0=result)
            except BeartypeCallHintViolation as error:
                raise _refusal("return value", function, error) from error
            return result
        finally:
            pop_shape_memo()

    call.refuses = True  # type: ignore[attr-defined]
    return call


def _refusal(what: str, function: Callable[..., Any], error: Exception) -> TypeCheckError:
    name = f"{function.__module__}.{function.__qualname__}"
    return TypeCheckError(f"Type-check error whilst checking the {what} of {name}.\n{error}")


# Functions inside of functions are made anew with every call of the outer one.
_CHECKERS: dict[Any, tuple[Callable[..., Any], Callable[..., Any]]] = {}


def _checkers(function: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """One function that takes its arguments, and one that takes its result."""
    types = tuple((name, _key(kind)) for name, kind in function.__annotations__.items())
    same = function.__code__, types, tuple(function.__kwdefaults__ or {})
    same += (len(function.__defaults__ or ()),)
    if same not in _CHECKERS:
        _CHECKERS[same] = _made(function)
    return _CHECKERS[same]


def _made(function: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    signature, names = inspect.signature(function), function.__globals__
    kinds = [
        parameter.replace(annotation=_decorator._destring_annotation(parameter.annotation, names))
        for parameter in signature.parameters.values()
    ]
    result = _decorator._destring_annotation(signature.return_annotation, names)
    make = partial(
        _decorator._make_fn_with_signature,
        function.__name__, function.__qualname__, function.__module__,
    )  # fmt: skip
    takes = make(signature.replace(parameters=kinds, return_annotation=Any), output=False)
    only_result = inspect.Signature(return_annotation=result)
    returns, name = make(only_result, output=True)
    assert name == "ret0"
    return beartype(takes), beartype(returns)


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
