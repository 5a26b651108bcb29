"""Labels are those of the paper, and the study scores what it says."""

import numpy as np
import pytest

from stategp_experiments import classification
from stategp_experiments.classification import METHODS, Run


def test_labels_follow_the_truth():
    x, y = classification.simulate(0, 20_000)
    clear = np.abs(classification.truth(x)) > 0.3
    assert np.all(y[clear] == (classification.truth(x[clear]) > 0))
    x, y = classification.simulate(0, 20_000, "drawn")
    near = np.abs(x - 0.5) < 0.1
    expected = np.mean(1 / (1 + np.exp(-classification.truth(x[near]))))
    assert np.mean(y[near]) == pytest.approx(expected, abs=0.05)


def test_no_prediction_beats_the_entropy():
    """The score of the labels' own probabilities, by simulation."""
    x, y = classification.simulate(1, 200_000, "drawn")
    score = np.mean(np.log1p(np.exp(np.where(y > 0, -1, 1) * classification.truth(x))))
    assert classification.best_nlpd("drawn") == pytest.approx(score, abs=0.005)
    assert classification.best_nlpd("sign") < 0.1


def test_study_scores_methods_on_the_same_labels(capsys):
    methods = {name: METHODS[name] for name in ("S²VGP (M = 50)", "Laplace")}
    kept = []
    runs = classification.study(40, ["drawn"], 1, methods, kept.append)
    assert [run.method for run in runs] == list(methods)
    assert kept == [runs]
    assert all(0.3 < run.nlpd < 1.0 for run in runs)
    assert abs(runs[0].nlpd - runs[1].nlpd) < 0.05
    assert "labels drawn, data set 0" in capsys.readouterr().out


def test_table_has_the_papers_numbers():
    runs = [Run("sign", name, s, 0.1 + s, -9.0, 0.5, None) for name in METHODS for s in (0, 1)]
    text = classification.table(runs)
    assert "labels sign, 2 data sets" in text
    assert " 0.6000 ± 0.500" in text
    assert "0.587 ± 0.013   39.53 ± 0.06" in next(t for t in text.splitlines() if "VB" in t)
