"""The evidence of scalar observations, one at each state: a Kalman filter and its adjoint.

State n is seen as h·s_n + noise of precision j_n. The filter goes once along the chain; one
recursion back gives the derivatives of its result in the moments of every state, and from there
those in all else are local. Covariances are updated in Joseph's form, a sum of positive
semi-definite terms, which holds its digits when the noise is many orders below the signal.

On a CPU this is the compiled kernel of `_native/evidence.hpp`, which also knows blocks, steps of
equal length and steady states. What follows is its twin in JAX.

The compiler makes one kernel of a loop whose step is small enough, some ten times faster than a
loop that calls several. So for states of one or two dimensions the loops carry on the recursion
and nothing else, and what is local to a state is computed for all states side by side.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from stategp import _native
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


def log_evidence(
    steps: Transitions,
    emission: Float[Array, " dim"],
    value: Float[Array, " states"],
    precision: Float[Array, " states"],
    *,
    which: Int[Array | np.ndarray, " states"] | None = None,
    blocks: tuple[int, ...] = (),
    steady: bool = True,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """log ∫ p(s) ∏ exp(−½ precision (value − h·s)²) ds, and its possible rounding error.

    Step n leads to state n, the first from nothing; if `which` is given, step `which[n]` does.
    `blocks` are the sizes of independent parts of the state, outside of which A and Q are zero.
    `steady` allows the compiled kernel to stop updating covariances that stand still to rounding.
    An observation of precision 0 is ignored, and its derivatives mean nothing. For deterministic
    kernels the variance of f falls to that of the noise, but the covariances it is computed from
    keep rounding errors on the scale of the signal: use `careful_log_evidence` for those.
    """
    states = len(value)
    if which is None:
        which, steps = np.arange(states), Transitions(steps.A[:states], steps.Q[:states])
    if _native.in_use(steps.A, emission, value, precision):
        blocks = blocks or (len(emission),)
        return _compiled(
            steps, emission, value, precision, jnp.asarray(which, jnp.int32), blocks, steady
        )
    return _traced(Transitions(steps.A[which], steps.Q[which]), emission, value, precision)


@partial(jax.custom_jvp, nondiff_argnums=(5, 6))
def _compiled(
    steps: Transitions,
    h: Any,
    value: Any,
    precision: Any,
    which: Any,
    blocks: tuple[int, ...],
    steady: bool,
) -> Any:
    inputs = (steps.A, steps.Q, which, h, value, precision)
    attributes = {"blocks": np.asarray(blocks, np.int64), "steady": steady}
    return tuple(_native.call("evidence", [(), ()], *inputs, **attributes))


@_compiled.defjvp
def _compiled_jvp(blocks: tuple[int, ...], steady: bool, primals: Any, tangents: Any) -> Any:
    log_density, rounding, *slopes = _compiled_slopes(*primals, blocks, steady)
    changes = [
        jnp.sum(slope * change)
        for slope, change in zip(slopes, jax.tree.leaves(tangents[:4]), strict=True)
    ]
    return (log_density, rounding), (sum(changes, start=jnp.zeros(())), jnp.zeros(()))


@partial(jax.custom_jvp, nondiff_argnums=(5, 6))
def _compiled_slopes(
    steps: Transitions,
    h: Any,
    value: Any,
    precision: Any,
    which: Any,
    blocks: tuple[int, ...],
    steady: bool,
) -> Any:
    """The evidence, its rounding error, and its derivatives in all numbers it depends on."""
    moved = [steps.A, steps.Q, h, value, precision]
    return tuple(
        _native.call(
            "evidence_gradient",
            [(), (), *(leaf.shape for leaf in moved)],
            steps.A, steps.Q, which, h, value, precision,
            blocks=np.asarray(blocks, np.int64), steady=steady,
        )
    )  # fmt: skip


@_compiled_slopes.defjvp
def _compiled_slopes_jvp(blocks: tuple[int, ...], steady: bool, primals: Any, tangents: Any) -> Any:
    """Second derivatives are those of the twin."""
    which = primals[4]

    def twin(steps: Transitions, *rest: Any) -> Any:
        def evidence(steps: Transitions, *rest: Any) -> Any:
            return _traced(Transitions(steps.A[which], steps.Q[which]), *rest)

        arguments = (0, 1, 2, 3)
        differentiated = jax.value_and_grad(evidence, argnums=arguments, has_aux=True)
        (log_density, rounding), slopes = differentiated(steps, *rest)
        return (log_density, jax.lax.stop_gradient(rounding), *jax.tree.leaves(slopes))

    return jax.jvp(twin, primals[:4], tangents[:4])


@jax.custom_vjp
def _traced(
    steps: Transitions,
    emission: Float[Array, " dim"],
    value: Float[Array, " states"],
    precision: Float[Array, " states"],
) -> tuple[Float[Array, ""], Float[Array, ""]]:
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

    Covariances are rounded as the largest they have been, and go into the next variance of f
    through h A. If f is a component of the state, its own variance is exempt: Joseph's form keeps
    it to its last digits.
    """
    weight, square = precision * seen.shrink, precision * seen.shrink * seen.surprise**2
    variances = jnp.diagonal(seen.predicted[:, :, :-1], axis1=1, axis2=2)
    largest = jnp.sqrt(jnp.max(variances, axis=0))
    exempt = (h != 0) & (jnp.sum(h != 0) == 1)
    through = jnp.abs(h @ A) * jnp.where(exempt, 0.0, largest)[None]
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


_traced.defvjp(_forward, _backward)


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
