"""The methods that are timed have the same bound where they should; slopes are slopes."""

import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.image import imread

from stategp_experiments import baselines, complexity
from stategp_experiments.complexity import Point


def test_dense_vgp_is_exact_at_the_exact_posterior():
    model, x, y = complexity.problem(12, 2, harmonic=False)
    x, y = jnp.asarray(x), jnp.asarray(y)
    root = np.linalg.cholesky(np.asarray(model.kernel(x, x)) + 1e-10 * np.eye(12))
    precision = np.eye(12) + root.T @ root / 0.1  # of whitened f
    factor = np.linalg.cholesky(np.linalg.inv(precision))
    mean = np.linalg.solve(precision, root.T @ np.asarray(y) / 0.1)
    bound = complexity.vgp((jnp.asarray(mean), jnp.asarray(factor)), model, x, y)
    np.testing.assert_allclose(bound, baselines.exact(model, x, y, x[:1])[0], rtol=1e-8)


@pytest.mark.parametrize("summed", [False, True])
def test_all_methods_have_the_same_bound_at_the_prior(summed):
    """Inducing points play no part in the bound when q is the prior."""
    N = 4096 if summed else 20
    name = "S²VGP (summed up)" if summed else "S²VGP"
    others = ["SVGP"] if summed else ["SVGP", "VGP (dense)", "VGP (banded)"]
    bound = float(complexity.evaluation(name, N, 8, 2)[0]()[0])
    for other in others:
        np.testing.assert_allclose(complexity.evaluation(other, N, 8, 2)[0]()[0], bound, rtol=1e-7)


def test_exponents_table_and_picture(tmp_path):
    points = [Point("S²VGP", "N", n, 8, 2, 3e-6 * n**1.25, 800) for n in (16, 64, 256)]
    points += [Point("SVGP", "M", 64, m, 2, 1e-6 * m**2, 8 * m * m) for m in (8, 16, 32)]
    points += [Point("S²VGP", "d", 64, 8, d, 1e-6 * d**3, 8 * d * d) for d in (2, 4)]
    assert complexity.exponent(points[:3], "seconds") == pytest.approx(1.25)
    rows = complexity.table(points).splitlines()
    assert "1.25 (1)" in rows[5]
    assert "2.00 (2-3)" in rows[3]
    assert "2.00 (2)" in rows[3]
    assert "O(N³), O(N²)" in rows[2]
    complexity.picture(points, tmp_path / "complexity.png")
    assert imread(tmp_path / "complexity.png").shape[1] > 1000
    assert (tmp_path / "complexity.pdf").read_bytes().startswith(b"%PDF")
