"""`stategp update`, and `stategp fit --checkpoint`."""

import json
import sys

import numpy as np
import pandas as pd
import pytest

import stategp as sg
from stategp._command import main
from stategp._forecasting import _single

DAYS = pd.date_range("2024-03-01", periods=60)
TABLE = pd.DataFrame({"date": DAYS, "sold": np.round(20 + 5 * np.sin(np.arange(60) / 7), 2)})
SMALL = ("-k", "matern32(10d)", "--inducing", "data")


@pytest.fixture
def run(monkeypatch, capfdbinary, tmp_path):
    """Run the command in a folder of its own: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("stategp._command.leave", sys.exit)  # the process goes on here
    TABLE[:45].to_csv("sold.csv", index=False)
    TABLE[45:].to_csv("new.csv", index=False)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["stategp", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfdbinary.readouterr()
        return ended.value.code, out.decode(), err.decode()

    return call


def test_a_model_file_takes_in_new_rows(run, tmp_path):
    assert run("fit", "sold.csv", *SMALL)[0] == 0
    before = sg.load("sold.stategp")
    code, out, err = run("update", "sold.stategp", "new.csv", "--json", "-o", "other.stategp")
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert said["observations"] == 60
    assert said["model"] == "other.stategp"
    assert len(sg.load("sold.stategp").posterior.data) == 45
    code, out, err = run("update", "sold.stategp", "new.csv")
    assert (code, err) == (0, "")
    assert "2024-04-29" in out
    after = sg.load("sold.stategp")
    assert after.posterior.model == before.posterior.model
    assert after.fitted.kind == before.fitted.kind
    x = np.arange(60.0)
    whole = sg.condition(before.posterior.model, x, TABLE["sold"].to_numpy(), inducing="data")
    np.testing.assert_allclose(after.posterior.predict_f(x)[0], whole.predict_f(x)[0], atol=1e-8)
    code, _, err = run("update", "sold.stategp", "new.csv", "--refine")
    assert code == 0, err
    assert len(sg.load("sold.stategp").posterior.data) == 75  # the same rows, once more


def test_a_model_of_a_folder_takes_in_another(run, tmp_path):
    """Sums add up: the answer is that of both folders together."""
    for name, part in {"old": TABLE[:45], "new": TABLE[45:], "all": TABLE}.items():
        (tmp_path / name).mkdir()
        part.to_parquet(tmp_path / name / "part.parquet", index=False)
    options = ("-k", "matern32(10d)", "--shortest", "4d", "--inducing", "12")
    code, _, err = run("fit", "old", *options, "-o", "m.stategp")
    assert code == 0, err
    before = sg.load("m.stategp").posterior.model
    code, _, err = run("update", "m.stategp", "new")
    assert code == 0, err
    after = sg.load("m.stategp").posterior
    rows = sg.stream("all", time="date", target="sold", shortest=after.data.stretches.shortest)
    whole = sg.condition(before, rows, inducing=after.inducing)
    np.testing.assert_allclose(after.elbo, whole.elbo, rtol=1e-9)
    assert after.data.observed == 60
    code, _, err = run("update", "m.stategp", "new.csv")  # a table, too
    assert code == 0, err
    assert sg.load("m.stategp").posterior.data.observed == 75
    # What is read of a folder is said as for `fit`.
    (tmp_path / "bad").mkdir()
    rows = TABLE[45:].assign(year=[2024] * 10 + [2025] * 5)
    rows.loc[47, "sold"] = np.inf
    rows.to_parquet(tmp_path / "bad" / "part.parquet", index=False)
    code, _, err = run("update", "m.stategp", "bad")
    assert code == 2
    assert "part.parquet: column 'sold' must be finite" in err
    dropping = ("--bad", "drop", "--filter", "year == 2024", "--scratch", str(tmp_path))
    code, _, err = run("update", "m.stategp", "bad", *dropping)
    assert code == 0, err
    assert "left out 1 bad rows of" in err
    assert sg.load("m.stategp").posterior.data.observed == 84


def test_a_model_of_many_series_takes_in_new_rows(run, tmp_path):
    frame = pd.concat([TABLE.assign(shop="a"), TABLE.assign(shop="b", sold=TABLE["sold"] + 3)])
    frame[frame["date"] < DAYS[45]].to_csv("shops.csv", index=False)
    frame[frame["date"] >= DAYS[45]].to_csv("later.csv", index=False)
    code, _, err = run(
        "fit", "shops.csv", "-k", "matern32(10d)", "--by", "shop", "--target", "sold"
    )
    assert code == 0, err
    code, _, err = run("update", "shops.stategp", "later.csv", "--window", "30d")
    assert code == 0, err
    updated = sg.load("shops.stategp")
    assert [len(updated[key].posterior.data) for key in "ab"] == [31, 31]
    assert run("update", "shops.stategp", ".")[0] == 2


def test_many_series_in_folders_of_parquet(run, tmp_path):
    """As in one table: partitions tell series apart, too, and only named columns are read."""
    shops = [TABLE.assign(shop=key, sold=TABLE["sold"] + n) for n, key in enumerate("abc")]
    for name, part in {"old": slice(45), "new": slice(45, None)}.items():
        for frame in shops:
            key = frame["shop"].iloc[0]
            folder = tmp_path / name / f"shop={key}"
            folder.mkdir(parents=True)
            rows = frame[part].drop(columns="shop").assign(note="x")
            rows.to_parquet(folder / "part.parquet", index=False)
    options = ("-k", "matern32(10d)", "--by", "shop", "--target", "sold")
    code, _, err = run("fit", "old", *options, "--filter", "shop != 'c'")
    assert code == 0, err
    pd.concat(shops[:2])[lambda f: f["date"] < DAYS[45]].to_csv("old.csv", index=False)
    code, _, err = run("fit", "old.csv", *options, "-o", "table.stategp")
    assert code == 0, err
    found, table = (sg.load(f"{name}.stategp") for name in ("old", "table"))
    assert [key for (key,) in found.panel.keys] == ["a", "b"]
    for key in "ab":
        same = table[key].posterior.elbo
        assert found[key].posterior.elbo == pytest.approx(same, rel=1e-9)
    code, _, err = run("update", "old.stategp", "new", "--filter", "shop != 'c'")
    assert code == 0, err
    found = sg.load("old.stategp")
    assert [len(found[key].posterior.data) for key in "ab"] == [60, 60]
    code, _, err = run("fit", "old", *options, "--bad", "drop")
    assert code == 2
    assert "--bad is for one series" in err
    code, _, err = run("fit", "old", *options, "--distributed")
    assert code == 2
    assert "leave --by out" in err


def test_a_model_of_a_table_takes_in_a_folder(run, tmp_path):
    assert run("fit", "sold.csv", *SMALL)[0] == 0
    (tmp_path / "new").mkdir()
    TABLE[45:].to_parquet(tmp_path / "new" / "part.parquet", index=False)
    code, _, err = run("update", "sold.stategp", "new")
    assert code == 0, err
    assert len(sg.load("sold.stategp").posterior.data) == 60


def test_a_model_file_forgets(run):
    assert run("fit", "sold.csv", *SMALL)[0] == 0
    assert run("update", "sold.stategp", "new.csv", "--window", "20d", "-o", "w.stategp")[0] == 0
    assert len(sg.load("w.stategp").posterior.data) == 21
    assert run("update", "sold.stategp", "new.csv", "--forget", "30d")[0] == 0
    weights = np.asarray(sg.load("sold.stategp").posterior.data.weights)
    np.testing.assert_allclose(weights[[0, -1]], [np.exp(-15 / 30), 1.0])
    code, _, err = run("update", "sold.stategp", "new.csv", "--forget", "soon")
    assert code == 2
    assert "forget" in err or "soon" in err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("date,sold\n2024-05-01,much\n", "row 2 is 'much'"),
        ("date,bought\n2024-05-01,1\n", "there is no column 'sold' in rows.csv"),
        ("date,sold\n", "rows.csv has no rows"),
        ("date,sold\n1.5,2\n", "dates"),
    ],
)
def test_bad_rows_leave_the_model_as_it_is(content, words, run, tmp_path):
    assert run("fit", "sold.csv", *SMALL)[0] == 0
    before = (tmp_path / "sold.stategp").read_bytes()
    (tmp_path / "rows.csv").write_text(content)
    code, _, err = run("update", "sold.stategp", "rows.csv")
    assert code == 2
    assert words in err
    assert (tmp_path / "sold.stategp").read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "new.csv", "rows.csv", "sold.csv", "sold.stategp"
    ]  # fmt: skip


def test_a_fit_that_was_stopped_goes_on(run, tmp_path, monkeypatch):
    from stategp._command._progress import Spinner

    options = ("sold.csv", *SMALL, "--checkpoint", "far", "--every", "10min")
    code, _, err = run("fit", "sold.csv", "--resume")
    assert code == 2
    assert "--resume needs the file to go on from" in err

    def stop(spinner, step, value):
        if step == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Spinner, "__call__", stop)
        code, _, err = run("fit", *options)
    assert code == 130
    assert "--resume goes on from far" in err
    code, _, err = run("fit", *options)
    assert code == 2
    assert "give resume=True" in err
    assert run("fit", *options, "--resume")[0] == 0
    resumed = sg.load("sold.stategp").posterior
    assert not (tmp_path / "far").exists()
    assert run("fit", "sold.csv", *SMALL)[0] == 0
    assert resumed.fit_result.trace == sg.load("sold.stategp").posterior.fit_result.trace


def test_so_does_one_of_many_series(run, tmp_path, monkeypatch):
    counts = pd.DataFrame({"shop": ["a"] * 9 + ["b"] * 9, "day": [*range(9)] * 2, "sold": 3})
    counts.to_csv("counts.csv", index=False)
    options = ("counts.csv", *SMALL[2:], "-k", "matern32(4)", "--likelihood", "poisson", "--by",
               "shop", "--time", "day", "--target", "sold", "--checkpoint", "far")  # fmt: skip
    real, calls = _single.fit, []

    def stopped(*args, **kwargs):
        calls.append(None)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(_single, "fit", stopped)
        code, _, err = run("fit", *options)
        assert code == 130
        assert "--resume goes on from far" in err
        assert run("fit", *options, "--resume")[0] == 0
    assert len(calls) == 3
    assert not (tmp_path / "far").exists()
    assert len(sg.load("counts.stategp").failures_) == 0
