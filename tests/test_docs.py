"""The code in README and documentation runs as it stands, block after block.

Blocks of a page share their names and a folder. `python` is executed, `pycon` must give what it
shows, `console` runs the command `stategp`; `sh` and others are not run.
"""

import doctest
import re
import shlex
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import stategp as sg
from stategp._command import main
from tests.pages import ROOT, blocks

GUIDE = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
REFERENCE = sorted((ROOT / "docs" / "api").glob("*.md"))
NAMES = {page: str(page.relative_to(ROOT).with_suffix("")) for page in GUIDE + REFERENCE}


@pytest.mark.parametrize("page", GUIDE, ids=NAMES.get)
def test_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # what a user would see, not what our tests forbid
        for language, block in blocks(page):
            if language == "python":
                exec(compile(block, str(page), "exec"), names)
            elif language == "pycon":
                run_session(block, names)
            else:
                run_commands(block, monkeypatch)
    check(page.stem, names)


def run_session(block: str, names: dict) -> None:
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    test = doctest.DocTestParser().get_doctest(block, names, "session", None, 0)
    failed, _ = doctest.DocTestRunner(optionflags=flags).run(test, clear_globs=False)
    names.update(test.globs)
    assert not failed, "see the captured output"


def run_commands(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = re.findall(r"^\$ (stategp .*)$", block, flags=re.MULTILINE)
    assert commands, "a console block shows the command stategp"
    for command in commands:
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0, command


def check(page: str, names: dict) -> None:
    """What the words around the code promise."""
    if page == "README":
        assert abs(names["mean"][0] - np.sin(50.0)) < 4 * np.sqrt(names["variance"][0])
        assert names["samples"].shape == (10, 500)
    if page == "hyperparameter-uncertainty":
        assert 0.6 < np.mean(names["acceptance"]) <= 1
        low, high = np.quantile(names["lengthscales"], [0.05, 0.95])
        assert 1 < low < high < 10
        assert np.all(np.isfinite(names["predictions"]))
    if page == "quickstart":
        assert list(names["forecast"].columns) == ["ds", "mean", "lower_95", "upper_95"]
        assert len(names["forecast"]) == 30
        assert Path("next-month.csv").exists()
        assert np.allclose(names["probabilities"].sum(axis=1), 1)
        before, after = (p.predict_f([300.0])[0] for p in (names["posterior"], names["same"]))
        assert before == after
    if page == "growing":
        for posterior in (names["longer"], names["stream"]):
            assert abs(posterior.predict_f([121.0])[0][0] - names["mean"][0]) < 1e-6
        assert len(names["forecast"]) == 7
        assert names["forecast"]["ds"][0] == names["days"][-1] + names["pd"].Timedelta(days=1)
        assert len(sg.load("refined.stategp").posterior.data) == 140
        assert names["fitted"].fit_result.converged
    if page == "many":
        others = names["borrowed"][["north", "south"]]
        far = abs(np.log(names["alone"]["new"] / others.mean()))
        assert abs(np.log(names["borrowed"]["new"] / others.mean())) < far / 3
        assert len(names["forecast"]) == 3 * 14
    if page == "forecasting":
        assert {"trend", "pattern", "pattern_upper_95"} <= set(names["parts"].columns)
        assert list(names["flagged"].columns) == ["ds", "y", "probability", "outlier"]
        assert {"log_density", "crps", "rmse", "coverage_95", "converged"} <= set(names["scores"])
        effects = names["effects"].set_index("name")["effect"]
        assert round(effects["saturday"], -1) == -2050
        assert round(effects["New Year's Day"], -1) == -750
        assert len(names["ahead"]) == 14
        written = ("visits.png", "visits.html", "ahead.csv", "mine.png", "checks.svg", "mine.html")
        assert all(Path(name).stat().st_size > 1000 for name in written)


@pytest.mark.parametrize("page", GUIDE + REFERENCE, ids=NAMES.get)
def test_links_and_pictures_exist(page):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    targets = re.findall(r"\]\((?!http)([^)#]+)", text)
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert not missing


def test_the_reference_has_every_public_name():
    text = "\n".join(page.read_text() for page in REFERENCE)
    shown = set(re.findall(r"^::: (stategp\S*)", text, flags=re.MULTILINE))
    modules = ("kernels", "likelihoods", "means", "metrics", "priors")
    public = {f"stategp.{name}" for name in sg.__all__} - {f"stategp.{name}" for name in modules}
    public |= {f"stategp.{name}.{part}" for name in modules for part in getattr(sg, name).__all__}
    parts = {"chain", "data", "plots", "report", "spatial"}  # only some of it is for users
    public -= {f"stategp.{name}" for name in parts}
    public -= {"stategp.kernels.group_blocks", "stategp.kernels.outlines_of"}  # for the inside
    estimators = {"stategp.GPRegressor", "stategp.GPClassifier"}  # shown where they are defined
    assert public - estimators <= shown
