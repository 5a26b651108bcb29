"""A Gauss–Markov chain q(u) = N(μ, (L Lᵀ)⁻¹) in three parameterisations, and natural gradients.

The maps are those of the paper's appendix:

    ξ → θ    θ₁ = L Lᵀ μ        θ₂ = -½ L Lᵀ
    θ → ξ    μ = (-2θ₂)⁻¹ θ₁    L = chol(-2θ₂)
    ξ → η    η₁ = μ             η₂ = btd[L⁻ᵀL⁻¹ + μμᵀ]
    η → ξ    μ = η₁             L = reverse subset inverse of η₂ - btd[η₁η₁ᵀ]

One convention holds for θ and η. The density is exp(⟨θ, t(u)⟩ - A(θ)) with t(u) = (u, btd[uuᵀ]),
and ⟨·,·⟩ runs over the whole symmetric band, so a stored `lower` block, which stands for itself
and for its transpose, counts twice.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, ScalarLike

from stategp._modules import Module
from stategp.chain._block_tridiagonal import (
    BlockBidiagonal,
    BlockTridiagonal,
    reverse_subset_inverse,
)


class MeanCholesky(Module):
    """ξ: the mean, and the Cholesky factor L of the precision.

    >>> factor = BlockBidiagonal(jnp.full((2, 1, 1), 2.0), jnp.ones((1, 1, 1)))
    >>> MeanCholesky(jnp.ones((2, 1)), factor).to_natural().linear
    Array([[6.],
           [7.]], dtype=float64)
    """

    mean: Float[Array, "states dim"]
    precision_cholesky: BlockBidiagonal

    @staticmethod
    def standard(states: int, dim: int) -> "MeanCholesky":
        """Independent standard normal states."""
        identities = jnp.broadcast_to(jnp.eye(dim), (states, dim, dim))
        factor = BlockBidiagonal(identities, jnp.zeros((states - 1, dim, dim)))
        return MeanCholesky(jnp.zeros((states, dim)), factor)

    def covariance_band(self) -> BlockTridiagonal:
        """Cov(u_m, u_m) on the diagonal, Cov(u_{m+1}, u_m) below it."""
        return self.precision_cholesky.subset_inverse()

    def to_natural(self) -> "Natural":
        precision = self.precision_cholesky.gram()
        return Natural(precision @ self.mean, -0.5 * precision)

    def to_expectation(self) -> "Expectation":
        return Expectation(self.mean, self.covariance_band() + BlockTridiagonal.outer(self.mean))


class Natural(Module):
    """θ: precision times mean, and -½ the precision.

    >>> theta = MeanCholesky.standard(states=2, dim=1).to_natural()
    >>> theta.quadratic.to_dense()
    Array([[-0.5,  0. ],
           [ 0. , -0.5]], dtype=float64)
    """

    linear: Float[Array, "states dim"]
    quadratic: BlockTridiagonal

    def __add__(self, other: "Natural") -> "Natural":
        return Natural(self.linear + other.linear, self.quadratic + other.quadratic)

    def __mul__(self, scale: ScalarLike) -> "Natural":
        return Natural(self.linear * scale, self.quadratic * scale)

    def __rmul__(self, scale: ScalarLike) -> "Natural":
        return self * scale

    def to_mean_cholesky(self) -> MeanCholesky:
        factor = (-2.0 * self.quadratic).cholesky()
        return MeanCholesky(factor.solve_transpose(factor.solve(self.linear)), factor)

    def to_expectation(self) -> "Expectation":
        return self.to_mean_cholesky().to_expectation()


class Expectation(Module):
    """η: E[u], and the band of E[u uᵀ].

    >>> second = BlockTridiagonal(jnp.full((1, 1, 1), 5.0), jnp.zeros((0, 1, 1)))
    >>> Expectation(jnp.ones((1, 1)), second).to_mean_cholesky().covariance_band().diagonal
    Array([[[4.]]], dtype=float64)
    """

    first: Float[Array, "states dim"]
    second: BlockTridiagonal

    def to_mean_cholesky(self) -> MeanCholesky:
        covariance = self.second - BlockTridiagonal.outer(self.first)
        return MeanCholesky(self.first, reverse_subset_inverse(covariance))

    def to_natural(self) -> Natural:
        return self.to_mean_cholesky().to_natural()


def kl_divergence(q: MeanCholesky, p: MeanCholesky) -> Float[Array, ""]:
    """KL(q ‖ p) = E_q[log q(u) - log p(u)].

    >>> p = MeanCholesky.standard(states=2, dim=1)
    >>> kl_divergence(MeanCholesky(jnp.ones((2, 1)), p.precision_cholesky), p)
    Array(1., dtype=float64)
    """
    trace = p.precision_cholesky.gram().inner(q.covariance_band())
    distance = jnp.sum(p.precision_cholesky.transpose_matmul(q.mean - p.mean) ** 2)
    log_ratio = q.precision_cholesky.log_determinant() - p.precision_cholesky.log_determinant()
    return 0.5 * (trace + distance - q.mean.size) + log_ratio


def entropy(q: MeanCholesky) -> Float[Array, ""]:
    """E_q[-log q(u)].

    >>> q = MeanCholesky.standard(states=2, dim=1)
    >>> bool(jnp.isclose(entropy(q), jnp.log(2 * jnp.pi * jnp.e)))
    True
    """
    constant = q.mean.size * (1.0 + math.log(2.0 * math.pi))
    return 0.5 * constant - q.precision_cholesky.log_determinant()


def log_density(q: MeanCholesky, u: Float[Array, "states dim"]) -> Float[Array, ""]:
    """log q(u).

    >>> q = MeanCholesky.standard(states=2, dim=1)
    >>> bool(jnp.isclose(log_density(q, q.mean), -jnp.log(2 * jnp.pi)))
    True
    """
    distance = jnp.sum(q.precision_cholesky.transpose_matmul(u - q.mean) ** 2)
    constant = q.mean.size * math.log(2.0 * math.pi)
    return q.precision_cholesky.log_determinant() - 0.5 * (distance + constant)


def sample(
    q: MeanCholesky, key: PRNGKeyArray, num_samples: int
) -> Float[Array, "num_samples states dim"]:
    """Joint draws u = μ + L⁻ᵀ ε with ε standard normal.

    >>> q = MeanCholesky.standard(states=3, dim=2)
    >>> sample(q, jax.random.key(0), num_samples=5).shape
    (5, 3, 2)
    """
    noise = jax.random.normal(key, (num_samples, *q.mean.shape), q.mean.dtype)
    return q.mean[None] + jax.vmap(q.precision_cholesky.solve_transpose)(noise)


Objective = Callable[[MeanCholesky], Float[Array, ""]]


def natural_gradient(objective: Objective, xi: MeanCholesky) -> MeanCholesky:
    """∇̃_ξ = ∂ξ/∂θ ∂objective/∂η: the gradient in ξ, times the inverse Fisher information there.

    The result is a direction (a tangent of ξ), not a distribution.

    >>> q = MeanCholesky.standard(states=2, dim=1)
    >>> direction = jax.jit(lambda q: natural_gradient(lambda q: jnp.sum(q.mean), q))
    >>> direction(q).mean  # covariance times gradient
    Array([[1.],
           [1.]], dtype=float64)
    """
    direction: MeanCholesky
    _, direction = jax.jvp(
        Natural.to_mean_cholesky, (xi.to_natural(),), (_natural_direction(objective, xi),)
    )
    return direction


def natural_gradient_step(
    objective: Objective, xi: MeanCholesky, step_size: ScalarLike
) -> MeanCholesky:
    """θ + step_size ∂objective/∂η: a step of natural-gradient ascent, straight in θ.

    When the objective is a bound with a conjugate likelihood, step_size 1 reaches its maximum.
    After too long a step the precision may not be positive definite; the factor is then NaN.

    >>> p = MeanCholesky.standard(states=1, dim=1)
    >>> q = MeanCholesky(jnp.ones((1, 1)), p.precision_cholesky)
    >>> step = jax.jit(lambda q: natural_gradient_step(lambda q: -kl_divergence(q, p), q, 1.0))
    >>> step(q).mean
    Array([[0.]], dtype=float64)
    """
    return (xi.to_natural() + step_size * _natural_direction(objective, xi)).to_mean_cholesky()


def _natural_direction(objective: Objective, xi: MeanCholesky) -> Natural:
    """∂objective/∂η as a direction in θ, through ∂objective/∂ξ · ∂ξ/∂η."""
    _, pull_back_to_eta = jax.vjp(Expectation.to_mean_cholesky, xi.to_expectation())
    (gradient,) = pull_back_to_eta(jax.grad(objective)(xi))
    # The derivative with respect to a stored lower block counts what its transpose does too;
    # ⟨θ, η⟩ counts the block twice, so its share for the block alone is half.
    second = BlockTridiagonal(gradient.second.diagonal, 0.5 * gradient.second.lower)
    return Natural(gradient.first, second)
