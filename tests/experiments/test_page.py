"""The figures of docs/experiments.md are those of the stored runs."""

import json
import re

import pytest

from stategp_experiments import natural_gradients, page, page_airline, page_parts, page_time_warp


def test_figures_are_those_of_the_stored_runs():
    for file, written in ((page.PAGE, page.written), (page.ADDITIVE, page.with_airline)):
        text = file.read_text()
        assert written(text) == text, "python -m stategp_experiments.page writes them"


UNIT = r"(?:ms|s|seconds?|nats|times|parameters|variables|Hz|%)(?!\w)"
SETTINGS = (  # figures that no run has found: what was given to it
    "up to 256 variables and roughly",
    "with the paper's rate of 0.01",
    "rates of 0.01, minibatches",
    "variance 0.01 and lengthscale 4",
    "a rate of 0.001, Adam with one that starts at 0.001",
    "lengthscale 0.1, the distortions at 1 and 1, the noise variance at 0.01",
    "with the noise held at 0.2",
    "both series, noise 0.05",
    "both series, noise 0.1",
    "Time warp: σ = 0.1 has",
    "At σ = 0.1 the functions are found as well as at 0.05",
    "four rates (0.01, 0.03, 0.1, 0.3)",
    "6 sin(πx)/(πx + 1) + 0.05 ε",
)


def test_every_other_figure_is_a_setting():
    """With a decimal point or a unit, and neither in a table nor in a sentence with figures."""
    text = re.sub(r"<!-- [\w-]+ -->\n\n.*?\n\n<!-- end -->", "", page.PAGE.read_text(), flags=re.S)
    for sentence in [sentence for sentence, _ in page.sentences()] + list(SETTINGS):
        text, found = page_parts.pattern(sentence).subn("", text)
        assert found == 1, sentence
    text = re.sub(r"`[^`]*`|\(images/.*?\)", "", text)
    assert re.findall(rf"\d[\d,]*\.\d+|\d[\d.,]*\s{UNIT}", text) == []


def test_a_place_that_has_gone_is_named():
    with pytest.raises(ValueError, match=r"must have a place for the table '.*' once"):
        page.written("no tables here")


def test_figures_are_written_wherever_lines_break():
    text = "It is 1,234.5 nats\nagainst −7, and 3e-12."
    found = page_parts.with_figures(text, "{} nats against {}, and {}.", ["1", "2.5", "0"])
    assert found == "It is 1 nats\nagainst 2.5, and 0."
    with pytest.raises(ValueError, match=r"'in \{\} steps' 0 times, expected once"):
        page_parts.with_figures(text, "in {} steps", ["1"])


def test_words_that_no_longer_hold_are_named():
    page_parts.said(True, "all is well")
    with pytest.raises(ValueError, match="the page says that all is well"):
        page_parts.said(False, "all is well")


def test_the_median_comes_with_the_largest():
    assert page_time_warp.typical([0.1, 0.2, 0.9]) == "0.200 (0.900)"


def test_adam_is_tabled_where_it_ends():
    row = {"method": "Adam", "start": 0.1, "noise": 0.5, "mse": 0.8, "nlpd": 1.25}
    rows = [row | {"steps": steps, "nlpd": steps / 100} for steps in (100, 1500, 400)]
    assert page_airline.airline_starts(rows).splitlines()[-1] == (
        "| 0.1 | Adam | 1,500 | 0.500 | 0.800 | 15.000 |"
    )


def test_results_are_stored_with_their_pictures(tmp_path, monkeypatch):
    docs, results = tmp_path / "docs", tmp_path / "results"
    (docs / "images").mkdir(parents=True)
    results.mkdir()
    monkeypatch.setattr(page, "DOCS", docs)
    run = {"likelihood": "Gaussian", "method": "L-BFGS", "seed": 0}
    run |= {"below": [9.0, 0.5, 0.05], "seconds": [0.0, 1.0, 2.0]}
    whole = {"processor": "a", "results": [run]}
    (results / "natural_gradients.json").write_text(json.dumps(whole))
    (results / "natural_gradients.png").write_bytes(b"picture")
    page.store(results)
    (row,) = json.loads((docs / "natural-gradients-run.json").read_text())["results"]
    short = natural_gradients.Short(**row)
    assert (short.after(1), short.after(100), short.near()) == (0.5, 0.05, 2.0)
    assert [file.name for file in (docs / "images").iterdir()] == ["natural_gradients.png"]
