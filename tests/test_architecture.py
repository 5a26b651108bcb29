"""ARCHITECTURE.md is true: what it names exists, and modules import as its map says."""

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.pages import ROOT

PACKAGE = ROOT / "src" / "stategp"
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
ROWS = [line.split("|")[1:-1] for line in PAGE.splitlines() if re.match(r"\| `\w+/?`.*\|", line)]
MAP = [
    ([name.rstrip("/") for name in re.findall(r"`(\w+/?)`", modules)], holds)
    for modules, question, holds in ROWS
    if question.rstrip().endswith("?")
]
ORDER = [module for modules, _ in MAP for module in modules]
# The front door and the door of `python -m stategp` import what they offer.
DOORS = {"__init__", "__main__"}
# importer, imported: why it may look down the map. All such imports are inside functions.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("_posteriors", "_fitting"): "posterior.update(x, y) infers again, from where q stands",
    ("_posteriors", "plots"): "posterior.plot() and the like draw what people hold",
    ("_posteriors", "report"): "posterior.report(path) likewise",
}


class Import(NamedTuple):
    file: Path
    line: int
    inside: bool  # of a function, so that it is done when that is called
    names: tuple[str, ...]  # after `stategp`


def imports(file: Path, root: Path = PACKAGE) -> list[Import]:
    """Every import of stategp's own modules."""
    tree = ast.parse(file.read_text())
    nested = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    return [
        Import(file.relative_to(root), node.lineno, id(node) in nested, tuple(path.split(".")[1:]))
        for node in ast.walk(tree)
        for path in paths_of(node)
        if path.startswith("stategp.")
    ]


def paths_of(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


FILES = sorted(PACKAGE.rglob("*.py"))


def top(file: Path) -> str:
    return file.parts[0].removesuffix(".py")


def test_the_map_has_every_module_and_no_other():
    there = {top(file.relative_to(PACKAGE)) for file in FILES} - DOORS
    assert sorted(ORDER) == sorted(there)


@pytest.mark.parametrize("module", sorted({top(f.relative_to(PACKAGE)) for f in FILES} - DOORS))
def test_modules_import_from_above_only(module):
    files = [file for file in FILES if top(file.relative_to(PACKAGE)) == module]
    below = set(ORDER[ORDER.index(module) + 1 :])
    wrong = [
        each
        for file in files
        for each in imports(file)
        if each.names[0] in below and not (each.inside and (module, each.names[0]) in EXCEPTIONS)
    ]
    assert not wrong


def test_exceptions_are_needed():
    seen = {(top(each.file), each.names[0]) for file in FILES for each in imports(file)}
    assert set(EXCEPTIONS) <= seen
    assert all(ORDER.index(a) < ORDER.index(b) for a, b in EXCEPTIONS)


def test_no_package_reaches_into_another():
    wrong = [
        each
        for file in FILES
        for each in imports(file)
        if each.names[0] != top(each.file)
        and any(name.startswith("_") and not name.endswith("__") for name in each.names[1:])
    ]
    assert not wrong


def test_submodules_that_the_map_names_are_there():
    for modules, holds in MAP:
        for name in re.findall(r"`(_\w+)`", holds):
            places = [PACKAGE / module / name for module in modules]
            assert any(p.is_dir() or p.with_suffix(".py").exists() for p in places), name


def test_files_that_the_page_names_are_there():
    named = set(re.findall(r"`([\w/]+\.py|\w+/)`", PAGE))
    places = (PACKAGE, ROOT, ROOT / "experiments/stategp_experiments")
    missing = [name for name in named if not any((place / name).exists() for place in places)]
    assert not missing


def test_names_that_the_page_uses_are_in_the_code():
    words = {word for file in FILES for word in re.findall(r"\w+", file.read_text())}
    words |= {file.stem for file in FILES} | {file.parent.name for file in FILES}
    words |= {"stategp_experiments", "experiments", "stategp", "tests", "benchmarks", "docs"}
    codes = [code for code in re.findall(r"`([^`\n]+)`", PAGE) if not re.search(r"\.\w+$|/", code)]
    used = {word for code in codes for word in re.findall(r"[A-Za-z_]\w*", code)}
    assert used - words == set()


def test_the_tests_see_a_wrong_import(tmp_path):
    file = tmp_path / "kernels" / "_wrong.py"
    file.parent.mkdir()
    file.write_text(
        "import stategp.plots\nfrom stategp.chain import _sweep\n"
        "def later():\n    from stategp._fitting._settings import Settings\n"
    )
    assert [each[1:] for each in imports(file, tmp_path)] == [
        (1, False, ("plots",)),
        (2, False, ("chain", "_sweep")),
        (4, True, ("_fitting", "_settings", "Settings")),
    ]
