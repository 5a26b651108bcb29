"""The study of trees in a rainforest, on a few of them."""

import json

import numpy as np

from stategp_experiments import rainforest


def test_a_small_forest(tmp_path, monkeypatch, capsys):
    trees = np.random.default_rng(0).uniform([0, 0], [1000, 500], size=(200, 2))
    (tmp_path / "rainforest").mkdir()
    np.savetxt(tmp_path / "rainforest" / "TRI2TU-data.csv", trees, delimiter=",")
    monkeypatch.setenv("STATEGP_DATA", str(tmp_path))
    rainforest.main(["--quick", "--output", str(tmp_path / "out")])
    assert "seconds per step" in capsys.readouterr().out
    (found,) = json.loads((tmp_path / "out" / "rainforest.json").read_text())["results"]
    assert (found["rows"], found["columns"], found["places"], found["folds"]) == (12, 5, 3, 1)
    assert 1 < found["nlpd"][0] < 4  # counts of three or four trees
    assert (tmp_path / "out" / "rainforest-5.png").exists()
