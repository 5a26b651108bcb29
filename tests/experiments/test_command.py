"""The command `stategp-experiments`, and what all studies share."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import stategp
import stategp_experiments
from stategp_experiments import __main__ as command
from stategp_experiments import studies

ROOT = Path(__file__).parents[2]
HERE = Path(stategp_experiments.__file__).parent
SHARED = {"__init__", "__main__", "studies", "folds", "baselines", "fourier", "page"}
PARTS = {
    "airline_data",
    "airline_methods",
    "airline_run",
    "airline_starts",
    "page_airline",
    "page_appendix",
    "page_parts",
    "page_studies",
    "page_time_warp",
    "rainforest_run",
    "time_warp_run",
    "time_warp_schedules",
    "time_warp_scores",
    "time_warp_truth",
}


def run(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["stategp-experiments", *arguments])
    command.main()


def test_every_study_is_listed_with_its_title(monkeypatch, capsys):
    run(monkeypatch)
    listed = capsys.readouterr().out
    names = {file.stem for file in HERE.glob("*.py")} - SHARED - PARTS
    assert names == {name.replace("-", "_") for name in [*command.PAPER, *command.OTHERS]}
    for name in [*command.PAPER, *command.OTHERS]:
        assert f"  {name} " in listed
        assert command._title(name)
        assert f"stategp-experiments {name}" in (HERE / f"{name.replace('-', '_')}.py").read_text()


@pytest.mark.parametrize("name", [*command.PAPER, *command.OTHERS])
def test_every_study_says_what_it_takes_and_refuses_the_rest(name, monkeypatch, capsys):
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, name, "--help")
    assert ended.value.code == 0
    helped = capsys.readouterr().out
    assert f"usage: stategp-experiments {name}" in helped
    assert "--quick  " in helped or name not in command.PAPER
    with pytest.raises(SystemExit) as ended:
        run(monkeypatch, name, "--no-such-option")
    assert ended.value.code == 2


def test_an_unknown_study_is_named(monkeypatch):
    with pytest.raises(SystemExit, match="no experiment 'sola'"):
        run(monkeypatch, "sola")


def test_missing_data_are_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr("stategp_experiments.solar.main", missing)
    with pytest.raises(SystemExit, match=r"stategp-experiments: no such file$"):
        run(monkeypatch, "solar")


def missing(arguments):
    raise FileNotFoundError("no such file")


def test_all_runs_the_papers_in_order(monkeypatch, capsys):
    seen = []
    monkeypatch.setattr(command, "run", lambda name, arguments: seen.append((name, arguments)))
    run(monkeypatch, "all", "--quick")
    assert seen == [(name, ["--quick"]) for name in command.PAPER]


def test_numbers_come_with_their_origin_and_pictures_as_png_and_pdf(tmp_path):
    studies.write([{"value": np.float64(1.5), "row": np.arange(2)}], tmp_path / "numbers.json")
    found = json.loads((tmp_path / "numbers.json").read_text())
    assert found["results"] == [{"value": 1.5, "row": [0, 1]}]
    assert found["commit"]
    assert found["versions"]["stategp"] == stategp.__version__
    assert {"date", "processor", "cores", "python", "versions"} <= found.keys()
    figure, axis = studies.plt.subplots()
    axis.plot([0, 1])
    studies.save(figure, tmp_path / "folder" / "picture.png")
    left = sorted(file.name for file in (tmp_path / "folder").iterdir())
    assert left == ["picture.pdf", "picture.png"]


def test_make_has_the_list_from_here():
    """Asked with nothing but Python: `make` reads it before anything is installed."""
    names = [*command.PAPER, *command.OTHERS]
    asked = [sys.executable, "-I", "-S", command.__file__, "--names"]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert done.stdout.split() == names
    asked = ["make", "-C", str(ROOT), "help", f"PYTHON={sys.executable}"]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert f"studies: {' '.join(names)}" in re.sub(" +", " ", done.stdout)


def test_the_studies_are_no_part_of_the_package():
    package, studies_ = (
        tomllib.loads((folder / "pyproject.toml").read_text())
        for folder in (ROOT, ROOT / "experiments")
    )
    assert list(package["project"]["scripts"]) == ["stategp"]
    assert studies_["project"]["scripts"] == {
        "stategp-experiments": "stategp_experiments.__main__:main"
    }
    assert "experiments" not in str(package["tool"]["hatch"])
