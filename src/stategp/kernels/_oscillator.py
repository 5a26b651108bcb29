"""The stochastically driven, damped harmonic oscillator.

In the dimensionless time u = ω₀x the process solves f″ + 2a f′ + f = white noise with damping
a = 1/(2·quality); the state is (f, f′). With h the response to an impulse, h(u) = e⁻ᵃᵘ s(u),
s = sinh(wu)/w and w² = a² − 1 (a sine when a < 1, u itself when a = 1),

    Q₀₀ = 4aσ² ∫h²      Q₀₁ = 2aσ² h²      Q₁₁ = 4aσ² ∫h′²

The integrals are evaluated by quadrature of these squares for small steps (positive terms,
nothing cancels) and in closed form for large ones, each where it is accurate.
"""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float

from stategp.kernels._base import OSCILLATING, ClosedForm, Kernel, Matrix, Scalar, State
from stategp.kernels._special import unit_gauss_legendre
from stategp.parameters import Parameter, Value, positive

_NODES, _WEIGHTS = unit_gauss_legendre(12)
_SMALL_STEP = 2.0  # in units of the fastest rate
_NEAR_CRITICAL = 0.1


class Oscillator(Kernel):
    """A damped oscillator driven by white noise (celerite's SHO term).

    `period` is that of the undamped oscillator. With `quality` > ½ the process oscillates, with ½
    it is critically damped (a Matérn-3/2), with < ½ overdamped. `fit` can move between the regimes.

    >>> import stategp as sg
    >>> sg.kernels.Oscillator(period=5.0, quality=3.0)
    Oscillator(variance=1, period=5, quality=3)
    """

    variance: Parameter
    period: Parameter
    quality: Parameter

    def __init__(self, *, variance: Value = None, period: Value = None, quality: Value = None):
        self.variance = positive("variance", variance, default=1.0, role="variance")
        self.period = positive("period", period, default=1.0, role="period")
        self.quality = positive("quality", quality, default=1.0, role="shape")

    @property
    def state_dim(self) -> int:
        return 2

    @property
    def angular_frequency(self) -> Float[Array, ""]:
        return 2 * math.pi / self.period.value

    @property
    def damping(self) -> Float[Array, ""]:
        return 0.5 / self.quality.value

    def transition(self, dt: Scalar) -> Matrix:
        a = self.damping
        cosh, sinh = damped_waves(a, jnp.asarray(self.angular_frequency * dt))
        return jnp.array([[cosh + a * sinh, sinh], [-sinh, cosh - a * sinh]])

    def process_noise(self, dt: Scalar) -> Matrix:
        a, u = self.damping, jnp.asarray(self.angular_frequency * dt)
        position, velocity = _integrated_squares(a, u)
        _, h = damped_waves(a, u)
        cross = h**2 / 2
        return 4 * a * self.variance.value * jnp.array([[position, cross], [cross, velocity]])

    def stationary_covariance(self) -> Matrix:
        return self.variance.value * jnp.eye(2)

    def emission(self) -> State:
        return jnp.array([1.0, 0.0])

    def closed_form(self) -> ClosedForm | None:
        if type(self) is not Oscillator:
            return None  # a subclass may have other matrices
        frequency = self.angular_frequency
        rate = self.damping * frequency
        return ClosedForm(OSCILLATING, False, self.variance.value, rate, frequency)

    def feedback(self) -> Matrix:
        unit = jnp.array([[0.0, 1.0], [-1.0, 0.0]]) - 2 * self.damping * jnp.diag(
            jnp.array([0.0, 1.0])
        )
        return self.angular_frequency * unit

    def diffusion(self) -> Matrix:
        strength = 4 * self.damping * self.variance.value * self.angular_frequency
        return jnp.zeros((2, 2)).at[1, 1].set(strength)

    def covariance(self, lag: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        cosh, sinh = damped_waves(self.damping, self.angular_frequency * jnp.abs(lag))
        return self.variance.value * (cosh + self.damping * sinh)


def damped_waves(
    a: Float[Array, ""], u: Float[Array, "*shape"]
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """e⁻ᵃᵘ cosh(wu) and e⁻ᵃᵘ sinh(wu)/w with w² = a² − 1 of either sign."""
    square = (a - 1) * (a + 1)
    z = square * u**2
    near = jnp.abs(z) < _NEAR_CRITICAL

    z_near = jnp.where(near, z, 0.0)
    cosh_series = sum((z_near**k / math.factorial(2 * k) for k in range(8)), jnp.zeros_like(z))
    sinh_series = sum((z_near**k / math.factorial(2 * k + 1) for k in range(8)), jnp.zeros_like(z))
    decay = jnp.exp(-a * u)

    over = square > 0
    w = jnp.sqrt(jnp.where(jnp.abs(square) > 0, jnp.abs(square), 1.0))
    w_over = jnp.where(over, w, 1.0)
    slow = jnp.exp(-u / (a + w_over))  # a − w = 1/(a + w)
    ratio = jnp.expm1(-2 * w_over * u)  # e^(−2wu) − 1
    w_under = jnp.where(over, 1.0, w)

    cosh = jnp.where(over, slow * (1 + ratio / 2), decay * jnp.cos(w_under * u))
    sinh = jnp.where(over, -slow * ratio / (2 * w_over), decay * jnp.sin(w_under * u) / w_under)
    return (
        jnp.where(near, decay * cosh_series, cosh),
        jnp.where(near, decay * u * sinh_series, sinh),
    )


def _integrated_squares(
    a: Float[Array, ""], u: Float[Array, ""]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """∫₀ᵘ h² and ∫₀ᵘ h′²."""
    fastest = jnp.maximum(1.0, a)
    small = u * fastest <= _SMALL_STEP
    u_small = jnp.where(small, u, 0.0)
    u_large = jnp.where(small, _SMALL_STEP / fastest, u)

    cosh, sinh = damped_waves(a, u_small * jnp.asarray(_NODES))
    weights = u_small * jnp.asarray(_WEIGHTS)
    by_quadrature = jnp.sum(weights * sinh**2), jnp.sum(weights * (cosh - a * sinh) ** 2)

    under, over = a < 1 - _NEAR_CRITICAL, a > 1 + _NEAR_CRITICAL
    in_closed_form = [
        jnp.where(under, oscillating, jnp.where(over, overdamped, critical))
        for oscillating, overdamped, critical in zip(
            _oscillating_squares(jnp.where(under, a, 0.5), u_large),
            _overdamped_squares(jnp.where(over, a, 2.0), u_large),
            _critical_squares(a, u_large),
            strict=True,
        )
    ]
    return (
        jnp.where(small, by_quadrature[0], in_closed_form[0]),
        jnp.where(small, by_quadrature[1], in_closed_form[1]),
    )


def _oscillating_squares(
    a: Float[Array, ""], u: Float[Array, ""]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    v = jnp.sqrt((1 - a) * (1 + a))
    decay = jnp.exp(-2 * a * u)
    average = -jnp.expm1(-2 * a * u) / (2 * a)
    even = a * (1 - decay * jnp.cos(2 * v * u))
    odd = v * decay * jnp.sin(2 * v * u)
    return (average - (even + odd) / 2) / (2 * v**2), (average - (even - odd) / 2) / (2 * v**2)


def _overdamped_squares(
    a: Float[Array, ""], u: Float[Array, ""]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    w = jnp.sqrt((a - 1) * (a + 1))
    fast, slow = a + w, 1 / (a + w)

    def integral(rate: Float[Array, ""]) -> Float[Array, ""]:
        return -jnp.expm1(-rate * u) / rate

    both, twice_slow, twice_fast = integral(2 * a), integral(2 * slow), integral(2 * fast)
    position = (twice_slow - 2 * both + twice_fast) / (4 * w**2)
    velocity = (fast**2 * twice_fast - 2 * both + slow**2 * twice_slow) / (4 * w**2)
    return position, velocity


def _critical_squares(
    a: Float[Array, ""], u: Float[Array, ""]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """From Q = P₀ − A P₀ Aᵀ: after a large step near critical damping nothing cancels there."""
    cosh, sinh = damped_waves(a, u)
    position = 1 - (cosh + a * sinh) ** 2 - sinh**2
    velocity = 1 - (cosh - a * sinh) ** 2 - sinh**2
    return position / (4 * a), velocity / (4 * a)
