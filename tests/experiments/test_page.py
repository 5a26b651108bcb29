"""The tables of docs/experiments.md are those of the stored runs."""

import pytest

from stategp_experiments import page


def test_tables_are_those_of_the_stored_runs():
    text = page.PAGE.read_text()
    assert page.written(text) == text, "python -m stategp_experiments.page writes them"


def test_phrases_are_those_of_the_stored_runs():
    text = " ".join(page.PAGE.read_text().split())
    for phrase in page.phrases():
        assert phrase in text, phrase


def test_a_place_that_has_gone_is_named():
    with pytest.raises(ValueError, match=r"must have a place for the table '.*' once"):
        page.written("no tables here")


def test_the_median_comes_with_the_largest():
    assert page.typical([0.1, 0.2, 0.9]) == "0.200 (0.900)"


def test_adam_is_tabled_where_it_ends():
    row = {"method": "Adam", "start": 0.1, "noise": 0.5, "mse": 0.8, "nlpd": 1.25}
    rows = [row | {"steps": steps, "nlpd": steps / 100} for steps in (100, 1500, 400)]
    assert page.airline_starts(rows).splitlines()[-1] == (
        "| 0.1 | Adam | 1,500 | 0.500 | 0.800 | 15.000 |"
    )
