"""Every operation against dense NumPy, every derivative against finite differences."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stategp.chain._block_tridiagonal import (
    BlockBidiagonal,
    BlockTridiagonal,
    reverse_subset_inverse,
)

SHAPES = [(1, 1), (2, 1), (7, 1), (2, 2), (7, 2), (1, 3), (7, 3), (3, 5)]


def random_factor(states, dim, seed=0):
    """Blocks of a well-conditioned Cholesky factor, as NumPy arrays."""
    rng = np.random.default_rng(seed)
    diagonal = np.tril(rng.normal(size=(states, dim, dim)) / 2, -1)
    diagonal += rng.uniform(0.5, 2.0, (states, dim))[:, :, None] * np.eye(dim)
    return diagonal, rng.normal(size=(states - 1, dim, dim)) / 2


def dense_lower(diagonal, lower):
    states, dim, _ = diagonal.shape
    dense = np.zeros((states * dim, states * dim))
    for m in range(states):
        own, below = slice(m * dim, (m + 1) * dim), slice((m + 1) * dim, (m + 2) * dim)
        dense[own, own] = diagonal[m]
        if m < states - 1:
            dense[below, own] = lower[m]
    return dense


def band(dense, dim):
    """The stored blocks of a dense symmetric matrix."""
    blocks = dense.reshape(len(dense) // dim, dim, -1, dim)
    diagonal = [blocks[m, :, m] for m in range(len(blocks))]
    lower = [blocks[m + 1, :, m] for m in range(len(blocks) - 1)]
    return np.array(diagonal), np.array(lower).reshape(-1, dim, dim)


OPERATIONS = {
    "matmul": lambda Q, L, C, v: Q @ v,
    "scaled sum": lambda Q, L, C, v: 2.0 * Q + C - Q * jnp.asarray(3.0),
    "inner": lambda Q, L, C, v: Q.inner(C),
    "outer": lambda Q, L, C, v: BlockTridiagonal.outer(v),
    "cholesky": lambda Q, L, C, v: Q.cholesky(),
    "dense": lambda Q, L, C, v: Q.to_dense(),
    "factor matmul": lambda Q, L, C, v: L @ v,
    "factor transpose_matmul": lambda Q, L, C, v: L.transpose_matmul(v),
    "solve": lambda Q, L, C, v: L.solve(v),
    "solve_transpose": lambda Q, L, C, v: L.solve_transpose(v),
    "log_determinant": lambda Q, L, C, v: L.log_determinant(),
    "gram": lambda Q, L, C, v: L.gram(),
    "subset_inverse": lambda Q, L, C, v: L.subset_inverse(),
    "factor dense": lambda Q, L, C, v: L.to_dense(),
    "reverse_subset_inverse": lambda Q, L, C, v: reverse_subset_inverse(C),
}


@jax.jit
def all_operations(*inputs):
    """Everything at once, so that each shape compiles once."""
    return {name: operation(*inputs) for name, operation in OPERATIONS.items()}


class Case:
    def __init__(self, states, dim):
        blocks = random_factor(states, dim)
        self.L = dense_lower(*blocks)
        self.Q = self.L @ self.L.T
        self.C = np.linalg.inv(self.Q)
        self.v = np.random.default_rng(1).normal(size=states * dim)
        self.dim = dim
        self.inputs = (
            BlockTridiagonal(*map(jnp.asarray, band(self.Q, dim))),
            BlockBidiagonal(*map(jnp.asarray, blocks)),
            BlockTridiagonal(*map(jnp.asarray, band(self.C, dim))),
            jnp.asarray(self.v.reshape(states, dim)),
        )

    def expected(self):
        L, Q, C, v, dim = self.L, self.Q, self.C, self.v, self.dim
        return {
            "matmul": Q @ v,
            "scaled sum": band(C - Q, dim),
            "inner": np.trace(Q @ C),
            "outer": band(np.outer(v, v), dim),
            "cholesky": band(np.linalg.cholesky(Q), dim),
            "dense": Q,
            "factor matmul": L @ v,
            "factor transpose_matmul": L.T @ v,
            "solve": np.linalg.solve(L, v),
            "solve_transpose": np.linalg.solve(L.T, v),
            "log_determinant": np.linalg.slogdet(L)[1],
            "gram": band(Q, dim),
            "subset_inverse": band(C, dim),
            "factor dense": L,
            "reverse_subset_inverse": band(L, dim),
        }


@pytest.mark.parametrize(("states", "dim"), SHAPES)
def test_operations_equal_dense_algebra(states, dim):
    case = Case(states, dim)
    results = all_operations(*case.inputs)
    for name, expected in case.expected().items():
        parts = expected if isinstance(expected, tuple) else (expected,)
        for got, want in zip(jax.tree.leaves(results[name]), parts, strict=True):
            want = np.reshape(want, got.shape)
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11, err_msg=name)


def random_like(tree, seed):
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda x: rng.normal(size=x.shape), tree)


def inner_product(tree, other):
    pairs = zip(jax.tree.leaves(tree), jax.tree.leaves(other), strict=True)
    return sum(jnp.sum(x * y) for x, y in pairs)


@pytest.mark.parametrize(("states", "dim"), [(1, 2), (3, 2), (2, 5)])
def test_derivatives_equal_finite_differences(states, dim):
    """Reverse and forward mode, in a random direction for each input.

    The direction is not symmetric: what a function reads of a symmetric block it must also
    differentiate. It also moves what lies above the triangles of a factor, which nothing reads.
    """
    inputs = Case(states, dim).inputs
    direction = random_like(inputs, seed=2)
    weights = random_like(jax.eval_shape(all_operations, *inputs), seed=7)

    @jax.jit
    def values(step):
        moved = jax.tree.map(lambda x, d: x + step * d, inputs, direction)
        results = all_operations(*moved)
        return {name: inner_product(results[name], weights[name]) for name in OPERATIONS}

    @jax.jit
    def reverse_mode(inputs):
        return {
            name: inner_product(jax.vjp(operation, *inputs)[1](weights[name]), direction)
            for name, operation in OPERATIONS.items()
        }

    # The five-point rule: error of order step⁴ and rounding of order 1e-16/step.
    step = 1e-4
    far_behind, behind, ahead, far_ahead = (values(k * step) for k in (-2, -1, 1, 2))
    forward, reverse = jax.jit(lambda: jax.jvp(values, (0.0,), (1.0,))[1])(), reverse_mode(inputs)
    for name in OPERATIONS:
        near, far = ahead[name] - behind[name], far_ahead[name] - far_behind[name]
        expected = (8 * near - far) / (12 * step)
        np.testing.assert_allclose(reverse[name], expected, rtol=1e-7, atol=1e-9, err_msg=name)
        np.testing.assert_allclose(forward[name], reverse[name], rtol=1e-10, err_msg=name)


def reverse_subset_inverse_gradient(C, L_bar, dim):
    """Algorithm 2 of the paper, dense, one scalar column after another.

    Column i of L reaches down to the end of the next block, so there the sub-block of C ends.
    """
    C_bar = np.zeros_like(C)
    for i in range(len(C)):
        o = slice(i, min((i // dim + 2) * dim, len(C)))
        c_inverse = np.linalg.inv(C[o, o])
        v = c_inverse[:, 0]
        root = np.sqrt(v[0])
        H = np.eye(len(v))
        H[:, 0] -= v / root / (2 * root)
        H /= root
        C_bar[o, o] -= np.outer(c_inverse[:, 0], L_bar[o, i] @ H @ c_inverse)
    return C_bar


@pytest.mark.parametrize("dim", [1, 3])
def test_reverse_subset_inverse_gradient_equals_the_papers(dim):
    case = Case(3, dim)
    covariance = case.inputs[2]
    weights = random_like(case.inputs[1], seed=3)  # what the algorithm calls L̄
    gradient = jax.jit(jax.grad(lambda band: inner_product(reverse_subset_inverse(band), weights)))(
        covariance
    )

    L_bar = dense_lower(np.tril(weights.diagonal), weights.lower)
    C_bar = reverse_subset_inverse_gradient(case.C, L_bar, dim)
    # A stored block stands for two entries of C where it is symmetric and for two blocks below.
    diagonal, lower = band(C_bar + C_bar.T, dim)
    np.testing.assert_allclose(gradient.diagonal, diagonal / 2, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(gradient.lower, lower, rtol=1e-10, atol=1e-10)


def test_nothing_above_the_triangles_of_a_factor_is_read():
    _, factor, covariance, vector = Case(3, 3).inputs
    above = jnp.triu(jnp.full_like(factor.diagonal, 7.0), 1)
    dirty = BlockBidiagonal(factor.diagonal + above, factor.lower)
    clean_results, dirty_results = (
        all_operations(covariance, L, covariance, vector) for L in (factor, dirty)
    )
    jax.tree.map(np.testing.assert_array_equal, dirty_results, clean_results)


def test_a_matrix_that_is_not_positive_definite_has_no_factor():
    matrix = BlockTridiagonal(jnp.ones((2, 1, 1)), 2.0 * jnp.ones((1, 1, 1)))
    assert jnp.isnan(matrix.cholesky().diagonal[1, 0, 0])


def test_accuracy_of_a_long_nearly_random_walk():
    """10 000 states and a precision of condition 4e9: the round trip keeps ten digits."""
    states = 10_000
    ends = jnp.ones(states).at[1:-1].add(1.0) + 1e-9
    matrix = BlockTridiagonal(ends[:, None, None], -jnp.ones((states - 1, 1, 1)))

    @jax.jit
    def round_trip(matrix):
        factor = matrix.cholesky()
        return factor, reverse_subset_inverse(factor.subset_inverse())

    factor, again = round_trip(matrix)
    np.testing.assert_allclose(again.diagonal, factor.diagonal, rtol=1e-10)


def test_no_library_call():
    """Batched LAPACK calls can wait for each other for ever: none is made, at any size."""

    def loss(matrix):
        factor = reverse_subset_inverse(matrix.cholesky().subset_inverse())
        return jnp.sum(factor.solve(factor.solve_transpose(jnp.ones(matrix.diagonal.shape[:2]))))

    program = str(jax.make_jaxpr(jax.grad(loss))(Case(3, 5).inputs[0]))
    assert "f64[5,5]" in program
    assert not re.search(r"= (cholesky|triangular_solve|lu)\b", program)
