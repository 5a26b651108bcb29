"""Entry by entry or as matrices, in lanes or in blocks: the same numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stategp as sg
from stategp import _linalg, chain
from stategp._linalg import apply, in_entries, psd_solve, tilt, times
from stategp._projection import project
from stategp.chain import _recursion
from tests import jitted


@pytest.mark.parametrize("batch", [3, 4096])
def test_products(batch):
    assert in_entries(3, (batch,)) == (batch > 3)
    rng = np.random.default_rng(0)
    a, b, v = (
        rng.standard_normal((3, 3, batch)),
        rng.standard_normal((3, 2, batch)),
        rng.random((3, batch)),
    )
    np.testing.assert_allclose(
        times(jnp.asarray(a), jnp.asarray(b)), np.einsum("ijn,jkn->ikn", a, b), atol=1e-14
    )
    np.testing.assert_allclose(
        apply(jnp.asarray(a), jnp.asarray(v)), np.einsum("ijn,jn->in", a, v), atol=1e-14
    )


@pytest.mark.parametrize("dim", [1, 3, 4, 6])
def test_tilt_and_solve_equal_numpy(dim):
    rng = np.random.default_rng(dim)
    root, other = rng.standard_normal((2, 5, dim, dim))
    C, J = (r @ r.transpose(0, 2, 1) for r in (root, other))
    last = [jnp.asarray(np.moveaxis(m, 0, -1)) for m in (C, J)]
    tilted, log_det = jax.jit(tilt)(*last)
    np.testing.assert_allclose(
        np.moveaxis(tilted, -1, 0), np.linalg.inv(np.linalg.inv(C) + J), rtol=1e-8, atol=1e-10
    )
    np.testing.assert_allclose(log_det, np.linalg.slogdet(np.eye(dim) + C @ J)[1], rtol=1e-9)
    rhs = rng.standard_normal((5, dim, 2))
    solved = psd_solve(last[0], _linalg.psd_cholesky(last[0]), jnp.asarray(np.moveaxis(rhs, 0, -1)))
    np.testing.assert_allclose(
        np.moveaxis(solved, -1, 0), np.linalg.solve(C, rhs), rtol=1e-6, atol=1e-8
    )


def test_a_chain_in_blocks_is_the_same_chain(monkeypatch):
    kernel, z = sg.kernels.Matern32(lengthscale=3.0), jnp.linspace(0, 9, 60)
    rng = np.random.default_rng(0)
    rows = jnp.asarray(rng.standard_normal((61, 4))).at[0, :2].set(0).at[-1, 2:].set(0)
    sites = chain.Sites(rows, rows[:, :, None] * rows[:, None, :])
    transitions = jitted.prior_transitions(kernel, z)

    def slope(scale):
        moved = chain.Transitions(transitions.A, scale * transitions.Q)
        return chain.local_log_normaliser(moved, sites, swept.messages)

    swept = jitted.sweep(transitions, sites)
    whole, whole_slope = swept, jax.jit(jax.grad(slope))(1.0)
    monkeypatch.setattr(_recursion, "_BLOCK", 25)
    swept = jitted.sweep(transitions, sites, how="lanes")
    np.testing.assert_allclose(swept.log_normaliser, whole.log_normaliser, rtol=1e-12)
    np.testing.assert_allclose(swept.marginals.covariance, whole.marginals.covariance, atol=1e-12)
    np.testing.assert_allclose(swept.marginals.mean, whole.marginals.mean, atol=1e-12)
    np.testing.assert_allclose(jax.jit(jax.grad(slope))(1.0), whole_slope, rtol=1e-9)


@pytest.mark.parametrize(
    "kernel",
    [sg.kernels.Matern52(lengthscale=2.0), sg.kernels.Matern32() + sg.kernels.Cosine(period=3.0)],
)
def test_many_points_are_projected_as_few_are(kernel):
    z = jnp.array([0.0, 1.0, 2.5])
    transitions = jitted.prior_transitions(kernel, z)
    x = jnp.linspace(-1.0, 4.0, 4096)
    run = jax.jit(lambda x: project(kernel, z, x, transitions))
    many, few = run(x), run(x[::64])
    ours, theirs = ([*found.weights, *found.residual] for found in (many, few))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a[::64], b, atol=1e-13)
    linear = jnp.sin(x)
    sites = many.gather(linear, linear**2, 4)
    dense = np.zeros((4, len(many.weights)))
    np.add.at(dense, np.asarray(many.interval), np.stack(many.weights, axis=-1) * linear[:, None])
    np.testing.assert_allclose(sites.linear, dense, atol=1e-10)
    second = np.einsum("in,jn,n->ij", *2 * [np.stack(many.weights)], linear**2)
    np.testing.assert_allclose(sites.precision.sum(axis=0), second, atol=1e-9)
