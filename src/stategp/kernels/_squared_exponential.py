"""A state-space approximation of the squared exponential.

Its spectral density ∝ exp(−ω²/2) (unit lengthscale) becomes 1/Σ_k (ω²/2)ᵏ/k! up to k = order,
which factorises into a stable all-pole system of that order (Hartikainen & Särkkä, 2010).
"""

import functools
import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._arguments import whole_number
from stategp.kernels._sde import SDE, LinearSDE
from stategp.parameters import Parameter, Value, positive

_MAX_ORDER = 12


@functools.cache
def _poles(order: int) -> tuple[np.ndarray, np.ndarray]:
    """Stable poles s_j and residues c_j: k(τ) = Σ_j c_j e^(s_j τ) with k(0) = 1."""
    taylor = [1 / (2.0**k * math.factorial(k)) for k in range(order + 1)]
    poles = -np.sqrt(-np.roots(taylor[::-1]).astype(complex))  # roots in ω² = −s²
    residues = np.array(
        [
            1 / (np.prod(np.delete(pole - poles, j)) * np.prod(-pole - poles))
            for j, pole in enumerate(poles)
        ]
    )
    return poles, residues / residues.sum().real


class SquaredExponential(LinearSDE):
    """k(τ) ≈ variance · exp(−τ²/(2 lengthscale²)), approximated by an equation of the given order.

    :attr:`approximation_error` is the largest error of the covariance, relative to the variance.

    >>> import stategp as sg
    >>> kernel = sg.kernels.SquaredExponential(lengthscale=2.0, order=6)
    >>> kernel.approximation_error < 0.01
    True
    """

    variance: Parameter
    lengthscale: Parameter
    order: int = eqx.field(static=True)

    def __init__(self, *, variance: Value = None, lengthscale: Value = None, order: Any = 6):
        order = whole_number("order", order)
        if not 1 <= order <= _MAX_ORDER:
            raise ValueError(f"order must lie between 1 and {_MAX_ORDER}, got {order}")
        self.variance = positive("variance", variance, default=1.0, role="variance")
        self.lengthscale = positive("lengthscale", lengthscale, default=1.0, role="lengthscale")
        self.order = order

    def sde(self) -> SDE:
        poles, residues = _poles(self.order)
        polynomial = np.poly(poles).real  # monic, highest power first
        companion = np.eye(self.order, k=1)
        companion[-1] = -polynomial[:0:-1]
        # The last derivative that exists jumps by Q_c: read it off the residues at τ = 0.
        strength = (
            -2 * np.sum(residues * poles ** (2 * self.order - 1)).real * (-1) ** (self.order - 1)
        )
        noise = jnp.zeros((self.order, 1)).at[-1, 0].set(1.0)
        rate = 1 / self.lengthscale.value
        return (
            rate * jnp.asarray(companion),
            noise,
            (self.variance.value * rate * strength).reshape(1, 1),
            jnp.zeros(self.order).at[0].set(1.0),
        )

    def covariance(self, lag: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """The covariance of the approximation, in closed form."""
        poles, residues = _poles(self.order)
        scaled = jnp.abs(lag) / self.lengthscale.value
        terms = [
            residue.real * jnp.cos(pole.imag * scaled) * jnp.exp(pole.real * scaled)
            - residue.imag * jnp.sin(pole.imag * scaled) * jnp.exp(pole.real * scaled)
            for pole, residue in zip(poles, residues, strict=True)
        ]
        return self.variance.value * sum(terms, start=jnp.zeros_like(scaled))

    @property
    def approximation_error(self) -> float:
        """max over τ of |k(τ) − variance · exp(−τ²/2ℓ²)| / variance."""
        poles, residues = _poles(self.order)
        lag = np.linspace(0, 12, 4001)
        approximate = (residues * np.exp(poles * lag[:, None])).sum(axis=1).real
        return float(np.max(np.abs(approximate - np.exp(-(lag**2) / 2))))

    def _repr_fields(self) -> list[str]:
        return [*super()._repr_fields(), f"order={self.order}"]
