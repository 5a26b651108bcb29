"""The table of docs/forecasting.md says what docs/forecasts-run.json holds."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).parents[2] / "docs"
RUN = json.loads((DOCS / "forecasts-run.json").read_text())
METHODS = [
    "stategp", "AutoARIMA", "AutoETS", "DynamicOptimizedTheta", "MSTL", "SeasonalNaive", "Prophet",
]  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_forecasts_against_other_libraries(method) -> None:
    page = (DOCS / "forecasting.md").read_text()
    (row,) = re.findall(rf"^\| {method} \| (.*) \|$", page, flags=re.M)
    for group, cell in zip(("hourly", "weekly", "monthly"), row.split(" | "), strict=True):
        results = RUN["groups"][group]["results"]
        found = [r for r in results if r["method"] == method and "mase" in r]
        if cell == "–":
            assert not found
            continue
        mase, inside, msis, seconds = cell.split(", ")
        mean = {name: np.mean([r[name] for r in found]) for name in ("mase", "coverage", "msis")}
        assert mase == f"{mean['mase']:.2f}"
        assert inside == f"{100 * mean['coverage']:.1f} %"
        assert msis == f"{mean['msis']:.1f}"
        assert seconds == f"{np.median([r['seconds'] for r in found]):.2g} s"
