"""The evidence of scalar observations, one at each state, as JAX computes it.

State n is seen as h·s_n + noise of precision j_n. The filter goes once along the chain; one
recursion back gives the derivatives of its result in the moments of every state, and from there
those in all else are local. Covariances are updated in Joseph's form, a sum of positive
semi-definite terms, which holds its digits when the noise is many orders below the signal.

The compiler makes one kernel of a loop whose step is small enough, some ten times faster than a
loop that calls several. So for states of one or two dimensions the loops carry on the recursion
and nothing else, and what is local to a state is computed for all states side by side.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._linalg import apply, dot, outer, symmetric, times
from stategp.chain._sites import Transitions

_EPS = float(np.finfo(float).eps)
_ONE_KERNEL = 2  # the largest dimension of states whose loops become one kernel

Moments = Float[Array, "dim columns"]  # covariance and mean side by side, or derivatives in them


class _Seen(NamedTuple):
    """What the observation of a state does to it."""

    predicted: Moments  # before it
    covariance: Float[Array, " dim"]  # of the state with f
    variance: Float[Array, ""]  # of f
    shrink: Float[Array, ""]  # what remains of that variance: 1 / (1 + precision · variance)
    surprise: Float[Array, ""]


@jax.custom_vjp
def filtered_evidence(
    steps: Transitions,
    emission: Float[Array, " dim"],
    value: Float[Array, " states"],
    precision: Float[Array, " states"],
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The log evidence and its possible rounding error."""
    return _forward(steps, emission, value, precision)[0]


def _forward(steps: Transitions, h: Any, value: Any, precision: Any) -> tuple[Any, Any]:
    A, Q = steps.A, steps.Q

    def step(before: Moments, at_state: Any) -> Moments:
        seen = _see(before, h, *at_state)
        gain = at_state[-1] * seen.shrink * seen.covariance
        keep = jnp.eye(len(h)) - outer(gain, h)
        left = _times(_times(keep, _covariance(seen.predicted)), keep.T)
        covariance = left + outer(gain, seen.shrink * seen.covariance)
        return _joined(covariance, _mean(seen.predicted) + gain * seen.surprise)

    def local(before: Moments, at_state: Any) -> tuple[_Seen, Float[Array, ""]]:
        seen = _see(before, h, *at_state)
        return seen, jnp.log(seen.shrink) - at_state[-1] * seen.shrink * seen.surprise**2

    before, (seen, terms) = _walk(step, local, len(h), (A, Q, value, precision))
    rounding = _EPS * jnp.sum(_lost(A, h, value, precision, seen))
    return (jnp.sum(terms) / 2, rounding), (A, h, precision, before, seen)


def _lost(A: Any, h: Any, value: Any, precision: Any, seen: _Seen) -> Float[Array, " states"]:
    """What each observation's term may be off, in units of rounding.

    Covariances are rounded as the largest there have been, and go into the next variance of f
    through h A. If f is a component of the state, its own variance is exempt: Joseph's form keeps
    it to its last digits.
    """
    weight, square = precision * seen.shrink, precision * seen.shrink * seen.surprise**2
    variances = jnp.diagonal(seen.predicted[:, :, :-1], axis1=1, axis2=2)
    largest = jnp.sqrt(jax.lax.cummax(variances))
    exempt = (h != 0) & (jnp.sum(h != 0) == 1)
    through = jnp.abs(h @ A) * jnp.where(exempt[None], 0.0, largest)
    blurred = (seen.variance + jnp.sum(through, axis=1) ** 2) * (1 + square)
    large = jnp.abs(value) + jnp.abs(value - seen.surprise)
    return weight * (blurred + jnp.abs(seen.surprise) * large)


def _backward(kept: Any, cotangents: tuple[Float[Array, ""], Float[Array, ""]]) -> Any:
    A, h, precision, before, seen = kept
    weight = precision * seen.shrink
    gain, pull = weight[:, None] * seen.covariance, weight * seen.surprise

    def before_it(after: Moments, recursive: Any) -> Moments:
        """Derivatives in the moments before an observation from those in the moments after it."""
        gain, weight, pull = recursive
        keep = jnp.eye(len(h)) - outer(gain, h)
        moved = _times(keep.T, after)
        covariance = _times(_covariance(moved), keep) + pull * symmetric(outer(_mean(moved), h))
        covariance += (pull**2 - weight) / 2 * outer(h, h)
        return _joined(covariance, _mean(moved) + pull * h)

    def step(after: Moments, at_state: Any) -> Moments:
        recursive, A, _ = at_state
        back = _times(A.T, before_it(after, recursive))
        return _joined(_times(_covariance(back), A), _mean(back))

    def local(after: Moments, at_state: Any) -> Any:
        """By m⁺ = m + w g e and P⁺ = P − w g gᵀ with g = P h, v = h·g, w = j / (1 + j v)."""
        recursive, A, (before, seen) = at_state
        _, weight, pull = recursive
        g, e = seen.covariance, seen.surprise
        on_mean, stretched = dot(_mean(after), g), apply(_covariance(after), g)
        d_weight = e * on_mean - dot(g, stretched) - e**2 / 2
        d_value = weight * on_mean - pull
        d_precision = seen.shrink**2 * d_weight - seen.variance * seen.shrink / 2
        d_variance = -(weight**2) * d_weight - weight / 2
        d_g = pull * _mean(after) - 2 * weight * stretched
        d_h = apply(_covariance(seen.predicted), d_g) + 2 * d_variance * g
        d_h -= d_value * _mean(seen.predicted)
        at = before_it(after, recursive)
        carried = _times(A, _covariance(before))
        d_A = 2 * _times(_covariance(at), carried) + outer(_mean(at), _mean(before))
        return d_A, _covariance(at), d_h, d_value, d_precision

    inputs = ((gain, weight, pull), A, (before, seen))
    _, (d_A, d_Q, d_h, d_value, d_precision) = _walk(step, local, len(h), inputs, reverse=True)
    derivatives = (Transitions(d_A, d_Q), jnp.sum(d_h, axis=0), d_value, d_precision)
    return jax.tree.map(lambda leaf: cotangents[0] * leaf, derivatives)


filtered_evidence.defvjp(_forward, _backward)


def _walk(
    step: Callable[[Moments, Any], Moments],
    local: Callable[[Moments, Any], Any],
    dim: int,
    inputs: Any,
    *,
    reverse: bool = False,
) -> tuple[Float[Array, "states dim columns"], Any]:
    """The moments before each step, starting from zero, and what is local to each state."""
    start = jnp.zeros((dim, dim + 1))
    if dim > _ONE_KERNEL:

        def both(now: Moments, at_state: Any) -> tuple[Moments, Any]:
            return step(now, at_state), (now, local(now, at_state))

        return jax.lax.scan(both, start, inputs, reverse=reverse)[1]
    _, moments = jax.lax.scan(
        lambda now, at_state: (step(now, at_state), now), start, inputs, reverse=reverse
    )
    return moments, jax.vmap(local)(moments, inputs)


def _see(before: Moments, h: Any, A: Any, Q: Any, value: Any, precision: Any) -> _Seen:
    carried = _times(A, before)
    predicted = _joined(_times(_covariance(carried), A.T) + Q, _mean(carried))
    covariance = apply(_covariance(predicted), h)
    variance = dot(h, covariance)
    surprise = value - dot(h, _mean(predicted))
    return _Seen(predicted, covariance, variance, 1 / (1 + precision * variance), surprise)


def _covariance(moments: Moments) -> Float[Array, "dim dim"]:
    return moments[:, :-1]


def _mean(moments: Moments) -> Float[Array, " dim"]:
    return moments[:, -1]


def _joined(covariance: Float[Array, "dim dim"], mean: Float[Array, " dim"]) -> Moments:
    return jnp.concatenate([covariance, mean[:, None]], axis=1)


def _times(left: Any, right: Any) -> Any:
    """A product, as sums of outer products where that keeps a loop in one kernel."""
    if len(right) > _ONE_KERNEL:
        return times(left, right)
    return sum(left[:, k, None] * right[None, k] for k in range(len(right)))
