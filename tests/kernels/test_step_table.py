"""Steps from tables: the same as each step by itself, and as mpmath's."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import stategp as sg
from stategp.kernels import _step_table
from stategp.kernels._step_table import doubled, many_steps, tabulated

from .references import exact_matrices

KERNEL = sg.kernels.FromSDE(
    [[0.0, 1.0, 0.0], [-5.0, -1.0, 0.3], [0.0, 0.0, -0.02]],
    [[0.0, 0.0], [1.0, 0.2], [0.0, 0.5]],
    [[3.0, 0.1], [0.1, 0.2]],
    [1.0, 0.0, 1.0],
)
EQUATION = (KERNEL.feedback(), KERNEL.diffusion())
HALVED = (EQUATION[0], EQUATION[1] / 2)
RATE = float(jnp.max(jnp.sum(jnp.abs(EQUATION[0]), axis=1)))
MULTIPLES = [0.0, 1e-12, 1e-6, 0.03, 0.999, 1.0, 1.001, 2.0, 17.3, 126.5, 127.9, 128.0, 129.2]
LONG = [1000.7, 16383.5, 16384.0, 40000.3, 1e6]
STEPS = jnp.asarray(MULTIPLES + LONG) / RATE


@pytest.fixture(scope="module")
def matrices():
    return [np.asarray(each) for each in jax.jit(tabulated)(*EQUATION, STEPS)]


def deviations(Q):
    return np.sqrt(np.einsum("iin->in", Q))


def test_steps_from_tables_are_those_of_doubling(matrices) -> None:
    A, Q = (np.asarray(each) for each in jax.jit(doubled)(*EQUATION, STEPS))
    np.testing.assert_allclose(matrices[0], A, rtol=0, atol=1e-12)
    scale = deviations(Q)
    apart = np.abs(matrices[1] - Q)
    assert np.all(apart <= 1e-12 * scale[:, None] * scale[None])


def test_steps_from_tables_are_those_of_mpmath(matrices) -> None:
    """Each entry of Q relative to its variances, from tiny steps to huge ones."""
    chosen = [1, 2, 3, 5, 8, 9, 12, 13, 16]
    A, Q, _ = exact_matrices(KERNEL, [float(STEPS[one]) for one in chosen])
    np.testing.assert_allclose(np.moveaxis(matrices[0][..., chosen], -1, 0), A, rtol=0, atol=1e-12)
    scale = np.sqrt(np.einsum("nii->ni", Q))
    apart = np.abs(np.moveaxis(matrices[1][..., chosen], -1, 0) - Q)
    assert np.all(apart <= 1e-12 * scale[:, :, None] * scale[:, None])


def test_no_step_changes_nothing_and_tiny_ones_something(matrices) -> None:
    A, Q = matrices
    np.testing.assert_array_equal(A[..., 0], np.eye(3))
    np.testing.assert_array_equal(Q[..., 0], 0.0)
    assert np.all(deviations(Q)[:, 1:] > 0)


def total(way, weights):
    def summed(F, half, dt):
        A, Q = way(F, half + half.T, dt)
        return jnp.sum(weights[0] * A) + jnp.sum(weights[1] * Q)

    return summed


def test_derivatives_of_steps_from_tables_are_those_of_doubling() -> None:
    weights = jax.random.normal(jax.random.key(0), (2, 3, 3, len(STEPS)))
    ours, theirs = (
        jax.jit(jax.grad(total(way, weights), argnums=(0, 1, 2)))(*HALVED, STEPS)
        for way in (tabulated, doubled)
    )
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-11 * np.max(np.abs(other)))


def test_derivatives_of_steps_from_tables_are_those_of_differences() -> None:
    dt = jnp.asarray([0.01, 0.7, 3.4, 130.3, 300.8]) / RATE
    weights = jax.random.normal(jax.random.key(1), (2, 3, 3, len(dt)))
    function = jax.jit(total(tabulated, weights))
    check_grads(function, (*HALVED, dt), order=1, modes=["rev"], rtol=1e-5)


def test_tables_are_for_many_steps(monkeypatch) -> None:
    monkeypatch.setattr(_step_table, "_FEW", 4)
    used = []

    def noting(name):
        def way(F, diffusion, dt):
            used.append(name)
            return (jnp.zeros((3, 3, len(dt))),) * 2

        return way

    for name in ("_many", "doubled"):
        monkeypatch.setattr(_step_table, name, noting(name))
    many_steps(*EQUATION, STEPS[:4])
    many_steps(*EQUATION, STEPS[:5])
    assert used == ["doubled", "_many"]


def test_without_a_gradient_short_steps_need_no_tables(monkeypatch) -> None:
    """The mean decides, when the program runs; gradients are always those of tables."""
    monkeypatch.setattr(_step_table, "_FEW", 4)
    weights = jax.random.normal(jax.random.key(0), (2, 3, 3, len(STEPS)))
    matrices, slopes = (jax.jit(way) for way in (many_steps, jax.grad(total(many_steps, weights))))
    for dt, way in ((STEPS / 1e7, doubled), (STEPS, tabulated)):
        for one, other in zip(matrices(*EQUATION, dt), jax.jit(way)(*EQUATION, dt), strict=True):
            np.testing.assert_array_equal(one, other)
        expected = jax.jit(jax.grad(total(tabulated, weights)))(*HALVED, dt)
        np.testing.assert_allclose(slopes(*HALVED, dt), expected, rtol=1e-12)


def test_large_states_and_several_blocks_agree_too(monkeypatch) -> None:
    monkeypatch.setattr(_step_table, "_BLOCK", 8)
    kernel = sg.kernels.LatentExponentiallyGenerated(size=5)
    equation = (kernel.feedback(), kernel.diffusion())
    way = jax.jit(lambda dt: [*tabulated(*equation, dt), *doubled(*equation, dt)])
    A, Q, A_each, Q_each = way(STEPS)
    np.testing.assert_allclose(A, A_each, rtol=0, atol=1e-12)
    np.testing.assert_allclose(Q, Q_each, rtol=0, atol=1e-12)


def test_the_page_has_the_times_of_the_stored_run() -> None:
    docs = Path(__file__).parents[2] / "docs"
    rows = json.loads((docs / "tables-run.json").read_text())["results"]
    assert {(row["steps"], row["dim"]) for row in rows} == {
        (steps, dim) for steps in (10_000, 100_000) for dim in (3, 5, 8)
    }

    def between(what, means):
        ratios = [
            row["tabulated"][what] / row["doubled"][what] for row in rows if row["mean"] in means
        ]
        return f"between {min(ratios):.2f} and {max(ratios):.2f}"

    text = " ".join((docs / "kernels.md").read_text().split())
    assert f"it takes {between('gradient', (0.05, 2.0, 50.0))} of the CPU time" in text
    assert f"take {between('value', (0.05,))} of it with steps of mean 0.05" in text
    assert f"and {between('value', (2.0, 50.0))} with means of 2 and 50" in text
    assert f"longer than h/{1 / _step_table._LONG:g}." in text
