"""docs/space-time.md says what docs/rainforest-run.json holds."""

import json

import numpy as np

from tests.pages import ROOT

DOCS = ROOT / "docs"


def test_the_table_is_that_of_the_stored_run():
    run = json.loads((DOCS / "rainforest-run.json").read_text())
    page = (DOCS / "space-time.md").read_text()
    for found in run["results"]:
        assert found["folds"] == 2
        row = [
            f"200 × {found['columns']}",
            str(found["places"]),
            found["q"],
            f"{np.mean(found['nlpd']):.3f}",
            f"{100 * found['explained']:.1f} %",
        ]
        assert f"| {' | '.join(row)} |" in page
