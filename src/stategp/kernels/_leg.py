"""Latent exponentially generated processes: all stationary linear equations of a size, learned.

With any N and R the equation ds = F s dx + N dβ, F = −(N Nᵀ + R − Rᵀ)/2, is stationary with the
identity as the covariance of the state, and every stationary equation of its size can be brought
into this form (Loper, Blei, Cunningham and Paninski, 2021).
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from stategp._arguments import whole_number
from stategp.kernels._base import Matrix, State
from stategp.kernels._sde import SDE, LinearSDE
from stategp.parameters import Parameter, Value, declare, held, positive


class LatentExponentiallyGenerated(LinearSDE):
    """The stationary processes with a state of some size, as an equation whose entries are learned.

    F = −(N Nᵀ + R − Rᵀ) / (2 · lengthscale), the noise has the density N Nᵀ / lengthscale, and
    f = √variance · (the first entry of the state), which loses nothing: other combinations of
    entries are the same processes with other N and R. N (size × any number) and R (size × size)
    are learned; `lengthscale` is the unit that they are in, and is not. Of R only R − Rᵀ counts.

    With so many parameters a fit finds a local optimum. Compare it with a simpler kernel.

    >>> import stategp as sg
    >>> kernel = sg.kernels.LatentExponentiallyGenerated(size=3)
    >>> kernel.N.value.shape, kernel.state_dim
    ((3, 3), 3)
    >>> sg.kernels.LatentExponentiallyGenerated(N=[[2**0.5]], R=[[0.0]])([0.0], [1.0])  # Matérn-1/2
    Array([[0.36787944]], dtype=float64)
    """

    variance: Parameter
    lengthscale: Parameter
    N: Parameter
    R: Parameter

    def __init__(
        self,
        *,
        size: Any = None,
        variance: Value = None,
        lengthscale: Value = None,
        N: Value = None,
        R: Value = None,
    ):
        if size is not None and not (N is None and R is None):
            raise ValueError("the size of the state is that of N and R: give size, or N and R")
        if (N is None) != (R is None):
            raise ValueError("give both N and R, or neither and the size of the state")
        noise, turning = _start(2 if size is None else whole_number("size", size, least=1))
        self.variance = positive("variance", variance, default=1.0, role="variance")
        default = 1.0 if N is not None and lengthscale is None else lengthscale
        self.lengthscale = held("lengthscale", default, default=1.0, role="lengthscale")
        self.N = declare("N", N, default=noise, constraint="real", role="shape", ndim=2)
        self.R = declare("R", R, default=turning, constraint="real", role="shape", ndim=2)
        dim = len(self.N.value)
        if dim < 1 or self.R.value.shape != (dim, dim):
            raise ValueError(
                f"N must be (d, r) and R (d, d); got {self.N.value.shape} and {self.R.value.shape}"
            )

    @property
    def state_dim(self) -> int:
        return int(self.N.value.shape[0])

    def sde(self) -> SDE:
        rate = 1 / self.lengthscale.value
        N, R = self.N.value, self.R.value
        F = -(N @ N.T + R - R.T) * (rate / 2)
        emission = jnp.zeros(len(N)).at[0].set(jnp.sqrt(self.variance.value))
        return F, N, rate * jnp.eye(N.shape[1]), emission

    def _balanced(self) -> tuple[Matrix, Matrix, State]:
        F, L, Qc, H = self.sde()
        return F, L @ Qc @ L.T, H

    def stationary_covariance(self) -> Matrix:
        return jnp.eye(self.state_dim)


def _start(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Entries that forget at different rates, each coupled to the next."""
    rates = np.sqrt(2.0) / (1 + np.arange(size))
    return np.diag(rates), np.diag(1.0 + np.arange(size - 1), k=-1)
