"""Three coupled pairs that turn together: BayesNewton's divergence-free oscillator.

The equation is ds = −(½ N Nᵀ + R) s dx + N dβ on three pairs, where R turns every pair at the same
rate and N = C ⊗ I₂ / √lengthscale couples the pairs. The drift is a rotation on top of what the
noise needs to keep the identity as the covariance of the state. In the eigenvectors of C the pairs
are independent: one of them is not damped at all, the others are forgotten at their own rates.
"""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp.kernels._base import Kernel
from stategp.kernels._compose import Blockwise, Kronecker
from stategp.kernels._deterministic import Cosine
from stategp.kernels._matern import Matern12
from stategp.parameters import Parameter, Value, derived, positive

_COUPLING = np.array([[0.5, -1.0, 0.5], [-1.0, 0.5, -1.0], [0.5, -1.0, 0.5]])


def _decoupled() -> tuple[np.ndarray, np.ndarray]:
    """Shares of the variance of the first pair and rates, from the undamped part on."""
    sizes, vectors = np.linalg.eigh(_COUPLING)
    order = np.argsort(np.abs(sizes))
    return vectors[0, order] ** 2, sizes[order[1:]] ** 2 / 2


_SHARES, _RATES = _decoupled()


class DivergenceFreeOscillator(Blockwise):
    """A wave that is never quite forgotten: half of it lasts, the rest changes at two rates.

    k(τ) = variance · cos(2πτ / period) · (1/2 + 0.294 e^(−2.39 τ/lengthscale) +
    0.206 e^(−0.235 τ/lengthscale)), the covariance of BayesNewton's kernel of this name with
    `period` 2π / radial_frequency and `lengthscale` smoothness². The state has six components.

    >>> import stategp as sg
    >>> sg.kernels.DivergenceFreeOscillator(period=12.0, lengthscale=20.0)
    DivergenceFreeOscillator(variance=1, period=12, lengthscale=20)
    """

    variance: Parameter
    period: Parameter
    lengthscale: Parameter

    def __init__(self, *, variance: Value = None, period: Value = None, lengthscale: Value = None):
        self.variance = positive("variance", variance, default=1.0, role="variance")
        self.period = positive("period", period, default=1.0, role="period")
        self.lengthscale = positive("lengthscale", lengthscale, default=1.0, role="lengthscale")

    @property
    def state_dim(self) -> int:
        return 6

    def blocks(self) -> tuple[Kernel, ...]:
        one, period = derived(jnp.ones(())), derived(self.period.value)
        waves = [Cosine(variance=derived(self.variance.value * s), period=period) for s in _SHARES]
        fading = (
            Kronecker(Matern12(variance=one, lengthscale=derived(self.lengthscale.value / r)), wave)
            for r, wave in zip(_RATES, waves[1:], strict=True)
        )
        return (waves[0], *fading)

    def covariance(self, lag: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        ages = lag / self.lengthscale.value
        fading = _SHARES[0] + sum(
            s * jnp.exp(-r * ages) for s, r in zip(_SHARES[1:], _RATES, strict=True)
        )
        return self.variance.value * fading * jnp.cos(2 * math.pi * lag / self.period.value)
