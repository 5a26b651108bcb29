"""Mean functions: the prior expectation of f."""

import abc
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp.parameters import Parameter, Value, declare, positive

__all__ = ["Constant", "Function", "Linear", "Mean", "Periodic", "Zero"]

Points = Float[Array, " points"]


class Mean(eqx.Module):
    """A function of x, in the user's units."""

    smooth: ClassVar[bool] = True  # whether a few values tell what lies between them

    @abc.abstractmethod
    def __call__(self, x: Points) -> Points:
        """The mean of f at x."""


class Zero(Mean):
    """The prior mean of f is zero."""

    def __call__(self, x: Points) -> Points:
        return jnp.zeros_like(x)

    def __repr__(self) -> str:
        return "Zero()"


class Constant(Mean):
    """The prior mean of f is a constant, learned by `fit`.

    >>> import stategp as sg
    >>> sg.means.Constant(3.0)
    Constant(3)
    """

    value: Parameter

    def __init__(self, value: Value = None):
        self.value = declare("value", value, default=0.0, constraint="real", role="level")

    def __call__(self, x: Points) -> Points:
        return jnp.full_like(x, self.value.value)

    def __repr__(self) -> str:
        return f"Constant({self.value!r})"


class Linear(Mean):
    """The prior mean of f is the line intercept + slope · (x − centre).

    `centre` is not learned; by default `fit` takes the middle of the data.

    >>> import stategp as sg
    >>> sg.means.Linear(intercept=1.0, slope=0.5)
    Linear(intercept=1, slope=0.5, centre=fixed(0))
    """

    intercept: Parameter
    slope: Parameter
    centre: Parameter

    def __init__(self, *, intercept: Value = None, slope: Value = None, centre: Value = None):
        any_given = not (intercept is None and slope is None and centre is None)
        self.intercept = declare(
            "intercept", intercept, default=0.0, constraint="real", role="level"
        )
        self.slope = declare("slope", slope, default=0.0, constraint="real", role="slope")
        centre = declare("centre", centre, default=0.0, constraint="real", role="centre")
        self.centre = Parameter(centre.value, "real", "centre", learned=False, given=any_given)

    def __call__(self, x: Points) -> Points:
        return self.intercept.value + self.slope.value * (x - self.centre.value)

    def __repr__(self) -> str:
        return f"Linear(intercept={self.intercept!r}, slope={self.slope!r}, centre={self.centre!r})"


class Periodic(Mean):
    """The prior mean of f is a level plus a pattern that repeats exactly, as a Fourier series.

    level + Σ_j cosines_j cos(2πjx/period) + sines_j sin(2πjx/period), with j = 1, 2, …

    >>> import stategp as sg
    >>> sg.means.Periodic(level=2.0, period=7.0, cosines=[1.0, 0.0], sines=[0.5, 0.1])
    Periodic(level=2, period=7, harmonics=2)
    """

    level: Parameter
    period: Parameter
    cosines: Parameter
    sines: Parameter

    def __init__(
        self,
        *,
        level: Value = None,
        period: Value = None,
        cosines: Value = None,
        sines: Value = None,
    ):
        self.level = declare("level", level, default=0.0, constraint="real", role="level")
        self.period = positive("period", period, default=1.0, role="period")
        self.cosines, self.sines = (
            declare(name, values, default=np.zeros(1), constraint="real", role="shape", ndim=1)
            for name, values in (("cosines", cosines), ("sines", sines))
        )
        if self.cosines.value.shape != self.sines.value.shape:
            raise ValueError(
                "cosines and sines must have one number for each harmonic; got "
                f"{len(self.cosines.value)} and {len(self.sines.value)}"
            )

    def __call__(self, x: Points) -> Points:
        turn = 2 * jnp.pi * jnp.remainder(x / self.period.value, 1.0)
        angles = turn[:, None] * jnp.arange(1.0, len(self.cosines.value) + 1)[None]
        pattern = jnp.cos(angles) @ self.cosines.value + jnp.sin(angles) @ self.sines.value
        return self.level.value + pattern

    def __repr__(self) -> str:
        return (
            f"Periodic(level={self.level!r}, period={self.period!r}, "
            f"harmonics={len(self.cosines.value)})"
        )


class Function(Mean):
    """Any function of x that JAX can trace.

    >>> import jax.numpy as jnp, stategp as sg
    >>> float(sg.means.Function(jnp.sin)(jnp.array([0.0]))[0])
    0.0
    """

    smooth: ClassVar[bool] = False
    function: Callable[[Points], Points] = eqx.field(static=True)

    def __call__(self, x: Points) -> Points:
        return jnp.broadcast_to(jnp.asarray(self.function(x), dtype=float), x.shape)

    def __repr__(self) -> str:
        return f"Function({getattr(self.function, '__name__', self.function)!s})"
