"""A kernel from the arrays of any linear stochastic differential equation."""

import jax.numpy as jnp
import numpy as np
from scipy.linalg import matrix_balance
from scipy.optimize import brentq

from stategp.kernels._sde import SDE, LinearSDE, stationary_of
from stategp.parameters import Parameter, Value, fixed, positive

_STIFFEST = 1e7
_NO_DECAY = 1e-6  # real parts of eigenvalues that are as good as zero, relative to F


class FromSDE(LinearSDE):
    """A kernel from the four arrays of its stochastic differential equation.

    The arrays are fixed; `variance` multiplies the covariance and can be learned. An equation
    without decay (eigenvalues of F with real parts of zero), such as that of a random walk, needs
    `start`, the variance of f before data are seen at `variance` 1: the state then forgets at the
    rate that gives f this variance. The larger it is, the slower it forgets.

    >>> import stategp as sg
    >>> ou = sg.kernels.FromSDE(F=[[-1.0]], L=[[1.0]], Qc=[[2.0]], H=[1.0])
    >>> ou.state_dim
    1
    >>> walk = sg.kernels.FromSDE(F=[[0.0]], L=[[1.0]], Qc=[[2.0]], H=[1.0], start=1e6)
    >>> walk.feedback()  # as Wiener(diffusivity=2.0, start=1e6)
    Array([[-1.e-06]], dtype=float64)
    """

    variance: Parameter
    F: Parameter
    L: Parameter
    Qc: Parameter
    H: Parameter

    def __init__(
        self,
        F: Value,
        L: Value,
        Qc: Value,
        H: Value,
        *,
        variance: Value = None,
        start: float | None = None,
    ):
        f, loading, q, h = (np.asarray(array, dtype=float) for array in (F, L, Qc, H))
        h, q = h.reshape(-1), np.atleast_2d(q)
        dim = len(h)
        if loading.ndim == 1:
            loading = loading[:, None]
        if f.shape != (dim, dim) or loading.shape[:1] != (dim,) or q.shape != loading.shape[1:] * 2:
            raise ValueError(
                "F must be (d, d), L (d, r), Qc (r, r) and H (d,); "
                f"got {np.shape(F)}, {np.shape(L)}, {np.shape(Qc)}, {np.shape(H)}"
            )
        if not all(np.all(np.isfinite(array)) for array in (f, loading, q, h)):
            raise ValueError("F, L, Qc and H must be finite")
        eigenvalues = np.linalg.eigvals(f)
        if start is not None:
            rate = _forgetting_rate(f, loading @ q @ loading.T, h, start)
            f, eigenvalues = f - rate * np.eye(dim), eigenvalues - rate
        if eigenvalues.real.max() >= 0:
            raise ValueError(
                "F must be stable (every eigenvalue with a negative real part) for the process to "
                f"be stationary; got eigenvalues {np.round(eigenvalues, 6)}. For an equation "
                "without decay give start=, the variance of f before data are seen, or use "
                "sg.kernels.Wiener, IntegratedWiener, Linear, DampedTrend, Constant or Cosine"
            )
        balanced = matrix_balance(f, permute=False)[0]  # as free of the choice of units as can be
        stiffness = np.abs(balanced).sum(axis=1).max() / np.abs(eigenvalues.real).min()
        if stiffness > _STIFFEST:
            raise ValueError(
                f"F mixes rates that differ by a factor of {stiffness:.1g}; beyond "
                f"{_STIFFEST:.0e} the digits of the slow ones are lost. Split it into a sum of "
                "kernels, one for each scale"
            )
        eigenvalues = np.linalg.eigvalsh(q)
        if not np.allclose(q, q.T) or eigenvalues.min() < -1e-12 * np.abs(eigenvalues).max():
            raise ValueError("Qc must be symmetric and positive semi-definite")
        self.variance = positive("variance", variance, default=1.0, role="variance")
        self.F, self.L, self.Qc, self.H = (fixed(array) for array in (f, loading, q, h))

    def sde(self) -> SDE:
        return self.F.value, self.L.value, self.variance.value * self.Qc.value, self.H.value

    def _repr_fields(self) -> list[str]:
        return [f"state_dim={self.state_dim}", f"variance={self.variance!r}"]


def _forgetting_rate(F: np.ndarray, diffusion: np.ndarray, H: np.ndarray, start: float) -> float:
    """The rate ρ at which the states of F − ρI forget if the variance of f is to be `start`."""
    if isinstance(start, bool) or not isinstance(start, int | float) or not 0 < start < np.inf:
        raise ValueError(f"start must be a positive number, got {start!r}")
    norm, growth = float(np.abs(F).sum(axis=1).max()), np.linalg.eigvals(F).real.max()
    if abs(growth) > _NO_DECAY * norm:
        word = "grows" if growth > 0 else "decays by itself: leave start out"
        raise ValueError(f"start= is for equations without growth or decay, but this one {word}")

    def excess(log_rate: float) -> float:
        shifted = jnp.asarray(F - np.exp(log_rate) * np.eye(len(F)))
        variance = float(H @ np.asarray(stationary_of(shifted, jnp.asarray(diffusion))) @ H)
        return float(np.log(variance / start)) if variance > 0 else -np.inf

    low = high = float(np.log(norm or 1.0))
    while excess(high) > 0:
        high += 2.0
    lowest = np.log(norm / _STIFFEST) if norm else low - 200.0
    while excess(low) < 0:
        low -= 2.0
        if low < lowest:
            raise ValueError(
                f"the variance of f does not reach start={start:g}: choose a smaller one, or drive "
                "what does not decay by noise, through L and Qc"
            )
    rate: float = np.exp(brentq(excess, low, high, xtol=1e-14)) if low < high else np.exp(low)
    return rate
