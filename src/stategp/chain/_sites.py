"""A Gauss–Markov chain as prior times sites, and the form in which it is swept.

The chain has M states u_1 … u_M. Interval m = 0 … M lies between u_m and u_{m+1}; the first has
nothing on its left and the last nothing on its right (a state that is always zero stands there),
so that observations outside the range of the states have a place like all others. Each interval
carries a site exp(ηᵀv − ½vᵀΛv) on its pair v = [left; right], and

    q(u) ∝ p(u) ∏_m site_m(v_m).

Nothing here inverts the process noise Q, which may be tiny or zero.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._linalg import apply, dot, in_entries, symmetric, tilt, times, transpose
from stategp._modules import Module
from stategp._runtime import on_device
from stategp.chain._block_tridiagonal import BlockTridiagonal, reverse_subset_inverse
from stategp.chain._parameterisations import MeanCholesky
from stategp.kernels import Kernel


class Transitions(Module):
    """The prior of a chain: right | left ~ N(A left, Q), interval by interval."""

    A: Float[Array, "*intervals dim dim"]
    Q: Float[Array, "*intervals dim dim"]


class Sites(Module):
    """What the data add to the prior's natural parameters: one Gaussian factor per interval."""

    linear: Float[Array, "*intervals pair"]
    precision: Float[Array, "*intervals pair pair"]

    @staticmethod
    def zeros(intervals: int, dim: int) -> "Sites":
        """Sites without information: q is the prior."""
        shape = (intervals, 2 * dim)
        return Sites(*on_device((np.zeros(shape), np.zeros((*shape, 2 * dim)))))

    def mix(self, other: "Sites", step: float | Float[Array, ""]) -> "Sites":
        """(1 − step) self + step other: a natural-gradient step."""
        mixed: Sites = jax.tree.map(lambda a, b: (1 - step) * a + step * b, self, other)
        return mixed


class PairMarginals(Module):
    """Mean and covariance of the two states around each interval."""

    mean: Float[Array, "*intervals pair"]
    covariance: Float[Array, "*intervals pair pair"]

    @staticmethod
    def of(xi: MeanCholesky) -> "PairMarginals":
        """The pairs of a chain given by its mean and the factor of its precision."""
        band = xi.covariance_band()
        means = jnp.pad(xi.mean, ((1, 1), (0, 0)))
        diagonal, cross = (
            jnp.pad(part, ((1, 1), (0, 0), (0, 0))) for part in (band.diagonal, band.lower)
        )
        top = jnp.concatenate([diagonal[:-1], cross.mT], axis=2)
        bottom = jnp.concatenate([cross, diagonal[1:]], axis=2)
        return PairMarginals(
            jnp.concatenate([means[:-1], means[1:]], axis=1),
            jnp.concatenate([top, bottom], axis=1),
        )

    def to_mean_cholesky(self) -> MeanCholesky:
        """The same distribution as mean and factor of the precision (where that exists)."""
        dim = self.mean.shape[-1] // 2
        diagonal = self.covariance[:-1, dim:, dim:]  # every state is the right end of one interval
        with_previous = self.covariance[1:-1, dim:, :dim]
        band = BlockTridiagonal(diagonal, with_previous)
        return MeanCholesky(self.mean[:-1, dim:], reverse_subset_inverse(band))


class Elements(Module):
    """An interval after its site is absorbed; the intervals of a chain lie along the last axis.

    right | left ~ N(A left + b, C), a potential exp(eta·left − ½ left·J left), and a log scale:
    the elements of the parallel Kalman filter (Särkkä & García-Fernández, 2021).
    """

    A: Float[Array, "dim dim *intervals"]
    b: Float[Array, "dim *intervals"]
    C: Float[Array, "dim dim *intervals"]
    eta: Float[Array, "dim *intervals"]
    J: Float[Array, "dim dim *intervals"]
    log_scale: Float[Array, "*intervals"]


def prior_transitions(kernel: Kernel, inducing: Float[Array, " states"]) -> Transitions:
    """The prior of the states at ordered locations, with the empty intervals at both ends."""
    steps = step_transitions(kernel, jnp.diff(inducing), inducing)
    return jax.tree.map(lambda leaf: jnp.pad(leaf, ((0, 1), (0, 0), (0, 0))), steps)


def step_transitions(
    kernel: Kernel,
    steps: Float[Array, " steps"],
    places: Float[Array, " states"] | None = None,
) -> Transitions:
    """The prior of a first state, and of states that are steps away from the one before.

    Without `places`, where the states are, the first one is that of the first observation.
    """
    nothing = jnp.zeros((1, kernel.state_dim, kernel.state_dim))
    if places is not None and not kernel.homogeneous:
        A, Q = (jnp.moveaxis(m, -1, 0) for m in kernel.matrices_from(places[:-1], steps))
        start = jnp.moveaxis(kernel.covariance_at(places[:1]), -1, 0)
        return Transitions(jnp.concatenate([nothing, A]), jnp.concatenate([start, Q]))
    if in_entries(kernel.state_dim, steps.shape):
        entries = jax.lax.optimization_barrier(kernel.steps(steps))
        A, Q = (_stack(matrix, steps) for matrix in entries)
    else:
        A, Q = (jnp.moveaxis(matrix, -1, 0) for matrix in kernel.step_matrices(steps))
    start = kernel.stationary_covariance()[None]
    return Transitions(jnp.concatenate([nothing, A]), jnp.concatenate([start, Q]))


def _stack(
    entries: list[list[Any]], steps: Float[Array, " steps"]
) -> Float[Array, "steps dim dim"]:
    rows = [[jnp.broadcast_to(entry, steps.shape) for entry in row] for row in entries]
    return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=1)


def absorb(transitions: Transitions, sites: Sites) -> Elements:
    """Prior times site of every interval, written as elements."""
    last = [
        jnp.moveaxis(leaf, 0, -1)
        for leaf in (transitions.A, transitions.Q, sites.linear, sites.precision)
    ]
    return absorb_one(*last)


def absorb_one(
    A: Float[Array, "dim dim *intervals"],
    Q: Float[Array, "dim dim *intervals"],
    linear: Float[Array, "pair *intervals"],
    precision: Float[Array, "pair pair *intervals"],
) -> Elements:
    """The same for one interval, or for several along the last axis."""
    dim = len(A)
    left, right = linear[:dim], linear[dim:]
    a, b, c = precision[:dim, :dim], precision[:dim, dim:], precision[dim:, dim:]
    C, log_det = tilt(Q, c)
    G = transpose(b) + times(c, A)  # the pull on `right` that moving `left` gives
    carried = times(b + times(transpose(A), c / 2), A)
    moved = apply(C, right)
    return Elements(
        A=A - times(C, G),
        b=moved,
        C=C,
        eta=left + apply(transpose(A), right) - apply(transpose(G), moved),
        J=symmetric(a + carried + transpose(carried) - times(transpose(G), times(C, G))),
        log_scale=(dot(right, moved) - log_det) / 2,
    )


def expected_log_sites(sites: Sites, marginals: PairMarginals) -> Float[Array, ""]:
    """Σ_m E_q[log site_m]."""
    mean = marginals.mean
    second = marginals.covariance + mean[:, :, None] * mean[:, None, :]
    return jnp.sum(sites.linear * mean) - jnp.sum(sites.precision * second) / 2
