"""docs/likelihoods.md says what docs/classification-run.json holds."""

import json

import numpy as np
import pytest

from benchmarks import classification
from tests.pages import ROOT


@pytest.fixture(scope="module")
def stored():
    return json.loads(classification.STORED.read_text())


def test_the_page_has_the_stored_table(stored):
    page = (ROOT / "docs" / "likelihoods.md").read_text()
    assert classification.table(stored) in page
    assert stored["folds"] == 5
    assert "Five-fold cross-validation" in page


def test_the_run_is_of_the_data_and_classifiers_of_the_command(stored):
    assert list(stored["scores"]) == list(classification.data_sets())
    for scores in stored["scores"].values():
        assert list(scores) == list(classification.classifiers())
        for found in scores.values():
            assert len(found["accuracy"]) == len(found["log_loss"]) == stored["folds"]
            assert 0.5 < np.mean(found["accuracy"]) <= 1
            assert 0 < np.mean(found["log_loss"]) < np.log(3)


def test_errors_are_those_of_the_mean_of_folds():
    assert classification.with_error(np.array([1.0, 2.0, 3.0])) == "2.000 ± 0.577"
