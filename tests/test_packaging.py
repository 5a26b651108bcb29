"""What pyproject.toml promises about versions is what `make lower-bounds` tries."""

import itertools
import os
import re
import shutil
import tomllib

import pytest

import tests.check_lower_bounds as lower
from stategp import _native
from tests.pages import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
PINS = dict(re.findall(r"^([\w-]+)==([\w.]+)$", lower.VERSIONS.read_text(), flags=re.MULTILINE))


def bounds(requirements):
    found = [re.fullmatch(r"([\w-]+)>=([\w.]+)", each) for each in requirements]
    return {match[1]: match[2] for match in found if match}


def test_what_is_tried_is_the_lowest_that_is_allowed():
    for_users = ("plot", "data", "frames", "forecast", "sklearn", "parallel", "cli")
    asked = bounds(PROJECT["dependencies"])
    for extra in for_users:
        asked |= bounds(EXTRAS[extra])
    frames = {name: bounds(EXTRAS["dev"])[name] for name in ("pandas", "polars")}
    assert (asked | frames | {"jaxlib": asked["jax"]}).items() == PINS.items()


def test_every_dependency_has_a_lower_bound():
    for requirement in [*PROJECT["dependencies"], *itertools.chain(*EXTRAS.values())]:
        assert ">=" in requirement or requirement.startswith("stategp["), requirement


def test_tests_are_named_for_every_library():
    named = {name for libraries in lower.TESTS for name in libraries.split(", ")}
    assert named | {"jaxlib"} == set(PINS)


@pytest.mark.skipif(
    not (shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")),
    reason="no C++ compiler here",
)
@pytest.mark.skipif("STATEGP_NATIVE" in os.environ, reason="somebody decides otherwise")
def test_kernels_are_built_and_load_where_there_is_a_compiler():
    """Installing goes on without them, and their own tests skip: nobody else would notice."""
    assert _native.problem() in ("", "built for a newer processor than this one")
