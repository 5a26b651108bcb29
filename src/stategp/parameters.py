"""Hyperparameters: a value with its constraint, whether it is learned, and its prior.

A model is a pytree in which every hyperparameter is a :class:`Parameter`. Optimisers see one
flat vector of unconstrained numbers (logarithms of the positive ones): :func:`to_vector` makes
it, :func:`with_vector` puts it back.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from stategp._durations import days
from stategp._modules import Module
from stategp._runtime import on_device
from stategp.priors import Prior, as_pytree

__all__ = ["Parameter", "Value", "fixed", "parameter"]

Constraint = Literal["positive", "real"]
# What a parameter is for: `fit` takes its starting value and its scale from the data by this.
Role = Literal[
    "variance", "noise", "scale", "amplitude", "lengthscale", "period", "frequency", "decay",
    "level", "slope", "centre", "shape", "tails", "duration", "diffusivity", "slope diffusivity",
    "slope variance", "rate", "start", "start of a line", "start of a drifting line",
    "start of a slope", "start of a curve", "change", "diffusivity 2", "diffusivity 3",
    "diffusivity 4", "diffusivity 5", "diffusivity 6", "diffusivity 7", "diffusivity 8",
    "diffusivity 9", "diffusivity 10", "place",
]  # fmt: skip
# These may be written as durations. One written before its role is known (`fixed("1y")`) has the
# role "duration" until a constructor gives it one of these.
_DURATIONS = ("lengthscale", "period", "decay", "duration")
Tree = TypeVar("Tree")


class Parameter(Module):
    """A hyperparameter. Kernels and likelihoods make one from each number they are given.

    >>> import stategp as sg
    >>> sg.kernels.Matern32(lengthscale=sg.fixed(2.0)).lengthscale
    fixed(2)
    """

    value: Float[Array, "..."]
    constraint: Constraint = eqx.field(static=True, default="real")
    role: Role = eqx.field(static=True, default="shape")
    learned: bool = eqx.field(static=True, default=True)
    given: bool = eqx.field(static=True, default=True)  # False: `fit` starts it from the data
    prior: Prior | None = None

    def __float__(self) -> float:
        return float(self.value)

    def __repr__(self) -> str:
        if isinstance(self.value, jax.core.Tracer):
            number = "traced"
        else:
            number = np.array2string(
                np.asarray(self.value),
                formatter={"float_kind": lambda v: f"{v:.5g}"},
                separator=", ",
            )
        if not self.learned:
            return f"fixed({number})"
        if self.prior is not None:
            return f"parameter({number}, prior={self.prior})"
        return number


# A number, an array, a duration such as "30d" (where one makes sense), a Parameter, or None for
# "not given"; anything else is refused by name.
Value = Any


def fixed(value: Value) -> Parameter:
    """A hyperparameter that `fit` does not change: a number, or a duration such as "1y" (in days).

    >>> import stategp as sg
    >>> sg.kernels.Cosine(period=sg.fixed(24.0))
    Cosine(variance=1, period=fixed(24))
    """
    return Parameter(_as_array("value", value, "duration"), role=_role(value), learned=False)


def parameter(value: Value = None, *, prior: Prior | None = None) -> Parameter:
    """A hyperparameter with a prior, learned by `fit` starting from the value given (if any).

    >>> import stategp as sg
    >>> prior = sg.priors.LogNormal(median=2.0, spread=0.5)
    >>> kernel = sg.kernels.Matern32(lengthscale=sg.parameter(2.0, prior=prior))
    """
    if value is None:
        return Parameter(_array(np.nan), given=False, prior=as_pytree(prior))
    return Parameter(
        _as_array("value", value, "duration"), role=_role(value), prior=as_pytree(prior)
    )


def declare(
    name: str,
    value: Value,
    *,
    default: float | ArrayLike,
    constraint: Constraint,
    role: Role,
    ndim: int = 0,
) -> Parameter:
    """What a constructor does with an argument: a number, a :class:`Parameter` or None."""
    if value is None:
        value = parameter()
    if not isinstance(value, Parameter):
        value = Parameter(_as_array(name, value, role))
    if value.role == "duration" and role not in _DURATIONS:
        raise ValueError(f"{name} must be a number, got a duration of {value.value:g} days")
    number = value.value if value.given else _array(default)
    if number.ndim != ndim:
        expected = "one number" if ndim == 0 else "a list of numbers"
        raise ValueError(f"{name} must be {expected}, got {number}")
    _check(name, number, constraint, allow_zero=not value.learned and role == "noise")
    return Parameter(number, constraint, role, value.learned, value.given, value.prior)


def changed(name: str, old: Parameter, value: Value) -> Parameter:
    """A parameter that replaces another: a number keeps its role, whether learned, its prior."""
    new = declare(
        name,
        value,
        default=old.value,
        constraint=old.constraint,
        role=old.role,
        ndim=old.value.ndim,
    )
    if value is None or isinstance(value, Parameter):
        return new
    return Parameter(new.value, old.constraint, old.role, old.learned, True, old.prior)


def positive(
    name: str, value: Value, *, default: float | ArrayLike, role: Role, ndim: int = 0
) -> Parameter:
    """A constructor's argument that must be positive."""
    return declare(name, value, default=default, constraint="positive", role=role, ndim=ndim)


def held(name: str, value: Value, *, default: float | ArrayLike, role: Role) -> Parameter:
    """A constructor's argument that must be positive, and is learned only if it is a parameter."""
    made = positive(name, value, default=default, role=role)
    if isinstance(value, Parameter):
        return made
    return Parameter(made.value, made.constraint, role, learned=False, given=made.given)


def derived(value: Float[Array, "..."]) -> Parameter:
    """A value computed from other parameters, for the building blocks inside a kernel."""
    return anew(value, "positive", learned=False)


def anew(
    value: Any,
    constraint: Constraint = "real",
    role: Role = "shape",
    learned: bool = True,
    given: bool = True,
    prior: Prior | None = None,
) -> Parameter:
    """What `Parameter` makes, sooner: nothing is checked again."""
    made: Parameter = _form(constraint, role, learned, given).unflatten([value, prior])
    return made


@functools.cache
def _form(constraint: Constraint, role: Role, learned: bool, given: bool) -> Any:
    """The structure of such parameters, of which value and prior are the leaves."""
    made = Parameter(_array(0.0), constraint, role, learned, given)
    return jax.tree.structure(made, is_leaf=lambda node: node is not made)


def _role(value: Value) -> Role:
    return "duration" if isinstance(value, str) else "shape"


def _as_array(name: str, value: Value, role: Role) -> Float[Array, "..."]:
    if isinstance(value, jax.core.Tracer):
        return value
    if isinstance(value, str) and role in _DURATIONS:
        value = _in_days(name, value)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number, got {value!r}") from None
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be a number, got {value!r}")
    return _array(array)


def _array(value: Any) -> Float[Array, "..."]:
    """Numbers as JAX has them. (`jnp.asarray` would compile a program for each shape.)"""
    if isinstance(value, jax.core.Tracer):
        return jnp.asarray(value, dtype=float)
    array: Float[Array, "..."] = on_device(np.asarray(value, dtype=float))
    return array


def _in_days(name: str, text: str) -> float:
    if not any(character.isdigit() for character in text):
        raise ValueError(f"{name} must be a number, got {text!r} (or a duration, such as '30d')")
    try:
        return days(text)
    except ValueError as error:
        raise ValueError(f"{name} must be a number or a duration: {error}") from None


def _check(name: str, value: Float[Array, "..."], constraint: Constraint, allow_zero: bool) -> None:
    if isinstance(value, jax.core.Tracer):
        return
    number = np.asarray(value)
    if not np.all(np.isfinite(number)):
        raise ValueError(f"{name} must be finite, got {number}")
    if constraint == "positive" and not np.all(number >= 0 if allow_zero else number > 0):
        raise ValueError(f"{name} must be positive, got {number}")


# --- the vector that optimisers see ----------------------------------------------------------


def _is_parameter(node: Any) -> bool:
    return isinstance(node, Parameter)


def map_parameters(function: Callable[[Parameter], Parameter], tree: Tree) -> Tree:
    """The same tree with every parameter replaced by ``function(parameter)``."""
    mapped: Tree = jax.tree.map(
        lambda node: function(node) if _is_parameter(node) else node, tree, is_leaf=_is_parameter
    )
    return mapped


def all_parameters(tree: Any) -> list[Parameter]:
    """Every parameter of a model, in the order of its fields."""
    return [node for node in jax.tree.leaves(tree, is_leaf=_is_parameter) if _is_parameter(node)]


def named_parameters(tree: Any) -> list[tuple[str, Parameter]]:
    """Every parameter with the name of what it belongs to: ("Matern52 lengthscale", …)."""
    leaves = jax.tree_util.tree_leaves_with_path(tree, is_leaf=_is_parameter)
    named = []
    for path, leaf in leaves:
        if not _is_parameter(leaf):
            continue
        owner = tree
        for key in path[:-1]:
            owner = _below(owner, key)
        named.append((f"{type(owner).__name__} {_key_name(path[-1])}", leaf))
    return named


def _below(part: Any, key: Any) -> Any:
    return getattr(part, key.name) if hasattr(key, "name") else part[_key_name(key)]


def _key_name(key: Any) -> Any:
    for attribute in ("name", "idx", "key"):
        if hasattr(key, attribute):
            return getattr(key, attribute)
    return str(key)


def with_value(old: Parameter, value: Float[Array, "..."]) -> Parameter:
    """The same parameter with another value."""
    return anew(value, old.constraint, old.role, old.learned, True, old.prior)


def to_vector(tree: Any) -> Float[Array, " parameters"]:
    """The learned parameters as one vector of unconstrained numbers."""
    learned = [p for p in all_parameters(tree) if p.learned]
    if any(isinstance(p.value, jax.core.Tracer) for p in learned):
        return jnp.concatenate([_unconstrained(p, p.value, jnp).ravel() for p in learned])
    raw = [_unconstrained(p, np.asarray(p.value), np).ravel() for p in learned]
    return _array(np.concatenate(raw) if raw else np.zeros(0))


def _unconstrained(parameter: Parameter, value: Any, xp: Any) -> Any:
    return xp.log(value) if parameter.constraint == "positive" else value


def with_vector(tree: Tree, vector: Float[Array | np.ndarray, " parameters"]) -> Tree:
    """The model whose learned parameters are those of the vector; inverse of `to_vector`."""
    traced = isinstance(vector, jax.core.Tracer)
    numbers: Any = vector.astype(float) if traced else np.asarray(vector, float)
    exp: Callable[[Any], Any] = jnp.exp if traced else np.exp
    values, position = [], 0
    for old in all_parameters(tree):
        if old.learned:
            size = math.prod(old.value.shape)
            raw = numbers[position : position + size].reshape(old.value.shape)
            values.append(exp(raw) if old.constraint == "positive" else raw)
            position += size
    rest = iter(values if traced else on_device([np.asarray(value) for value in values]))
    return map_parameters(lambda old: with_value(old, next(rest)) if old.learned else old, tree)


def log_prior(tree: Any) -> Float[Array, ""]:
    """Sum of the log prior densities of the parameters that have one."""
    pairs = [(p.prior, p.value) for p in all_parameters(tree) if p.prior is not None]
    return _log_densities(pairs) if pairs else on_device(np.zeros(()))


@jax.jit
def _log_densities(pairs: list[tuple[Any, Float[Array, "..."]]]) -> Float[Array, ""]:
    terms = [jnp.sum(prior.log_density(value)) for prior, value in pairs]
    return sum(terms, start=jnp.zeros(()))
