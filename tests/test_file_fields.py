"""Files of every version of the format, and fields by name."""

import dataclasses
import json

import numpy as np
import pytest

import stategp as sg
from stategp._files import _registry, upgrade
from stategp._files._registry import FORMAT
from tests.files import make_files
from tests.forged import FILES, SAVED, content, forge


@pytest.mark.parametrize("path", SAVED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_files_of_every_version_give_what_they_gave(path):
    expected = json.loads(path.with_suffix(".json").read_text())
    answers = make_files.ask(sg.load(path))
    assert set(answers) == set(expected)
    for name, numbers in expected.items():
        if isinstance(np.ravel(numbers)[:1].tolist()[0], str):
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
        assert _holds(whole["tree"], old["tree"])
        assert set(tensors) == set(old_tensors)
    old_arrays = {tensor.tobytes() for tensor in old_tensors.values()}
    assert old_arrays <= {tensor.tobytes() for tensor in tensors.values()}


def _holds(new, old):
    """Whether a tree is the old one, or that with fields which were added since."""
    if isinstance(old, dict):
        return set(old) <= set(new) and all(_holds(new[key], old[key]) for key in old)
    if isinstance(old, list):
        return len(new) == len(old) and all(map(_holds, new, old))
    return new == old


def test_there_are_files_of_every_version():
    names = {case.__name__ for case in make_files.CASES}
    for version in range(1, FORMAT + 1):
        folder = FILES / f"format-{version}"
        oldest = {case.__name__ for case in make_files.OLDEST}
        missing = names - oldest if version == 1 else set()
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


# ---- fields -----------------------------------------------------------------------------------


@pytest.fixture
def changed(tmp_path):
    """The saved file with its tree changed by a function."""

    def make(change):
        text, tensors = content(FILES / f"format-{FORMAT}" / "gaussian.stategp")
        whole = json.loads(text)
        change(whole["tree"]["fields"])
        return forge(tmp_path / "changed", json.dumps(whole), tensors)

    return make


def test_every_array_is_named_once(changed, tmp_path):
    def twice(fields):
        fields["sites"] = {"tuple": [fields["sites"]["tuple"][0]] * 2}

    with pytest.raises(ValueError, match="is used twice"):
        sg.load(changed(twice))
    text, tensors = content(FILES / f"format-{FORMAT}" / "gaussian.stategp")
    longer = forge(tmp_path / "longer", text, tensors | {"more": np.zeros(1)})
    with pytest.raises(ValueError, match="arrays that nothing refers to"):
        sg.load(longer)


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
        (swap, r"Sites: precision should be .*, and is an array of float64 with shape \(\d+,\)"),
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


@pytest.mark.parametrize(
    ("name", "path", "change", "words"),
    [
        ("gaussian", "data.x", lambda a: a[:-1], "columns of different lengths"),
        ("gaussian", "data.weights", lambda a: a[:-1], "columns of different lengths"),
        ("gaussian", "data.x", lambda a: a[::-1], "not finite numbers in order"),
        ("gaussian", "relative_inducing", lambda a: a[::-1], "in increasing order"),
        ("gaussian", "relative_inducing", lambda a: a * np.nan, "in increasing order"),
        ("gaussian", "relative_inducing", lambda a: a[:-1], "23 inducing locations need"),
        ("poisson", "sites.0.linear", lambda a: a[1:], "sites.linear has shape"),
        ("poisson", "marginals.0.covariance", lambda a: a[:, :2, :2], "marginals.covariance has"),
        ("additive", "chains.0.inducing", lambda a: -a, "in increasing order"),
        ("additive", "training.table.y", lambda a: a[1:], "columns of different lengths"),
        ("additive", "training.table.index.0", lambda a: a + 64, "that are not there"),
        ("additive", "training.sites.linear", lambda a: a[1:], "sites of shape"),
        ("deep", "model.layers.0.locations", lambda a: a[::-1], "in increasing order"),
    ],
)
def test_arrays_that_do_not_fit_together(name, path, change, words, tmp_path):
    text, tensors = content(FILES / f"format-{FORMAT}" / f"{name}.stategp")
    node = json.loads(text)["tree"]
    for step in path.split("."):
        if "fields" in node:
            node = node["fields"][step]
        elif "dict" in node:
            node = dict(node["dict"])[step]
        else:
            node = node["tuple"][int(step)]
    changed = change(tensors[node["array"]])
    tensors[node["array"]] = np.ascontiguousarray(changed)
    forged = forge(tmp_path / "forged", text, tensors)
    with pytest.raises(ValueError, match=words):
        sg.load(forged)
