"""The measures of recovery, on a posterior that is the truth and on one that is off."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from stategp.parameters import to_vector
from stategp_experiments import (
    time_warp,
    time_warp_run,
    time_warp_schedules,
    time_warp_scores,
    time_warp_truth,
)


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
        self.elbo = 0.0
        self.functions = {
            "a": [Known(lambda t, i=i: time_warp_truth.warps(t)[i]) for i in range(2)],
            "f": Known(lambda x: time_warp_truth.shared(x) + shift),
            "g": [Known(lambda v, i=i: time_warp_truth.distortions(v)[i]) for i in range(2)],
        }

    def predict_f(self, t, number):
        inner = time_warp_truth.shared(time_warp_truth.warps(t)[number])
        deviation = np.where(time_warp_truth.missing(t, number), 0.03, 0.01)
        return time_warp_truth.distortions(inner)[number], deviation**2

    def predict_y(self, t, number):
        mean, variance = self.predict_f(t, number)
        return mean, variance + 0.05**2

    def log_density(self, t, y, number):
        mean, variance = self.predict_y(t, number)
        return -((y - mean) ** 2 / variance + np.log(2 * np.pi * variance)) / 2


def test_series_have_the_papers_gaps_and_noise():
    series = time_warp_truth.simulate(0, 0.05)
    t, y, gone = series[1]
    assert np.all((t[gone] > 0.4) & (t[gone] < 0.5))
    assert np.mean(gone) == pytest.approx(0.1, abs=0.03)
    residual = y - time_warp_truth.shared(t**2)
    assert np.std(residual) == pytest.approx(0.05, rel=0.1)
    assert np.mean(series[0][2]) == pytest.approx(0.1, abs=0.03)


def test_the_second_series_is_let_in_to_its_end():
    ends = np.array(time_warp_schedules.windows(quick=False))
    assert ends[-1] >= 1
    assert np.all(np.diff(ends) > 0)
    assert np.max(np.diff(ends)) <= 0.05 + 1e-12


def test_the_truth_is_recovered_by_itself():
    assert max(time_warp_scores.recovery(Truth()).values()) < 1e-12
    claims = time_warp_scores.claims(Truth())
    assert claims["sd inside / outside"] == pytest.approx(3)
    assert claims["sd of the warps"] == pytest.approx(0.01)
    assert claims["dampening"] == pytest.approx(claims["true dampening"])
    score = time_warp_scores.score(Truth(), time_warp_truth.simulate(0, 0.05))
    assert score["rmse"] == pytest.approx(0.05, rel=0.1)
    variance = 0.05**2 + 0.03**2  # predicted where data are missing; the noise is the first
    expected = -(0.05**2 / variance + np.log(2 * np.pi * variance)) / 2
    assert score["log density"] == pytest.approx(expected, abs=0.1)
    assert len(score["rmse of each"]) == 2


def test_a_shift_of_the_shared_function_is_its_distance():
    found = time_warp_scores.recovery(Truth(shift=0.2))
    assert found["f"] == pytest.approx(0.2)
    assert max(found[name] for name in ("a1", "a2", "g1", "g2")) < 1e-12


def test_doing_nothing_is_exact_where_the_truth_is_the_identity():
    nothing = time_warp_scores.doing_nothing()
    assert nothing["a1"] == nothing["g2"] == 0
    # the mean of (t − t²)² over [0, 1] is 1/30; the ends are left out
    assert nothing["a2"] == pytest.approx(30**-0.5, rel=0.05)
    assert nothing["f"] == pytest.approx(
        np.std(time_warp_truth.shared(np.linspace(0, 1, 999))), rel=0.05
    )
    assert 0.05 < nothing["g1"] < 0.1


def test_the_papers_model_learns_everything():
    model = time_warp_schedules.papers_model()
    # variance, lengthscale, slope and intercept of five functions, and the noise
    assert len(to_vector(model)) == 5 * 4 + 1
    assert float(model.layer(("a", 0)).kernel.variance) == pytest.approx(0.01)
    assert float(model.layer(("a", 1)).kernel.lengthscale) == pytest.approx(4)
    assert [model.layer((name, i)).count for name, i in (("a", 0), ("f", None), ("g", 1))] == [
        50,
        100,
        50,
    ]
    held = time_warp_schedules.held_model()
    assert len(to_vector(held)) == 3  # variance, lengthscale and level of f
    # and everything once released
    assert len(to_vector(time_warp_schedules.released(held))) == 4 * 4 + 3 + 1


@pytest.fixture
def quick_fits(monkeypatch):
    monkeypatch.setitem(time_warp_run.SCHEDULES, "staged", lambda series, quick: Truth())
    monkeypatch.setattr(time_warp_run, "fit_plain", lambda series, quick: Truth(shift=0.1))


def test_run_writes_rows_table_and_pictures_and_resumes(tmp_path, quick_fits, monkeypatch, capsys):
    time_warp.main(["--quick", "--output", str(tmp_path)])
    rows = json.loads((tmp_path / "time_warp_quick.json").read_text())["results"]
    assert [row["schedule"] for row in rows] == ["staged", "no-warps"]
    assert (tmp_path / "time_warp_0.05_quick.png").stat().st_size > 50_000
    assert (tmp_path / "time_warp_0.05_quick.pdf").exists()
    assert "the paper (figures, no numbers)" in capsys.readouterr().out
    monkeypatch.setattr(time_warp, "one", None)  # nothing is left to compute
    time_warp.main(["--quick", "--resume", "--output", str(tmp_path)])
    assert capsys.readouterr().out.count("(0.30)") == 1


def test_single_runs_are_collected_without_their_curves(tmp_path, quick_fits, monkeypatch, capsys):
    monkeypatch.setattr(time_warp, "draw", lambda rows, noise, path: None)
    options = ["--noise", "0.1", "--seed", "0", "--schedule", "staged", "--quick"]
    file = str(tmp_path / "runs" / "one.json")
    monkeypatch.setattr("sys.argv", ["time_warp_run", *options, "--out", file])
    time_warp_run.main()
    time_warp.main(["--from", str(tmp_path / "runs"), "--output", str(tmp_path)])
    (row,) = json.loads((tmp_path / "time_warp.json").read_text())["results"]
    assert row["noise"] == 0.1
    assert "curves" not in row
    assert max(row["distance"].values()) < 1e-12
