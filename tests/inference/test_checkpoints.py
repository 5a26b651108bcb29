"""Fits that are stopped and go on: the same answer, the same trace, and never a broken file."""

import errno
import os
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import optax
import pytest

import stategp as sg
from stategp._fitting import _checkpointing
from stategp._inference import _checkpoints
from stategp._inference._optimisers import Batches
from tests.pages import ROOT

RANDOM = np.random.default_rng(0)
X = np.sort(RANDOM.uniform(0, 20, 50))
Y = np.sin(X) + 0.3 * RANDOM.standard_normal(50)
COUNTS = RANDOM.poisson(np.exp(np.sin(X))).astype(float)
GAUSSIAN = sg.GP(sg.kernels.Matern32())
POISSON = sg.GP(sg.kernels.Matern32(), sg.likelihoods.Poisson())
OFTEN = {"every": 1e-9}


class Killed(BaseException):
    """As if the process had ended."""


@pytest.fixture
def killing(monkeypatch):
    """Let a fit end after so many checkpoints."""

    def after(writes):
        write, count = _checkpoints.Keeper._write, 0

        def counted(keeper):
            nonlocal count
            write(keeper)
            count += 1
            if count > writes:
                raise Killed

        monkeypatch.setattr(_checkpoints.Keeper, "_write", counted)

    yield after
    monkeypatch.undo()


CASES = {
    "L-BFGS": (GAUSSIAN, Y, {"inducing": 8}, 7),
    "L-BFGS, exact": (GAUSSIAN, Y, {}, 4),
    "L-BFGS, Poisson": (POISSON, COUNTS, {"inducing": 8}, 5),
    "second start": (GAUSSIAN, Y, {"inducing": 8, "starts": 2}, 30),
    "Adam": (GAUSSIAN, Y, {"inducing": 8, "optimiser": "adam", "max_steps": 30}, 9),
    "minibatches": (POISSON, COUNTS, {"inducing": 8, "batch_size": 16, "max_steps": 40}, 21),
    "everything": (GAUSSIAN, Y, {"inducing": 8, "method": "gradient", "max_steps": 15}, 6),
    "EP": (POISSON, COUNTS, {"inducing": 8, "method": "ep", "max_steps": 15}, 6),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore::stategp.NotConvergedWarning")
def test_the_same_answer_and_the_same_trace(case, killing, tmp_path, monkeypatch):
    model, y, options, writes = CASES[case]
    uninterrupted = sg.fit(model, X, y, **options)
    file = tmp_path / "checkpoint"
    killing(writes)
    with pytest.raises(Killed):
        sg.fit(model, X, y, checkpoint=file, **OFTEN, **options)
    monkeypatch.undo()
    resumed = sg.fit(model, X, y, checkpoint=file, resume=True, **options)
    assert resumed.fit_result.trace == uninterrupted.fit_result.trace
    assert resumed.elbo == uninterrupted.elbo
    assert resumed.fit_result.outcome is uninterrupted.fit_result.outcome
    assert np.all(np.diff(resumed.fit_result.seconds) >= 0)
    # The fit is over: once more is to read its end.
    again = sg.fit(model, X, y, checkpoint=file, resume=True, **options)
    assert again.elbo == uninterrupted.elbo
    assert again.fit_result.trace == uninterrupted.fit_result.trace


def test_a_deep_model(killing, tmp_path, monkeypatch):
    layer = sg.Layer(sg.kernels.Matern32(), inducing=np.linspace(0, 20, 6))
    model = sg.DeepGP.stack([layer], sg.likelihoods.Gaussian())
    options = {"max_steps": 12, "batch_size": 10, "progress": False}
    file = tmp_path / "checkpoint"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.NotConvergedWarning)
        uninterrupted = sg.fit(model, X, Y, **options)
        killing(5)
        with pytest.raises(Killed):
            sg.fit(model, X, Y, checkpoint=file, **OFTEN, **options)
        monkeypatch.undo()
        resumed = sg.fit(model, X, Y, checkpoint=file, resume=True, **options)
    assert resumed.fit_result.trace == uninterrupted.fit_result.trace


def test_an_additive_model(killing, tmp_path, monkeypatch):
    model = sg.AdditiveGP({"a": sg.kernels.Matern32(), "b": sg.kernels.Matern12()}, "poisson")
    table = {"a": X, "b": X[::-1] ** 2}
    options = {"inducing": 5, "max_steps": 8, "progress": False}
    file = tmp_path / "checkpoint"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.NotConvergedWarning)
        uninterrupted = sg.fit(model, table, COUNTS, **options)
        killing(5)
        with pytest.raises(Killed):
            sg.fit(model, table, COUNTS, checkpoint=file, **OFTEN, **options)
        monkeypatch.undo()
        resumed = sg.fit(model, table, COUNTS, checkpoint=file, resume=True, **options)
    assert resumed.fit_result.trace == uninterrupted.fit_result.trace
    assert resumed.elbo == uninterrupted.elbo


def test_where_evaluations_are_too_many_to_keep(killing, tmp_path, monkeypatch):
    file = tmp_path / "checkpoint"
    monkeypatch.setattr("stategp._inference._lbfgs._REMEMBERED", 10)
    killing(6)
    with pytest.raises(Killed):
        sg.fit(GAUSSIAN, X, Y, inducing=8, checkpoint=file, **OFTEN)
    monkeypatch.undo()
    resumed = sg.fit(GAUSSIAN, X, Y, inducing=8, checkpoint=file, resume=True)
    uninterrupted = sg.fit(GAUSSIAN, X, Y, inducing=8)
    assert resumed.fit_result.converged
    np.testing.assert_allclose(resumed.elbo, uninterrupted.elbo, atol=1e-6)


def test_after_ctrl_c(tmp_path, monkeypatch):
    """What was found is returned, and the search can go on."""
    file, uninterrupted = tmp_path / "checkpoint", sg.fit(GAUSSIAN, X, Y, inducing=8)

    class Impatient(sg._runtime.Progress):
        def __call__(self, step, value):
            if step == 4:
                raise KeyboardInterrupt

    with pytest.warns(sg.NotConvergedWarning, match="interrupted"):
        stopped = sg.fit(GAUSSIAN, X, Y, inducing=8, checkpoint=file, progress=Impatient(False))
    assert stopped.fit_result.outcome is sg.Outcome.interrupted
    resumed = sg.fit(GAUSSIAN, X, Y, inducing=8, checkpoint=file, resume=True)
    assert resumed.fit_result.trace == uninterrupted.fit_result.trace


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    file = tmp_path_factory.mktemp("ended") / "checkpoint"
    sg.fit(GAUSSIAN, X, Y, inducing=8, checkpoint=file)
    return file


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y": Y + 1.0}, "another fit: the data differs"),
        ({"model": POISSON, "y": COUNTS}, "another fit: the data and the model differ"),
        ({"inducing": 9}, r"another fit: the options differ\."),
        ({"seed": 3}, r"another fit: the options differ\."),
    ],
)
def test_another_fit_is_refused(ended, change, words):
    before = ended.read_bytes()
    arguments = {"model": GAUSSIAN, "x": X, "y": Y, "inducing": 8} | change
    with pytest.raises(ValueError, match=words):
        sg.fit(**arguments, checkpoint=ended, resume=True)
    assert ended.read_bytes() == before


def test_files_that_are_none(ended, tmp_path):
    with pytest.raises(FileExistsError, match="give resume=True to go on from it"):
        sg.fit(GAUSSIAN, X, Y, checkpoint=ended)
    with pytest.raises(ValueError, match="holds a Checkpoint, not a posterior"):
        sg.load(ended)
    half = tmp_path / "half"
    half.write_bytes(ended.read_bytes()[:-100])
    with pytest.raises(ValueError, match="damaged"):
        sg.fit(GAUSSIAN, X, Y, inducing=8, checkpoint=half, resume=True)
    sg.condition(GAUSSIAN, X, Y).save(tmp_path / "posterior")
    with pytest.raises(ValueError, match="holds a Posterior, not a Checkpoint"):
        sg.fit(GAUSSIAN, X, Y, inducing=8, checkpoint=tmp_path / "posterior", resume=True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"resume": True}, "resume=True needs the file"),
        ({"checkpoint": 3}, "checkpoint must be the name of a file"),
        ({"checkpoint": "."}, "checkpoint must be the name of a file"),
        ({"checkpoint": "a", "every": "often"}, "'often' is not a duration"),
        ({"checkpoint": "a", "every": 0}, "every must be a positive number"),
        ({"checkpoint": "a", "resume": "yes"}, "resume must be True or False"),
    ],
)
def test_errors_say_what_was_wrong(options, words):
    with pytest.raises(ValueError, match=words):
        sg.fit(GAUSSIAN, X, Y, **options)


def test_how_often():
    assert _checkpointing.as_checkpoints("a", "5min", False).every == pytest.approx(300)
    assert _checkpointing.as_checkpoints("a", np.timedelta64(2, "s"), False).every == 2
    assert _checkpointing.as_checkpoints(None, "5min", False) is None


def test_a_place_that_cannot_be_written(tmp_path, monkeypatch):
    with pytest.raises(OSError, match=r"cannot be written .*does not exist"):
        sg.fit(GAUSSIAN, X, Y, checkpoint=tmp_path / "nowhere" / "checkpoint")

    for number in (errno.ENOSPC, errno.EROFS, errno.EACCES):

        def refused(*_, number=number):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr("stategp._files._saving._safetensors", refused)
        with pytest.raises(OSError, match=rf"cannot be written .{os.strerror(number)}."):
            sg.fit(GAUSSIAN, X, Y, checkpoint=tmp_path / "checkpoint")
        assert list(tmp_path.iterdir()) == []


def test_a_disk_that_becomes_full_costs_no_fit(tmp_path, monkeypatch):
    from stategp._files import _saving

    file, count, write = tmp_path / "checkpoint", 0, _saving._safetensors

    def filling(*arguments):
        nonlocal count
        count += 1
        if count > 3:
            yield b"half of it"
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        yield from write(*arguments)

    monkeypatch.setattr(_saving, "_safetensors", filling)
    with pytest.warns(sg.CheckpointWarning, match="the one before is still there"):
        posterior = sg.fit(GAUSSIAN, X, Y, inducing=8, checkpoint=file, **OFTEN)
    assert posterior.fit_result.converged
    monkeypatch.undo()
    resumed = sg.fit(GAUSSIAN, X, Y, inducing=8, checkpoint=file, resume=True)
    assert resumed.elbo == posterior.elbo
    assert list(tmp_path.iterdir()) == [file]


def test_an_optimiser_of_optax_with_another_memory_is_refused(tmp_path, killing, monkeypatch):
    file, options = tmp_path / "checkpoint", {"inducing": 8, "max_steps": 20}
    killing(4)
    with pytest.raises(Killed):
        sg.fit(GAUSSIAN, X, Y, optimiser=optax.adam(0.1), checkpoint=file, **OFTEN, **options)
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"another fit|cannot be resumed"):
        sg.fit(GAUSSIAN, X, Y, optimiser=optax.sgd(0.1), checkpoint=file, resume=True, **options)


def test_batches_are_those_of_a_step_whichever_came_before():
    in_order, other = Batches(10, 3, 0), Batches(10, 3, 0)
    batches = [in_order.at(number) for number in range(9)]
    for turn in range(3):
        assert len(np.unique(np.concatenate(batches[3 * turn : 3 * turn + 3]))) == 9
    for number in (7, 2, 8, 0, 5):
        np.testing.assert_array_equal(other.at(number), batches[number])


PROGRAM = """
import sys, numpy as np, stategp as sg
x = np.linspace(0, 20, 50)
model = sg.GP(sg.kernels.Matern32(), sg.likelihoods.Poisson())
y = np.round(np.exp(np.sin(x)))
posterior = sg.fit(model, x, y, inducing=8, batch_size=10, max_steps=int(sys.argv[2]),
                   checkpoint=sys.argv[1], every=0.01, resume=True, progress=False)
print(repr(posterior.elbo))
"""


def test_killed_without_notice(tmp_path):
    """kill -9 in the middle of writing or computing: the file is whole, and the answer the same."""
    file, steps = tmp_path / "checkpoint", "1500"

    def start(path):
        command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(path), steps]
        return subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True)

    process = start(file)
    while not file.exists() or file.stat().st_size < 3000:  # a search is under way
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()
    (answer, _), (expected, _) = start(file).communicate(), start(tmp_path / "new").communicate()
    assert answer == expected
    assert sorted(tmp_path.iterdir()) == [file, tmp_path / "new"]
