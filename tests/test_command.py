"""The command `stategp`: what it does, and one clear line where it cannot."""

import csv
import io
import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
import scipy.stats

import stategp as sg
from stategp._command import main
from stategp._command._demo import SHAPE, expected_visits, run_demo, simulate

N = 60
DAYS = pd.date_range("2024-03-01", periods=N)
TABLE = pd.DataFrame(
    {
        "date": DAYS,
        "visits": np.random.default_rng(0).poisson(5 + 3 * np.sin(np.arange(N) / 9)),
        "hours": 2.0,
        "note": "text",
    }
)
TINY = ("-k", "matern32(10d)", "--inducing", "8", "--max-steps", "5")
COMMANDS = ("fit", "update", "predict", "forecast", "plot", "report", "describe", "demo")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files that a user might have."""
    here = tmp_path_factory.mktemp("command")
    TABLE.to_csv(here / "visits.csv", index=False)
    TABLE.to_parquet(here / "visits.parquet")
    TABLE.assign(date=np.arange(N)).to_csv(here / "numbers.csv", index=False)
    TABLE.assign(date="32 May").to_csv(here / "dates.csv", index=False)
    TABLE.assign(visits=-1).to_csv(here / "negative.csv", index=False)
    TABLE.to_csv(here / "semicolons.csv", index=False, sep=";")
    (here / "empty.csv").write_text("")
    (here / "header.csv").write_text("date,visits\n")
    (here / "ragged.csv").write_text("date,visits\n2024-01-01\n")
    (here / "twice.csv").write_text("date,y,y\n2024-01-01,1,2\n")
    (here / "other.parquet").write_text("hello")
    (here / "text.stategp").write_text("hello")
    (here / "folder").mkdir()
    sg.Forecaster("matern32(10d)").save(here / "unfitted.stategp")
    for name, kernel in [("visits", "matern32(10d)"), ("numbers", "matern32(10)")]:
        model = sg.Forecaster(kernel, inducing=8)
        with pytest.warns(sg.NotConvergedWarning):
            model.fit(
                pd.read_csv(here / f"{name}.csv"), "date", "visits", progress=False, max_steps=5
            )
        model.save(here / f"{name}.stategp")
    model.posterior.save(here / "posterior.stategp")
    whole = (here / "visits.stategp").read_bytes()
    (here / "half.stategp").write_bytes(whole[: len(whole) // 2])
    return here


@pytest.fixture
def run(folder, monkeypatch, capfdbinary):
    """Run the command in that folder: exit code, standard output, standard error."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("stategp._command.leave", sys.exit)  # the process goes on here

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["stategp", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfdbinary.readouterr()
        return ended.value.code, out.decode(), err.decode()

    return call


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


# ---- what it does ---------------------------------------------------------------------------


@pytest.mark.parametrize("data", ["visits.csv", "visits.parquet"])
def test_from_a_table_to_a_report(data, run, folder, tmp_path):
    model = tmp_path / "model.stategp"
    code, out, err = run(
        "fit", data, "--target", "visits", "-l", "poisson", "--exposure", "hours", *TINY,
        "-o", model,
    )  # fmt: skip
    assert code == 0, err
    assert "date, 2024-03-01 to 2024-04-29" in out
    assert "stategp: warning: the fit did not converge" in err
    assert "next: stategp report model.stategp" in err

    code, out, _ = run("describe", model, "--json")
    said = json.loads(out)
    assert (code, said["observations"], said["inducing points"]) == (0, N, 8)
    assert said["kernel"].startswith("matern32(")

    code, out, err = run("predict", model, data, "--level", "0.5", "--level", "0.9")
    rows = rows_of(out)
    assert (code, len(rows), err) == (0, N, "")
    assert list(rows[0]) == [
        "date", "mean", "median", "lower_50", "upper_50", "lower_90", "upper_90"
    ]  # fmt: skip

    code, out, err = run("forecast", model, "7d")
    rows = rows_of(out)
    assert (code, len(rows), err) == (0, 7, "")
    assert rows[0]["date"] == "2024-04-30 00:00:00"
    expected = sg.load(model).forecast("7d").to_pydict()
    assert [float(row["mean"]) for row in rows] == expected["mean"]

    code, out, _ = run("forecast", model, "7d", "--json")
    assert json.loads(out)["mean"] == expected["mean"]
    assert json.loads(out)["date"][0] == "2024-04-30T00:00:00"

    table = tmp_path / "next.parquet"
    code, out, err = run("forecast", model, "1d", "--every", "12h", "-o", table)
    assert (code, out, err.strip()) == (0, "", str(table))
    assert pyarrow.parquet.read_table(table).num_rows == 2

    code, out, _ = run("plot", model, "--horizon", "7d")
    assert code == 0
    assert (tmp_path / "model.png").read_bytes().startswith(b"\x89PNG")
    code, out, _ = run("report", model, "--horizon", "7d")
    assert (code, out.strip()) == (0, str(tmp_path / "model.html"))
    assert "visits" in (tmp_path / "model.html").read_text(encoding="utf-8")


def test_a_table_is_described(run):
    code, out, _ = run("describe", "visits.csv", "--target", "visits", "--json")
    said = json.loads(out)
    assert (code, said["rows"], said["usual step"], said["missing"]) == (0, N, "1d", 0)
    assert "poisson" in said["looks like"]
    assert said["seasons"] == "weekly"
    assert said["models to compare"].startswith("y: a slope that comes and goes")
    assert "look like counts" in said["careful"]
    assert run("describe", "visits.csv", "--target", "visits")[1].startswith("rows")


def test_limits_events_and_outliers(run, tmp_path):
    model = tmp_path / "limited.stategp"
    days = "2024-03-05,2024-03-20"
    code, _, err = run(
        "fit", "visits.csv", "--target", "visits", "--floor", "-1", "--cap", "40", "--weights",
        "hours", "--event", f"sale={days}", "--keep-outliers", *TINY[:2], "-o", model,
    )  # fmt: skip
    assert code == 0, err
    fitted = sg.load(model)
    assert (fitted.floor, fitted.cap, fitted.robust) == (-1.0, 40.0, False)
    assert fitted.events[0].dates == tuple(days.split(","))
    assert fitted.effects()["name"].to_pylist() == ["sale"]
    code, out, _ = run("forecast", model, "30d")
    bounds = [(float(row["lower_95"]), float(row["upper_95"])) for row in rows_of(out)]
    assert all(-1 <= low < high <= 40 for low, high in bounds)
    code, _, err = run("fit", "visits.csv", "--target", "visits", "--event", "2024-03-05")
    assert (code, "--event must be a name and dates" in err) == (2, True)


def test_many_series_in_one_file(run, tmp_path):
    both = [TABLE.assign(shop=name, region=7) for name in ("north", "south")]
    broken = TABLE[:30].assign(shop="new", region=7, visits=np.nan)
    pd.concat([*both, broken]).to_csv(tmp_path / "shops.csv", index=False)
    model = tmp_path / "shops.stategp"
    asked = ("--target", "visits", "--by", "shop", "--by", "region", "-k", "matern32(10d)")
    code, out, err = run("fit", tmp_path / "shops.csv", *asked)
    assert (code, "('new', '7'): " in out) == (0, True), err
    assert "stategp report" not in err
    code, out, _ = run("forecast", model, "2d")
    found = rows_of(out)
    assert [(row["shop"], row["region"], row["date"]) for row in found[1:3]] == [
        ("north", "7", "2024-05-01 00:00:00"), ("south", "7", "2024-04-30 00:00:00"),
    ]  # fmt: skip
    code, out, _ = run("forecast", model, "2d", "--series", "south", "--series", "7")
    assert float(rows_of(out)[1]["mean"]) == pytest.approx(float(found[3]["mean"]), rel=1e-6)
    assert json.loads(run("describe", model, "--json")[1])["series"] == 3
    sharing = tmp_path / "sharing.stategp"
    asked = (*asked, "--share", "prior", "-o", sharing)
    code, out, err = run("fit", tmp_path / "shops.csv", *asked)
    assert (code, "was learned from 2 series" in " ".join(out.split())) == (0, True), err
    code, _, err = run("fit", tmp_path / "shops.csv", "--target", "visits", "--share", "all")
    assert (code, "share='all' is for many series: give by" in err) == (2, True)
    picture = tmp_path / "south.png"
    key = ("--series", "south", "--series", "7")
    assert run("plot", model, *key, "-o", picture)[0] == 0
    assert "holds 3 series: say which, such as --series north" in run("report", model)[2]
    assert "has no series east" in run("plot", model, "--series", "east")[2]
    assert "leave --series out" in run("plot", "visits.stategp", "--series", "a")[2]


def test_a_file_from_germany_and_what_follows(run, folder, tmp_path):
    lines = [f"{day:%d.%m.%Y};{n},5" for day, n in zip(DAYS, TABLE["visits"], strict=True)]
    (tmp_path / "besuche.csv").write_text("Tag;Größe\n" + "\n".join(lines), encoding="cp1252")
    model = tmp_path / "besuche.stategp"
    code, out, err = run("fit", tmp_path / "besuche.csv", *TINY)
    assert (code, "Tag, 2024-03-01 to 2024-04-29" in out, model.is_file()) == (0, True, True)
    assert err.startswith(
        f"read {tmp_path / 'besuche.csv'}: text in Windows-1252 (not UTF-8), columns separated "
        "by semicolons, dates as day.month.year, decimal comma\n"
    )
    # 01/05 is read as the model was: days first.
    (tmp_path / "dann.csv").write_text("Tag\n01/05/2024\n02/05/2024\n")
    code, out, _ = run("predict", model, tmp_path / "dann.csv")
    assert [row["Tag"][:10] for row in rows_of(out)] == ["2024-05-01", "2024-05-02"]
    for horizon in ("2", "2d", "2024-05-01", "01.05.2024"):
        code, out, _ = run("forecast", model, horizon)
        assert [row["Tag"][:10] for row in rows_of(out)] == ["2024-04-30", "2024-05-01"]


def test_answers_are_in_the_offset_of_the_data(run, tmp_path):
    (tmp_path / "local.csv").write_text(
        "time,y\n" + "".join(f"{day:%Y-%m-%d}T00:00+01:00,{n}\n" for n, day in enumerate(DAYS))
    )
    code, _, err = run("fit", tmp_path / "local.csv", *TINY)
    assert code == 0, err
    _, out, _ = run("forecast", tmp_path / "local.stategp", "1d")
    assert rows_of(out)[0]["time"] == "2024-04-30 00:00:00+01:00"


@pytest.mark.parametrize("name", ["visits.tsv", "visits.csv.gz"])
def test_tables_of_every_name_are_described(name, run, tmp_path):
    TABLE.to_csv(tmp_path / name, index=False, sep="\t" if name.endswith("tsv") else ",")
    code, out, _ = run("describe", tmp_path / name, "--target", "visits", "--json")
    assert (code, json.loads(out)["rows"]) == (0, N)


def test_times_that_are_numbers(run):
    code, out, _ = run("forecast", "numbers.stategp", "3")
    assert (code, [row["date"] for row in rows_of(out)]) == (0, ["60", "61", "62"])


def test_regressors_and_their_future(run, tmp_path):
    heat = np.random.default_rng(1).normal(15, 5, N)
    table = pd.DataFrame({"date": DAYS, "sold": 3 * heat + np.arange(N) % 3, "heat": heat})
    table[:50].to_csv(tmp_path / "sold.csv", index=False)
    table[["date", "heat"]][50:].to_csv(tmp_path / "future.csv", index=False)
    model = tmp_path / "sold.stategp"
    small = ("-k", "matern32(10d)", "--max-steps", "5")
    code, _, err = run(
        "fit", tmp_path / "sold.csv", "--target", "sold", "--regressor", "heat", *small
    )
    assert code == 0, err
    code, _, err = run("forecast", model, "10d")
    assert code == 2
    assert "the values of 'heat' are not known at 10 times from 2024-04-20" in err
    code, out, err = run("forecast", model, "10d", "--future", tmp_path / "future.csv")
    assert code == 0, err
    forecast = pd.read_csv(io.StringIO(out))
    np.testing.assert_allclose(forecast["mean"], table["sold"][50:], atol=6)
    code, out, err = run("predict", model, tmp_path / "future.csv")
    assert code == 0, err
    np.testing.assert_allclose(pd.read_csv(io.StringIO(out))["mean"], forecast["mean"])
    for command in ("report", "plot"):
        code, _, err = run(command, model, "--horizon", "10d", "--future", tmp_path / "future.csv")
        assert code == 0, err


def test_limits_of_what_was_not_measured(run, tmp_path):
    seen = TABLE["visits"] > 3
    table = TABLE.assign(visits=TABLE["visits"].where(seen), below=np.where(seen, np.nan, 3.0))
    table.to_csv(tmp_path / "few.csv", index=False)
    few = ("fit", tmp_path / "few.csv", "--target", "visits", "-l", "gaussian", *TINY)
    code, _, err = run(*few, "--upper", "below")
    assert code == 0, err
    there = table[["date"]][~seen]
    there.to_csv(tmp_path / "there.csv", index=False)
    code, out, err = run("predict", tmp_path / "few.stategp", tmp_path / "there.csv")
    assert code == 0, err
    with pytest.warns(sg.NotConvergedWarning):
        ours = sg.Forecaster("matern32(10d)", "gaussian", inducing=8).fit(
            table, "date", "visits", limits=(None, "below"), progress=False, max_steps=5
        )
    expected = ours.predict(there)["mean"]
    np.testing.assert_allclose(pd.read_csv(io.StringIO(out))["mean"], expected, rtol=1e-6)
    code, _, err = run(*few, "--lower", "visits", "--upper", "note")
    assert code == 2
    assert "note" in err


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches_within_eighty_columns(command, run):
    code, out, err = run(command, "--help")
    assert (code, err) == (0, "")
    assert f"Usage: stategp {command}" in out
    assert max(map(len, out.splitlines())) <= 80
    assert "<" not in out.split("Options")[0].split("Arguments")[0]


def test_help_on_the_whole(run):
    code, out, _ = run()
    assert code == 0
    assert all(command in out for command in COMMANDS)
    assert run("-h")[1] == out
    assert "matern52(30d)" in run("fit", "-h")[1]
    code, out, _ = run("--version")
    assert (code, out[0].isdigit()) == (0, True)


def test_a_parquet_file_is_read_in_parts(run, tmp_path, monkeypatch):
    x = np.random.default_rng(0).uniform(0, 20, 90)
    y = np.where(np.arange(90) == 7, np.inf, np.sin(x))
    table = pyarrow.table({"t": x, "v": y, "year": np.repeat([2024, 2025, 2026], 30)})
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet")
    given = ["fit", tmp_path / "rows.parquet", "--time", "t", "--target", "v"]
    given += ["-k", "matern32(2)", "--inducing", "10", "--max-steps", "1"]
    asked = ["--filter", "year < 2026", "--filter", "t >= 0", "--bad", "drop"]
    code, out, err = run(*given, *asked, "--scratch", tmp_path, "--json")
    assert code == 0, err
    assert json.loads(out)["observations"] == 59
    assert "left out 1 bad rows of" in err
    monkeypatch.setattr("stategp._command._streaming._LARGE", 1)
    code, _, err = run(*given)
    assert code != 0
    assert "column 'v' must be finite" in err  # what a stream says
    for wrong, words in {
        "year": "--filter must be a column, a comparison and a value",
        "day == 3": "there is no column 'day'",
        "year > soon": "column 'year' holds int64, and soon is none",
    }.items():
        code, _, err = run(*given, "--filter", wrong)
        assert code != 0
        assert words in err


def test_as_a_process(folder):
    done = subprocess.run(
        [sys.executable, "-m", "stategp", "forecast", "visits.stategp", "3d"],
        capture_output=True, text=True, cwd=folder,
    )  # fmt: skip
    assert (done.returncode, done.stderr, len(rows_of(done.stdout))) == (0, "", 3)


# ---- what a new user gets wrong in the first hour ---------------------------------------------


def test_a_number_that_cannot_be_had_is_one_line(run, monkeypatch):
    def fail(*_, **__):
        raise FloatingPointError("the bound is not finite\nand more")

    monkeypatch.setattr("stategp._command._commands.app", fail)
    assert run("describe") == (2, "", "stategp: the bound is not finite\n")


FIT = ("fit", "visits.csv", "--target", "visits")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fti",), "No such command 'fti'"),
        (("--loud",), "No such option"),
        (("fit",), "Missing argument 'DATA'"),
        (("fit", "nothing.csv"), "there is no file nothing.csv"),
        (("fit", "folder"), "folder is a folder"),
        (("fit", "empty.csv"), "empty.csv is empty"),
        (("fit", "header.csv"), "header.csv has no rows"),
        (("fit", "ragged.csv"), "cannot be read as CSV: row 2 has 1 cell, and its header has 2"),
        (("fit", "semicolons.csv", "--sep", ","), "Give --target; the columns"),
        (("fit", "other.parquet"), "other.parquet cannot be read as Parquet"),
        (("fit", "twice.csv", "--target", "y"), "have the same name"),
        (("fit", "visits.stategp"), "should end in .csv, .tsv (also .csv.gz) or .parquet"),
        (("fit", "visits.csv"), "Give --target; the columns of visits.csv are 'date', 'visits'"),
        (("fit", "visits.csv", "--target", "sales"), "there is no column 'sales'"),
        (("fit", "visits.parquet", "--target", "sales"), "there is no column 'sales'"),
        ((*FIT, "--time", "when"), "there is no column 'when'"),
        ((*FIT, "--exposure", "size"), "there is no column 'size'"),
        ((*FIT, "--exposure", "hours"), "exposure has no meaning for Gaussian"),
        (("fit", "visits.csv", "--target", "note"), "note' of visits.csv: row 2 is 'text'"),
        (("fit", "dates.csv", "--target", "visits"), "row 2 is '32 May', which cannot be read"),
        (("fit", "negative.csv", "--target", "visits", "-l", "poisson"), "row 2 is -1"),
        ((*FIT, "-k", "matern"), "say how smooth it is"),
        ((*FIT, "-k", "matern32(10d"), "'(' at character 9 is not closed"),
        ((*FIT, "-k", ""), "the kernel expression is empty"),
        ((*FIT, "-l", "poison"), "Did you mean poisson?"),
        ((*FIT, "--inducing", "few"), "must be auto, data or a whole number"),
        ((*FIT, "--inducing", "0"), "must be auto, data or a whole number"),
        ((*FIT, "--max-steps", "many"), "--max-steps"),
        ((*FIT, "--max-steps", "0"), "--max-steps"),
        ((*FIT, "--foo"), "No such option: --foo"),
        ((*FIT, "-o", "nowhere/model.stategp"), "the folder nowhere does not exist"),
        ((*FIT, "-o", "folder"), "it is a folder"),
        ((*FIT, "-o", "visits.csv"), "that of a table"),
        (("fit", "numbers.csv", "--target", "visits", "-k", "matern32(10d)"), "length 10d"),
        (("forecast", "visits.stategp"), "Missing argument 'HORIZON'"),
        (("forecast", "visits.stategp", "soon"), "'soon' is not a duration"),
        (("forecast", "visits.stategp", "0"), "must be positive"),
        (("forecast", "visits.stategp", "2024-04-01"), "end at 2024-04-29 00:00:00; 2024"),
        (("forecast", "visits.stategp", "1m"), "minutes or months"),
        (("forecast", "visits.stategp", "1h"), "shorter than one step of 1d"),
        (("forecast", "visits.stategp", "-3d"), "No such option"),
        (("forecast", "numbers.stategp", "30d"), "give a number, not '30d'"),
        (("forecast", "visits.stategp", "3d", "--level", "95"), "between 0 and 1"),
        (
            ("forecast", "visits.stategp", "3d", "-o", "next.xlsx"),
            "should end in .csv or .tsv or",
        ),
        (("forecast", "visits.stategp", "3d", "-o", "no/next.csv"), "folder no does not exist"),
        (("forecast", "nothing.stategp", "3d"), "there is no file nothing.stategp"),
        (("forecast", "folder", "3d"), "folder is a folder"),
        (("forecast", "visits.csv", "3d"), "is a table, not a model: run `stategp fit visits.csv`"),
        (("forecast", "text.stategp", "3d"), "not a stategp file"),
        (("forecast", "half.stategp", "3d"), "not a stategp file, or a damaged one"),
        (("forecast", "posterior.stategp", "3d"), "holds a Posterior"),
        (("forecast", "unfitted.stategp", "3d"), "a Forecaster that has not been fitted"),
        (("predict", "visits.stategp", "numbers.csv"), "fitted to times in dates"),
        (("predict", "numbers.stategp", "visits.csv"), "fitted to times in numbers"),
        (("predict", "visits.stategp", "nothing.csv"), "there is no file nothing.csv"),
        (("plot", "visits.stategp", "--what", "fish"), "--what must be one of series, components"),
        (("plot", "visits.stategp", "-o", "x.jpg"), "should end in .png or .pdf or .svg"),
        (("report", "visits.stategp", "-o", "visits.csv"), "should end in .html"),
        (("report", "visits.stategp", "--horizon", "x"), "'x' is not a duration"),
        (("describe", "header.csv"), "header.csv has no rows"),
        (("describe", "nothing"), "there is no file nothing"),
    ],
)
def test_one_clear_line(arguments, words, run, folder):
    before = {file: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("stategp: ")
    assert err.count("\n") == 1
    assert words in err
    assert {file: file.read_bytes() for file in folder.iterdir() if file.is_file()} == before


@pytest.mark.parametrize(
    ("absent", "arguments"),
    [
        ("typer", ("--help",)),
        ("rich", ("--help",)),
        ("pyarrow", FIT),
        ("narwhals", FIT),
        ("matplotlib", ("plot", "visits.stategp")),
    ],
)
def test_what_is_not_installed_is_named(absent, arguments, run, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == absent]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "stategp.plots", raising=False)
    monkeypatch.delattr(sg, "plots", raising=False)
    monkeypatch.setitem(sys.modules, absent, None)
    code, _, err = run(*arguments)
    assert code == 2
    assert absent in err.lower()
    assert "pip install" in err
    assert err.count("\n") == 1


def test_frames_without_narwhals(monkeypatch):
    monkeypatch.setitem(sys.modules, "narwhals", None)
    with pytest.raises(ImportError, match=r'data frames need narwhals: pip install "stategp'):
        sg.Forecaster().fit(TABLE)


# ---- interrupted ----------------------------------------------------------------------------


def interrupt_at_step_two(self, step, value):
    if step == 2:
        raise KeyboardInterrupt


def test_ctrl_c_keeps_what_was_learned(run, folder, tmp_path, monkeypatch):
    monkeypatch.setattr("stategp._runtime._progress.Progress.__call__", interrupt_at_step_two)
    model = tmp_path / "model.stategp"
    code, out, err = run(*FIT, *TINY, "-o", model)
    assert code == 130
    assert "matern32(" in out
    assert err == f"stategp: interrupted; the model learned so far is in {model}\n"
    assert "interrupted" in str(sg.load(model).posterior.fit_result)
    assert run("forecast", model, "3d")[0] == 0


def test_ctrl_c_before_anything_was_learned(run, folder, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("stategp._forecasting._single.fit", interrupt)
    code, out, err = run(*FIT, *TINY, "-o", tmp_path / "model.stategp")
    assert (code, out) == (130, "")
    assert err == "stategp: interrupted before anything was learned; nothing was written\n"
    assert list(tmp_path.iterdir()) == []


def in_a_process(code, *arguments, **environment):
    """Python code that ends with the command."""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True, text=True, env=os.environ | environment,
    )  # fmt: skip


# The signal comes amid the first compilation of a large program, which ends after it.
WHILE_COMPILING = """
import os, signal, threading, time
from jax._src import compiler
usual_compile = compiler.backend_compile_and_load
sent = False
def compile_interrupted(client, module, *arguments, **options):
    global sent
    if sent or len(str(module)) < 10_000:
        return usual_compile(client, module, *arguments, **options)
    sent = True
    signals = threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT))
    signals.start()
    compiled = usual_compile(client, module, *arguments, **options)
    signals.join()
    return compiled
compiler.backend_compile_and_load = compile_interrupted
"""


def test_ctrl_c_while_compiling_is_no_crash(folder, tmp_path):
    # JAX leaves the compilation to its threads, which the usual end of Python would kill it by.
    done = in_a_process(
        WHILE_COMPILING + "from stategp._command import main; main()",
        "fit", folder / "visits.csv", "--target", "visits", "-k", "matern52(10d) * matern32(1d)",
        "-o", tmp_path / "model.stategp", STATEGP_CACHE=str(tmp_path / "cache"),
    )  # fmt: skip
    assert done.returncode == 130, done.stderr
    assert done.stderr == "stategp: interrupted before anything was learned; nothing was written\n"
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


def test_ctrl_c_waits_for_a_compilation(tmp_path):
    script = """
import jax, jax.numpy as jnp
from stategp._runtime import finishing_compilations
def much(x):
    for i in range(20):  # a large program
        x = jnp.linalg.solve(x @ x.T + (i + 1) * jnp.eye(9), x)
    return x
usual = signal.getsignal(signal.SIGINT)
try:
    with finishing_compilations():
        jax.jit(much)(jnp.eye(9))
        time.sleep(60)
except KeyboardInterrupt:
    print("interrupted", signal.getsignal(signal.SIGINT) is usual)
"""
    done = in_a_process(WHILE_COMPILING + script, STATEGP_CACHE=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted True\n", "")
    assert any("much" in path.name for path in tmp_path.iterdir())  # compiled, and kept


def test_ctrl_c_while_a_prediction_is_compiled(tmp_path):
    script = """
import numpy as np, stategp as sg
from stategp._posteriors import per_point
usual = signal.getsignal(signal.SIGINT)
ones = np.ones(3)
try:
    per_point(sg.likelihoods.Poisson(), "predictive_quantile", 0.5 * ones, ones, ones, ones)
    print("forgotten")
except KeyboardInterrupt:
    print("interrupted", signal.getsignal(signal.SIGINT) is usual)
"""
    done = in_a_process(WHILE_COMPILING + script, STATEGP_CACHE=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted True\n", "")
    assert any("_of_likelihood" in path.name for path in tmp_path.iterdir())  # compiled, and kept


def test_ctrl_c_during_import():
    code = """
import os, signal, sys
class Interrupt:
    def find_spec(self, name, *_):
        if name == "jax":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
from stategp_launcher import main
main()
"""
    done = in_a_process(code)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "stategp: interrupted\n")


def test_a_closed_pipe_is_no_error(folder):
    done = subprocess.run(
        f"{sys.executable} -m stategp predict visits.stategp visits.csv | true",
        shell=True, cwd=folder, capture_output=True, text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert done.stderr == ""


# ---- the demonstration ----------------------------------------------------------------------


def test_the_simulated_series_is_what_it_says():
    data = simulate()
    days = (data["time"] - data["time"][0]) / np.timedelta64(1, "D")
    assert len(days) > 2500
    assert np.diff(days).max() > 3.9  # the gap
    assert 10 < np.isnan(data["visits"]).sum() < 60
    seen = data["visits"][np.isfinite(data["visits"])]
    np.testing.assert_array_equal(seen, np.round(seen))
    np.testing.assert_array_equal(simulate()["visits"], data["visits"])


def test_the_simulated_counts_are_those_of_the_model_that_is_fitted():
    data = simulate()
    days = (data["time"] - np.datetime64("2026-03-02", "us")) / np.timedelta64(1, "D")
    counts, expected = data["visits"], expected_visits(days)
    law = scipy.stats.nbinom(SHAPE, SHAPE / (SHAPE + expected))
    step = np.random.default_rng(0).uniform(size=len(counts)) * law.pmf(counts)
    ranks = (law.cdf(counts - 1) + step)[np.isfinite(counts)]
    for level in (0.5, 0.95):
        share = np.mean(np.abs(2 * ranks - 1) <= level)
        assert abs(share - level) < 3 * np.sqrt(level * (1 - level) / len(ranks))


def test_the_demonstration_on_less_data(tmp_path, monkeypatch, capsys):
    def less():
        data = simulate()
        return {name: column[-N * 20 :: 20] for name, column in data.items()}

    made = sg.Forecaster("matern32(10d)", "negative-binomial", inducing=8)
    monkeypatch.setattr("stategp._command._demo.simulate", less)
    monkeypatch.setattr(sg, "Forecaster", lambda **_: made)
    monkeypatch.setattr("stategp._fitting._requests.warn_unless_converged", lambda result: None)
    run_demo(tmp_path / "demo")
    out = capsys.readouterr().out
    assert "forecast of the first day:" in out
    assert "then try" in out
    names = {file.name for file in (tmp_path / "demo").iterdir()}
    assert names >= {"visits.csv", "forecast.csv", "series.png", "report.html", "visits.stategp"}
    assert isinstance(sg.load(tmp_path / "demo" / "visits.stategp"), type(made))
