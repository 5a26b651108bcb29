"""docs/many.md says what docs/many-run.json holds."""

import json
from pathlib import Path

from benchmarks import many
from benchmarks.blocks import block

DOCS = Path(__file__).parents[1] / "docs"


def test_series_in_a_second():
    run = json.loads((DOCS / "many-run.json").read_text())
    assert block("many.md", "speeds") == many.speeds(run)
    assert run["matern32"]["failed"] == 1  # the broken one
    assert run["matern32"]["series"] == 5000
    for kernel, fewest in (("matern32", 100), ("seasons", 10)):  # a second
        assert run[kernel]["series"] / run[kernel]["seconds"] >= fewest


def test_weekly_series_of_m4():
    run = json.loads((DOCS / "many-run.json").read_text())
    expected = many.page(run["m4_weekly"]) if "m4_weekly" in run else ""
    assert block("many.md", "m4") == expected
