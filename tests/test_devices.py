"""Several devices: rows of observations are divided among them, with the same answers."""

import os
import socket
import subprocess
import sys

import numpy as np
import pytest

import stategp as sg
from stategp._command import main
from tests.pages import ROOT

COMPARE = """
import jax, numpy as np, stategp as sg
from stategp._data import observe
from stategp._inference import Collapsed, Sight
from stategp.parameters import to_vector

assert len(jax.devices()) == 2
rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 20, 2000))
inducing = jax.numpy.linspace(0, 20, 16)
for likelihood in [sg.likelihoods.StudentT(df=4.0, scale=0.3)]:
    y = np.sin(x) + 0.3 * rng.standard_t(4, len(x))
    model = sg.GP(sg.kernels.Matern32(lengthscale=5.0, variance=1.0), likelihood)
    found = []
    for device in (None, jax.devices()[0]):
        jax.config.update("jax_default_device", device)
        search = Collapsed(model, observe(x, y, likelihood), inducing)
        search.sight = Sight(search.data, inducing, few=100)
        vector = to_vector(model)
        found.append((search(vector), search(vector + 0.1)))
        rows = getattr(search.sight.view, "rows", search.sight.view)
        assert len(rows.t.sharding.device_set) == (2 if device is None else 1)
    for (one, slopes), (other, same_slopes) in zip(*found, strict=True):
        assert abs(one / other - 1) < 1e-12, (one, other)
        np.testing.assert_allclose(slopes, same_slopes, rtol=1e-9, atol=1e-9 * abs(one))
print("same")
"""


SHARE = """
import sys
import jax, numpy as np, stategp as sg

port, index, count, bad = *map(int, sys.argv[1:4]), sys.argv[4] == "bad"
jax.distributed.initialize(f"localhost:{port}", num_processes=count, process_id=index)
rng = np.random.default_rng(0)
x = rng.uniform(0, 20, 400)
y = np.sin(x) + 0.1 * rng.standard_normal(len(x))
whole = sg.summarise(x, y, shortest=2.0)
if bad:
    y[399] = np.inf

def batches():
    for rows in np.array_split(np.arange(len(x)), 8):
        yield x[rows], y[rows]

try:
    total = sg.summarise(sg.stream(batches, shortest=2.0))
except (ValueError, RuntimeError) as error:
    print(type(error).__name__, error)
else:
    np.testing.assert_allclose(total.sums.plain, whole.sums.plain, rtol=1e-12, atol=1e-12)
    if index == 0:  # one is enough: compiling takes time
        model = sg.GP(sg.kernels.Matern32(lengthscale=2.0), sg.likelihoods.Gaussian(variance=0.1))
        elbos = [sg.condition(model, each, inducing=16).elbo for each in (total, whole)]
        assert abs(elbos[0] / elbos[1] - 1) < 1e-11
    print("same", total.rows)
"""


def free_port():
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return str(free.getsockname()[1])


def run_together(commands):
    """What each of some processes said."""
    options = {"cwd": ROOT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    started = [subprocess.Popen([sys.executable, *command], **options) for command in commands]
    try:
        return [process.communicate(timeout=300) for process in started]
    finally:
        for process in started:
            process.kill()


@pytest.mark.parametrize(("kind", "count"), [("good", 4), ("bad", 2)])
def test_processes_read_their_shares(kind, count):
    port = free_port()
    said = run_together(
        [["-c", SHARE, port, str(index), str(count), kind] for index in range(count)]
    )
    if kind == "good":
        assert all("same 400" in out for out, _ in said), said
    else:
        assert "RuntimeError process 1 could not read its share" in said[0][0], said
        assert "ValueError batch 7" in said[1][0], said


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


def test_two_devices_give_the_answer_of_one():
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
    done = subprocess.run(
        [sys.executable, "-c", COMPARE],
        env=os.environ | {"XLA_FLAGS": flags},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.stdout.strip() == "same", done.stderr[-3000:]
