"""The study of trees in a rainforest, on a few of them."""

import json

import numpy as np
import pytest

from stategp_experiments import rainforest, rainforest_run


def test_a_small_forest(tmp_path, monkeypatch, capsys):
    trees = np.random.default_rng(0).uniform([0, 0], [1000, 500], size=(200, 2))
    (tmp_path / "rainforest").mkdir()
    np.savetxt(tmp_path / "rainforest" / "TRI2TU-data.csv", trees, delimiter=",")
    monkeypatch.setenv("STATEGP_DATA", str(tmp_path))
    rainforest.main(["--quick", "--output", str(tmp_path / "out")])
    assert "seconds per step" in capsys.readouterr().out
    (found,) = json.loads((tmp_path / "out" / "rainforest.json").read_text())["results"]
    assert (found["rows"], found["columns"], found["places"], found["folds"]) == (12, 5, 3, [0])
    assert 1 < found["nlpd"][0] < 4  # counts of three or four trees
    assert found["seconds per step"] > 0
    assert (tmp_path / "out" / "rainforest-12x5.png").exists()

    single = ["--rows", "12", "--columns", "5", "--places", "3", "--fold", "0"]
    rainforest_run.main([*single, "--out", str(tmp_path / "runs" / "0.json")])
    rainforest.main(["--from", str(tmp_path / "runs"), "--output", str(tmp_path / "collected")])
    (again,) = json.loads((tmp_path / "collected" / "rainforest.json").read_text())["results"]
    assert again["nlpd"] == pytest.approx(found["nlpd"], rel=1e-9)


def test_folds_of_single_runs_become_one_row():
    grid = {"rows": 200, "columns": 20, "places": 20}
    learned = {
        "explained": 0.9, "lengthscale in space": 1.0, "lengthscale in time": 2.0, "variance": 3.0,
        "converged": True,
    }  # fmt: skip
    runs = [
        grid | learned | {"q": "product", "fold": 1, "nlpd": 4.0},
        grid | {"q": "joint", "seconds per step": 0.5},
        grid | learned | {"q": "product", "fold": 0, "nlpd": 2.0, "variance": 5.0},
    ]
    joint, product = rainforest.gathered(runs)
    assert joint["seconds per step"] == 0.5
    assert "nlpd" not in joint
    assert product["nlpd"] == [2.0, 4.0]
    assert product["variance"] == 4.0
    assert rainforest.mean_and_error(product["nlpd"]) == (3.0, 1.0)


def test_results_are_added_to_the_stored_ones(tmp_path):
    learned = dict.fromkeys(rainforest.LEARNED, 1.0) | {"converged": True}
    grid = {"rows": 200, "columns": 20, "places": 20, "q": "joint"}
    stored = [grid | learned | {"folds": [0, 2], "nlpd": [1.0, 3.0], "seconds per step": 9.0}]
    found = [
        grid | learned | {"folds": [1], "nlpd": [2.0], "variance": 4.0},
        grid | {"q": "product", "seconds per step": 0.5},
    ]
    (tmp_path / "rainforest-run.json").write_text(json.dumps({"results": stored}))
    (tmp_path / "space-time.md").write_text(f"Trees\n\n{rainforest.table(stored)}\n\nend")
    rainforest.store(found, {"date": "today"}, tmp_path)
    run = json.loads((tmp_path / "rainforest-run.json").read_text())
    first, second = run["results"]
    assert (first["folds"], first["nlpd"], first["variance"]) == ([0, 1, 2], [1.0, 2.0, 3.0], 2.0)
    assert first["seconds per step"] == 9.0
    assert second["seconds per step"] == 0.5
    assert run["added"][0]["grids"][1] == [200, 20, 20, "product"]
    page = (tmp_path / "space-time.md").read_text()
    assert "| 200 × 20 | 20 | joint | 3 | 2.000 ± 0.577 | 9.00 |" in page
    assert "| 200 × 20 | 20 | product | – | – | 0.50 |" in page
    with pytest.raises(ValueError, match="stored already"):
        rainforest.merged(run["results"], found)
