"""docs/forecasting.md says what docs/forecasts-run.json and docs/co2-run.json hold."""

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


def test_co2() -> None:
    page = " ".join((DOCS / "forecasting.md").read_text().split())
    run = json.loads((DOCS / "co2-run.json").read_text())["results"]
    inside, width = run["coverage of the 95 % interval"], run["mean width of it (ppm)"]
    assert f"root mean squared error is {run['RMSE (ppm)']:.1f} ppm" in page
    assert f"{100 * inside:.1f} % of the months lie inside" in page
    assert f"which is {width:.1f} ppm wide" in page
    folds = [f"{100 * share:.0f} %" for share in run["folds"]["coverage_95"]]
    assert f"finds {folds[0]}, {folds[1]} and {folds[2]} of the months" in page
