"""Processes that begin: the covariance of one state is given, and the equation does the rest.

At the first observation, from which inputs are measured, the state is N(0, P). From there the
process follows ds = F s dx + dβ forwards, and the same equation backwards:

    P(x) = A P Aᵀ + Q  for x ≥ 0      P(x) = B P Bᵀ + C  for x < 0

with B = e^{−F|x|} and C the noise that −F and the same dβ add. Of a step Δ that ends at x ≤ 0
nothing else is to be known than what follows from s(x) ~ N(0, P(x)) and s(x−Δ) = B s(x) + noise:

    A = (I − K)ᵀ e^{FΔ}      Q = KᵀP(x)K + (I − K)ᵀ Q(Δ) (I − K)      K = (P(x) + Q(Δ))⁻¹ Q(Δ)

which for a vague P is the step itself. No stationary covariance is needed, so F may be anything.
"""

import abc

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stategp._linalg import identity, psd_cholesky, psd_solve, symmetric, times, transpose
from stategp.kernels._base import Kernel, Steps

Matrices = tuple[Float[Array, "dim dim *steps"], Float[Array, "dim dim *steps"]]


class Beginning(Kernel):
    """A kernel whose `stationary_covariance` is that of the state at the first observation."""

    @abc.abstractmethod
    def back_matrices(self, dt: Steps) -> Matrices:
        """B and C: the mean of a state that is Δ before one that is known, and its covariance."""

    def covariance_at(self, x: Steps) -> Float[Array, "dim dim *#steps"]:
        if self.homogeneous:
            return super().covariance_at(x)
        A, Q = self.step_matrices(jnp.maximum(x, 0.0))
        ahead = _carried(A, super().covariance_at(x)) + Q
        return jnp.where((x < 0)[None, None], self._before(jnp.minimum(x, 0.0)), ahead)

    def _before(self, x: Steps) -> Float[Array, "dim dim *steps"]:
        """P(x) for x ≤ 0."""
        B, C = self.back_matrices(-x)
        return _carried(B, super().covariance_at(x)) + C

    def matrices_from(self, start: Steps, dt: Steps) -> Matrices:
        if self.homogeneous:
            return self.step_matrices(dt)
        turn = jnp.minimum(start + dt, 0.0)  # the end of what lies before the beginning
        early = jnp.where(start < 0, turn - start, 0.0)
        late = jnp.where(start < 0, jnp.maximum(start + dt, 0.0), dt)
        A, Q = self.step_matrices(jnp.stack([early, late]))
        P = self._before(turn)
        K = _psd_solve(P + Q[:, :, 0], Q[:, :, 0])
        keep = identity(K) - K
        A_early = times(transpose(keep), A[:, :, 0])
        Q_early = times(transpose(K), times(P, K))
        Q_early = Q_early + times(transpose(keep), times(Q[:, :, 0], keep))
        before = (start < 0)[None, None]
        A_early = jnp.where(before, A_early, identity(A_early))
        Q_early = jnp.where(before, symmetric(Q_early), 0.0)
        return times(A[:, :, 1], A_early), symmetric(_carried(A[:, :, 1], Q_early) + Q[:, :, 1])

    def covariance(self, lag: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        raise ValueError(
            f"the covariance of {self!r} depends on both inputs and not on their distance alone; "
            "call the kernel with two arrays of inputs, measured from the first observation"
        )


def _psd_solve(
    covariance: Float[Array, "dim dim *steps"], rhs: Float[Array, "dim dim *steps"]
) -> Float[Array, "dim dim *steps"]:
    return psd_solve(covariance, jax.lax.stop_gradient(psd_cholesky(covariance)), rhs)


def _carried(
    A: Float[Array, "dim dim *steps"], P: Float[Array, "dim dim *#steps"]
) -> Float[Array, "dim dim *steps"]:
    return times(A, times(P, transpose(A)))
