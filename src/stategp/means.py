"""Mean functions: the prior expectation of f."""

import abc
import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._modules import Module
from stategp.kernels import Kernel, Matern12
from stategp.parameters import Parameter, Value, declare, fixed, positive

__all__ = ["Constant", "Function", "Impulse", "Linear", "Mean", "Periodic", "Step", "Zero"]

Points = Float[Array, " points"]


class Mean(Module):
    """A function of x, in the user's units."""

    smooth: ClassVar[bool] = True  # whether a few values tell what lies between them

    @property
    def rate(self) -> float:
        """How fast a smooth mean changes: one over it is a distance within which it does."""
        return 0.0

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

    @property
    def rate(self) -> float:
        """That of the highest harmonic."""
        return 2 * math.pi * len(self.cosines.value) / float(self.period.value)

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


class _Actions(Mean):
    """A level, and something that happens at given inputs."""

    smooth: ClassVar[bool] = False
    at: tuple[float, ...] = eqx.field(static=True)
    level: Parameter
    sizes: Parameter
    kernel: Kernel | None

    def __init__(
        self,
        at: Sequence[float],
        *,
        level: Value = None,
        sizes: Value = None,
        kernel: Kernel | None = None,
    ):
        self.at, self.level, self.sizes = _actions(at, level, sizes)
        chosen = self.usual_kernel() if kernel is None else kernel
        self.kernel = None if chosen is None else _stationary(chosen)

    @staticmethod
    def usual_kernel() -> Kernel | None:
        """What is taken if none is given."""
        return None

    @abc.abstractmethod
    def share(self, since: Float[Array, "points actions"]) -> Array:
        """Of an action that is to be seen so long after it."""

    def __call__(self, x: Points) -> Points:
        since = x[:, None] - jnp.asarray(self.at)[None]
        return self.level.value + jnp.where(since > 0, self.share(since), 0.0) @ self.sizes.value

    def __repr__(self) -> str:
        at = ", ".join(f"{place:g}" for place in self.at)
        return f"{type(self).__name__}([{at}], level={self.level!r}, sizes={self.sizes!r})"


class Step(_Actions):
    """The prior mean of f is a level, which changes by `sizes` at the inputs `at`; both learned.

    With a `kernel` f does not jump: it approaches its new level as that kernel's correlation falls,
    by sizes · (1 − k(x − at)/k(0)). Inputs before a step know nothing of it, nor does `at` itself.

    >>> import stategp as sg
    >>> sg.means.Step([6.0], level=1.0, sizes=[2.0])
    Step([6], level=1, sizes=[2])
    """

    def share(self, since: Float[Array, "points actions"]) -> Array:
        if self.kernel is None:
            return jnp.ones_like(since)
        return 1 - _correlation(self.kernel, since)


class Impulse(_Actions):
    """The prior mean of f is a level, pushed by `sizes` at the inputs `at`; both learned.

    What a push did fades as the correlation of a kernel, sizes · k(x − at)/k(0), by default that of
    `Matern12`, an exponential. Its lengthscale is learned too, unless fixed; its variance says
    nothing here and is best fixed.

    >>> import stategp as sg
    >>> sg.means.Impulse([6.0], sizes=[2.0], kernel=sg.kernels.Matern12(lengthscale=3.0))
    Impulse([6], level=0, sizes=[2])
    """

    @staticmethod
    def usual_kernel() -> Kernel:
        return Matern12(variance=fixed(1.0))

    def share(self, since: Float[Array, "points actions"]) -> Array:
        assert self.kernel is not None
        return _correlation(self.kernel, since)


def _actions(
    at: Sequence[float], level: Value, sizes: Value
) -> tuple[tuple[float, ...], Parameter, Parameter]:
    """Where something happens, and how much."""
    times = np.asarray(at, dtype=float)
    if times.ndim != 1 or not len(times) or not np.all(np.isfinite(times)):
        raise ValueError(f"at must be a list of one or more inputs, got {at!r}")
    start = declare("level", level, default=0.0, constraint="real", role="level")
    changes = declare(
        "sizes", sizes, default=np.zeros(len(times)), constraint="real", role="shape", ndim=1
    )
    if changes.value.shape != times.shape:
        raise ValueError(
            f"sizes must have one number for each of the {len(times)} inputs in `at`, got "
            f"{changes.value.shape[0]}"
        )
    return tuple(map(float, times)), start, changes


def _stationary(kernel: Kernel) -> Kernel:
    if not isinstance(kernel, Kernel) or kernel.located:
        raise ValueError(
            f"kernel must be a stationary one of sg.kernels, such as Matern12(), got {kernel!r}"
        )
    return kernel


def _correlation(kernel: Kernel, lags: Float[Array, "points actions"]) -> Array:
    """k(lag)/k(0) at positive lags."""
    H, P = kernel.emission(), kernel.stationary_covariance()
    seen = P @ H

    def at(lag: Array) -> Array:
        return H @ kernel.transition(lag) @ seen

    flat = jax.vmap(at)(jnp.maximum(lags, 0.0).reshape(-1))
    return flat.reshape(lags.shape) / (H @ seen)


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
