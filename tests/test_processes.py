"""Several processes that share a stream: the answer of one; what happens when one of them ends."""

import json
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest

import stategp as sg
from stategp._command import main
from stategp._runtime import join_processes
from tests.dividing import divided_fits
from tests.pages import ROOT

PREPARE = """
import json, os, signal, sys, time
import numpy as np, stategp as sg
from tests.dividing import divided_fits

port, index, count = map(int, sys.argv[1:4])
sg.join_processes(f"localhost:{port}", count, index, patience=5, meeting=250)
rng = np.random.default_rng(0)
x = rng.uniform(0, 20, 400)
y = np.sin(x) + 0.1 * rng.standard_normal(len(x))

def stream(pieces, y=y):
    parts = np.array_split(np.arange(len(x)), pieces)
    return sg.stream([(x[rows], y[rows]) for rows in parts], shortest=2.0)

def kernel():
    return sg.kernels.Matern32(lengthscale=2.0)
"""

FOUR = """
whole = sg.summarise(x, y, shortest=2.0)
total = sg.summarise(stream(8))
np.testing.assert_allclose(total.sums.plain, whole.sums.plain, rtol=1e-12, atol=1e-12)
model = sg.GP(kernel(), sg.likelihoods.Gaussian(variance=0.1))
shared, alone = (sg.fit(model, data, inducing=16, progress=False) for data in (stream(8), whole))
assert abs(shared.elbo / alone.elbo - 1) < 1e-9
# Where a search ends depends on the last digits of sums; what it finds there does not.
shared, alone = (sg.condition(alone.model, data, inducing=16) for data in (stream(8), whole))
assert abs(shared.elbo / alone.elbo - 1) < 1e-9
for one, other in zip(shared.marginals, alone.marginals, strict=True):
    np.testing.assert_allclose(one.mean, other.mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-9, atol=1e-9)
print("same", total.rows, flush=True)
print("fits", json.dumps(divided_fits(sys.argv[4:])), flush=True)
if index == 3:
    raise ValueError("mine alone")
time.sleep(100)
"""

TWO = """
from stategp._data import _stored_rows
bad = y.copy()
bad[399] = np.inf
for likelihood in (sg.likelihoods.Gaussian(), sg.likelihoods.StudentT()):  # sums, rows
    try:
        sg.condition(sg.GP(kernel(), likelihood), stream(8, bad), inducing=16)
    except (ValueError, RuntimeError) as error:
        print(type(error).__name__, error)
model = sg.GP(kernel(), sg.likelihoods.StudentT(df=4.0, scale=0.3))
try:
    sg.fit(model, stream(8), inducing=16, batch_size=10)
except ValueError as error:
    print(error)
for pieces in (8, 1):  # of one piece, the second process has nothing
    posterior = sg.condition(model, stream(pieces), inducing=16)
    print("bound", pieces, posterior.elbo, posterior.data.observed, flush=True)
print("fits", json.dumps(divided_fits(sys.argv[4:])), flush=True)
many = np.linspace(0, 20, 20_000)
try:
    sg.condition(model, many, np.sin(many) + index, inducing=16)
except ValueError as error:
    print(error, flush=True)
if index == 0:  # dies in a pass, and the other waits for its sums

    def killed(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    _stored_rows.Reader.next = killed
sg.condition(model, stream(8), inducing=16)
"""
APART = """
import warnings
from pathlib import Path
warnings.simplefilter("ignore")
file = Path(sys.argv[4]) / str(index) / "checkpoint"  # each has a disk of its own
file.parent.mkdir()
model = sg.GP(kernel(), sg.likelihoods.StudentT())
def fit(model=model, **options):
    return sg.fit(model, stream(8), inducing=8, max_steps=3, checkpoint=file, **options)
begun = fit(every=1e-9)
print("begun", begun.elbo, file.exists(), flush=True)
print("resumed", fit(resume=True).elbo, flush=True)
for options in ({}, {"resume": True, "model": sg.GP(sg.kernels.Matern12(), model.likelihood)}):
    try:
        fit(**options)
    except (FileExistsError, ValueError, RuntimeError) as error:
        print(type(error).__name__, error, flush=True)
bad = y.copy()
bad[[0, 1, 399]] = np.inf
series = sg.stream([(x[:200], bad[:200]), (x[200:], bad[200:])], shortest=2.0, bad="drop")
for likelihood in (sg.likelihoods.Gaussian(), model.likelihood):
    sg.condition(sg.GP(kernel(), likelihood), series, inducing=8)
    print("dropped", series.dropped, flush=True)
    assert series.latest.tolist() == np.sort(x[np.isfinite(bad)])[-64:].tolist()
"""
TWO_FITS, FOUR_FITS = ["gaussian", "student-t on disk"], ["gaussian"]  # see dividing.py


def free_port():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return str(free.getsockname()[1])


def run_together(commands):
    """What each of some processes said, and how it ended."""
    options = {"cwd": ROOT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    started = [subprocess.Popen([sys.executable, *command], **options) for command in commands]
    try:
        said = [process.communicate(timeout=300) for process in started]
        return [(*words, process.returncode) for words, process in zip(said, started, strict=True)]
    finally:
        for process in started:
            process.kill()


def run_program(text, count, fits):
    port = free_port()
    return run_together(
        [["-c", PREPARE + text, port, str(index), str(count), *fits] for index in range(count)]
    )


def assert_fits(said, names):
    """Every process has found what one alone finds."""
    alone = divided_fits(names)
    for out, err, _ in said:
        lines = [line for line in out.splitlines() if line.startswith("fits")]
        assert len(lines) == 1, err
        found = json.loads(lines[0].removeprefix("fits"))
        for name in names:
            np.testing.assert_allclose(found[name], alone[name], rtol=1e-9, err_msg=name)


def test_four_processes_give_the_answer_of_one_and_end_when_one_fails():
    said = run_program(FOUR, 4, FOUR_FITS)
    assert all("same 400" in out for out, _, _ in said), said
    assert_fits(said, FOUR_FITS)
    assert "ValueError: mine alone" in said[3][1]
    assert "has ended before it was done" not in said[3][1]
    assert said[3][2] == 1
    for out, err, code in said[:3]:
        assert code not in (0, -signal.SIGKILL), (out, err)
        assert "another process died and this one could not go on" in err


def test_two_processes_divide_rows_and_end_when_the_first_is_killed_in_a_pass():
    said = run_program(TWO, 2, TWO_FITS)
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 20, 400)
    y = np.sin(x) + 0.1 * rng.standard_normal(len(x))
    kernel = sg.kernels.Matern32(lengthscale=2.0)
    model = sg.GP(kernel, sg.likelihoods.StudentT(df=4.0, scale=0.3))
    expected = sg.condition(model, sg.stream([(x, y)], shortest=2.0), inducing=16).elbo
    for out, _, _ in said:
        bounds = [line.split()[2:] for line in out.splitlines() if line.startswith("bound")]
        assert [float(bound) for bound, _ in bounds] == pytest.approx([expected] * 2, rel=1e-9)
        assert [rows for _, rows in bounds] == ["400", "400"]
        assert "minibatches are drawn by one process" in out
        assert "process 1 was given another model, x or y than process 0" in out
    assert_fits(said, TWO_FITS)
    assert said[0][0].count("RuntimeError process 1 could not read its share") == 2, said
    assert said[1][0].count("ValueError batch 7") == 2, said
    assert said[0][2] == -signal.SIGKILL
    assert said[1][2] not in (0, -signal.SIGKILL)
    assert "process 1 of 2 has ended before it was done" in said[1][1]
    assert "Start all of them again" in said[1][1]


def test_two_processes_resume_from_the_disk_of_the_first_and_count_the_rows_of_both(tmp_path):
    said = run_program(APART, 2, [str(tmp_path)])
    assert [code for _, _, code in said] == [0, 0], said
    found = [dict(line.split(" ", 1) for line in out.splitlines()) for out, _, _ in said]
    assert [each["begun"].split()[1] for each in found] == ["True", "False"]
    for each, (out, _, _) in zip(found, said, strict=True):
        assert each["resumed"] == found[0]["begun"].split()[0]
        assert out.count("dropped {'batch 0': 2, 'batch 1': 1}") == 2  # of sums, and of rows
    assert "FileExistsError there is a checkpoint" in said[0][0]
    assert "ValueError" in said[0][0]
    assert "the model differs" in said[0][0]
    assert "could not begin with the checkpoint: there is a checkpoint" in said[1][0]
    assert "could not read the checkpoint" in said[1][0]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"processes": 2}, "give all of coordinator"),
        ({"patience": 0}, "patience must be 1 second or more, got 0"),
        ({"meeting": float("nan")}, "meeting must be 1 second or more"),
    ],
)
def test_what_cannot_be_joined_is_refused(given, words):
    with pytest.raises(ValueError, match=words):
        join_processes(**given)


@pytest.fixture
def run(monkeypatch):
    """The command in this process."""

    def command(*arguments):
        monkeypatch.setattr("sys.argv", ["stategp", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code

    return command


def test_the_command_takes_several_processes(tmp_path, run):
    pq, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    x = np.random.default_rng(0).uniform(0, 20, 300)
    (tmp_path / "data").mkdir()
    table = pa.table({"t": x, "v": np.sin(x) + 0.1 * np.cos(40 * x)})
    pq.write_table(table, tmp_path / "data" / "part.parquet", row_group_size=50)
    folder = str(tmp_path / "data")
    given = ["fit", folder, "--time", "t", "--target", "v", "--kernel", "matern32(2)"]
    given += ["--inducing", "10", "--max-steps", "2"]
    join = ["--distributed", "--coordinator", f"localhost:{free_port()}", "--processes", "2"]
    files = [tmp_path / name for name in ("none.stategp", "two.stategp", "one.stategp")]
    said = run_together(
        [
            ["-m", "stategp", *given, *join, "--process", str(number), "--output", str(path)]
            for number, path in zip((1, 0), files, strict=False)
        ]
    )
    assert files[1].exists(), said
    assert not files[0].exists()
    assert "process 1 of 2; if one of them dies" in said[0][1]
    assert said[0][0] == ""
    assert [code for _, _, code in said] == [0, 0]
    assert run(*given, "--output", files[2]) == 0
    two, one = (sg.load(path).posterior for path in files[1:])
    assert two.elbo == pytest.approx(one.elbo, rel=1e-9)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--process", "1"], "belong to --distributed"),
        (["--distributed", "--process", "1"], "give all of"),
        (["--distributed"], "no other processes were found"),
    ],
)
def test_processes_that_find_nobody_say_so(options, words, tmp_path, run, capsys, monkeypatch):
    def nobody(*_, **__):
        raise ValueError("coordinator_address should be defined.")

    monkeypatch.setattr("jax.distributed.initialize", nobody)  # this process computes already
    assert run("fit", tmp_path, *options) != 0
    assert words in capsys.readouterr().err
