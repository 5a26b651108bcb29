"""The solar study on simulated data: its pieces, its table and its picture."""

import json

import numpy as np
import pytest
from scipy import integrate, stats

import stategp as sg
from stategp.data import Solar
from stategp_experiments import solar


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = np.arange(1900.5, 1940)
    y = np.sin(x / 2) + 0.1 * rng.standard_normal(len(x))
    removed = (x > 1915) & (x < 1920)
    return Solar(x[~removed], y[~removed], x[removed], y[removed])


@pytest.fixture(scope="module")
def runs(data):
    one = solar.starts(data)[:1]  # half the compiling
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solar, "starts", lambda data, kernel: one)
        return solar.study(data, [12, 40])


def test_distances(runs):
    """More inducing points are nearer to the exact GP; states are nearer than values."""
    exact, *others = runs
    assert (exact.loss, exact.marginal_kl, exact.mean_distance) == (0, 0, 0)
    found = {(run.method, run.inducing): run for run in others}
    assert list(found) == [("S²VGP", 12), ("SVGP", 12), ("S²VGP", 40), ("SVGP", 40)]
    for run in others:
        assert run.bound < exact.bound + 1e-6
        assert run.loss > -1e-6
    for field in ("loss", "marginal_kl", "mean_distance"):
        few, many = (getattr(found["S²VGP", count], field) for count in (12, 40))
        assert many < few
    assert found["S²VGP", 12].bound > found["SVGP", 12].bound
    assert found["S²VGP", 40].mean_distance < 1e-3  # a state at every observation


def test_densities():
    """The KL of two Gaussians against quadrature, the log density against SciPy."""
    q, p = stats.norm(0.3, 0.5), stats.norm(-0.2, 0.8)
    area, _ = integrate.quad(lambda f: q.pdf(f) * (q.logpdf(f) - p.logpdf(f)), -6, 6)
    np.testing.assert_allclose(solar.gaussian_kl(0.3, 0.25, -0.2, 0.64), area, rtol=1e-8)
    np.testing.assert_allclose(solar.log_normal(1.0, 0.3, 0.25), q.logpdf(1.0))


def test_what_the_command_leaves(data, runs, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sg.data, "solar", lambda: data)
    renamed = [run._replace(inducing=60) if run.inducing == 40 else run for run in runs]
    monkeypatch.setattr(solar, "study", lambda *given: renamed[: 5 if len(given) == 2 else 3])
    solar.main(["--quick", "--output", str(tmp_path)])
    text = capsys.readouterr().out
    assert "extremely similar to exact" in text
    assert "dense twin" in text
    numbers = json.loads((tmp_path / "solar_quick.json").read_text())["results"]
    assert [row["method"] for row in numbers] == [
        *("exact", "S²VGP", "SVGP", "S²VGP", "SVGP"),
        *("exact", "S²VGP", "SVGP"),  # of the other kernel
    ]
    assert numbers[1]["marginal_kl"] > 0
    for suffix in ("png", "pdf"):
        assert (tmp_path / f"solar_quick.{suffix}").stat().st_size > 10_000
