"""Many columns seen through one chain: their curvature, and what the states would be for each.

A Kalman filter over states that are observed with some precision λ (none where it is zero). The
gains do not depend on what is observed, so that all columns share them; their innovations e give
Φᵀ(K + noise)⁻¹Φ as a sum of squares. The states given all observations follow without an inverse,
by the smoother of Bryson and Frazier.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._models import bare
from stategp._runtime import on_device, pad_last, padded_size, quick_jit
from stategp.chain import Transitions, step_transitions
from stategp.kernels import Kernel
from stategp.means import Mean
from stategp.parameters import all_parameters

_COLUMNS = 8  # they come in multiples of that many, so that few programs are compiled


class Response(NamedTuple):
    """Products of columns, weighted by the inverse covariance of observations, and states."""

    products: Float[Array, "columns columns"]
    states: Float[Array, "columns states dim"]


def emission_of(kernel: Kernel) -> np.ndarray:
    """What f reads of a state, by one program for all kernels of a kind."""
    return np.asarray(_emission(bare(kernel)))


@jax.jit
def _emission(kernel: Kernel) -> Float[Array, " dim"]:
    return kernel.emission()


def mean_at(mean: Mean, x: np.ndarray) -> np.ndarray:
    """A mean function at points, by one program for few sizes."""
    values = _mean(bare(mean), on_device(pad_last(x, padded_size(len(x)))))
    return np.asarray(values)[: len(x)]


@quick_jit(rows="x")
def _mean(mean: Mean, x: Float[Array, " points"]) -> Float[Array, " points"]:
    return mean(x)


def respond(
    kernel: Kernel, x: np.ndarray, columns: np.ndarray, precision: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The response to columns that are observed at x (ordered, distinct) with a precision there."""
    states, count = columns.shape
    products, means = map(np.asarray, _respond(bare(kernel), *_padded(x, columns, precision)))
    return products[:count, :count], means[:count, :states]


def _padded(x: np.ndarray, columns: np.ndarray, precision: np.ndarray) -> Any:
    """Steps, columns and precisions, filled up to few sizes with what is not observed."""
    more = padded_size(len(x)) - len(x)
    steps = np.diff(pad_last(x, len(x) + more))
    wide = np.pad(columns, [(0, more), (0, -columns.shape[1] % _COLUMNS)])
    return on_device((steps, wide, np.pad(precision, (0, more))))


@quick_jit(rows="columns")
def _respond(
    kernel: Kernel,
    steps: Float[Array, " steps"],
    columns: Float[Array, "states columns"],
    precision: Float[Array, " states"],
) -> Response:
    chain, h = step_transitions(kernel, steps), kernel.emission()
    means, covariances, keeps, seens, errors = filtered(kernel, chain, columns, precision)

    def backward(adjoint: Any, row: Any) -> Any:
        mean, covariance, keep, seen, error, A = row
        smooth = mean - covariance @ adjoint
        adjoint = A.T @ (keep.T @ adjoint - seen * h[:, None] * error[None])
        return adjoint, smooth

    rows = (means, covariances, keeps, seens, errors, chain.A)
    _, smooth = jax.lax.scan(backward, jnp.zeros_like(means[0]), rows, reverse=True)
    return Response(_products(seens, errors), jnp.transpose(smooth, (2, 0, 1)))


def filtered(
    kernel: Kernel,
    chain: Transitions,
    columns: Float[Array, "states columns"],
    precision: Float[Array, " states"],
) -> Any:
    """Mean and covariance of every state given what was observed up to it, and the innovations."""
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
    return jax.lax.scan(forward, start, (chain.A, chain.Q, columns, precision))[1]


def _products(
    seens: Float[Array, " states"], errors: Float[Array, "states columns"]
) -> Float[Array, "columns columns"]:
    return jnp.einsum("ni,n,nj->ij", errors, seens, errors)


def determinant_slopes(
    kernel: Kernel, x: np.ndarray, columns: np.ndarray, precision: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray]:
    """Derivatives of −½ log |I + products|, in the parameters of the kernel and the precisions."""
    slopes = _slopes(bare(kernel), *_padded(x, columns, precision))
    kernel_slopes, precision_slopes = jax.tree.map(np.asarray, slopes)
    inside = [np.asarray(p.value) for p in all_parameters(kernel_slopes)]
    return inside, precision_slopes[: len(x)]


@quick_jit(rows="columns")
def _slopes(
    kernel: Kernel,
    steps: Float[Array, " steps"],
    columns: Float[Array, "states columns"],
    precision: Float[Array, " states"],
) -> Any:
    def penalty(varied: tuple[Kernel, Float[Array, " states"]]) -> Float[Array, ""]:
        kernel, precision = varied
        chain = step_transitions(kernel, steps)
        *_, seens, errors = filtered(kernel, chain, columns, precision)
        matrix = jnp.eye(columns.shape[1]) + _products(seens, errors)
        return -jnp.sum(jnp.log(jnp.diagonal(jnp.linalg.cholesky(matrix))))

    return eqx.filter_grad(penalty)((kernel, precision))
