"""Periodic kernels: cosines in harmonic ratio, alone or under a Matérn envelope."""

import math
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._arguments import whole_number
from stategp.kernels._base import Kernel
from stategp.kernels._compose import Blockwise, Kronecker
from stategp.kernels._deterministic import Constant, Cosine
from stategp.kernels._matern import Matern12, Matern32, Matern52
from stategp.kernels._special import scaled_bessel_table
from stategp.parameters import Parameter, Value, derived, positive

_MAX_ORDER = 50
_TOLERANCE = 1e-4


def series_order(lengthscale: float, tolerance: float) -> int:
    """The number of harmonics after which the rest of the series is below the tolerance."""
    if not 0 < tolerance < 1:
        raise ValueError(f"tolerance must lie between 0 and 1, got {tolerance}")
    from scipy.special import ive  # slow to import

    weights = 2 * ive(np.arange(_MAX_ORDER + 200), lengthscale**-2)
    tail = np.cumsum(weights[::-1])[::-1]  # tail[j] = what harmonics j, j+1, … hold
    order = int(np.argmax(tail[1:] <= tolerance)) if np.any(tail[1:] <= tolerance) else _MAX_ORDER
    if order >= _MAX_ORDER:
        raise ValueError(
            f"a periodic kernel of lengthscale {lengthscale:.3g} needs more than {_MAX_ORDER} "
            f"harmonics for a tolerance of {tolerance}: use a longer lengthscale, a larger "
            "tolerance, or give the order"
        )
    return order


class Periodic(Blockwise):
    """k(τ) = variance · exp(−2 sin²(πτ/period) / lengthscale²), as a truncated cosine series.

    The omitted harmonics have at most a share `tolerance` of the variance, which bounds the error
    of the covariance everywhere. Unless `order` is given, it is chosen from the lengthscale at
    construction (and again after `fit` has changed it).

    >>> import stategp as sg
    >>> sg.kernels.Periodic(period=24.0, lengthscale=2.0).order
    3
    """

    variance: Parameter
    period: Parameter
    lengthscale: Parameter
    tolerance: float = eqx.field(static=True)
    order: int = eqx.field(static=True)
    order_given: bool = eqx.field(static=True)

    def __init__(
        self,
        *,
        variance: Value = None,
        period: Value = None,
        lengthscale: Value = None,
        tolerance: float = _TOLERANCE,
        order: Any = None,
    ):
        self.variance = positive("variance", variance, default=1.0, role="variance")
        self.period = positive("period", period, default=1.0, role="period")
        self.lengthscale = positive("lengthscale", lengthscale, default=1.0, role="shape")
        if order is not None:
            order = whole_number("order", order, least=0)
        self.tolerance = tolerance
        self.order_given = order is not None
        self.order = series_order(float(self.lengthscale), tolerance) if order is None else order

    def weights(self) -> Float[Array, " harmonics"]:
        """The share of the variance of the constant and of each harmonic."""
        x = self.lengthscale.value**-2
        doubled = jnp.full(self.order + 1, 2.0).at[0].set(1.0)
        return scaled_bessel_table(self.order, x) * doubled

    def truncation_error(self) -> Float[Array, ""]:
        """The share of the variance in the omitted harmonics."""
        return 1.0 - jnp.sum(self.weights())

    @property
    def state_dim(self) -> int:  # known without computing anything
        return 2 * self.order + 1

    def blocks(self) -> tuple[Kernel, ...]:
        variances = self.variance.value * self.weights()
        harmonics = (
            Cosine(variance=derived(variances[j]), period=derived(self.period.value / j))
            for j in range(1, self.order + 1)
        )
        return (Constant(variance=derived(variances[0])), *harmonics)

    def covariance(self, lag: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The covariance that the series approximates, untruncated."""
        sine = jnp.sin(math.pi * lag / self.period.value)
        return self.variance.value * jnp.exp(-2 * (sine / self.lengthscale.value) ** 2)

    def _repr_fields(self) -> list[str]:
        return [*super()._repr_fields(), *_series_fields(self)]

    def refined(self) -> "Periodic":
        if self.order_given:
            return self
        return Periodic(
            variance=self.variance,
            period=self.period,
            lengthscale=self.lengthscale,
            tolerance=self.tolerance,
        )


def _series_fields(kernel: "Periodic | QuasiPeriodic") -> list[str]:
    """What else than parameters a repr must show to make the same kernel again."""
    if kernel.order_given:
        return [f"order={kernel.order}"]
    return [f"tolerance={kernel.tolerance:g}"] if kernel.tolerance != _TOLERANCE else []


_ENVELOPES: dict[str, Callable[..., Kernel]] = {
    "matern12": Matern12,
    "matern32": Matern32,
    "matern52": Matern52,
}


class QuasiPeriodic(Blockwise):
    """A periodic pattern that slowly changes: Periodic × Matérn.

    `lengthscale` is the roughness within a period, as in :class:`Periodic`; `decay` is the
    lengthscale of the Matérn envelope, the time over which the pattern changes (by default ten
    periods).

    >>> import stategp as sg
    >>> sg.kernels.QuasiPeriodic(period=1.0, decay=20.0)
    QuasiPeriodic(variance=1, period=1, lengthscale=1, decay=20)
    """

    variance: Parameter
    period: Parameter
    lengthscale: Parameter
    decay: Parameter
    envelope: Literal["matern12", "matern32", "matern52"] = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)
    order: int = eqx.field(static=True)
    order_given: bool = eqx.field(static=True)

    def __init__(
        self,
        *,
        variance: Value = None,
        period: Value = None,
        lengthscale: Value = None,
        decay: Value = None,
        envelope: Literal["matern12", "matern32", "matern52"] = "matern32",
        tolerance: float = _TOLERANCE,
        order: Any = None,
    ):
        if envelope not in _ENVELOPES:
            raise ValueError(f"envelope must be one of {sorted(_ENVELOPES)}, got {envelope!r}")
        shape = Periodic(
            variance=variance,
            period=period,
            lengthscale=lengthscale,
            tolerance=tolerance,
            order=order,
        )
        self.variance, self.period, self.lengthscale = (
            shape.variance,
            shape.period,
            shape.lengthscale,
        )
        self.decay = positive("decay", decay, default=10 * self.period.value, role="decay")
        self.envelope = envelope
        self.tolerance = tolerance
        self.order, self.order_given = shape.order, shape.order_given

    def factors(self) -> tuple[Kernel, Periodic]:
        """The Matérn envelope (of unit variance) and the periodic kernel."""
        envelope = _ENVELOPES[self.envelope](
            variance=derived(jnp.ones(())), lengthscale=derived(self.decay.value)
        )
        shape = Periodic(
            variance=derived(self.variance.value),
            period=derived(self.period.value),
            lengthscale=derived(self.lengthscale.value),
            tolerance=self.tolerance,
            order=self.order,
        )
        return envelope, shape

    def blocks(self) -> tuple[Kernel, ...]:
        envelope, shape = self.factors()
        return tuple(Kronecker(envelope, block) for block in shape.blocks())

    def covariance(self, lag: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The covariance that the series approximates, untruncated."""
        envelope, shape = self.factors()
        return envelope.covariance(lag) * shape.covariance(lag)

    def _repr_fields(self) -> list[str]:
        envelope = [f"envelope={self.envelope!r}"] if self.envelope != "matern32" else []
        return [*super()._repr_fields(), *envelope, *_series_fields(self)]

    def refined(self) -> "QuasiPeriodic":
        if self.order_given:
            return self
        return QuasiPeriodic(
            variance=self.variance,
            period=self.period,
            lengthscale=self.lengthscale,
            decay=self.decay,
            envelope=self.envelope,
            tolerance=self.tolerance,
        )


class Harmonic(Blockwise):
    """The paper's kernel for pitched sounds: k(τ) = e^(−τ/lengthscale) Σ_j γ_j² cos(2π f₀ j τ).

    `weights` are the γ_j of the J harmonics, `frequency` is the fundamental f₀; the state has
    2J components.

    >>> import stategp as sg
    >>> sg.kernels.Harmonic(weights=[1.0, 0.5], frequency=147.0, lengthscale=0.1)
    Harmonic(weights=[1, 0.5], frequency=147, lengthscale=0.1)
    """

    weights: Parameter
    frequency: Parameter
    lengthscale: Parameter

    def __init__(
        self,
        *,
        weights: Value = None,
        frequency: Value = None,
        lengthscale: Value = None,
    ):
        if not (weights is None or isinstance(weights, Parameter)) and np.ndim(weights) == 0:
            weights = [weights]
        self.weights = positive("weights", weights, default=np.ones(1), role="amplitude", ndim=1)
        if self.weights.value.size == 0:
            raise ValueError("weights is empty: at least one harmonic is needed")
        self.frequency = positive("frequency", frequency, default=1.0, role="frequency")
        self.lengthscale = positive("lengthscale", lengthscale, default=1.0, role="lengthscale")

    def blocks(self) -> tuple[Kernel, ...]:
        envelope = Matern12(
            variance=derived(jnp.ones(())), lengthscale=derived(self.lengthscale.value)
        )
        return tuple(
            Kronecker(
                envelope,
                Cosine(variance=derived(weight**2), period=derived(1 / (j * self.frequency.value))),
            )
            for j, weight in enumerate(self.weights.value, start=1)
        )

    def covariance(self, lag: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        harmonics = [
            weight**2 * jnp.cos(2 * math.pi * self.frequency.value * j * lag)
            for j, weight in enumerate(self.weights.value, start=1)
        ]
        envelope = jnp.exp(-jnp.abs(lag) / self.lengthscale.value)
        return envelope * sum(harmonics, start=jnp.zeros_like(lag))
