"""What the pages say was measured is what the stored run says."""

import json
import re

import pytest

from benchmarks import figures
from tests.pages import ROOT

RUN = figures.load()
PAGES = sorted(figures.phrases(RUN))
UNIT = r"(?:ms|µs|ns|s|seconds?|minutes?|hours?|KB|MB|GB|times|×)(?![\w/])"
FIGURE = re.compile(rf"\d[\d.,]*(?:\s+to\s+\d[\d.,]*)?\s?{UNIT}")


@pytest.mark.parametrize("page", PAGES)
def test_figures_are_those_of_the_stored_run(page):
    text = (figures.DOCS / page).read_text()
    assert figures.written(page, text, RUN) == text, "python -m benchmarks.figures writes them"


@pytest.mark.parametrize("page", [*PAGES, "../README.md"])
def test_every_figure_with_a_unit_has_a_stored_run(page):
    text = (figures.DOCS / page).read_text()
    for table in figures.TABLES.get(page, []):
        text = text.replace(table(RUN), "")
    text = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    for phrase, _ in figures.phrases(RUN).get(page, []):
        text = figures.pattern(phrase).sub("", text)
    assert FIGURE.findall(text) == []


def test_a_figure_that_differs_is_written_anew():
    page = "coming-from.md"
    text = (figures.DOCS / page).read_text()
    stored = json.loads(figures.STORED.read_text())
    for result in stored["results"]:
        if result["who"] == "celerite2" and result["work"] == "exact":
            result["seconds"] = 0.0123
    fresh = figures.written(page, text, figures.Run(stored))
    assert "[12.3 ms against" in fresh
    assert "[12.3 ms against" not in text
    figure = re.compile(r"\[[\d.]+ ms against")
    assert figure.sub("", fresh) == figure.sub("", text)  # and nothing else


def test_a_phrase_that_has_gone_is_named():
    with pytest.raises(ValueError, match=r"bigdata.md has 'which takes .* 0 times, expected once"):
        figures.written("bigdata.md", "No figures here.", RUN)


def test_a_measurement_that_is_missing_is_named():
    with pytest.raises(KeyError, match="no 'elbo' of 'no case' by stategp"):
        RUN.one("elbo", "no case")


def test_the_stored_run_is_a_full_one():
    assert RUN.stored["quick"] is False
    assert figures.STORED.parent == ROOT / "docs"
