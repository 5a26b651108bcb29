"""docs/deep.md says what docs/deep-optima-run.json holds, and what follows from it."""

import json
from pathlib import Path

import numpy as np
import pytest

from stategp_experiments import deep_optima

DOCS = Path(__file__).parents[2] / "docs"
ROWS = json.loads((DOCS / "deep-optima-run.json").read_text())["results"]["rows"]
NAMES = {
    "step": "two layers, a jump",
    "three layers": "three layers",
    "one function twice": "a function called twice",
    "counts": "two layers, Poisson",
}


@pytest.mark.parametrize("model", deep_optima.MODELS)
def test_natural_gradients_of_deep_models(model):
    rows = [row for row in ROWS if row["model"] == model]
    assert [row["seed"] for row in rows] == list(range(10))
    assert all(row["gained"] < row["noise"] for row in rows)
    gained, noise, ratio = (
        np.array([row[key] for row in rows]) for key in ("gained", "noise", "ratio")
    )
    line = (
        f"| {NAMES[model]} | {gained.mean():.3f}, {gained.max():.3f} | {noise.mean():.2f} "
        f"| {ratio[:, 0].min():.2f} to {ratio[:, 2].max():.2f} |"
    )
    assert line in (DOCS / "deep.md").read_text()
