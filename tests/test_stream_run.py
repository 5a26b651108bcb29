"""docs/scaling.md says what docs/stream-run.json holds."""

import json
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def test_a_hundred_million_rows():
    page = " ".join((DOCS / "scaling.md").read_text().split())
    few, many = json.loads((DOCS / "stream-run.json").read_text())["runs"]
    assert [run["rows"] for run in (*few, *many)] == [10**7, 10**7, 10**8, 10**8]
    seconds = [f"{run['seconds']:.1f} s" for run in many]
    peaks = [f"{run['peak_bytes'] / 1e6:.0f}" for run in (*many, *few)]
    sizes = [f"{run['summary_bytes'] / 1e6:.1f}" for run in many]
    assert f"from files of {many[0]['file_bytes'] / 1e9:.1f} GB, 100 million rows" in page
    assert f"take {seconds[0]} with Gaussian observations and {seconds[1]} with counts" in page
    assert "memory is {} and {} MB ({} and {} MB".format(*peaks) in page
    assert "a summary has {} and {} MB".format(*sizes) in page
    for before, after in zip(few, many, strict=True):
        assert abs(after["peak_bytes"] / before["peak_bytes"] - 1) < 0.1
