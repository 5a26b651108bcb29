"""A kernel from the arrays of any linear stochastic differential equation."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp.kernels._base import Matrix, State, Steps
from stategp.kernels._beginning import Beginning, Matrices
from stategp.kernels._discretise import stationary_of
from stategp.kernels._sde import SDE, LinearSDE
from stategp.kernels._step_table import many_steps
from stategp.parameters import Parameter, Value, fixed, positive

_STIFFEST = 1e7
_NO_DECAY = 1e-6  # real parts of eigenvalues that are as good as zero, relative to F


class FromSDE(LinearSDE, Beginning):
    """A kernel from the four arrays of its stochastic differential equation.

    The arrays are fixed; `variance` multiplies the covariance and can be learned, and so can
    `time_scale`, if it is an `sg.parameter`: all times of the equation become so many times longer
    (F and the noise are divided by it, which leaves the covariance of the state as it is).

    An equation whose F is not stable has no stationary covariance. Give it either

    - `initial`, the covariance of the state at the first observation (of a summary, where its first
      stretch begins) at `variance` 1, a matrix or the variances of independent entries. F may be
      anything; before the first observation the same equation runs backwards from there;
    - or, if F neither grows nor decays (eigenvalues with real parts of zero, as of a random walk),
      `start`, the variance of f at all times at `variance` 1: the state then forgets at the rate
      that gives f this variance. The larger it is, the slower it forgets.

    >>> import stategp as sg
    >>> ou = sg.kernels.FromSDE(F=[[-1.0]], L=[[1.0]], Qc=[[2.0]], H=[1.0])
    >>> ou.state_dim
    1
    >>> walk = sg.kernels.FromSDE(F=[[0.0]], L=[[1.0]], Qc=[[2.0]], H=[1.0], start=1e6)
    >>> walk.feedback()  # as Wiener(diffusivity=2.0, start=1e6)
    Array([[-1.e-06]], dtype=float64)
    >>> growth = sg.kernels.FromSDE([[0.5]], [[1.0]], [[0.1]], [1.0], initial=[4.0])
    >>> growth([0.0], [0.0, 2.0])  # 4 e^(0.5 · 2) after a time of 2
    Array([[ 4.        , 10.87312731]], dtype=float64)
    """

    variance: Parameter
    F: Parameter
    L: Parameter
    Qc: Parameter
    H: Parameter
    time_scale: Parameter = dataclasses.field(default_factory=lambda: fixed(1.0))
    initial: Parameter | None = None

    def __init__(
        self,
        F: Value,
        L: Value,
        Qc: Value,
        H: Value,
        *,
        variance: Value = None,
        start: float | None = None,
        initial: Any = None,
        time_scale: Value = None,
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
        if start is not None and initial is not None:
            raise ValueError(
                "give start or initial, not both: each says how uncertain f is at first"
            )
        if start is not None:
            rate = _forgetting_rate(f, loading @ q @ loading.T, h, start)
            f = f - rate * np.eye(dim)
        if initial is None:
            _check_stable(f)
        _check_covariance("Qc", q)
        self.variance = positive("variance", variance, default=1.0, role="variance")
        self.F, self.L, self.Qc, self.H = (fixed(array) for array in (f, loading, q, h))
        scale = fixed(1.0) if time_scale is None else time_scale
        scale = positive("time_scale", scale, default=1.0, role="shape")
        learned = isinstance(time_scale, Parameter) and scale.learned
        self.time_scale = scale if learned else fixed(scale.value)
        self.initial = None if initial is None else fixed(_covariance("initial", initial, dim))

    def sde(self) -> SDE:
        rate = 1 / self.time_scale.value
        strength = rate * self.variance.value
        return rate * self.F.value, self.L.value, strength * self.Qc.value, self.H.value

    @property
    def homogeneous(self) -> bool:
        return self.initial is None

    def _balanced(self) -> tuple[Matrix, Matrix, State]:
        if self.initial is None:
            return super()._balanced()
        F, L, Qc, H = self.sde()
        scale = self._scale(self.initial)
        F = F * scale[None, :] / scale[:, None]
        diffusion = L @ Qc @ L.T
        return F, diffusion / (scale[:, None] * scale[None, :]), H * scale

    def _scale(self, initial: Parameter) -> State:
        """The deviations of the first state, by which every entry is divided."""
        variances = self.variance.value * jnp.diagonal(initial.value)
        return jnp.sqrt(jnp.where(variances > 0, variances, 1.0))

    def stationary_covariance(self) -> Matrix:
        if self.initial is None:
            return super().stationary_covariance()
        scale = self._scale(self.initial)
        return self.variance.value * self.initial.value / (scale[:, None] * scale[None, :])

    def back_matrices(self, dt: Steps) -> Matrices:
        F, diffusion, _ = self._balanced()
        A, Q = many_steps(-F, diffusion, dt.reshape(-1))
        return A.reshape(*A.shape[:2], *dt.shape), Q.reshape(*Q.shape[:2], *dt.shape)

    def covariance(self, lag: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        if self.initial is None:
            return LinearSDE.covariance(self, lag)
        return Beginning.covariance(self, lag)

    def _repr_fields(self) -> list[str]:
        fields = [f"state_dim={self.state_dim}", f"variance={self.variance!r}"]
        if self.time_scale.learned or float(self.time_scale) != 1.0:
            fields.append(f"time_scale={self.time_scale!r}")
        return fields


def _check_stable(F: np.ndarray) -> None:
    """Refuse equations that have no stationary covariance, or lose its digits."""
    from scipy.linalg import matrix_balance  # slow to import

    eigenvalues = np.linalg.eigvals(F)
    if eigenvalues.real.max() >= 0:
        raise ValueError(
            "F must be stable (every eigenvalue with a negative real part) for the process to "
            f"be stationary; got eigenvalues {np.round(eigenvalues, 6)}. Give initial=, the "
            "covariance of the state at the first observation; or, for an equation without decay, "
            "start=, the variance of f at all times, or use sg.kernels.Wiener, IntegratedWiener, "
            "Linear, DampedTrend, Constant or Cosine"
        )
    balanced = matrix_balance(F, permute=False)[0]  # as free of the choice of units as can be
    stiffness = np.abs(balanced).sum(axis=1).max() / np.abs(eigenvalues.real).min()
    if stiffness > _STIFFEST:
        raise ValueError(
            f"F mixes rates that differ by a factor of {stiffness:.1g}; beyond "
            f"{_STIFFEST:.0e} the digits of the slow ones are lost. Split it into a sum of "
            "kernels, one for each scale"
        )


def _covariance(name: str, value: Any, dim: int) -> np.ndarray:
    """A covariance matrix of this size, or the variances on its diagonal."""
    matrix = np.asarray(value, dtype=float)
    if matrix.shape == (dim,):
        matrix = np.diag(matrix)
    if matrix.shape != (dim, dim) or not np.all(np.isfinite(matrix)):
        raise ValueError(
            f"{name} must be a finite covariance matrix ({dim}, {dim}) of the state, or its "
            f"{dim} variances; got {value!r}"
        )
    _check_covariance(name, matrix)
    return matrix


def _check_covariance(name: str, matrix: np.ndarray) -> None:
    eigenvalues = np.linalg.eigvalsh(matrix)
    if not np.allclose(matrix, matrix.T) or eigenvalues.min() < -1e-12 * np.abs(eigenvalues).max():
        raise ValueError(f"{name} must be symmetric and positive semi-definite")


def _forgetting_rate(F: np.ndarray, diffusion: np.ndarray, H: np.ndarray, start: float) -> float:
    """The rate ρ at which the states of F − ρI forget if the variance of f is to be `start`."""
    from scipy.optimize import brentq  # slow to import

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
