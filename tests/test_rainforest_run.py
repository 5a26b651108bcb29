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
