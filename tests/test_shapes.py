"""Few shapes, and compiled programs that are kept."""

import jax
import numpy as np
import pytest

import stategp as sg
from stategp._runtime._compilation import keep_compiled_programs
from stategp._runtime._shapes import pad_inducing, padded_blocks, padded_size


def test_sizes_are_few_and_never_too_small():
    sizes = [padded_size(n) for n in range(1, 5000)]
    assert all(size >= n for n, size in enumerate(sizes, start=1))
    assert len(set(sizes)) < 30
    assert all(n <= padded_blocks(n) <= 1.15 * n + 1 for n in range(1, 3000))
    large = np.unique(np.logspace(4.3, 8, 500).astype(int))
    assert all(n <= padded_size(int(n)) <= 1.13 * n for n in large)


def test_padding_repeats_the_last_location():
    padded = pad_inducing(np.array([0.0, 1.0, 4.0]))
    np.testing.assert_array_equal(padded[:3], [0, 1, 4])
    assert set(padded[3:]) == {4.0}


def test_many_points_are_predicted_as_few_are():
    x = np.linspace(0, 10, 30)
    posterior = sg.condition(sg.GP(sg.kernels.Matern32()), x, np.sin(x), inducing=7)
    at = np.random.default_rng(0).uniform(-5, 15, 20_000)  # more than one block, in no order
    mean, variance = posterior.predict_f(at)
    few_mean, few_variance = posterior.predict_f(at[-300:])
    np.testing.assert_allclose(mean[-300:], few_mean, atol=1e-13)
    np.testing.assert_allclose(variance[-300:], few_variance, atol=1e-13)


@pytest.fixture
def no_cache():
    before = jax.config.values.get("jax_compilation_cache_dir")
    jax.config.update("jax_compilation_cache_dir", None)
    yield
    jax.config.update("jax_compilation_cache_dir", before)


@pytest.mark.usefixtures("no_cache")
def test_the_cache_is_where_the_user_wants_it(tmp_path, monkeypatch):
    monkeypatch.setenv("STATEGP_CACHE", "off")
    assert keep_compiled_programs() is None
    monkeypatch.delenv("STATEGP_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert keep_compiled_programs() == tmp_path / "stategp"
    assert keep_compiled_programs() is None  # set already: not ours to change
    jax.config.update("jax_compilation_cache_dir", None)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STATEGP_CACHE", str(tmp_path / "file" / "below"))
    assert keep_compiled_programs() is None  # cannot be written to: compile anew
