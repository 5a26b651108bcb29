"""Trends: processes that do not fall back to a mean.

A random walk and its integral are not stationary: their variances grow without end. Each is taken
here as the stationary process that obeys the same equation but for a weak pull towards zero, just
so strong that the variance of the level is `start` at all times. Such a process is the same
forwards and backwards in time, so interpolations, forecasts and backcasts follow as from any other
kernel, and the larger `start`, the less is known beforehand and the weaker is the pull.

    Wiener             df = √diffusivity dW                        Ornstein–Uhlenbeck process
    Linear             df′ = 0                                     cosine
    IntegratedWiener   df′ = √diffusivity dW                       oscillator
    DampedTrend        df′ = −damping f′ dx + √diffusivity dW      overdamped oscillator

An `IntegratedWiener` of higher order is not: to pull each derivative so weakly that it does not
matter, the level would need a variance that leaves no digits. It begins (`_iterated_wiener`).
"""

import abc
import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from stategp._arguments import whole_number
from stategp.kernels._base import Kernel
from stategp.kernels._compose import Blockwise
from stategp.kernels._deterministic import Cosine
from stategp.kernels._iterated_wiener import HIGHEST_ORDER, IteratedWiener
from stategp.kernels._matern import Matern12
from stategp.kernels._oscillator import Oscillator
from stategp.parameters import Parameter, Value, derived, held, positive


class _Trend(Blockwise):
    @property
    def state_dim(self) -> int:  # known without computing anything
        return 2

    @abc.abstractmethod
    def stationary(self) -> Kernel:
        """The kernel, with few exceptions stationary, that this one is computed as."""

    def blocks(self) -> tuple[Kernel, ...]:
        return self.stationary().blocks()

    def covariance(self, lag: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return self.stationary().covariance(lag)


class Wiener(_Trend):
    """A random walk in continuous time: over a time Δ, f changes by N(0, diffusivity · Δ).

    `start` is the variance of the level before data are seen. It is not learned; if it is not
    given, `fit` chooses a million times the variance of y. f is pulled to zero at the rate
    diffusivity / (2 · start): a forecast loses that share of the level per unit of time.

    >>> import stategp as sg
    >>> sg.kernels.Wiener(diffusivity=0.5)
    Wiener(diffusivity=0.5, start=fixed(1e+06))
    """

    diffusivity: Parameter
    start: Parameter

    def __init__(self, *, diffusivity: Value = None, start: Value = None):
        self.diffusivity = positive("diffusivity", diffusivity, default=1.0, role="diffusivity")
        self.start = held("start", start, default=1e6, role="start")

    @property
    def state_dim(self) -> int:
        return 1

    def stationary(self) -> Kernel:
        start = self.start.value
        lengthscale = 2 * start / self.diffusivity.value
        return Matern12(variance=derived(start), lengthscale=derived(lengthscale))


class Linear(_Trend):
    """A straight line of unknown level and slope, with variances `start` and `slope`.

    `start` is not learned; if it is not given, `fit` chooses 10⁸ times the variance of y. The line
    is a cosine of period 2π √(start / slope), so it is straight up to a share of
    slope · Δ² / (2 · start) over a distance Δ.

    >>> import stategp as sg
    >>> sg.kernels.Linear(slope=2.0)
    Linear(slope=2, start=fixed(1e+08))
    """

    slope: Parameter
    start: Parameter

    def __init__(self, *, slope: Value = None, start: Value = None):
        self.slope = positive("slope", slope, default=1.0, role="slope variance")
        self.start = held("start", start, default=1e8, role="start of a line")

    def stationary(self) -> Kernel:
        start = self.start.value
        period = 2 * math.pi * jnp.sqrt(start / self.slope.value)
        return Cosine(variance=derived(start), period=derived(period))


class IntegratedWiener(_Trend):
    """A random walk that is integrated `order` times; its last derivative is the walk.

    With order 1 it is a line whose slope is a random walk: over a time Δ, f′ changes by
    N(0, diffusivity · Δ).

    With Gaussian noise its posterior mean is the cubic smoothing spline, which goes on in straight
    lines beyond the data. `start` and `slope` are the variances of level and slope before data are
    seen. They are not learned; if they are not given, `fit` chooses 10¹⁰ times the variance of y
    and 10⁶ times that variance over the square of the span. The slope is pulled to zero at the rate
    diffusivity / (2 · slope), and the curvature to −f · slope / start: over a distance Δ that is a
    share of slope · Δ² / (2 · start).

    With a higher order it is a parabola, a cubic, … whose highest derivative walks, and whose
    posterior mean is the smoothing spline of degree 2 · order + 1. Nothing pulls it anywhere: at
    the first observation the variances of f, f′, f″, … are start, slope, slope²/start, …, and from
    there the equation runs in both directions. Forecasts go on as polynomials of degree `order`.
    Orders go up to 10, beyond which a step has no digits left in double precision: for Gaussian
    observations variances are right to a relative 10⁻⁸ at orders 2, 5 and 10; with other
    likelihoods to 10⁻⁸ at order 5 and 10⁻⁴ at order 10.

    >>> import stategp as sg
    >>> sg.kernels.IntegratedWiener(diffusivity=0.5)
    IntegratedWiener(diffusivity=0.5, start=fixed(1e+10), slope=fixed(1e+06))
    >>> sg.kernels.IntegratedWiener(order=2).state_dim
    3
    """

    diffusivity: Parameter
    start: Parameter
    slope: Parameter
    order: int = eqx.field(static=True, default=1)

    def __init__(
        self,
        *,
        diffusivity: Value = None,
        start: Value = None,
        slope: Value = None,
        order: Any = 1,
    ):
        self.order = whole_number("order", order)
        if not 1 <= self.order <= HIGHEST_ORDER:
            raise ValueError(
                f"order must lie between 1 and {HIGHEST_ORDER}, beyond which double precision has "
                f"no digits left, got {order}; a random walk that is not integrated is "
                "sg.kernels.Wiener"
            )
        if (start is None) != (slope is None):
            given, other = ("slope", "start") if start is None else ("start", "slope")
            raise ValueError(
                f"{given} is given but {other} is not: give the variances of the level (start) and "
                "of the slope before data are seen, or neither, and fit makes both vague"
            )
        role: Any = "slope diffusivity" if self.order == 1 else f"diffusivity {self.order}"
        self.diffusivity = positive("diffusivity", diffusivity, default=1.0, role=role)
        vague, whose = (1e10, "drifting line") if self.order == 1 else (1e6, "curve")
        opening: Any = f"start of a {whose}"
        self.start = held("start", start, default=vague, role=opening)
        self.slope = held("slope", slope, default=1e6, role="start of a slope")

    @property
    def state_dim(self) -> int:
        return self.order + 1

    @property
    def homogeneous(self) -> bool:
        return self.order == 1

    def _repr_fields(self) -> list[str]:
        order = [f"order={self.order}"] if self.order > 1 else []
        return [*super()._repr_fields(), *order]

    def stationary(self) -> Kernel:
        if self.order > 1:
            return IteratedWiener(
                derived(self.diffusivity.value),
                derived(self.start.value),
                derived(self.slope.value),
                self.order,
            )
        start, slope = self.start.value, self.slope.value
        frequency = jnp.sqrt(slope / start)
        pull = self.diffusivity.value / (2 * slope)  # of the slope
        return _oscillator(start, frequency, pull)


class DampedTrend(_Trend):
    """A level whose slope falls back to zero: f′ is an Ornstein–Uhlenbeck process.

    Its rate is `damping`, and noise adds N(0, diffusivity · Δ) to it over a short time Δ. `start`
    is the variance of the level before data are seen. It is not learned; if it is not given, `fit`
    chooses a million times the variance of y. f is pulled to zero at a rate of about
    diffusivity / (2 · damping² · start).

    >>> import stategp as sg
    >>> sg.kernels.DampedTrend(diffusivity=0.5, damping=2.0)
    DampedTrend(diffusivity=0.5, damping=2, start=fixed(1e+06))
    """

    diffusivity: Parameter
    damping: Parameter
    start: Parameter

    def __init__(self, *, diffusivity: Value = None, damping: Value = None, start: Value = None):
        self.diffusivity = positive(
            "diffusivity", diffusivity, default=1.0, role="slope diffusivity"
        )
        self.damping = positive("damping", damping, default=1.0, role="rate")
        self.start = held("start", start, default=1e6, role="start")

    def stationary(self) -> Kernel:
        """Of a process with the rates θ and ε the variance is diffusivity / (2 θ ε (θ + ε))."""
        start, rate = self.start.value, self.damping.value
        product = self.diffusivity.value / (2 * rate * start)
        pull = 2 * product / (rate + jnp.sqrt(rate**2 + 4 * product))
        return _oscillator(start, jnp.sqrt(rate * pull), rate + pull)


def _oscillator(
    variance: Float[Array, ""], frequency: Float[Array, ""], friction: Float[Array, ""]
) -> Oscillator:
    """f″ + friction · f′ + frequency² · f = white noise."""
    return Oscillator(
        variance=derived(variance),
        period=derived(2 * math.pi / frequency),
        quality=derived(frequency / friction),
    )
