"""docs/experiments.md says what docs/solar-locations-run.json holds."""

import json
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_learned_locations():
    page = " ".join((DOCS / "experiments.md").read_text().split())
    few, many = json.loads((DOCS / "solar-locations-run.json").read_text())["results"]
    assert (few["inducing"], many["inducing"]) == (60, 120)
    assert few["converged"]
    assert many["converged"]
    low, high = f"{-few['grid']:.1f}", f"{few['learned']:.1f}"
    assert f"60 of them raise the bound from −{low} to {high} nats" in page
    assert f"and 120 from {many['grid']:.1f} to {many['learned']:.1f}" in page
    noises = [f"{row[key]:.4f}" for row in (few, many) for key in ("noise_grid", "noise_learned")]
    assert "from {} to {} and from {} to {}".format(*noises) in page
    gaps = few["smallest_gap"], few["largest_gap"]
    assert "{:.1f} and {:.0f} years apart".format(*gaps) in page
