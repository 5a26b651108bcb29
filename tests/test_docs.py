"""The code in README and documentation runs as it stands, block after block."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_runs(page):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    names: dict = {}
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # what a user would see, not what our tests forbid
        for block in blocks:
            exec(compile(block, str(page), "exec"), names)
    if page.stem == "README":
        assert abs(names["mean"][0] - np.sin(50.0)) < 4 * np.sqrt(names["variance"][0])
        assert names["samples"].shape == (10, 500)
    if page.stem == "hyperparameter-uncertainty":
        assert 0.6 < np.mean(names["acceptance"]) <= 1
        low, high = np.quantile(names["lengthscales"], [0.05, 0.95])
        assert 1 < low < high < 10
        assert np.all(np.isfinite(names["predictions"]))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_and_pictures_exist(page):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    targets = re.findall(r"\]\((?!http)([^)#]+)", text)
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing
