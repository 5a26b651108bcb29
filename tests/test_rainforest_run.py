"""docs/space-time.md says what docs/rainforest-run.json holds."""

import json

import numpy as np

from tests.pages import ROOT

DOCS = ROOT / "docs"


def test_the_table_is_that_of_the_stored_run():
    run = json.loads((DOCS / "rainforest-run.json").read_text())
    page = (DOCS / "space-time.md").read_text()
    for found in run["results"]:
        scores = found.get("nlpd", [])
        assert found.get("folds", []) == list(range(len(scores)))
        assert found.get("converged", True)
        folds, nlpd = "–", "–"
        if scores:
            error = np.std(scores, ddof=1) / np.sqrt(len(scores))
            folds, nlpd = str(len(scores)), f"{np.mean(scores):.3f} ± {error:.3f}"
        grid = [f"{found['rows']} × {found['columns']}", str(found["places"]), found["q"]]
        seconds = f"{found['seconds per step']:.2f}" if "seconds per step" in found else "–"
        row = [*grid, folds, nlpd, seconds]
        assert f"| {' | '.join(row)} |" in page


def test_the_lengthscales_of_the_page_are_those_that_were_learned():
    run = json.loads((DOCS / "rainforest-run.json").read_text())
    page = " ".join((DOCS / "space-time.md").read_text().split())
    found = {
        (row["columns"], row["places"]): f"{row['lengthscale in space']:.0f} m"
        for row in run["results"]
        if row["rows"] == 200 and row["q"] == "joint" and "lengthscale in space" in row
    }
    assert f"with them is {found[50, 25]}, with a place in every column {found[50, 50]}" in page
    assert f"it is {found[100, 25]} with 25 places and {found[100, 50]} with 50" in page
    added = {tuple(grid[1:3]): one["commit"] for one in run["added"] for grid in one["grids"]}
    assert f"of commit {added[100, 50][:7]}" in page
