"""Kernels given only as a stochastic differential equation ds = F s dx + L dβ, f = H s.

The matrices of a step come from Taylor series at a step so short that they converge, doubled as
often as needed: A(2δ) = A(δ)², Q(2δ) = Q(δ) + A(δ)Q(δ)A(δ)ᵀ. Q is a sum of positive
semi-definite terms throughout, so it keeps its digits where P₀ − A P₀ Aᵀ loses them, and P₀ is
its limit.
"""

import abc

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.linalg import matrix_balance

from stategp.kernels._base import Kernel, Matrix, Scalar, State
from stategp.kernels._special import unit_gauss_legendre
from stategp.parameters import Parameter, Value, fixed, positive

_DEGREE = 22  # of the Taylor series at ‖F‖δ ≤ 1
_STEP_DOUBLINGS = 34
_STATIONARY_DOUBLINGS = 90
_STIFFEST = 1e7
_NODES, _WEIGHTS = unit_gauss_legendre(16)

SDE = tuple[
    Float[Array, "dim dim"],
    Float[Array, "dim noise"],
    Float[Array, "noise noise"],
    Float[Array, " dim"],
]


class LinearSDE(Kernel):
    """Base class of kernels that are written down as (F, L, Q_c, H) and nothing else.

    Subclass it, declare parameters as other kernels do, and return the four arrays from
    :meth:`sde`. F must be stable (eigenvalues with negative real parts).
    """

    @abc.abstractmethod
    def sde(self) -> SDE:
        """F, L, Q_c and H."""

    @property
    def state_dim(self) -> int:
        return int(jax.eval_shape(lambda: self.sde()[0]).shape[0])

    def _balanced(self) -> SDE:
        """The same equation with every state component divided by its standard deviation."""
        F, L, Qc, H = self.sde()
        variances = jnp.diagonal(_stationary(F, L, Qc))
        scale = jnp.sqrt(jnp.where(variances > 0, variances, 1.0))
        return F * scale[None, :] / scale[:, None], L / scale[:, None], Qc, H * scale

    def transition(self, dt: Scalar) -> Matrix:
        F, L, Qc, _ = self._balanced()
        return discretise(F, L, Qc, jnp.asarray(dt, dtype=float))[0]

    def process_noise(self, dt: Scalar) -> Matrix:
        F, L, Qc, _ = self._balanced()
        return discretise(F, L, Qc, jnp.asarray(dt, dtype=float))[1]

    def stationary_covariance(self) -> Matrix:
        F, L, Qc, _ = self._balanced()
        return _stationary(F, L, Qc)

    def emission(self) -> State:
        return self._balanced()[3]

    def feedback(self) -> Matrix:
        return self._balanced()[0]

    def diffusion(self) -> Matrix:
        _, L, Qc, _ = self._balanced()
        return L @ Qc @ L.T

    def covariance(self, lag: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        emission, start = self.emission(), self.stationary_covariance() @ self.emission()
        flat = jnp.abs(lag).reshape(-1)
        values = jax.vmap(lambda dt: emission @ self.transition(dt) @ start)(flat)
        return values.reshape(lag.shape)


def discretise(
    F: Float[Array, "dim dim"],
    L: Float[Array, "dim noise"],
    Qc: Float[Array, "noise noise"],
    dt: Float[Array, ""],
) -> tuple[Float[Array, "dim dim"], Float[Array, "dim dim"]]:
    """A(Δ) and Q(Δ) of a stable linear equation."""
    rate = _fastest_rate(F)
    dt = jnp.minimum(rate * dt, 2.0**_STEP_DOUBLINGS)  # by then the process has forgotten all
    doublings = jnp.ceil(jnp.log2(jnp.maximum(jax.lax.stop_gradient(dt), 1.0)))
    A, Q = _short_step(F / rate, L, Qc / rate, dt / 2.0**doublings)
    return _doubled(A, Q, doublings, _STEP_DOUBLINGS)


def _fastest_rate(F: Float[Array, "dim dim"]) -> Float[Array, ""]:
    """A norm of F. In units of it nothing overflows; the results do not depend on it."""
    return jax.lax.stop_gradient(jnp.max(jnp.sum(jnp.abs(F), axis=1)))


def _short_step(
    F: Float[Array, "dim dim"],
    L: Float[Array, "dim noise"],
    Qc: Float[Array, "noise noise"],
    dt: Float[Array, ""],
) -> tuple[Float[Array, "dim dim"], Float[Array, "dim dim"]]:
    """A by its Taylor series; Q = ∫ e^{Fu} L Q_c Lᵀ e^{Fu}ᵀ du by Gauss–Legendre quadrature."""
    terms = [jnp.eye(len(F))]
    for k in range(1, _DEGREE):
        terms.append(F @ terms[-1] / k)
    coefficients = jnp.stack(terms)
    A = jnp.einsum("k,kij->ij", _powers(dt), coefficients)
    powers = jax.vmap(_powers)(dt * jnp.asarray(_NODES))
    responses = jnp.einsum("nk,kij,jr->nir", powers, coefficients, L)
    Q = jnp.einsum("n,nir,rs,njs->ij", dt * jnp.asarray(_WEIGHTS), responses, Qc, responses)
    return A, Q


def _powers(x: Float[Array, ""]) -> Float[Array, " degree"]:
    """1, x, x², …, also differentiable at zero."""
    return jnp.cumprod(jnp.concatenate([jnp.ones(1), jnp.broadcast_to(x, _DEGREE - 1)]))


def _doubled(
    A: Float[Array, "dim dim"], Q: Float[Array, "dim dim"], times: Float[Array, ""], most: int
) -> tuple[Float[Array, "dim dim"], Float[Array, "dim dim"]]:
    def double(
        i: Int[Array, ""], step: tuple[Float[Array, "dim dim"], Float[Array, "dim dim"]]
    ) -> tuple[Float[Array, "dim dim"], Float[Array, "dim dim"]]:
        A, Q = step
        carried = A @ Q @ A.T
        active = i < times
        return jnp.where(active, A @ A, A), jnp.where(active, Q + (carried + carried.T) / 2, Q)

    A, Q = jax.lax.fori_loop(0, most, double, (A, Q))
    return A, Q


def _stationary(
    F: Float[Array, "dim dim"], L: Float[Array, "dim noise"], Qc: Float[Array, "noise noise"]
) -> Float[Array, "dim dim"]:
    """P₀, which solves F P + P Fᵀ + L Q_c Lᵀ = 0: the process noise of an endless step."""
    rate = _fastest_rate(F)
    A, Q = _short_step(F / rate, L, Qc / rate, jnp.ones(()))
    every = jnp.asarray(float(_STATIONARY_DOUBLINGS))
    return _doubled(A, Q, every, _STATIONARY_DOUBLINGS)[1]


class FromSDE(LinearSDE):
    """A kernel from the four arrays of its stochastic differential equation.

    The arrays stay as they are; `variance` multiplies the covariance and can be learned.

    >>> import stategp as sg
    >>> ou = sg.kernels.FromSDE(F=[[-1.0]], L=[[1.0]], Qc=[[2.0]], H=[1.0])
    >>> ou.state_dim
    1
    """

    variance: Parameter
    F: Parameter
    L: Parameter
    Qc: Parameter
    H: Parameter

    def __init__(self, F: Value, L: Value, Qc: Value, H: Value, *, variance: Value = None):
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
        if eigenvalues.real.max() >= 0:
            raise ValueError(
                "F must be stable (every eigenvalue with a negative real part) for the process to "
                f"be stationary; got eigenvalues {np.round(eigenvalues, 6)}. For components "
                "without decay add sg.kernels.Constant or sg.kernels.Cosine"
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
