"""Many columns seen through one chain: their curvature, and what the states would be for each.

A Kalman filter over states that are observed with some precision λ (none where it is zero). The
gains do not depend on what is observed, so that all columns share them; their innovations e give
Φᵀ(K + noise)⁻¹Φ as a sum of squares. The states given all observations follow without an inverse,
by the smoother of Bryson and Frazier.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._models import bare
from stategp._runtime import on_device, pad_last, padded_size
from stategp.chain import step_transitions
from stategp.kernels import Kernel

_COLUMNS = 8  # they come in multiples of that many, so that few programs are compiled


class Response(NamedTuple):
    """Products of columns, weighted by the inverse covariance of observations, and states."""

    products: Float[Array, "columns columns"]
    states: Float[Array, "columns states dim"]


def respond(
    kernel: Kernel, x: np.ndarray, columns: np.ndarray, precision: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The response to columns that are observed at x (ordered, distinct) with a precision there."""
    states, count = columns.shape
    size = padded_size(states)
    more = (0, -count % _COLUMNS)
    arrays = (
        np.diff(pad_last(x, size)),
        np.pad(columns, [(0, size - states), more]),
        np.pad(precision, (0, size - states)),
    )
    steps, values, weights = on_device(arrays)
    response = _respond(bare(kernel), steps, values, weights)
    products, means = map(np.asarray, response)
    return products[:count, :count], means[:count, :states]


@jax.jit
def _respond(
    kernel: Kernel,
    steps: Float[Array, " steps"],
    columns: Float[Array, "states columns"],
    precision: Float[Array, " states"],
) -> Response:
    chain = step_transitions(kernel, steps)
    h, dim = kernel.emission(), kernel.state_dim

    def forward(state: Any, row: Any) -> Any:
        mean, covariance = state
        A, Q, value, weight = row
        mean, covariance = A @ mean, A @ covariance @ A.T + Q
        shared = covariance @ h
        seen = weight / (1 + weight * (h @ shared))  # one over the variance of an innovation
        error = value - h @ mean
        mean = mean + (seen * shared)[:, None] * error[None]
        keep = jnp.eye(dim) - seen * shared[:, None] * h[None]
        # The sum of two positive matrices (Joseph): rounding leaves it one.
        gain = jnp.where(weight > 0, seen**2 / jnp.where(weight > 0, weight, 1.0), 0.0)
        covariance = keep @ covariance @ keep.T + gain * shared[:, None] * shared[None]
        return (mean, covariance), (mean, covariance, keep, seen, error)

    start = jnp.zeros((dim, columns.shape[1])), jnp.zeros((dim, dim))
    _, kept = jax.lax.scan(forward, start, (chain.A, chain.Q, columns, precision))
    means, covariances, keeps, seens, errors = kept

    def backward(adjoint: Any, row: Any) -> Any:
        mean, covariance, keep, seen, error, A = row
        smooth = mean - covariance @ adjoint
        adjoint = A.T @ (keep.T @ adjoint - seen * h[:, None] * error[None])
        return adjoint, smooth

    rows = (means, covariances, keeps, seens, errors, chain.A)
    _, smooth = jax.lax.scan(backward, jnp.zeros_like(start[0]), rows, reverse=True)
    products = jnp.einsum("ni,n,nj->ij", errors, seens, errors)
    return Response(products, jnp.transpose(smooth, (2, 0, 1)))
