"""The stored run of `benchmarks.processes`: however many, they found the same; the page says so."""

import json

import pytest

from benchmarks import processes
from benchmarks.blocks import block

if not processes.STORED.exists():
    pytest.skip("`python -m benchmarks.processes --store` writes it", allow_module_level=True)

RUN = json.loads(processes.STORED.read_text())


def test_the_page_has_the_table():
    assert block("scaling.md", "processes") == processes.page(RUN)


def test_all_found_the_same():
    runs = RUN["runs"]
    assert [(run["processes"], run["devices"]) for run in runs] == list(processes.CASES)
    for name in ("elbo", "lengthscale"):
        expected = [runs[0][name]] * len(runs)
        assert [run[name] for run in runs] == pytest.approx(expected, rel=1e-9)
    assert {run["rows"] for run in runs} == {RUN["rows"]}
