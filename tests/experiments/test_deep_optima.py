"""docs/deep.md says what docs/deep-*-run.json hold."""

import json
from pathlib import Path

import numpy as np
import pytest

from stategp_experiments import deep_noise, deep_optima

DOCS = Path(__file__).parents[2] / "docs"
ROWS = json.loads((DOCS / "deep-optima-run.json").read_text())["results"]["rows"]
NOISE = json.loads((DOCS / "deep-noise-run.json").read_text())["results"]
EXACT = json.loads((DOCS / "deep-optima-nodes-run.json").read_text())["results"]
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
    assert all(row["gained"] > 2 * row["error"] for row in rows)  # so the page says what is left
    gained, error, noise, ratio = (
        np.array([row[key] for row in rows]) for key in ("gained", "error", "noise", "ratio")
    )
    real = gained / error
    line = (
        f"| {NAMES[model]} | {gained.mean():.3f}, {gained.max():.3f} "
        f"| {error.min():.4f}, {error.max():.4f} | {real.min():.1f} to {real.max():.0f} "
        f"| {noise.mean():.2f} | {ratio[:, 0].min():.2f} to {ratio[:, 2].max():.2f} |"
    )
    assert line in (DOCS / "deep.md").read_text()


def test_the_steps_are_those_of_the_page():
    text = " ".join((DOCS / "deep.md").read_text().split())
    (few,) = {plan for name, (_, plan) in deep_optima.MODELS.items() if name != "three layers"}
    many = deep_optima.MODELS["three layers"][1]
    assert (
        f"(of size {few.size} for {few.constant:,} steps, then as 1/n until {few.steps:,}; for "
        f"three layers {many.size} for {many.constant:,} steps, until {many.steps:,})"
    ) in text
    assert f"by {deep_optima.GRADIENT:,} steps of Adam" in text


@pytest.mark.parametrize("model", deep_optima.MODELS)
def test_the_noise_of_natural_gradients(model):
    (row,) = (row for row in NOISE if row["model"] == model)
    ways = [f"{row[way]:.2g}" for way in deep_noise.DRAWS]
    last = f"{row['quadrature']:.1g} ({row['evaluations']})" if "quadrature" in row else "–"
    line = f"| {NAMES[model]} | {' | '.join(ways)} | {last} |"
    assert line in (DOCS / "deep.md").read_text()
    assert row["pairs that cover"] < row["pairs"] < row["independent"]


def test_natural_gradients_without_noise():
    text = (DOCS / "deep.md").read_text()
    plan = f"{deep_optima.STEPS:,} natural-gradient steps of size {deep_optima.SIZE}"
    assert plan in " ".join(text.split())
    for model in dict.fromkeys(row["model"] for row in EXACT):
        rows = [row for row in EXACT if row["model"] == model]
        few, many = ([row[f"gained {nodes}"] for row in rows] for nodes in deep_optima.NODES)
        rising = [row["rising"] for row in rows]
        line = (
            f"| {NAMES[model]} | {len(rows)} | {max(few):.0e} | {max(many):.0e} "
            f"| {max(rising):.0e} |"
        )
        assert line.replace("e-0", "e-") in text
