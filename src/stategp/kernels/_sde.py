"""Kernels given only as a stochastic differential equation ds = F s dx + L dβ, f = H s."""

import abc

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stategp.kernels._base import Kernel, Matrix, Scalar, State, Steps
from stategp.kernels._discretise import stationary_of
from stategp.kernels._step_table import many_steps

SDE = tuple[
    Float[Array, "dim dim"],
    Float[Array, "dim noise"],
    Float[Array, "noise noise"],
    Float[Array, " dim"],
]


class LinearSDE(Kernel):
    """Base class of kernels that are defined only by (F, L, Q_c, H).

    Subclass it, declare parameters as other kernels do, and return the four arrays from
    :meth:`sde`. F must be stable (eigenvalues with negative real parts).
    """

    @abc.abstractmethod
    def sde(self) -> SDE:
        """F, L, Q_c and H."""

    @property
    def state_dim(self) -> int:
        return int(jax.eval_shape(lambda: self.sde()[0]).shape[0])

    def _balanced(self) -> tuple[Matrix, Matrix, State]:
        """F, L Q_c Lᵀ and H with every component of the state divided by its deviation."""
        F, L, Qc, H = self.sde()
        diffusion = L @ Qc @ L.T
        variances = jnp.diagonal(stationary_of(F, diffusion))
        scale = jnp.sqrt(jnp.where(variances > 0, variances, 1.0))
        F = F * scale[None, :] / scale[:, None]
        return F, diffusion / (scale[:, None] * scale[None, :]), H * scale

    def transition(self, dt: Scalar) -> Matrix:
        return self.step_matrices(jnp.asarray(dt, dtype=float))[0]

    def process_noise(self, dt: Scalar) -> Matrix:
        return self.step_matrices(jnp.asarray(dt, dtype=float))[1]

    def step_matrices(
        self, dt: Steps
    ) -> tuple[Float[Array, "dim dim *steps"], Float[Array, "dim dim *steps"]]:
        F, diffusion, _ = self._balanced()
        A, Q = many_steps(F, diffusion, dt.reshape(-1))
        return A.reshape(*A.shape[:2], *dt.shape), Q.reshape(*Q.shape[:2], *dt.shape)

    def stationary_covariance(self) -> Matrix:
        F, diffusion, _ = self._balanced()
        return stationary_of(F, diffusion)

    def emission(self) -> State:
        return self._balanced()[2]

    def feedback(self) -> Matrix:
        return self._balanced()[0]

    def diffusion(self) -> Matrix:
        return self._balanced()[1]

    def covariance(self, lag: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        emission, start = self.emission(), self.stationary_covariance() @ self.emission()
        A, _ = self.step_matrices(jnp.abs(lag))
        return jnp.einsum("i,ij...,j->...", emission, A, start)
