"""Files: what was saved comes back to the last bit, and nothing else does."""

import dataclasses
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

import stategp as sg
from stategp._files import _registry, upgrade
from stategp._files._registry import FORMAT
from tests.files import make_files

k = sg.kernels
FILES = Path(__file__).parent / "files"
SAVED = sorted(FILES.glob("format-*/*.stategp"))
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


def test_the_composition_of_a_deep_model_is_given_to_load(tmp_path):
    def composition(f, x):
        return f["1"](f["0"](x))

    stacked = sg.load(FILES / f"format-{FORMAT}" / "deep.stategp")
    model = sg.DeepGP(stacked.model.layers, composition, stacked.model.likelihood)
    dataclasses.replace(stacked, model=model).save(tmp_path / "deep.stategp")
    again = sg.load(tmp_path / "deep.stategp", function=composition)
    assert again.model.function is composition
    with pytest.raises(ValueError, match="the function of a DeepGP is one of your own"):
        sg.load(tmp_path / "deep.stategp")


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
    with pytest.raises(ValueError, match="not one of stategp"):
        sg.load(tmp_path / "other")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["other", "text"]


# ---- versions -------------------------------------------------------------------------------


@pytest.mark.parametrize("path", SAVED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_files_of_every_version_give_what_they_gave(path):
    expected = json.loads(path.with_suffix(".json").read_text())
    answers = make_files.ask(sg.load(path))
    assert set(answers) == set(expected)
    for name, numbers in expected.items():
        if name == "day":
            assert answers[name] == numbers
        else:
            np.testing.assert_allclose(answers[name], numbers, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("path", SAVED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_what_was_loaded_is_saved_as_it_was(path, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    sg.load(path).save(first)
    sg.load(first).save(second)
    assert first.read_bytes() == second.read_bytes()
    (text, tensors), (old_text, old_tensors) = content(first), content(path)
    whole, old = json.loads(text), json.loads(old_text)
    if old["format"] == FORMAT:
        assert whole["tree"] == old["tree"]
        assert set(tensors) == set(old_tensors)
    old_arrays = {tensor.tobytes() for tensor in old_tensors.values()}
    assert old_arrays <= {tensor.tobytes() for tensor in tensors.values()}


def test_there_are_files_of_every_version():
    names = {case.__name__ for case in make_files.CASES}
    for version in range(1, FORMAT + 1):
        folder = FILES / f"format-{version}"
        missing = {"registered"} if version == 1 else set()
        assert {path.stem for path in folder.glob("*.stategp")} == names - missing
    assert {json.loads(content(path)[0])["format"] for path in SAVED} == set(range(1, FORMAT + 1))


def test_results_of_format_1_have_an_outcome():
    outcomes = {
        name: sg.load(FILES / "format-1" / f"{name}.stategp").fit_result
        for name in ("gaussian", "poisson")
    }
    assert outcomes["gaussian"].outcome is sg.Outcome.out_of_steps
    assert outcomes["gaussian"].remarks == ()
    assert outcomes["poisson"].outcome is sg.Outcome.converged
    assert outcomes["poisson"].remarks == ("the bound stopped rising",)


# ---- files with something wrong in them -----------------------------------------------------


def content(path):
    """The description in a file, as text, and its arrays."""
    with safetensors.safe_open(path, framework="numpy") as file:
        entry = json.loads(file.metadata()["stategp"])
        return entry["content"], {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def forge(path, text, tensors=None):
    """A file with any description, which its checksum fits."""
    tensors = tensors or {}
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    entry = json.dumps({"format": FORMAT, "sha256": digest.hexdigest(), "content": text})
    path.write_bytes(safetensors.numpy.save(tensors, metadata={"stategp": entry}))
    return path


def described(tree, version=FORMAT, **more):
    return json.dumps({"format": version, "tree": tree} | more)


@pytest.fixture
def changed(saved, tmp_path):
    """The saved file with its tree changed by a function."""

    def make(change):
        text, tensors = content(saved[1])
        whole = json.loads(text)
        change(whole["tree"]["fields"])
        return forge(tmp_path / "changed", json.dumps(whole), tensors)

    return make


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
        ({"floats": "t0"}, "array 't0' is named twice, or is not there"),
        ({"array": "t0", "host": True}, "array 't0' is named twice, or is not there"),
        ({"dict": [[{"list": []}, 1]]}, "does not describe a posterior"),
        (10**30, "more than 64 bits"),
        ([1], "unexpected list"),
        ("text", "holds a str, not a posterior"),
    ]:
        with pytest.raises(ValueError, match=words) as refused:
            sg.load(forge(tmp_path / "file", described(tree)))
        assert str(refused.value).startswith(str(tmp_path / "file"))


@pytest.mark.parametrize("version", [0, FORMAT + 1, "2", None, 1.0, [2]])
def test_other_versions_are_refused(tmp_path, version):
    path = forge(tmp_path / "file", described(None, version))
    with pytest.raises(ValueError, match=r"reads formats 1 to 2: it was written by a newer"):
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


def test_every_array_is_named_once(changed):
    def twice(fields):
        fields["sites"] = {"tuple": [fields["sites"]["tuple"][0]] * 2}

    with pytest.raises(ValueError, match="is named twice"):
        sg.load(changed(twice))
    with pytest.raises(ValueError, match="arrays that belong to nothing"):
        sg.load(changed(lambda fields: fields.update(fit_result=None, sites={"tuple": []})))


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
    assert "named twice" in refused
    assert "not one of stategp" in other
    assert int(kilobytes) < 200_000


# ---- fields by name -------------------------------------------------------------------------


def test_missing_fields_take_their_defaults(changed):
    def without(*names):
        return lambda fields: [fields.pop(name) for name in names]

    again = sg.load(changed(without("certificate", "is_bound")))
    assert (again.certificate, again.is_bound) == (None, True)
    with pytest.raises(ValueError, match="Posterior has no elbo, which has no default"):
        sg.load(changed(without("elbo")))


def test_unknown_fields_come_from_a_newer_version(changed):
    with pytest.raises(ValueError, match="has no field colour here: it was written by stategp"):
        sg.load(changed(lambda fields: fields.update(colour="red")))


def test_wrong_types_are_refused_by_name(changed):
    def at(fields, *path):
        for name in path:
            fields = fields[name] if isinstance(name, int) else fields[name]["fields"]
        return fields

    def kernel(fields):
        return at(fields, "model")["kernels"]["tuple"][0]["fields"]

    def swap(fields):
        sites = fields["sites"]["tuple"][0]["fields"]
        whole = sites["precision"], fields["relative_inducing"]
        fields["relative_inducing"], sites["precision"] = whole

    for change, words in [
        (lambda f: f.update(elbo="high"), "Posterior: elbo should be float, and is 'high'"),
        (lambda f: f.update(elbo=True), "elbo should be float, and is True"),
        (lambda f: f.update(indefinite=0), "indefinite should be bool, and is 0"),
        (lambda f: f.update(model=None), "model should be GP, and is None"),
        (lambda f: f.update(fit_result=3), "fit_result should be"),
        (lambda f: f.update(relative_inducing={"tuple": [1.0]}), "relative_inducing should be"),
        (swap, r"Sites: precision should be .*, and is an array of float64 with shape \(6,\)"),
        (lambda f: at(f, "data").update(origin="0"), "Observations: origin should be"),
        (lambda f: kernel(f).update(names={"tuple": ["a", 1]}), "Sum: names should be"),
        (lambda f: kernel(f).update(names={"list": ["a", "b"]}), "names should be"),
        (lambda f: kernel(f).update(kernels={"tuple": [1.5]}), "Sum: kernels should be"),
        (lambda f: kernel(f)["kernels"]["tuple"][0]["fields"]["variance"]["fields"].update(
            constraint="none"), "Parameter: constraint should be"),
        (lambda f: kernel(f)["kernels"]["tuple"][0]["fields"].update(variance=1.0),
         "Matern32: variance should be Parameter, and is 1.0"),
        (lambda f: at(f, "fit_result").update(outcome="converged"), "outcome should be Outcome"),
        (lambda f: at(f, "fit_result").update(trace={"tuple": ["a"]}), "trace should be"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=words):
            sg.load(changed(change))


def test_fields_of_older_formats_are_brought_up_to_date(tmp_path, monkeypatch):
    monkeypatch.setattr(_registry, "_upgrades", {})
    sg.Forecaster(inducing=7).save(tmp_path / "file")
    text, tensors = content(tmp_path / "file")
    old = json.loads(text.replace('"inducing"', '"states"')) | {"format": 1}
    path = forge(tmp_path / "old", json.dumps(old), tensors)
    with pytest.raises(ValueError, match="Forecaster has no field states"):
        sg.load(path)

    @upgrade("Forecaster", 1)
    def renamed(fields):
        return {"inducing": fields.pop("states")} | fields

    assert sg.load(path).inducing == 7


def test_long_traces_and_odd_numbers_come_back(tmp_path):
    for value in [
        tuple(np.random.default_rng(0).normal(size=40).tolist()),
        (1.0, float("nan"), -float("inf"), 5e-324) * 5,
        (float("nan"), 1),
        [0, -(2**63), 2**64 - 1, "ü\ud800"],
        {"a": (None, True), 3: -0.0},
        np.arange(6.0).reshape(2, 3)[:, ::-1],
        np.arange(3, dtype=">i4"),
        np.zeros((0, 3), dtype=np.uint8),
        sg.Outcome.falling,
    ]:
        sg.Forecaster(inducing=value).save(tmp_path / "file")
        again = sg.load(tmp_path / "file").inducing
        assert type(again) is type(value)
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(again, value)
        else:
            assert repr(again) == repr(value)


# ---- classes --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["kernels", "likelihoods", "means", "priors"])
def test_every_class_can_be_saved(kind, tmp_path):
    parts, one = (k.Matern12(), k.Constant()), np.eye(1)
    arguments = {
        "Sum": parts, "Product": parts, "FromSDE": (-one, one, one, one[0]), "Ordinal": (3,),
        "Own": (make_files.Cauchy(1.0),),
        # Abstract, or with functions of the user's.
        "Kernel": None, "LinearSDE": None, "Likelihood": None, "Mean": None, "Prior": None,
        "Custom": None, "Function": None,
    }  # fmt: skip
    for name, cls in vars(getattr(sg, kind)).items():
        ours = isinstance(cls, type) and cls.__module__.startswith(f"stategp.{kind}")
        if not ours or arguments.get(name, ()) is None:
            continue
        value = cls(*arguments.get(name, ()))
        field = kind[:-1] if kind != "priors" else "inducing"
        sg.Forecaster(**{field: value}).save(tmp_path / "file")
        again = getattr(sg.load(tmp_path / "file"), field)
        assert type(again) is cls
        assert repr(again) == repr(value)


def own_class(body="", name="Tilt"):
    """A class as a cell of a notebook defines it."""
    names = {"sg": sg, "__name__": "__main__"}
    exec(f"class {name}(sg.means.Mean):\n    slope: float\n    def __call__(self, x): ...\n", names)
    return names[name]


@pytest.fixture
def registry(monkeypatch):
    for table in ("_classes", "_names"):
        monkeypatch.setattr(_registry, table, dict(getattr(_registry, table)))


def test_classes_of_users_have_to_be_registered(registry, tmp_path):
    path, first = tmp_path / "file", own_class()
    with pytest.raises(ValueError, match=r"forecaster\.mean is a Tilt.*call sg\.register\(Tilt\)"):
        sg.Forecaster(mean=first(2.0)).save(path)
    assert sg.register(first) is first
    sg.Forecaster(mean=first(2.0)).save(path)
    assert type(sg.load(path).mean) is first
    assert sg.load(path).mean.slope == 2.0
    second = sg.register(own_class())  # the cell is run again
    assert type(sg.load(path).mean) is second
    sg.Forecaster(mean=first(3.0)).save(path)  # what the first made can still be saved
    assert sg.load(path).mean.slope == 3.0
    with pytest.raises(ValueError, match="field slope should be float, and is 'steep'; correct"):
        sg.Forecaster(mean=first("steep")).save(path)
    text, tensors = content(path)
    forge(path, text.replace('"slope"', '"angle"'), tensors)
    with pytest.raises(ValueError, match="saved with another definition of that class"):
        sg.load(path)


def test_a_file_with_a_class_that_is_not_registered_says_what_to_do(registry, tmp_path):
    sg.Forecaster(mean=sg.register(own_class())(2.0)).save(tmp_path / "file")
    del _registry._classes["registered.Tilt"]
    with pytest.raises(ValueError, match=r"define the class, call sg\.register\(Tilt\), then load"):
        sg.load(tmp_path / "file")


def test_what_can_be_registered(registry):
    for wrong, words in [
        (own_class(name="Matern32"), "Matern32 is the name of a class of stategp"),
        (own_class(name="Posterior"), "Posterior is the name of a class of stategp"),
        (type("Plain", (), {}), "make it a dataclass"),
        (k.Matern32(), "takes a class"),
    ]:
        with pytest.raises(ValueError, match=words):
            sg.register(wrong)
    assert sg.register(k.Matern32) is k.Matern32  # which files know anyway
    sg.register(own_class())
    with pytest.raises(ValueError, match=r"another class called Tilt is registered \(__main__\.T"):
        sg.register(dataclasses.make_dataclass("Tilt", [("slope", float)], namespace={}))


def test_functions_of_the_users_are_named(tmp_path):
    for model, where in [
        (sg.Forecaster(mean=sg.means.Function(jnp.sin)), r"forecaster\.mean\.function"),
        (sg.Forecaster(inducing=lambda x: x), r"forecaster\.inducing"),
    ]:
        with pytest.raises(ValueError, match=f"{where} is .*which a file cannot hold.*sg.register"):
            model.save(tmp_path / "file")
    assert not list(tmp_path.iterdir())
