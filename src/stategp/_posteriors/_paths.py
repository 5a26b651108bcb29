"""One function, drawn once and looked at again and again.

A draw is kept as its states at all inputs that were asked for so far. Between two states of a
Markov process nothing else matters, so that further inputs need their neighbours only.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._linalg import apply, identity, symmetric, times, transpose
from stategp.chain import Affine, follow, psd_cholesky, psd_solve
from stategp.kernels import Kernel


class Drawn(NamedTuple):
    """States of samples of a process, each at inputs of its own, in order."""

    x: Float[Array, "samples states"]
    states: Float[Array, "samples states dim"]


@jax.jit
def look(
    kernel: Kernel, drawn: Drawn, key: PRNGKeyArray, x: Float[Array, "samples points"]
) -> tuple[Float[Array, "samples points"], Drawn]:
    """f of every sample at inputs of its own, in any order, and all that is known of it then."""
    keys = jax.random.split(key, len(x))
    return jax.vmap(functools.partial(_look, kernel))(drawn, keys, x)


def _look(
    kernel: Kernel, drawn: Drawn, key: PRNGKeyArray, x: Float[Array, " points"]
) -> tuple[Float[Array, " points"], Drawn]:
    count, dim = drawn.states.shape
    order = jnp.argsort(jnp.concatenate([drawn.x, x]))
    places = jnp.concatenate([drawn.x, x])[order]
    known = order < count
    following = jnp.searchsorted(drawn.x, places)  # the next state known
    has_next, first = following < count, jnp.arange(len(places)) == 0
    following = jnp.minimum(following, count - 1)
    next_state = drawn.states[following].T
    ahead = jnp.where(has_next, drawn.x[following] - places, 0.0)
    steps = jnp.diff(places, prepend=places[:1])
    A, Q = kernel.matrices_from(places - steps, steps)
    A = jnp.where(first, 0.0, A)
    Q = jnp.where(first, kernel.covariance_at(places), Q)
    A_next, Q_next = kernel.matrices_from(places, jnp.maximum(ahead, 0.0))
    A_next = jnp.where(has_next, A_next, 0.0)
    forward = times(A_next, Q)
    predicted = symmetric(times(forward, transpose(A_next)) + Q_next)
    gain = transpose(psd_solve(predicted, psd_cholesky(predicted), forward))
    gain = jnp.where(has_next, gain, 0.0)
    keep = identity(gain) - times(gain, A_next)
    covariance = times(times(keep, Q), transpose(keep))
    covariance += times(times(gain, Q_next), transpose(gain))
    white = jax.random.normal(key, (dim, len(places)))
    moved = apply(gain, next_state) + apply(psd_cholesky(symmetric(covariance)), white)
    # At a state that is known already, the recursion starts anew from it.
    there = drawn.states[jnp.minimum(order, count - 1)].T
    matrix = jnp.where(known, 0.0, times(keep, A))
    offset = jnp.where(known, there, moved)
    before = follow(Affine(matrix, offset[:, None]), jnp.zeros((dim, 1)))[:, 0]
    states = (apply(matrix, before) + offset).T
    seen = jnp.sum(kernel.emission_at(places).T * states, axis=-1)
    f = jnp.zeros(len(places)).at[order].set(seen)
    return f[count:], Drawn(places, states)
