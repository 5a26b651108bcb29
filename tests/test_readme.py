"""The README's example runs as it stands."""

import re
from pathlib import Path

import numpy as np

README = Path(__file__).parents[1] / "README.md"


def test_the_example_runs_and_is_right(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    names: dict[str, object] = {}
    exec(compile(example, "README.md", "exec"), names)
    assert "converged" in capsys.readouterr().out
    mean, variance = names["mean"], names["variance"]
    assert abs(mean[0] - np.sin(50.0)) < 4 * np.sqrt(variance[0])
    assert names["samples"].shape == (10, 500)
