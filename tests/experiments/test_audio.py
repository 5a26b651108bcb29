"""The audio study on a simulated sound: its pieces, its table and its pictures."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

import stategp as sg
from stategp.data import Sound
from stategp_experiments import audio, baselines


@pytest.fixture(scope="module")
def sound():
    """A tone of 150 Hz and a little noise: 20 ms at 16 kHz."""
    rng = np.random.default_rng(0)
    x = np.arange(320) / 16000
    return Sound(x, np.sin(2 * np.pi * 150 * x) + 0.1 * rng.standard_normal(len(x)))


@pytest.fixture(scope="module")
def model():
    kernel = sg.kernels.Harmonic(weights=[0.9], frequency=150.0, lengthscale=0.02)
    return sg.GP(kernel, sg.likelihoods.Gaussian(variance=0.02))


@pytest.fixture(scope="module")
def cells(model, sound):
    return audio.study(model, sound, [6, 12])


def test_pitch_and_noise_come_from_the_spectrum():
    x = np.arange(6400) / 16000
    y = sum(np.cos(2 * np.pi * 147.0 * j * x) for j in range(1, 6))
    sound = Sound(x, y)
    assert abs(audio.pitch(sound) - 147) < 0.2
    np.testing.assert_allclose(audio.energy_beyond(sound, 4.5 * 147), 0.2, atol=1e-3)


def test_distances(cells, model, sound):
    """log p(y) − bound, with log p(y) from a dense GP."""
    evidence = float(baselines.exact(model, sound.x, sound.y, sound.x[:1])[0])
    found = {(cell.method, cell.inducing): cell for cell in cells}
    for count in (6, 12):
        bound, _ = baselines.collapsed(model, sound.x, sound.y, audio.grid(sound, count))
        np.testing.assert_allclose(found["SVGP", count].distance, evidence - bound, rtol=1e-6)
        states = sg.condition(model, sound.x, sound.y, inducing=audio.grid(sound, count))
        np.testing.assert_allclose(
            found["S²VGP", count].distance, evidence - states.elbo, rtol=1e-6
        )
        assert 0 < found["S²VGP", count].distance < found["SVGP", count].distance
    assert found["S²VGP", 12].distance < found["S²VGP", 6].distance


def test_what_is_counted(cells, model, sound):
    """The free numbers of each q, counted in the arrays that hold it."""
    states, values = (next(c for c in cells if c.method == m) for m in ("S²VGP", "SVGP"))
    posterior = sg.condition(model, sound.x, sound.y, inducing=audio.grid(sound, 6))
    xi = audio.as_mean_and_factor(posterior.marginals[0])
    factor = xi.precision_cholesky
    triangles = np.sum(np.tril(np.ones(factor.diagonal.shape)))
    assert states.variables == xi.mean.size == 12
    assert states.parameters == xi.mean.size + triangles + factor.lower.size
    assert (values.variables, values.parameters) == (6, 6 + 21)
    assert all(cell.seconds > 0 for cell in cells)


def test_the_gradient_that_is_timed_vanishes_at_the_best_q(model, sound):
    posterior = sg.condition(model, sound.x, sound.y, inducing=audio.grid(sound, 6))
    xi = audio.as_mean_and_factor(posterior.marginals[0])
    data = audio.observe(sound.x, sound.y, model.likelihood)
    bound, slope = audio.chain_bound_and_gradient(xi, model, data, posterior.relative_inducing)
    np.testing.assert_allclose(bound, posterior.elbo, rtol=1e-10)
    moved = xi.__class__(xi.mean + 0.1, xi.precision_cholesky)
    lower, steep = audio.chain_bound_and_gradient(moved, model, data, posterior.relative_inducing)
    assert lower < bound
    assert jnp.max(jnp.abs(slope.mean)) < 1e-6 * jnp.max(jnp.abs(steep.mean))


def test_a_missing_stretch_is_filled(model, sound):
    gap = audio.fill_gap(model, sound, missing=60, count=40)
    assert gap.missing.sum() == 60
    assert gap.numbers["N"] == 260
    assert gap.numbers["RMSE"] < 0.5 * gap.numbers["RMSE of zero"]
    assert gap.numbers["NLPD"] < gap.numbers["NLPD of zero"]
    inside = gap.variance[gap.missing]  # most uncertain far from both ends
    assert inside[20:40].max() > 2 * inside[[0, -1]].max()
    sd = gap.numbers["sd of f"]
    assert sd["middle"] == pytest.approx(np.sqrt(inside[24:36]).mean())
    assert sd["elsewhere"] < sd["first fifth"] < sd["middle"] > sd["last"]


def test_what_the_command_leaves(cells, model, sound, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sg.data, "vowel", lambda: Sound(np.arange(800) / 16000, np.ones(800)))
    monkeypatch.setattr(audio, "part", lambda whole, size: sound)
    monkeypatch.setattr(audio, "learn", lambda *anything: model)
    monkeypatch.setattr(audio, "study", lambda *anything: cells)
    audio.main(["--quick", "--output", str(tmp_path)])
    text = capsys.readouterr().out
    assert "predicting zero" in text
    assert text.count("S²VGP    1") == 4  # each cell comes twice, once for each J
    numbers = json.loads((tmp_path / "audio_quick.json").read_text())["results"]
    assert len(numbers["cells"]) == 8
    assert numbers["gap"]["M"] == 60
    for name in ("audio_quick", "audio_gap_quick"):
        for suffix in ("png", "pdf"):
            assert (tmp_path / f"{name}.{suffix}").stat().st_size > 10_000
