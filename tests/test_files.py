"""Files: what was saved comes back to the last bit, and nothing else does."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import stategp as sg
from stategp._files._registry import FORMAT
from tests.forged import described, forge

k = sg.kernels
X = np.linspace(0, 5, 20)
NEW = np.array([-1.0, 0.3, 7.0])


def posterior():
    kernel = k.Matern32(lengthscale=sg.parameter(1.0, prior=sg.priors.LogNormal(1.0, 0.5)))
    model = sg.GP(kernel + k.Cosine(period=sg.fixed(2.0)), "student_t", mean=1.5)
    return sg.condition(model, X + 1000, np.sin(X), inducing=6)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "model.stategp"
    made = posterior()
    made.save(path)
    return made, path


def test_what_was_saved_comes_back_to_the_last_bit(saved):
    made, path = saved
    again = sg.load(path)
    assert repr(again) == repr(made)
    for ours, theirs in zip(again.predict_f(NEW + 1000), made.predict_f(NEW + 1000), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    prior = again.model.kernel.kernels[0].lengthscale.prior
    assert prior == made.model.kernel.kernels[0].lengthscale.prior
    again.save(path.with_name("again.stategp"))
    assert path.with_name("again.stategp").read_bytes() == path.read_bytes()


def test_another_process_predicts_the_same_bits(saved):
    made, path = saved
    code = (
        "import sys, numpy as np, stategp as sg\n"
        "mean, variance = sg.load(sys.argv[1]).predict_f(np.array([-1.0, 0.3, 7.0]) + 1000)\n"
        "print((np.asarray(mean).tobytes() + np.asarray(variance).tobytes()).hex())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    mean, variance = made.predict_f(NEW + 1000)
    ours = np.asarray(mean).tobytes() + np.asarray(variance).tobytes()
    assert done.stdout.strip() == ours.hex()


def test_damaged_files_are_never_read(saved, tmp_path):
    made, path = saved
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    expected = np.asarray(made.predict_f(NEW + 1000))
    wrong = 0
    for number in range(200):
        damaged = bytearray(content)
        match number % 4:
            case 0:  # one bit
                damaged[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
            case 1:  # cut short
                damaged = damaged[: rng.integers(len(content))]
            case 2:  # a stretch overwritten
                at = rng.integers(len(content) - 20)
                damaged[at : at + 20] = rng.bytes(20)
            case 3:  # something put in
                at = rng.integers(len(content))
                damaged[at:at] = rng.bytes(int(rng.integers(1, 9)))
        file = tmp_path / "damaged.stategp"
        file.write_bytes(damaged)
        try:
            again = sg.load(file)
        except ValueError as error:
            wrong += "damaged.stategp" in str(error)
        else:  # a bit that no reader looks at
            np.testing.assert_array_equal(again.predict_f(NEW + 1000), expected)
    assert wrong > 150


def test_foreign_files_and_wrong_places(saved, tmp_path):
    made, _ = saved
    with pytest.raises(FileNotFoundError, match="there is no file"):
        sg.load(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        made.save(tmp_path / "no folder" / "model.stategp")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ValueError, match="not a stategp file"):
        sg.load(tmp_path / "text")
    safetensors.numpy.save_file({"a": np.zeros(3)}, tmp_path / "other")
    with pytest.raises(ValueError, match="not written by stategp"):
        sg.load(tmp_path / "other")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["other", "text"]


# ---- files from elsewhere -------------------------------------------------------------------


def test_a_file_can_only_name_what_is_known(tmp_path):
    for tree, words in [
        ({"class": "Popen", "fields": {}}, "no class is called 'Popen'"),
        ({"class": "os.system", "fields": {}}, "no class is called 'os.system'"),
        ({"class": "Outcome", "fields": {}}, "Outcome is not a class with fields"),
        ({"class": "GP", "fields": {"kernels": None}}, "GP has no likelihood, means"),
        ({"class": "kernels.Matern32", "fields": {}}, "has no variance, lengthscale"),
        ({"class": "priors.Normal", "fields": {}}, "holds a Normal, not a posterior"),
        ({"enum": "Outcome", "member": "mro"}, "Outcome has no member 'mro'"),
        ({"enum": "GP", "member": "__init__"}, "GP has no member '__init__'"),
        ({"run": "code"}, "unexpected entries"),
        ({"floats": "t0"}, "array 't0' is used twice, or is missing"),
        ({"array": "t0", "host": True}, "array 't0' is used twice, or is missing"),
        ({"dict": [[{"list": []}, 1]]}, "does not describe a posterior"),
        (10**30, "more than 64 bits"),
        ([1], "unexpected list"),
        ("text", "holds a str, not a posterior"),
        ({"enum": "Outcome", "member": "converged"}, "holds an Outcome, not a posterior"),
    ]:
        with pytest.raises(ValueError, match=words) as refused:
            sg.load(forge(tmp_path / "file", described(tree)))
        assert str(refused.value).startswith(str(tmp_path / "file"))


@pytest.mark.parametrize("version", [0, FORMAT + 1, "2", None, 1.0, [2], np.nan])
def test_other_versions_are_refused(tmp_path, version):
    path = forge(tmp_path / "file", described(None, version))
    reason = "was written by a newer version" if version == FORMAT + 1 else "is damaged"
    with pytest.raises(ValueError, match=f"reads formats 1 to {FORMAT}: it {reason}"):
        sg.load(path)
    entry = json.dumps({"format": version, "content": "?", "sha256": "?"})
    path.write_bytes(safetensors.numpy.save({}, metadata={"stategp": entry}))
    with pytest.raises(ValueError, match="file has format"):
        sg.load(path)


@pytest.mark.parametrize("depth", [300, 1_000_000])
def test_nested_without_end(tmp_path, depth):
    deep = '{"tuple":[' * depth + "1" + "]}" * depth
    for metadata in (deep, '"' + "[" * depth, "[" * depth):
        path = tmp_path / "file"
        path.write_bytes(safetensors.numpy.save({}, metadata={"stategp": metadata}))
        with pytest.raises(ValueError, match="file is damaged"):
            sg.load(path)
    with pytest.raises(ValueError, match="nested too deep"):
        sg.load(forge(tmp_path / "file", '{"format": 2, "tree": %s}' % deep))  # noqa: UP031


def test_what_cannot_be_read_back_is_not_saved(tmp_path):
    kernel = k.Matern32()
    for _ in range(120):
        kernel = k.Product(kernel, k.Constant())
    with pytest.raises(ValueError, match="nested too deep for a file"):
        sg.Forecaster(kernel).save(tmp_path / "file")
    for _ in range(40):
        kernel = kernel.left
    sg.Forecaster(kernel).save(tmp_path / "file")
    assert repr(sg.load(tmp_path / "file")).count("Constant") == 80
    with pytest.raises(ValueError, match=r"forecaster\.inducing is an array of <U1"):
        sg.Forecaster(inducing=np.array(["a"])).save(tmp_path / "file")
    with pytest.raises(ValueError, match="whole numbers of 64 bits"):
        sg.Forecaster(inducing=10**30).save(tmp_path / "file")


@pytest.mark.parametrize("shape", [(0, 2**62), (0, 2**40, 2**40), (2**62, 4)])
def test_shapes_without_end(tmp_path, shape):
    size = 0 if 0 in shape else 8
    content = json.dumps({"stategp": json.dumps({"content": "{}", "sha256": "?"})})
    text = (
        f'{{"__metadata__":{content},'
        f'"t0":{{"dtype":"F64","shape":{list(shape)},"data_offsets":[0,{size}]}}}}'
    ).encode()
    path = tmp_path / "file"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(size))
    with pytest.raises(ValueError, match="damaged"):
        sg.load(path)


MEMORY = """
import re, sys
import stategp as sg

def peak():
    status = open("/proc/self/status").read()
    return int(re.search(r"VmHWM:\\s*(\\d+) kB", status)[1])

before = peak()
for path in sys.argv[1:]:
    try:
        sg.load(path)
    except ValueError as error:
        print(error)
print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_reading_takes_memory_in_proportion_to_the_file(tmp_path):
    # A megabyte that is named 2,000 times, and three gigabytes of somebody else's.
    again = {"tuple": [{"array": "t0", "host": False}] * 2000}
    bomb = forge(tmp_path / "bomb", described(again), {"t0": np.zeros(2**17)})
    foreign, size = tmp_path / "foreign", 3 * 2**30
    header = {"weights": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}
    text = json.dumps(header).encode()
    with foreign.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + size)  # takes no room on the disk
    command = [sys.executable, "-c", MEMORY, str(bomb), str(foreign)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    refused, other, kilobytes = done.stdout.splitlines()
    assert "used twice" in refused
    assert "not written by stategp" in other
    assert int(kilobytes) < 200_000
