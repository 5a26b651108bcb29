"""The careful filter against dense algebra, at noise that both can do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stategp.chain import Scalars, Transitions, careful_log_evidence, careful_marginals
from stategp.chain._square_root import triangle

STATE = jnp.array([0, 0, 2, 2, 2, 3])  # the second state is not observed


def chain(seed=0, states=4, dim=2):
    rng = np.random.default_rng(seed)
    A = rng.normal(0, 0.6, (states, dim, dim))
    A[0] = 0
    roots = rng.normal(0, 0.7, (states, dim, dim))
    roots[2] = 0  # a step without noise
    Q = roots @ roots.transpose(0, 2, 1)
    count = len(STATE)
    points = Scalars(
        jnp.asarray(rng.normal(size=(count, dim))),
        jnp.asarray(rng.normal(size=count)),
        jnp.asarray([3.0, 1.0, 0.0, 5.0, 2.0, 1.0]),
    )
    return Transitions(jnp.asarray(A), jnp.asarray(Q)), points


def dense_prior(transitions):
    states, dim = transitions.A.shape[:2]
    carried = [jnp.zeros((dim, states * dim))]  # each state as a map of all steps' noise
    noise = jnp.zeros((states * dim, states * dim))
    rows = []
    for m in range(states):
        own = slice(m * dim, (m + 1) * dim)
        carried.append(transitions.A[m] @ carried[-1])
        carried[-1] = carried[-1].at[:, own].set(jnp.eye(dim))
        noise = noise.at[own, own].set(transitions.Q[m])
        rows.append(carried[-1])
    return jnp.concatenate(rows) @ noise @ jnp.concatenate(rows).T


def dense(transitions, points):
    K = dense_prior(transitions)
    dim = transitions.A.shape[-1]
    H = jnp.zeros((len(STATE), len(K)))
    for n, m in enumerate(np.asarray(STATE)):
        H = H.at[n, m * dim : (m + 1) * dim].set(points.emission[n])
    # log det(I + K Λ) and a quadratic form, without dividing by a precision of zero
    root = jnp.sqrt(jnp.where(points.precision > 0, points.precision, 1.0))
    root = jnp.where(points.precision > 0, root, 0.0)
    C = jnp.eye(len(STATE)) + root[:, None] * (H @ K @ H.T) * root[None]
    y = root * points.value
    value = -(y @ jnp.linalg.solve(C, y) + jnp.linalg.slogdet(C)[1]) / 2
    gain = K @ H.T * root[None] @ jnp.linalg.inv(C)
    return value, (gain @ y, K - gain @ (root[:, None] * H @ K))


def test_value_and_all_derivatives_are_those_of_dense_algebra():
    transitions, points = chain()
    careful = jax.value_and_grad(lambda *a: careful_log_evidence(*a, STATE)[0], argnums=(0, 1))
    exact = jax.value_and_grad(lambda *a: dense(*a)[0], argnums=(0, 1))
    value, found = jax.jit(careful)(transitions, points)
    expected, slopes = jax.jit(exact)(transitions, points)
    assert value == pytest.approx(float(expected), rel=1e-12)
    seen = np.asarray(points.precision) > 0
    symmetric = (slopes[0].Q + slopes[0].Q.mT) / 2
    np.testing.assert_allclose(found[0].A[1:], slopes[0].A[1:], atol=1e-11)
    np.testing.assert_allclose(found[0].Q, symmetric, atol=1e-11)
    np.testing.assert_allclose(found[1].emission, slopes[1].emission, atol=1e-11)
    np.testing.assert_allclose(found[1].value, slopes[1].value, atol=1e-11)
    np.testing.assert_allclose(found[1].precision[seen], slopes[1].precision[seen], atol=1e-11)


def test_marginals_are_those_of_dense_algebra():
    transitions, points = chain(1)
    mean, covariance = jax.jit(careful_marginals)(transitions, points, STATE)
    _, (expected, whole) = dense(transitions, points)
    np.testing.assert_allclose(mean.reshape(-1), expected, atol=1e-12)
    for m, own in enumerate(covariance):
        block = slice(2 * m, 2 * m + 2)
        np.testing.assert_allclose(own, whole[block, block], atol=1e-12)


def test_triangle_keeps_columns_of_zeros_and_tiny_numbers():
    rows = np.random.default_rng(0).normal(size=(5, 3)) * np.array([1e-200, 0.0, 1.0])
    R = np.asarray(jax.jit(triangle)(jnp.asarray(rows)))
    scale = np.array([1e-200, 1.0, 1.0])
    np.testing.assert_allclose((R / scale).T @ (R / scale), (rows / scale).T @ (rows / scale))
