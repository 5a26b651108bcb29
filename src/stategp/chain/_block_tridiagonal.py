"""Block-tridiagonal matrices: the precision of a Gauss–Markov chain, its factor, its inverse.

A chain has `states` states of size `dim`. Everything costs O(states dim³) and O(states dim²)
memory, in forward and in reverse mode. What runs along the chain is a `jax.lax.scan`; the rest is
done for all blocks at once.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, ScalarLike

from stategp._linalg import cholesky, solve_lower, solve_upper
from stategp._modules import Module


class BlockTridiagonal(Module):
    """A symmetric matrix with blocks on the diagonal and next to it.

    `lower[m]` is block (m+1, m); its transpose, block (m, m+1), is not stored.

    >>> matrix = BlockTridiagonal(4.0 * jnp.ones((3, 1, 1)), jnp.ones((2, 1, 1)))
    >>> matrix.cholesky().gram().to_dense()
    Array([[4., 1., 0.],
           [1., 4., 1.],
           [0., 1., 4.]], dtype=float64)
    """

    diagonal: Float[Array, "states dim dim"]
    lower: Float[Array, "states-1 dim dim"]

    @staticmethod
    def outer(vector: Float[Array, "states dim"]) -> "BlockTridiagonal":
        """The band of v vᵀ: the paper's btd[v vᵀ]."""
        return BlockTridiagonal(
            diagonal=vector[:, :, None] * vector[:, None, :],
            lower=vector[1:, :, None] * vector[:-1, None, :],
        )

    def __add__(self, other: "BlockTridiagonal") -> "BlockTridiagonal":
        return BlockTridiagonal(self.diagonal + other.diagonal, self.lower + other.lower)

    def __sub__(self, other: "BlockTridiagonal") -> "BlockTridiagonal":
        return BlockTridiagonal(self.diagonal - other.diagonal, self.lower - other.lower)

    def __mul__(self, scale: ScalarLike) -> "BlockTridiagonal":
        return BlockTridiagonal(self.diagonal * scale, self.lower * scale)

    def __rmul__(self, scale: ScalarLike) -> "BlockTridiagonal":
        return self * scale

    def __matmul__(self, vector: Float[Array, "states dim"]) -> Float[Array, "states dim"]:
        product = _times(self.diagonal, vector)
        product = product.at[1:].add(_times(self.lower, vector[:-1]))
        return product.at[:-1].add(_times(self.lower.mT, vector[1:]))

    def inner(self, other: "BlockTridiagonal") -> Float[Array, ""]:
        """The trace of the product where one of the two is zero outside the band."""
        off_diagonal = jnp.sum(self.lower * other.lower)
        return jnp.sum(self.diagonal * other.diagonal) + 2.0 * off_diagonal

    def cholesky(self) -> "BlockBidiagonal":
        """The lower factor L of this matrix, L Lᵀ; NaN where it is not positive definite."""

        def next_blocks(
            above: Float[Array, "dim dim"],
            blocks: tuple[Float[Array, "dim dim"], Float[Array, "dim dim"]],
        ) -> tuple[Array, tuple[Array, Array]]:
            below, diagonal = blocks
            lower = solve_lower(above, below.T).T
            factor = cholesky(diagonal - lower @ lower.T)
            return factor, (factor, lower)

        first = cholesky(self.diagonal[0])
        _, (others, lower) = lax.scan(next_blocks, first, (self.lower, self.diagonal[1:]))
        return BlockBidiagonal(jnp.concatenate([first[None], others]), lower)

    def to_dense(self) -> Float[Array, "size size"]:
        dense = _place_blocks(self.diagonal, 0) + _place_blocks(self.lower, 1)
        return dense + _place_blocks(self.lower, 1).T


class BlockBidiagonal(Module):
    """The Cholesky factor L of a block-tridiagonal matrix.

    `lower[m]` is block (m+1, m). Only the lower triangles of the diagonal blocks are read, so
    derivatives with respect to the entries above them are zero.

    >>> factor = BlockBidiagonal(jnp.full((2, 1, 1), 2.0), jnp.ones((1, 1, 1)))
    >>> factor.solve(factor @ jnp.array([[3.0], [5.0]]))
    Array([[3.],
           [5.]], dtype=float64)
    """

    diagonal: Float[Array, "states dim dim"]
    lower: Float[Array, "states-1 dim dim"]

    def __matmul__(self, vector: Float[Array, "states dim"]) -> Float[Array, "states dim"]:
        product = _times(jnp.tril(self.diagonal), vector)
        return product.at[1:].add(_times(self.lower, vector[:-1]))

    def transpose_matmul(self, vector: Float[Array, "states dim"]) -> Float[Array, "states dim"]:
        """Lᵀ v."""
        product = _times(jnp.tril(self.diagonal).mT, vector)
        return product.at[:-1].add(_times(self.lower.mT, vector[1:]))

    def solve(self, rhs: Float[Array, "states dim"]) -> Float[Array, "states dim"]:
        """L⁻¹ v."""
        alone = jax.vmap(solve_lower)(self.diagonal, rhs[..., None])[..., 0]
        from_previous = jax.vmap(solve_lower)(self.diagonal[1:], self.lower)
        return _recursion(alone, from_previous)

    def solve_transpose(self, rhs: Float[Array, "states dim"]) -> Float[Array, "states dim"]:
        """L⁻ᵀ v."""
        alone = jax.vmap(solve_upper)(self.diagonal, rhs[..., None])[..., 0]
        from_next = jax.vmap(solve_upper)(self.diagonal[:-1], self.lower.mT)
        return _recursion(alone[::-1], from_next[::-1])[::-1]

    def log_determinant(self) -> Float[Array, ""]:
        """log |L|: half the log-determinant of L Lᵀ."""
        return jnp.sum(jnp.log(jnp.diagonal(self.diagonal, axis1=1, axis2=2)))

    def gram(self) -> BlockTridiagonal:
        """L Lᵀ."""
        triangles = jnp.tril(self.diagonal)
        diagonal = (triangles @ triangles.mT).at[1:].add(self.lower @ self.lower.mT)
        return BlockTridiagonal(diagonal, self.lower @ triangles[:-1].mT)

    def subset_inverse(self) -> BlockTridiagonal:
        """The band of C = (L Lᵀ)⁻¹; the inverse itself is dense.

        The block rows of Lᵀ C = L⁻¹ give, with G_m = L_{m+1,m} L_mm⁻¹ and from the last state
        back, C_mm = (L_mm L_mmᵀ)⁻¹ + G_mᵀ C_{m+1,m+1} G_m and C_{m+1,m} = -C_{m+1,m+1} G_m.
        """
        inverses = jax.vmap(solve_lower)(self.diagonal, _identities_like(self.diagonal))
        alone = inverses.mT @ inverses
        gains = jax.vmap(solve_upper)(self.diagonal[:-1], self.lower.mT).mT

        def previous_block(
            below: Float[Array, "dim dim"],
            blocks: tuple[Float[Array, "dim dim"], Float[Array, "dim dim"]],
        ) -> tuple[Array, Array]:
            alone, gain = blocks
            block = alone + gain.mT @ below @ gain
            return block, block

        _, others = lax.scan(previous_block, alone[-1], (alone[:-1], gains), reverse=True)
        diagonal = jnp.concatenate([others, alone[-1:]])
        return BlockTridiagonal(diagonal, -diagonal[1:] @ gains)

    def to_dense(self) -> Float[Array, "size size"]:
        return _place_blocks(jnp.tril(self.diagonal), 0) + _place_blocks(self.lower, 1)


def reverse_subset_inverse(covariance: BlockTridiagonal) -> BlockBidiagonal:
    """The Cholesky factor L of the block-tridiagonal precision whose inverse has this band.

    The block form of the paper's Algorithm 1. Each block column of L depends on one pair of
    neighbouring states only: [C_oo⁻¹]_{:,m} = L_{o,m} L_mmᵀ with o = (m, m+1). With the
    regression J = C_{m+1,m+1}⁻¹ C_{m+1,m} of state m on the next one and the covariance
    S = C_mm - C_{m,m+1} J that it leaves, L_mm L_mmᵀ = S⁻¹ and L_{m+1,m} = -J L_mm.

    >>> factor = BlockBidiagonal(jnp.full((2, 1, 1), 2.0), jnp.ones((1, 1, 1)))
    >>> reverse_subset_inverse(factor.subset_inverse()).to_dense()
    Array([[2., 0.],
           [1., 2.]], dtype=float64)
    """
    next_factors = jax.vmap(cholesky)(covariance.diagonal[1:])
    whitened = jax.vmap(solve_lower)(next_factors, covariance.lower)
    regressions = jax.vmap(solve_upper)(next_factors, whitened)
    residuals = covariance.diagonal.at[:-1].add(-whitened.mT @ whitened)

    # S = U Uᵀ with U upper triangular is a Cholesky factorisation read from the last row up;
    # then S⁻¹ = L Lᵀ with L = U⁻ᵀ, without forming S⁻¹.
    uppers = jax.vmap(cholesky)(residuals[:, ::-1, ::-1])[:, ::-1, ::-1]
    diagonal = jax.vmap(solve_lower)(uppers.mT, _identities_like(uppers))
    return BlockBidiagonal(diagonal, -regressions @ diagonal[:-1])


def _identities_like(blocks: Array) -> Array:
    return jnp.broadcast_to(jnp.eye(blocks.shape[-1]), blocks.shape)


def _times(blocks: Array, vectors: Array) -> Array:
    return jnp.einsum("mij,mj->mi", blocks, vectors)


def _recursion(alone: Array, from_previous: Array) -> Array:
    """x_0 = alone_0, then x_m = alone_m - from_previous_{m-1} x_{m-1}."""

    def next_vector(previous: Array, inputs: tuple[Array, Array]) -> tuple[Array, Array]:
        alone, from_previous = inputs
        vector = alone - from_previous @ previous
        return vector, vector

    _, others = lax.scan(next_vector, alone[0], (alone[1:], from_previous))
    return jnp.concatenate([alone[:1], others])


def _place_blocks(blocks: Array, first_row: int) -> Array:
    """A dense square matrix with the blocks down the diagonal that starts at block `first_row`."""
    states, dim = blocks.shape[0] + first_row, blocks.shape[-1]
    columns = jnp.arange(blocks.shape[0])
    dense = jnp.zeros((states, dim, states, dim), blocks.dtype)
    dense = dense.at[columns + first_row, :, columns, :].set(blocks)
    return dense.reshape(states * dim, states * dim)
