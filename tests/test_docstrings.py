"""The examples in the docstrings of every module run and give what they show."""

import doctest
import importlib
import pkgutil

import pytest

import stategp

MODULES = ["stategp", *(m.name for m in pkgutil.walk_packages(stategp.__path__, "stategp."))]

NEEDS = {"stategp.sktime": "sktime"}  # libraries that are not part of the development environment


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert failed == 0, "see the captured output"


def test_there_are_examples_to_run() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    kernels = [n for n in MODULES if n.startswith("stategp.kernels.")]
    found = [test for n in kernels for test in finder.find(importlib.import_module(n))]
    assert sum(bool(test.examples) for test in found) >= 10
