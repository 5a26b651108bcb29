"""The Matérn family with half-integer smoothness ν = d − ½.

With r = λΔ and λ = √(2ν)/lengthscale, the process solves (1 + λ⁻¹d/dx)ᵈ f = white noise. The
state is g_i = (1 + λ⁻¹d/dx)ⁱ f for i = 0 … d−1: combinations of f and its scaled derivatives in
which every entry of A and Q is a sum of positive terms, hence accurate to the last digits at
every r, where the matrices in f, f′, f″ … cancel. The equation is dg_i = λ(g_{i+1} − g_i)dx, so

    A_ij = e⁻ʳ r^(j−i) / (j−i)!          Q_ij = P₀_ij · γ(2d−1−i−j, 2r)

with γ the regularised lower incomplete gamma function.
"""

import abc
import functools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._linalg import Entries, assemble
from stategp.kernels._base import ClosedForm, Kernel, Matrix, Scalar, State, Steps
from stategp.kernels._special import incomplete_gamma_table, poisson_terms
from stategp.parameters import Parameter, Value, positive

_ORDERS = [k + 0.5 for k in range(12)]
Matrices = tuple[Float[Array, "dim dim *steps"], Float[Array, "dim dim *steps"]]
_VANISHED = 800.0  # e^-r is zero in double precision; clipping here keeps 0 · r^k from being NaN


def _unit_stationary_covariance(dim: int) -> np.ndarray:
    """P₀ for unit variance: ∝ n! / (2^(n+1) (d−1−i)! (d−1−j)!) with n = 2d−2−i−j."""
    entry = [
        [
            math.factorial(2 * dim - 2 - i - j)
            / (
                2.0 ** (2 * dim - 1 - i - j)
                * math.factorial(dim - 1 - i)
                * math.factorial(dim - 1 - j)
            )
            for j in range(dim)
        ]
        for i in range(dim)
    ]
    return np.array(entry) / entry[0][0]


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _unit_steps(dim: int, r: Steps) -> Matrices:
    """A, and what multiplies P₀ in Q, for steps in units of 1/λ."""
    return _unit_steps_once(dim, r)


@functools.partial(jax.jit, static_argnums=0)  # traced once, for all kernels and programs
def _unit_steps_once(dim: int, r: Steps) -> Matrices:
    rows = range(dim)
    powers, table = _powers(dim, r), incomplete_gamma_table(2 * dim - 1, 2 * r)
    A = [[powers[j - i] if j >= i else 0.0 for j in rows] for i in rows]
    grown = [[table[2 * dim - 2 - i - j] for j in rows] for i in rows]
    return assemble(A, r), assemble(grown, r)


@_unit_steps.defjvp
def _unit_steps_jvp(dim: int, primals: Any, tangents: Any) -> Any:
    """dA_ij/dr = A_i,j−1 − A_ij, and ∂γ(a, 2r)/∂r = 2 (2r)^(a−1) e^(−2r) / (a−1)!"""
    (r,), (dr,) = primals, tangents
    A, grown = _unit_steps(dim, r)
    dA, growth = _unit_slopes(dim, A, r)
    step = dr[None, None]
    return (A, grown), (dA * step, growth * step)


@functools.partial(jax.jit, static_argnums=0)
def _unit_slopes(dim: int, A: Float[Array, "dim dim *steps"], r: Steps) -> Matrices:
    rows = range(dim)
    terms = poisson_terms(2 * dim - 1, 2 * r)
    growth = assemble([[terms[2 * dim - 2 - i - j] for j in rows] for i in rows], r)
    before = jnp.concatenate([jnp.zeros_like(A[:, :1]), A[:, :-1]], axis=1)
    return before - A, 2 * growth


def _powers(dim: int, r: Steps) -> list[Steps]:
    """e⁻ʳ rᵏ/k!, computed once and not again wherever one of them is read."""
    bounded = jnp.minimum(r, _VANISHED)
    decay = jax.lax.optimization_barrier(jnp.exp(-bounded))
    return [decay * bounded**k * (1 / math.factorial(k)) for k in range(dim)]


class _Matern(Kernel):
    # Each kernel repeats this __init__: without one, type checkers assume that of a dataclass.
    variance: Parameter
    lengthscale: Parameter

    def __init__(self, *, variance: Value = None, lengthscale: Value = None):
        self.variance = positive("variance", variance, default=1.0, role="variance")
        self.lengthscale = positive("lengthscale", lengthscale, default=1.0, role="lengthscale")

    @property
    @abc.abstractmethod
    def state_dim(self) -> int: ...

    @property
    def rate(self) -> Float[Array, ""]:
        """λ = √(2ν) / lengthscale."""
        return math.sqrt(2 * self.state_dim - 1) / self.lengthscale.value

    def transition(self, dt: Scalar) -> Matrix:
        return self.step_matrices(jnp.asarray(dt, float))[0]

    def process_noise(self, dt: Scalar) -> Matrix:
        return self.step_matrices(jnp.asarray(dt, float))[1]

    def steps(self, dt: Steps) -> tuple[Entries, Entries]:
        dim, start = self.state_dim, self.stationary_covariance()
        powers = _powers(dim, self.rate * dt)
        table = incomplete_gamma_table(2 * dim - 1, 2 * self.rate * dt)
        rows = range(dim)
        A = [[powers[j - i] if j >= i else 0.0 for j in rows] for i in rows]
        Q = [[start[i, j] * table[2 * dim - 2 - i - j] for j in rows] for i in rows]
        return A, Q

    def step_matrices(self, dt: Steps) -> Matrices:
        A, grown = _unit_steps(self.state_dim, self.rate * dt)
        P = self.stationary_covariance()
        return A, jnp.expand_dims(P, tuple(range(2, grown.ndim))) * grown

    def stationary_covariance(self) -> Matrix:
        return self.variance.value * jnp.asarray(_unit_stationary_covariance(self.state_dim))

    def emission(self) -> State:
        return jnp.zeros(self.state_dim).at[0].set(1.0)

    def closed_form(self) -> ClosedForm | None:
        if type(self) not in (Matern12, Matern32, Matern52, Matern72):
            return None  # a subclass may have other matrices
        return ClosedForm(self.state_dim, False, self.variance.value, self.rate)

    def feedback(self) -> Matrix:
        return self.rate * (jnp.eye(self.state_dim, k=1) - jnp.eye(self.state_dim))

    def diffusion(self) -> Matrix:
        last = self.state_dim - 1
        strength = 2 * self.rate * self.stationary_covariance()[last, last]
        return jnp.zeros((last + 1, last + 1)).at[last, last].set(strength)

    def covariance(self, lag: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
        """σ² e⁻ʳ Σ_k c_k rᵏ, the textbook polynomial."""
        p = self.state_dim - 1
        r = jnp.minimum(self.rate * jnp.abs(lag), _VANISHED)
        coefficients = [
            math.factorial(p)
            / math.factorial(2 * p)
            * math.factorial(2 * p - k)
            / (math.factorial(p - k) * math.factorial(k))
            * 2.0**k
            for k in range(p + 1)
        ]
        polynomial = sum((c * r**k for k, c in enumerate(coefficients)), start=jnp.zeros_like(r))
        return self.variance.value * jnp.exp(-r) * polynomial


class Matern(_Matern):
    """Matérn of any half-integer order ν from 1/2 to 23/2: ν − ½ times differentiable.

    A state has ν + ½ entries. `Matern12` to `Matern72` are the same for the lowest four orders.

    >>> import stategp as sg
    >>> sg.kernels.Matern(order=4.5, lengthscale=3.0)
    Matern(variance=1, lengthscale=3, order=4.5)
    """

    order: float = eqx.field(static=True)

    def __init__(self, *, order: float = 4.5, variance: Value = None, lengthscale: Value = None):
        if isinstance(order, bool) or order not in _ORDERS:
            raise ValueError(f"order must be 0.5, 1.5, 2.5, … or 11.5, got {order!r}")
        self.order = float(order)
        super().__init__(variance=variance, lengthscale=lengthscale)

    @property
    def state_dim(self) -> int:
        return round(self.order + 0.5)

    def _repr_fields(self) -> list[str]:
        return [*super()._repr_fields(), f"order={self.order:g}"]


class Matern12(_Matern):
    """Matérn ν = 1/2, the Ornstein–Uhlenbeck process: k(τ) = variance · exp(−τ/lengthscale).

    >>> import stategp as sg
    >>> sg.kernels.Matern12(lengthscale=3.0)
    Matern12(variance=1, lengthscale=3)
    """

    def __init__(self, *, variance: Value = None, lengthscale: Value = None):
        super().__init__(variance=variance, lengthscale=lengthscale)

    @property
    def state_dim(self) -> int:
        return 1


class Matern32(_Matern):
    """Matérn ν = 3/2: once differentiable.

    >>> import stategp as sg
    >>> sg.kernels.Matern32(lengthscale=3.0)
    Matern32(variance=1, lengthscale=3)
    """

    def __init__(self, *, variance: Value = None, lengthscale: Value = None):
        super().__init__(variance=variance, lengthscale=lengthscale)

    @property
    def state_dim(self) -> int:
        return 2


class Matern52(_Matern):
    """Matérn ν = 5/2: twice differentiable.

    >>> import stategp as sg
    >>> sg.kernels.Matern52(lengthscale=3.0)
    Matern52(variance=1, lengthscale=3)
    """

    def __init__(self, *, variance: Value = None, lengthscale: Value = None):
        super().__init__(variance=variance, lengthscale=lengthscale)

    @property
    def state_dim(self) -> int:
        return 3


class Matern72(_Matern):
    """Matérn ν = 7/2: three times differentiable.

    >>> import stategp as sg
    >>> sg.kernels.Matern72(lengthscale=3.0)
    Matern72(variance=1, lengthscale=3)
    """

    def __init__(self, *, variance: Value = None, lengthscale: Value = None):
        super().__init__(variance=variance, lengthscale=lengthscale)

    @property
    def state_dim(self) -> int:
        return 4
