"""The measures of recovery, on a posterior that is the truth and on one that is off."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from stategp_experiments import time_warp


class Known:
    """A function that is known, and its uncertainty."""

    def __init__(self, function, deviation=0.01):
        self.function, self.deviation = function, deviation

    def predict_f(self, x):
        return self.function(x), np.full(len(x), self.deviation**2)

    def sample_f(self, seed, x, count):
        return np.tile(self.function(x), (count, 1))


class Truth:
    """What a perfect fit would give; `shift` is added to the shared function alone."""

    def __init__(self, shift=0.0):
        self.shift = shift
        self.model = SimpleNamespace(likelihood=SimpleNamespace(variance=0.05**2))
        self.functions = {
            "a": [Known(lambda t, i=i: time_warp.warps(t)[i]) for i in range(2)],
            "f": Known(lambda x: time_warp.shared(x) + shift),
            "g": [Known(lambda v, i=i: time_warp.distortions(v)[i]) for i in range(2)],
        }

    def predict_f(self, t, number):
        inner = time_warp.shared(time_warp.warps(t)[number])
        deviation = np.where(time_warp.missing(t, number), 0.03, 0.01)
        return time_warp.distortions(inner)[number], deviation**2

    def predict_y(self, t, number):
        mean, variance = self.predict_f(t, number)
        return mean, variance + 0.05**2

    def log_density(self, t, y, number):
        mean, variance = self.predict_y(t, number)
        return -((y - mean) ** 2 / variance + np.log(2 * np.pi * variance)) / 2


def test_series_have_the_papers_gaps_and_noise():
    series = time_warp.simulate(0, 0.05)
    t, y, gone = series[1]
    assert np.all((t[gone] > 0.4) & (t[gone] < 0.5))
    assert np.mean(gone) == pytest.approx(0.1, abs=0.03)
    residual = y - time_warp.shared(t**2)
    assert np.std(residual) == pytest.approx(0.05, rel=0.1)
    assert np.mean(series[0][2]) == pytest.approx(0.1, abs=0.03)


def test_the_second_series_is_let_in_to_its_end():
    ends = np.array(time_warp.windows(quick=False))
    assert ends[-1] >= 1
    assert np.all(np.diff(ends) > 0)
    assert np.max(np.diff(ends)) <= 0.05 + 1e-12


def test_the_truth_is_recovered_by_itself():
    assert max(time_warp.recovery(Truth()).values()) < 1e-12
    claims = time_warp.claims(Truth())
    assert claims["sd inside / outside"] == pytest.approx(3)
    assert claims["sd of the warps"] == pytest.approx(0.01)
    assert claims["dampening"] == pytest.approx(claims["true dampening"])
    score = time_warp.score(Truth(), time_warp.simulate(0, 0.05))
    assert score["rmse"] == pytest.approx(0.05, rel=0.1)
    variance = 0.05**2 + 0.03**2  # predicted where data are missing; the noise is the first
    expected = -(0.05**2 / variance + np.log(2 * np.pi * variance)) / 2
    assert score["log density"] == pytest.approx(expected, abs=0.1)
    assert len(score["rmse of each"]) == 2


def test_a_shift_of_the_shared_function_is_its_distance():
    found = time_warp.recovery(Truth(shift=0.2))
    assert found["f"] == pytest.approx(0.2)
    assert max(found[name] for name in ("a1", "a2", "g1", "g2")) < 1e-12


def test_run_writes_rows_table_and_pictures_and_resumes(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(time_warp, "fit_deep", lambda series, quick: Truth())
    monkeypatch.setattr(time_warp, "fit_plain", lambda series, quick: Truth(shift=0.1))
    time_warp.main(["--quick", "--output", str(tmp_path)])
    rows = json.loads((tmp_path / "time_warp_quick.json").read_text())["results"]
    assert [(row["noise"], row["seed"]) for row in rows] == [(0.05, 0)]
    assert (tmp_path / "time_warp_0.05_quick.png").stat().st_size > 50_000
    assert (tmp_path / "time_warp_0.05_quick.pdf").exists()
    assert "the paper (figures, no numbers)" in capsys.readouterr().out
    monkeypatch.setattr(time_warp, "one", None)  # nothing is left to compute
    time_warp.main(["--quick", "--resume", "--output", str(tmp_path)])
    assert capsys.readouterr().out.count("(0.30)") == 1
