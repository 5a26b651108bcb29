"""The evidence of scalar observations of a chain, when the signal is far above the noise.

Observation n sees the state z_k(n) as h_n·z + noise of precision j_n, any number of them at each
state. Variances of f before an observation and after it then differ by many orders of magnitude,
and a covariance matrix holds the small ones only to rounding of the large ones. So the filter
carries a root S of the covariance (P = S Sᵀ), and the recursion back a root U of the information
that later observations have about a state: with roots, what has to be kept are the square roots
of those ratios, and twice as many digits remain.

The adjoint is that of the innovations (Durbin & Koopman's r and N): in the predicted mean the
derivative is r, in the predicted covariance ½(r rᵀ − UᵀU).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from stategp._linalg import psd_cholesky
from stategp.chain._sites import Transitions

_EPS = float(np.finfo(float).eps)

Root = Float[Array, "dim dim"]
State = Float[Array, " dim"]


class Scalars(NamedTuple):
    """Scalar observations of the states of a chain, in the order of the states."""

    emission: Float[Array, "points dim"]
    value: Float[Array, " points"]
    precision: Float[Array, " points"]  # 0: nothing is seen


class _Past(NamedTuple):
    """A state given all earlier observations: its mean and a root of its covariance."""

    mean: State
    root: Root


class _Future(NamedTuple):
    """What later observations say about a state: the slope r, and a root of the information."""

    slope: State
    root: Root


class _Event(NamedTuple):
    """A step to the next state, or an observation of the present one."""

    is_step: Array
    state: Int[Array, "*events"]
    point: Int[Array, "*events"]


def careful_log_evidence(
    transitions: Transitions, points: Scalars, state: Int[Array, " points"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """log ∫ p(z) ∏ exp(−½ precision (value − h·z)²) dz, and how far off it may be by rounding.

    `transitions` has one step for each state, the first from nothing; `state` is increasing.
    """
    return _evidence(transitions, points, _in_order(state, len(transitions.A)))


def _in_order(state: Int[Array, " points"], states: int) -> _Event:
    """Each state is stepped to, and then observed."""
    count = len(state)
    point = jnp.full(count + states, -1).at[jnp.arange(count) + state + 1].set(jnp.arange(count))
    is_step = point < 0
    return _Event(is_step, jnp.cumsum(is_step) - 1, jnp.maximum(point, 0))


@jax.custom_vjp
def _evidence(
    transitions: Transitions, points: Scalars, events: _Event
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    return _forward(transitions, points, events)[0]


def _forward(transitions: Transitions, points: Scalars, events: _Event) -> Any:
    noise = jnp.moveaxis(psd_cholesky(jnp.moveaxis(transitions.Q, 0, -1)), -1, 0)
    dim = transitions.A.shape[-1]

    def step(past: _Past, event: _Event) -> tuple[_Past, Array]:
        A, W = transitions.A[event.state], noise[event.state]
        root = triangle(jnp.concatenate([(A @ past.root).T, W.T])).T
        return _Past(A @ past.mean, root), jnp.zeros(3)

    def observe(past: _Past, event: _Event) -> tuple[_Past, Array]:
        h, value, precision = (leaf[event.point] for leaf in points)
        seen = _see(past, h, value, precision)
        half = seen.weight / (1 + jnp.sqrt(seen.shrink))
        root = past.root - half * seen.covariance[:, None] * seen.part[None]
        mean = past.mean + seen.weight * seen.surprise * seen.covariance
        square = seen.weight * seen.surprise**2
        large = jnp.abs(value) + jnp.sum(jnp.abs(h * past.mean))
        lost = seen.weight * jnp.abs(seen.surprise) * large
        blurred = seen.weight * jnp.sqrt(seen.variance) * (1 + square)
        return _Past(mean, root), jnp.stack([jnp.log(seen.shrink) - square, lost, blurred])

    def advance(past: _Past, event: _Event) -> tuple[_Past, tuple[_Past, Array]]:
        after, terms = jax.lax.cond(event.is_step, step, observe, past, event)
        return after, (past, terms)

    nothing = _Past(jnp.zeros(dim), jnp.zeros((dim, dim)))
    _, (pasts, terms) = jax.lax.scan(advance, nothing, events)
    value, lost, blurred = terms.T
    # By rounding: of the surprises, and of their variances, whose roots were once this large.
    largest = jnp.sqrt(jnp.max(jnp.sum(pasts.root**2, axis=2), axis=0))
    blurred *= (jnp.abs(points.emission) @ largest)[events.point]
    rounding = 4 * _EPS * jnp.sum(lost + blurred)
    return (jnp.sum(value) / 2, rounding), (transitions.A, points, events, pasts)


def _backward(kept: Any, cotangents: tuple[Array, Array]) -> Any:
    A, points, events, pasts = kept
    dim = A.shape[-1]
    nothing = jnp.zeros((dim, dim))

    def step(future: _Future, event: _Event, past: _Past) -> tuple[_Future, Any]:
        """By P⁺ = A P Aᵀ + Q."""
        matrix, (r, U) = A[event.state], future
        d_Q = (r[:, None] * r[None] - U.T @ U) / 2
        carried = matrix @ past.root
        d_A = (r[:, None] * (r @ carried)[None] - U.T @ (U @ carried)) @ past.root.T
        d_A += r[:, None] * past.mean[None]
        before = _Future(matrix.T @ r, U @ matrix)
        return before, (d_A, d_Q, jnp.zeros(dim), jnp.zeros(2))

    def observe(future: _Future, event: _Event, past: _Past) -> tuple[_Future, Any]:
        """By m⁺ = m + w g e and P⁺ = P − w g gᵀ with g = P h, v = h·g, w = j / (1 + j v)."""
        h, value, precision = (leaf[event.point] for leaf in points)
        seen, (r, U) = _see(past, h, value, precision), future
        w, e, g = seen.weight, seen.surprise, seen.covariance
        on_mean, on_root = r @ g, U @ g
        d_weight = e * on_mean - (on_mean**2 - on_root @ on_root) / 2 - e**2 / 2
        d_value = w * (on_mean - e)
        d_precision = seen.shrink**2 * d_weight - seen.variance * seen.shrink / 2
        d_variance = -(w**2) * d_weight - w / 2
        slope, information = r @ past.root, U @ past.root
        d_g = w * e * slope - w * (slope * on_mean - on_root @ information)  # Sᵀ times it
        d_h = past.root @ d_g + 2 * d_variance * g - d_value * past.mean
        rows = jnp.concatenate([U - w * on_root[:, None] * h[None], jnp.sqrt(w) * h[None]])
        before = _Future(r - d_value * h, triangle(rows))
        return before, (nothing, nothing, d_h, jnp.stack([d_value, d_precision]))

    def go_back(future: _Future, given: tuple[_Event, _Past]) -> tuple[_Future, Any]:
        return jax.lax.cond(given[0].is_step, step, observe, future, *given)

    nobody = _Future(jnp.zeros(dim), nothing)
    _, found = jax.lax.scan(go_back, nobody, (events, pasts), reverse=True)
    d_A, d_Q, d_h, d_scalars = (cotangents[0] * leaf for leaf in found)
    steps = jnp.where(events.is_step, events.state, len(A))  # those of observations are dropped
    seen = jnp.where(events.is_step, len(points.value), events.point)

    def at(values: Array, where: Array, size: int) -> Array:
        return jnp.zeros((size, *values.shape[1:])).at[where].set(values, mode="drop")

    count = len(points.value)
    scalars = at(d_scalars, seen, count)
    return (
        Transitions(at(d_A, steps, len(A)), at(d_Q, steps, len(A))),
        Scalars(at(d_h, seen, count), scalars[:, 0], scalars[:, 1]),
        jax.tree.map(lambda leaf: np.zeros(leaf.shape, jax.dtypes.float0), events),
    )


_evidence.defvjp(_forward, _backward)


class _Seen(NamedTuple):
    """What an observation finds before it: f as s·(white noise), and how much it is surprised."""

    part: State  # s = Sᵀh
    covariance: State  # of the state with f
    variance: Float[Array, ""]
    shrink: Float[Array, ""]  # what remains of the variance
    weight: Float[Array, ""]  # one over the variance of the surprise
    surprise: Float[Array, ""]


def _see(past: _Past, h: State, value: Array, precision: Array) -> _Seen:
    part = h @ past.root
    variance = part @ part
    shrink = 1 / (1 + precision * variance)
    surprise = value - h @ past.mean
    return _Seen(part, past.root @ part, variance, shrink, precision * shrink, surprise)


def triangle(rows: Float[Array, "rows dim"]) -> Root:
    """R with RᵀR = (rows)ᵀ(rows), by Householder's reflections; it need not be triangular."""
    count, dim = rows.shape
    numbers = np.arange(count)

    def reflect(k: Array, rows: Float[Array, "rows dim"]) -> Float[Array, "rows dim"]:
        column = jnp.where(numbers >= k, rows[:, k], 0.0)
        largest = jnp.max(jnp.abs(column))
        column = column / jnp.where(largest > 0, largest, 1.0)  # its square must not underflow
        pivot = column[k]
        length = jnp.sqrt(jnp.sum(column**2))
        mirror = column.at[k].add(jnp.where(pivot < 0, -length, length))
        square = jnp.sum(mirror**2)
        factor = jnp.where(square > 0, 2 / jnp.where(square > 0, square, 1.0), 0.0)
        return rows - factor * mirror[:, None] * (mirror @ rows)[None]

    return jax.lax.fori_loop(0, dim, reflect, rows)[:dim]
