"""Expectations under Gaussians, by quadrature.

Everything is elementwise over the observations. Functions of one latent take and return arrays of
one shape; functions of several latents read them along the last axis and return one number each.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

Values = Float[Array, "*points"]
Several = Float[Array, "..."]  # (*points, latents)
Sums = tuple[Values, Values, Values]
Function = Callable[[Values], Values]
SeveralFunction = Callable[[Several], Values]
Rule = Callable[[int], tuple[np.ndarray, np.ndarray]]  # nodes and weights for the standard normal

_BISECTIONS = 24  # of a logarithm that spans 60: to a relative 1e-6 or so
_NEWTON_STEPS = 6  # from there to rounding
_EDGE_BISECTIONS = 10
_NORMAL_REACH = 8.5  # standard deviations that matter to a sum of double precision
_SPREAD = 2048  # half of the nodes where a product of rules would have too many
_DROP = 34.0  # nats below the peak at which an integrand is over: e⁻³⁴ ≈ 1e-15


@functools.lru_cache(maxsize=32)
def hermite(order: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for the standard normal."""
    from scipy.special import roots_hermitenorm  # slow to import

    nodes, weights = roots_hermitenorm(order)
    return nodes, weights / np.sum(weights)


@functools.lru_cache(maxsize=32)
def trapezoid(order: int) -> tuple[np.ndarray, np.ndarray]:
    """The same with equal steps: better for functions with singularities near the real line."""
    nodes = np.linspace(-_NORMAL_REACH, _NORMAL_REACH, order)
    weights = np.exp(-(nodes**2) / 2)
    return nodes, weights / np.sum(weights)


@functools.lru_cache(maxsize=32)
def product_hermite(order: int, latents: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (·, latents) and weights for independent standard normals: `order` for each."""
    nodes, weights = hermite(order)
    grid = np.stack(np.meshgrid(*[nodes] * latents, indexing="ij"), axis=-1).reshape(-1, latents)
    table = np.stack(np.meshgrid(*[weights] * latents, indexing="ij"), axis=-1)
    return grid, np.prod(table, axis=-1).ravel()


@functools.lru_cache(maxsize=8)
def spread_out(dims: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (·, dims) of equal weight for independent standard normals, in many dimensions.

    Points of Sobol' and their mirror images, stretched to have unit covariance: odd functions and
    quadratic ones have exact averages.
    """
    from scipy.special import ndtri
    from scipy.stats import qmc  # slow to import

    points = qmc.Sobol(dims, scramble=False).random(_SPREAD) + 0.5 / _SPREAD
    half = ndtri(points)
    both = np.concatenate([half, -half])
    root = np.linalg.cholesky(both.T @ both / len(both))
    return np.linalg.solve(root, both.T).T, np.full(len(both), 1 / len(both))


def derivatives(function: Function, at: Values) -> tuple[Values, Values, Values]:
    """An elementwise function with its first and second derivative."""

    def slope(f: Values) -> tuple[Values, Values]:
        value, first = jax.jvp(function, (f,), (jnp.ones_like(f),))
        return value, first

    (value, first), (_, second) = jax.jvp(slope, (at,), (jnp.ones_like(at),))
    return value, first, second


def several_derivatives(function: SeveralFunction, at: Several) -> tuple[Values, Several, Several]:
    """The same for several latents: the derivatives in each of them with the others held."""
    value = function(at)
    each = []
    for latent in range(at.shape[-1]):

        def along(f: Values, latent: int = latent) -> Values:
            return function(at.at[..., latent].set(f))

        each.append(derivatives(along, at[..., latent])[1:])
    first, second = (jnp.stack(columns, axis=-1) for columns in zip(*each, strict=True))
    return value, first, second


def expectation(
    function: Function, mean: Values, variance: Values, order: int, rule: Rule = hermite
) -> Values:
    """E[function(f)] for f ~ N(mean, variance), with first derivatives that hold at variance zero.

    The derivative in the variance goes through the standard deviation and needs one derivative of
    the function, so kinks are fine. Where the standard deviation is too small to divide by, it is
    half the second derivative at the mean. Second derivatives of this are meaningless.
    """
    nodes, weights = rule(order)
    deviation, change = _spread(mean, variance)

    def term(total: Values, node: Float[Array, " 2"]) -> tuple[Values, None]:
        return total + node[1] * function(mean + deviation * node[0]), None

    # A loop over the nodes keeps memory at one array, however many nodes there are.
    table = jnp.asarray(np.stack([nodes, weights], axis=1))
    average = jax.lax.scan(term, jnp.zeros_like(mean), table)[0]
    curvature = jax.lax.stop_gradient(derivatives(function, mean)[2])
    return average + change * jnp.where(jnp.isfinite(curvature), curvature, 0.0) / 2


def expectation_and_slopes(
    function: Function, mean: Values, variance: Values, order: int, rule: Rule = hermite
) -> tuple[Values, Values, Values]:
    """`expectation` and its derivatives in the mean and the variance, in one go over the nodes."""
    nodes, weights = rule(order)
    wide = is_wide(mean, variance)
    deviation = jnp.sqrt(variance)

    def term(totals: Sums, node: Float[Array, " 2"]) -> tuple[Sums, None]:
        at = mean + deviation * node[0]
        value, slope = jax.jvp(function, (at,), (jnp.ones_like(at),))
        parts = (value, slope, node[0] * slope)
        average, first, tilted = (t + node[1] * p for t, p in zip(totals, parts, strict=True))
        return (average, first, tilted), None

    table = jnp.asarray(np.stack([nodes, weights], axis=1))
    start = (jnp.zeros_like(mean), jnp.zeros_like(mean), jnp.zeros_like(mean))
    (average, first, tilted), _ = jax.lax.scan(term, start, table)
    bend = derivatives(function, mean)[2]
    narrow = jnp.where(jnp.isfinite(bend), bend, 0.0) / 2
    return average, first, jnp.where(wide, tilted / (2 * jnp.where(wide, deviation, 1.0)), narrow)


def is_wide(mean: Several, variance: Several) -> Bool[Array, "..."]:
    """Where the standard deviation is large enough to divide by."""
    return variance > (1e-7 * (1 + jnp.abs(mean))) ** 2


def _spread(mean: Several, variance: Several) -> tuple[Several, Several]:
    """The standard deviation, and a zero whose derivative in a tiny variance is one."""
    constant_variance = jax.lax.stop_gradient(variance)
    wide = is_wide(jax.lax.stop_gradient(mean), constant_variance)
    root = jnp.sqrt(jnp.where(wide, variance, 1.0))
    deviation = jnp.where(wide, root, jnp.sqrt(constant_variance))
    return deviation, jnp.where(wide, 0.0, variance - constant_variance)


def several_expectation(
    function: SeveralFunction, mean: Several, variance: Several, order: int
) -> Values:
    """`expectation` over independent latents, on the product of their nodes."""
    nodes, weights = product_hermite(order, mean.shape[-1])
    deviation, change = _spread(mean, variance)

    def term(total: Values, node: tuple[Array, Array]) -> tuple[Values, None]:
        at = mean + deviation * jnp.broadcast_to(node[0], mean.shape)
        return total + node[1] * function(at), None

    table = (jnp.asarray(nodes), jnp.asarray(weights))
    average = jax.lax.scan(term, jnp.zeros(mean.shape[:-1]), table)[0]
    curvature = jax.lax.stop_gradient(several_derivatives(function, mean)[2])
    bend = change * jnp.where(jnp.isfinite(curvature), curvature, 0.0) / 2
    return average + jnp.sum(bend, axis=-1)


class Tilted(NamedTuple):
    """log ∫ factor(f) N(f) df, and the moments of factor × N."""

    log_normaliser: Values
    mean: Values
    variance: Values


def tilted(log_factor: Function, mean: Values, variance: Values, order: int) -> Tilted:
    """N(mean, variance) times a factor with one peak, however narrow or lopsided.

    The trapezoidal rule with 2 · `order` steps over the part that matters, in a variable that
    spreads the nodes by the shorter of its two sides: it converges like Gauss–Hermite for a
    Gaussian, and still does where the factor cuts one side of a wide Gaussian off.
    """
    variance = jnp.maximum(variance, 1e-24 * (1 + mean**2))

    def joint(f: Values) -> Values:
        return log_factor(f) - (f - mean) ** 2 / (2 * variance)

    mode = jax.lax.stop_gradient(_mode(log_factor, mean, variance))
    reach = jnp.sqrt(2 * _DROP * variance)  # a concave factor is over here, wherever its mode
    left = jax.lax.stop_gradient(_edge(joint, mode, -reach))
    right = jax.lax.stop_gradient(_edge(joint, mode, reach))
    unit = jnp.minimum(left, right) / 6
    start = -jnp.arcsinh(left / unit)
    step = (jnp.arcsinh(right / unit) - start) / (2 * order)
    peak = jax.lax.stop_gradient(joint(mode))

    def term(sums: Sums, index: Array) -> tuple[Sums, None]:
        at = start + step * index
        offset = unit * jnp.sinh(at)
        mass = jnp.exp(joint(mode + offset) - peak) * jnp.cosh(at)
        mass = jnp.where(jnp.isnan(mass), 0.0, mass)
        return (sums[0] + mass, sums[1] + mass * offset, sums[2] + mass * offset**2), None

    zeros = jnp.zeros_like(mean)
    total, first, second = jax.lax.scan(term, (zeros, zeros, zeros), jnp.arange(2 * order + 1.0))[0]
    scale = jnp.log(step * unit) - jnp.log(2 * jnp.pi * variance) / 2
    shift = first / total
    return Tilted(jnp.log(total) + peak + scale, mode + shift, second / total - shift**2)


def _mode(log_factor: Function, mean: Values, variance: Values) -> Values:
    """Where factor × N has its peak.

    For a log-concave factor it lies between the mean and mean + variance · slope at the mean:
    bisection of the logarithm of the distance from the mean, then Newton steps inside the bracket.
    """
    _, start, _ = derivatives(log_factor, mean)
    direction = jnp.where(start >= 0, 1.0, -1.0)
    furthest = jnp.where(jnp.isfinite(start), variance * jnp.abs(start), jnp.inf)
    furthest = jnp.clip(furthest, 1e-14 * jnp.sqrt(variance), 1e30)
    bracket = (jnp.log(furthest) - 60.0, jnp.log(furthest))

    def slopes(distance: Values) -> tuple[Values, Values]:
        _, first, second = derivatives(log_factor, mean + direction * distance)
        return direction * first - distance / variance, second - 1 / variance

    def bisect(_: Array | int, bracket: tuple[Values, Values]) -> tuple[Values, Values]:
        near, far = bracket
        middle = (near + far) / 2
        short = slopes(jnp.exp(middle))[0] > 0  # not where it overflowed: that is too far
        return jnp.where(short, middle, near), jnp.where(short, far, middle)

    near, far = (jnp.exp(end) for end in jax.lax.fori_loop(0, _BISECTIONS, bisect, bracket))

    def newton(_: Array | int, distance: Values) -> Values:
        first, second = slopes(distance)
        better = jnp.clip(distance - first / second, near, far)
        return jnp.where(jnp.isfinite(better) & (second < 0), better, distance)

    return mean + direction * jax.lax.fori_loop(0, _NEWTON_STEPS, newton, (near + far) / 2)


def _edge(joint: Function, mode: Values, reach: Values) -> Values:
    """How far from the mode, in the direction of `reach`, the integrand is over."""
    floor = joint(mode) - _DROP

    def bisect(_: Array | int, bracket: tuple[Values, Values]) -> tuple[Values, Values]:
        near, far = bracket
        middle = (near + far) / 2
        inside = joint(mode + reach * jnp.exp(middle)) > floor
        return jnp.where(inside, middle, near), jnp.where(inside, far, middle)

    start = (jnp.full_like(mode, -30.0), jnp.zeros_like(mode))
    return jnp.abs(reach) * jnp.exp(jax.lax.fori_loop(0, _EDGE_BISECTIONS, bisect, start)[1])
