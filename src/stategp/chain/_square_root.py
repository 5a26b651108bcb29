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
from jaxtyping import Array, Bool, Float, Int

from stategp._linalg import psd_cholesky, solve_lower
from stategp.chain._sites import Transitions

_EPS = float(np.finfo(float).eps)

Root = Float[Array, "dim dim"]
State = Float[Array, " dim"]


class Scalars(NamedTuple):
    """Scalar observations of the states of a chain, in the order of the states."""

    emission: Float[Array, "*points dim"]
    value: Float[Array, "*points"]
    precision: Float[Array, "*points"]  # 0: nothing is seen


class _Past(NamedTuple):
    """A state given all earlier observations: its mean and a root of its covariance."""

    mean: State
    root: Root


class _Future(NamedTuple):
    """What later observations say about a state: the slope r, and a root of the information."""

    slope: State
    root: Root


class _Order(NamedTuple):
    """Each state is stepped to, and then observed: the events, and where each of them is."""

    is_step: Bool[Array, " events"]
    number: Int[Array, " events"]  # of the state or of the observation
    steps: Int[Array, " states"]
    points: Int[Array, " points"]

    @staticmethod
    def of(state: Int[Array, " points"], states: int) -> "_Order":
        points = jnp.arange(len(state)) + state + 1
        steps = jnp.arange(states) + jnp.searchsorted(state, jnp.arange(states), side="left")
        is_step = jnp.ones(len(state) + states, bool).at[points].set(False)
        number = jnp.cumsum(is_step) - 1
        return _Order(is_step, number.at[points].set(jnp.arange(len(state))), steps, points)


def careful_log_evidence(
    transitions: Transitions, points: Scalars, state: Int[Array, " points"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """log ∫ p(z) ∏ exp(−½ precision (value − h·z)²) dz, and its possible rounding error.

    `transitions` has one step for each state, the first from nothing; `state` is increasing.
    """
    return _evidence(transitions, points, _Order.of(state, len(transitions.A)))


def careful_marginals(
    transitions: Transitions, points: Scalars, state: Int[Array, " points"]
) -> tuple[Float[Array, "states dim"], Float[Array, "states dim dim"]]:
    """Mean and covariance of every state, given all observations.

    With P = S Sᵀ what earlier ones leave of a state and WᵀW the information of its own and later
    ones, the covariance is S (I + (WS)ᵀWS)⁻¹ Sᵀ: no difference of large numbers.
    """
    order = _Order.of(state, len(transitions.A))
    last, pasts = _filter(transitions, points, order)
    slopes = _recall(transitions.A, points, order, pasts).slope
    after = jax.tree.map(lambda leaf, end: jnp.append(leaf[1:], end[None], axis=0), pasts, last)
    past, slope = jax.tree.map(lambda leaf: leaf[order.steps], (after, slopes))
    information = _informations(transitions, points, order)[order.steps]

    def moments(past: _Past, slope: State, W: Root) -> tuple[State, Root]:
        S = past.root
        root = _shrink(W @ S, S.T)
        return past.mean + S @ (slope @ S), root.T @ root

    mean, covariance = jax.vmap(moments)(past, slope, information)
    return mean, covariance


def _roots(covariances: Float[Array, "states dim dim"]) -> Float[Array, "states dim dim"]:
    return jnp.moveaxis(psd_cholesky(jnp.moveaxis(covariances, 0, -1)), -1, 0)


def _filter(transitions: Transitions, points: Scalars, order: _Order) -> tuple[_Past, _Past]:
    """The last state given all observations, and what stands before every event."""
    noise = _roots(transitions.Q)
    dim = transitions.A.shape[-1]

    def step(past: _Past, number: Array) -> _Past:
        A = transitions.A[number]
        root = triangle(jnp.concatenate([(A @ past.root).T, noise[number].T]))
        return _Past(A @ past.mean, root.T)

    def observe(past: _Past, number: Array) -> _Past:
        seen = _see(past, _at(points, number))
        half = seen.weight / (1 + jnp.sqrt(seen.shrink))
        root = past.root - half * seen.covariance[:, None] * seen.part[None]
        return _Past(past.mean + seen.weight * seen.surprise * seen.covariance, root)

    def advance(past: _Past, event: tuple[Array, Array]) -> tuple[_Past, _Past]:
        return jax.lax.cond(event[0], step, observe, past, event[1]), past

    nothing = _Past(jnp.zeros(dim), jnp.zeros((dim, dim)))
    return jax.lax.scan(advance, nothing, (order.is_step, order.number))


def _recall(A: Array, points: Scalars, order: _Order, pasts: _Past) -> _Future:
    """What is said after every event about the state there."""
    dim = A.shape[-1]

    def step(future: _Future, number: Array, _: _Past) -> _Future:
        return _Future(A[number].T @ future.slope, future.root @ A[number])

    def observe(future: _Future, number: Array, past: _Past) -> _Future:
        point, (r, U) = _at(points, number), future
        seen = _see(past, point)
        h, w, g = point.emission, seen.weight, seen.covariance
        rows = jnp.concatenate([U - w * (U @ g)[:, None] * h[None], jnp.sqrt(w) * h[None]])
        return _Future(r + w * (seen.surprise - r @ g) * h, triangle(rows))

    def go_back(future: _Future, event: tuple[Array, Array, _Past]) -> tuple[_Future, _Future]:
        return jax.lax.cond(event[0], step, observe, future, *event[1:]), future

    nothing = _Future(jnp.zeros(dim), jnp.zeros((dim, dim)))
    events = (order.is_step, order.number, pasts)
    return jax.lax.scan(go_back, nothing, events, reverse=True)[1]


def _informations(
    transitions: Transitions, points: Scalars, order: _Order
) -> Float[Array, "events dim dim"]:
    """A root W of what is known after every event about the state there from what comes then."""
    noise = _roots(transitions.Q)

    def step(W: Root, number: Array) -> Root:
        """Through z⁺ = A z + noise of root L: Aᵀ Wᵀ (I + W L Lᵀ Wᵀ)⁻¹ W A."""
        return _shrink((W @ noise[number]).T, W @ transitions.A[number])

    def observe(W: Root, number: Array) -> Root:
        point = _at(points, number)
        row = jnp.sqrt(point.precision) * point.emission
        return triangle(jnp.concatenate([W, row[None]]))

    def go_back(W: Root, event: tuple[Array, Array]) -> tuple[Root, Root]:
        return jax.lax.cond(event[0], step, observe, W, event[1]), W

    nothing = jnp.zeros(transitions.A.shape[1:])
    return jax.lax.scan(go_back, nothing, (order.is_step, order.number), reverse=True)[1]


def _shrink(rows: Float[Array, "rows dim"], columns: Root) -> Root:
    """R⁻ᵀ times the columns, with RᵀR = I + (rows)ᵀ(rows)."""
    factor = triangle(jnp.concatenate([jnp.eye(rows.shape[1]), rows]))
    return solve_lower(factor.T, columns)


@jax.custom_vjp
def _evidence(
    transitions: Transitions, points: Scalars, order: _Order
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    return _forward(transitions, points, order)[0]


def _forward(transitions: Transitions, points: Scalars, order: _Order) -> Any:
    _, pasts = _filter(transitions, points, order)
    before = jax.tree.map(lambda leaf: leaf[order.points], pasts)
    seen = jax.vmap(_see)(before, points)
    square = seen.weight * seen.surprise**2
    value = jnp.sum(jnp.log(seen.shrink) - square) / 2
    # By rounding: of the surprises, and of their variances, whose roots were once this large.
    largest = jnp.sqrt(jnp.max(jnp.sum(pasts.root**2, axis=2), axis=0))
    size = jnp.abs(points.emission) @ largest
    large = jnp.abs(points.value) + jnp.sum(jnp.abs(points.emission * before.mean), axis=1)
    lost = jnp.abs(seen.surprise) * large + jnp.sqrt(seen.variance) * size * (1 + square)
    return (value, 4 * _EPS * jnp.sum(seen.weight * lost)), (transitions.A, points, order, pasts)


def _backward(kept: Any, cotangents: tuple[Array, Array]) -> Any:
    A, points, order, pasts = kept
    futures = _recall(A, points, order, pasts)

    def of_step(A: Root, past: _Past, future: _Future) -> tuple[Root, Root]:
        """By P⁺ = A P Aᵀ + Q."""
        r, U = future
        carried = A @ past.root
        d_A = (r[:, None] * (r @ carried)[None] - U.T @ (U @ carried)) @ past.root.T
        return d_A + r[:, None] * past.mean[None], (r[:, None] * r[None] - U.T @ U) / 2

    def of_point(point: Scalars, past: _Past, future: _Future) -> Scalars:
        """By m⁺ = m + w g e and P⁺ = P − w g gᵀ with g = P h, v = h·g, w = j / (1 + j v)."""
        seen, (r, U) = _see(past, point), future
        w, e, g = seen.weight, seen.surprise, seen.covariance
        on_mean, on_root = r @ g, U @ g
        d_weight = e * on_mean - (on_mean**2 - on_root @ on_root) / 2 - e**2 / 2
        d_value = w * (on_mean - e)
        d_precision = seen.shrink**2 * d_weight - seen.variance * seen.shrink / 2
        d_variance = -(w**2) * d_weight - w / 2
        slope = r @ past.root
        d_g = w * (e * slope - slope * on_mean + on_root @ (U @ past.root))  # Sᵀ times it
        d_h = past.root @ d_g + 2 * d_variance * g - d_value * past.mean
        return Scalars(d_h, d_value, d_precision)

    at_steps, at_points = (
        jax.tree.map(lambda leaf, where=where: leaf[where], (pasts, futures))
        for where in (order.steps, order.points)
    )
    derivatives = (
        Transitions(*jax.vmap(of_step)(A, *at_steps)),
        jax.vmap(of_point)(points, *at_points),
    )
    nowhere = jax.tree.map(lambda leaf: np.zeros(leaf.shape, jax.dtypes.float0), order)
    return (*jax.tree.map(lambda leaf: cotangents[0] * leaf, derivatives), nowhere)


_evidence.defvjp(_forward, _backward)


class _Seen(NamedTuple):
    """What an observation finds before it: f as s·(white noise), and how much it is surprised."""

    part: State  # s = Sᵀh
    covariance: State  # of the state with f
    variance: Float[Array, ""]
    shrink: Float[Array, ""]  # what remains of the variance
    weight: Float[Array, ""]  # one over the variance of the surprise
    surprise: Float[Array, ""]


def _at(points: Scalars, number: Array) -> Scalars:
    return Scalars(*(leaf[number] for leaf in points))


def _see(past: _Past, point: Scalars) -> _Seen:
    part = point.emission @ past.root
    variance = part @ part
    shrink = 1 / (1 + point.precision * variance)
    surprise = point.value - point.emission @ past.mean
    return _Seen(part, past.root @ part, variance, shrink, point.precision * shrink, surprise)


def triangle(rows: Float[Array, "rows dim"]) -> Root:
    """The upper triangle R with RᵀR = (rows)ᵀ(rows), by Householder's reflections.

    The largest rows go first: small ones then keep their digits beside them.
    """
    count, dim = rows.shape
    numbers = np.arange(count)
    rows = rows[jnp.argsort(-jnp.max(jnp.abs(rows), axis=1))]

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

    return jnp.triu(jax.lax.fori_loop(0, dim, reflect, rows)[:dim])  # below it is rounding
