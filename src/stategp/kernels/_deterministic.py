"""Kernels without process noise: one state determines the whole function."""

import abc
import math

import jax.numpy as jnp
from jaxtyping import Array, Float

from stategp.kernels._base import ClosedForm, Kernel, Matrix, Scalar, State
from stategp.parameters import Parameter, Value, positive


class _Deterministic(Kernel):
    @property
    def deterministic(self) -> bool:
        return True

    @property
    @abc.abstractmethod
    def state_dim(self) -> int: ...

    def process_noise(self, dt: Scalar) -> Matrix:
        return jnp.zeros((self.state_dim, self.state_dim))

    def diffusion(self) -> Matrix:
        return jnp.zeros((self.state_dim, self.state_dim))


class Constant(_Deterministic):
    """A random constant: k(τ) = variance.

    >>> import stategp as sg
    >>> sg.kernels.Constant(variance=4.0)
    Constant(variance=4)
    """

    variance: Parameter

    def __init__(self, *, variance: Value = None):
        self.variance = positive("variance", variance, default=1.0, role="variance")

    @property
    def state_dim(self) -> int:
        return 1

    def transition(self, dt: Scalar) -> Matrix:
        return jnp.ones((1, 1))

    def stationary_covariance(self) -> Matrix:
        return self.variance.value.reshape(1, 1)

    def emission(self) -> State:
        return jnp.ones(1)

    def closed_form(self) -> ClosedForm | None:
        return ClosedForm(0, False, self.variance.value) if type(self) is Constant else None

    def feedback(self) -> Matrix:
        return jnp.zeros((1, 1))

    def covariance(self, lag: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return jnp.full_like(lag, self.variance.value)


class Cosine(_Deterministic):
    """A sine wave of random amplitude and phase: k(τ) = variance · cos(2πτ / period).

    >>> import stategp as sg
    >>> sg.kernels.Cosine(period=24.0)
    Cosine(variance=1, period=24)
    """

    variance: Parameter
    period: Parameter

    def __init__(self, *, variance: Value = None, period: Value = None):
        self.variance = positive("variance", variance, default=1.0, role="variance")
        self.period = positive("period", period, default=1.0, role="period")

    @property
    def state_dim(self) -> int:
        return 2

    def transition(self, dt: Scalar) -> Matrix:
        angle = 2 * math.pi * dt / self.period.value
        return rotation(angle)

    def stationary_covariance(self) -> Matrix:
        return self.variance.value * jnp.eye(2)

    def emission(self) -> State:
        return jnp.array([1.0, 0.0])

    def closed_form(self) -> ClosedForm | None:
        if type(self) is not Cosine:
            return None
        frequency = 2 * math.pi / self.period.value
        return ClosedForm(0, True, self.variance.value, frequency=frequency)

    def feedback(self) -> Matrix:
        return 2 * math.pi / self.period.value * jnp.array([[0.0, -1.0], [1.0, 0.0]])

    def covariance(self, lag: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        return self.variance.value * jnp.cos(2 * math.pi * lag / self.period.value)


def rotation(angle: Scalar) -> Float[Array, "2 2"]:
    """The rotation matrix of an angle."""
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return jnp.array([[cos, -sin], [sin, cos]])
