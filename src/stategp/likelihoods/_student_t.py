"""Observations with outliers.

A Student-t is a mixture of Gaussians over its precision u: with z = (y − f)²/(df · scale²),

    (1 + z)⁻ᵇ = 1/Γ(b) ∫ uᵇ⁻¹ exp(−u − u z) du,    log(1 + z) = ∫ (1 − exp(−u z)) exp(−u) du/u.

For f ~ N(mean, variance) the expectation of exp(−u z) is known, so both integrals are over u
alone: smooth in log u whatever the variance, which Gauss–Hermite in f is not, and nothing hinges
on how many peaks N(f) p(y | f) has. The trapezoidal rule in log u does the rest.
"""

import functools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, ndtr
from jaxtyping import Array, PRNGKeyArray

from stategp.likelihoods._base import Likelihood, Points, all_slopes, check_quadrature
from stategp.likelihoods._distribution import Coordinate
from stategp.likelihoods._quadrature import Sums, Tilted
from stategp.parameters import Parameter, Value, positive

_NODES = 64
_DROP = 32.0  # nats below the peak at which an integrand is over


class StudentT(Likelihood):
    """y = f(x) + scale · t, where t has a Student-t distribution with `df` degrees of freedom.

    `quadrature` is the number of nodes of its integrals. Predictions give the location as the mean
    of y, even if `df` ≤ 1 and the mean does not exist, and an infinite variance if `df` ≤ 2.

    >>> import stategp as sg
    >>> sg.likelihoods.StudentT(df=3.0, scale=0.5)
    StudentT(df=3, scale=0.5)
    """

    df: Parameter
    scale: Parameter
    quadrature: int = eqx.field(static=True)

    def __init__(self, *, df: Value = None, scale: Value = None, quadrature: int = _NODES):
        self.df = positive("df", df, default=4.0, role="tails")
        self.scale = positive("scale", scale, default=1.0, role="scale")
        self.quadrature = check_quadrature(quadrature)

    def _log_peak(self) -> Array:
        df = self.df.value
        ratio = gammaln((df + 1) / 2) - gammaln(df / 2)
        return ratio - jnp.log(math.pi * df) / 2 - jnp.log(self.scale.value)

    def _relative(self, y: Points, mean: Points, variance: Points) -> tuple[Points, Points]:
        """z at the mean, and twice the variance in the same unit."""
        unit = self.df.value * self.scale.value**2
        return (y - mean) ** 2 / unit, 2 * variance / unit

    def log_density(self, y: Points, f: Points, extra: Points) -> Points:
        z = (y - f) ** 2 / (self.df.value * self.scale.value**2)
        return self._log_peak() - (self.df.value + 1) / 2 * jnp.log1p(z)

    def expected_log_density(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> Points:
        z, spread = self._relative(y, mean, variance)
        logarithm = _expected_log1p(z, spread, self.quadrature)
        return self._log_peak() - (self.df.value + 1) / 2 * logarithm

    def expected_slopes(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> tuple[Points, Points, Points]:
        return all_slopes(lambda m, v: self.expected_log_density(y, m, v, extra), mean, variance)

    def moments(self, f: Points, extra: Points) -> tuple[Points, Points]:
        return self.predict(f, jnp.zeros_like(f), extra)

    def predict(self, mean: Points, variance: Points, extra: Points) -> tuple[Points, Points]:
        df = self.df.value
        noise_variance = self.scale.value**2 * df / jnp.where(df > 2, df - 2, 1.0)
        return mean, variance + jnp.where(df > 2, noise_variance, jnp.inf)

    def tilted(
        self, y: Points, mean: Points, variance: Points, extra: Points, power: float = 1.0
    ) -> Tilted:
        exponent = power * (self.df.value + 1) / 2
        z, spread = self._relative(y, mean, variance)
        log_mass, pull, pull_variance = _mixture(z, spread, exponent, self.quadrature)
        residual = y - mean
        return Tilted(
            power * self._log_peak() - gammaln(exponent) + log_mass,
            mean + pull * residual,
            (1 - pull) * variance + pull_variance * residual**2,
        )

    def continued_cdf(self, y: Points, mean: Points, variance: Points, extra: Points) -> Points:
        squared_scale = self.scale.value**2
        return 0.5 + _half_mixture(
            y - mean, variance, squared_scale, self.df.value / 2, 2 * self.quadrature
        )

    def coordinate(self, mean: Points, variance: Points, extra: Points) -> Coordinate:
        return Coordinate("real", mean, jnp.sqrt(variance + self.scale.value**2))

    def sample(self, key: PRNGKeyArray, f: Points, extra: Points) -> Points:
        return f + self.scale.value * jax.random.t(key, self.df.value, f.shape)

    def guess(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return y

    def highest_log_density(self, y: Points, extra: Points) -> Points:
        return jnp.full(y.shape, self._log_peak())


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _expected_log1p(z: Points, spread: Points, nodes: int) -> Points:
    """E[log(1 + z)], as ∫ (1 − E[exp(−u z)]) exp(−u) d log u."""
    return _log1p_and_slopes(z, spread, nodes)[0]


@_expected_log1p.defjvp
def _move(nodes: int, primals: Any, tangents: Any) -> tuple[Points, Points]:
    z, spread = primals
    value, in_z, in_spread = _log1p_and_slopes(z, spread, nodes)
    return value, in_z * tangents[0] + in_spread * tangents[1]


def _log1p_and_slopes(z: Points, spread: Points, nodes: int) -> Sums:
    """The integral and its derivatives in z and in the spread, which share what takes long."""
    # For small u the integrand is a·u + b·u² + …: both are summed over all nodes left of `start`.
    a = z + spread / 2
    b = -(spread**2 / 4 + z * spread + a**2 / 2 + a)
    start = jax.lax.stop_gradient(-jnp.log(jnp.maximum(1.0, z + spread)) + math.log(1e-4))
    step = (math.log(30.0) - start) / nodes
    first = jnp.exp(start)
    linear, square = first / jnp.expm1(step), first**2 / jnp.expm1(2 * step)
    below = (
        a * linear + b * square,
        linear - (spread + a + 1) * square,
        linear / 2 - (spread + 2 * z + a + 1) / 2 * square,
    )

    ratio = jnp.exp(step)

    def term(_: Array, at: tuple[Points, Sums]) -> tuple[Points, Sums]:
        u, sums = at
        shrink = 1 / (1 + spread * u)
        pull = u * shrink
        less = jnp.expm1(jnp.log(shrink) / 2 - z * pull)  # E[exp(−u z)] − 1
        decay = jnp.exp(-u)
        weight = (1 + less) * decay * pull
        return u * ratio, (
            sums[0] - less * decay,
            sums[1] + weight,
            sums[2] + weight * (0.5 - z * pull),
        )

    _, (value, in_z, in_spread) = jax.lax.fori_loop(0, nodes + 1, term, (first, below))
    return step * value, step * in_z, step * in_spread


def _half_mixture(
    residual: Points, variance: Points, squared_scale: Array, half_df: Array, nodes: int
) -> Points:
    """E[Φ(residual / √(variance + scale²/u)) − ½] for u ~ Gamma(half_df, half_df), over log u."""
    half_df = jnp.minimum(half_df, 1e7)  # a normal, from long before
    # The mass falls like exp(half_df · log u) to the left, and the rest like √u.
    left = jnp.sqrt(2 * _DROP / half_df) + _DROP / (half_df + 0.5)
    right = jnp.log1p(jnp.sqrt(2 * _DROP / half_df) + _DROP / half_df)
    step = (left + right) / nodes

    def term(total: Points, index: Array) -> tuple[Points, None]:
        log_u = step * index - left
        mass = jnp.exp(half_df * (log_u - jnp.expm1(log_u)))
        score = residual / jnp.sqrt(variance + squared_scale * jnp.exp(-log_u))
        return total + mass * (ndtr(score) - 0.5), None

    total, _ = jax.lax.scan(term, jnp.zeros_like(residual), jnp.arange(nodes + 1.0))
    return total * step / jnp.exp(gammaln(half_df) + half_df - half_df * jnp.log(half_df))


def _mixture(
    z: Points, spread: Points, exponent: Array, nodes: int
) -> tuple[Points, Points, Points]:
    """log ∫ uᵇ exp(−u) E[exp(−u z)] d log u, and the gain's mean and variance under its integrand.

    Given u, f is Gaussian with gain k = spread · u / (1 + spread · u) towards y.
    """

    def log_term(u: Points) -> Points:
        return exponent * jnp.log(u) - u - jnp.log1p(spread * u) / 2 - z * u / (1 + spread * u)

    # All peaks lie between these two, and beyond them the integrand falls at a known rate.
    left = jnp.log(exponent / (1 + spread / 2 + z)) - _DROP / exponent
    right = jnp.log(exponent) + jnp.log1p(_DROP / exponent)
    margin = jnp.sqrt(2 * _DROP / exponent)
    left, right = jax.lax.stop_gradient((left - margin, right + margin))
    width = (right - left) / nodes

    def highest(best: Points, index: Array) -> tuple[Points, None]:
        return jnp.maximum(best, log_term(jnp.exp(left + width * index))), None

    steps = jnp.arange(nodes + 1.0)
    peak, _ = jax.lax.scan(highest, jnp.full_like(z, -jnp.inf), steps)
    peak = jax.lax.stop_gradient(peak)

    def extent(ends: tuple[Points, Points], index: Array) -> tuple[tuple[Points, Points], None]:
        at = left + width * index
        matters = log_term(jnp.exp(at)) > peak - _DROP
        lower = jnp.where(matters, jnp.minimum(ends[0], at - width), ends[0])
        upper = jnp.where(matters, jnp.maximum(ends[1], at + width), ends[1])
        return (lower, upper), None

    ends = (jnp.full_like(z, right), left)
    (lower, upper), _ = jax.lax.scan(extent, ends, steps)
    lower, upper = jax.lax.stop_gradient((lower, upper))
    fine = 3 * nodes
    step = (upper - lower) / fine

    def term(sums: Sums, index: Array) -> tuple[Sums, None]:
        u = jnp.exp(lower + step * index)
        mass = jnp.exp(log_term(u) - peak)
        gain = spread * u / (1 + spread * u)
        return (sums[0] + mass, sums[1] + mass * gain, sums[2] + mass * gain**2), None

    zeros = jnp.zeros_like(z)
    (total, first, second), _ = jax.lax.scan(term, (zeros, zeros, zeros), jnp.arange(fine + 1.0))
    pull = first / total
    return jnp.log(total * step) + peak, pull, second / total - pull**2
