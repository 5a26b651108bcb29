"""docs/many.md says what docs/many-run.json holds."""

import json
from pathlib import Path

from benchmarks import many
from benchmarks.blocks import block

DOCS = Path(__file__).parents[1] / "docs"


def test_series_in_a_second():
    page = " ".join((DOCS / "many.md").read_text().split())
    run = json.loads((DOCS / "many-run.json").read_text())
    matern, seasons = run["matern32"], run["seasons"]
    peer = matern["AutoETS"]
    assert f"{matern['series']:,} series of {matern['length']} points" in page
    rate = matern["series"] / matern["seconds"]
    assert f"take {matern['seconds']:.1f} s ({rate:.0f} a second, one broken series" in page
    assert matern["failed"] == 1
    assert f"AutoETS fits {peer['series'] / peer['seconds']:.0f} a second" in page
    assert f"fits {seasons['series'] / seasons['seconds']:.0f} a second" in page
    assert f"with compilation, take {seasons['first']:.0f} s" in page


def test_weekly_series_of_m4():
    run = json.loads((DOCS / "many-run.json").read_text())
    expected = many.page(run["m4_weekly"]) if "m4_weekly" in run else ""
    assert block("many.md", "m4") == expected
