"""Classes in files: every one of the package, and those of users that are registered."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import stategp as sg
from stategp._files import _registry
from tests.files import make_files
from tests.forged import content, forge

k = sg.kernels


@pytest.mark.parametrize("kind", ["kernels", "likelihoods", "means", "priors"])
def test_every_class_can_be_saved(kind, tmp_path):
    parts, one = (k.Matern12(), k.Constant()), np.eye(1)
    arguments = {
        "Piecewise": (parts, [0.5]), "Scaled": (parts[0], k.StepFunction([0.5], [1.0, 2.0])),
        "StepFunction": ([0.5], [1.0, 2.0]), "Sum": parts, "Product": parts,
        "FromSDE": (-one, one, one, one[0]), "Ordinal": (3,), "Softmax": (3,),
        "Own": (make_files.Cauchy(1.0),), "Softplus": (sg.likelihoods.Poisson(),),
        "Step": ([0.5],), "Impulse": ([0.5],), "_Actions": None,
        # Abstract, or with functions of the user's.
        "Kernel": None, "LinearSDE": None, "Likelihood": None, "Mean": None, "Prior": None,
        "Custom": None, "Function": None, "ClosedForm": None,
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
        (sg.Forecaster(k.Scaled(k.Matern12(), jnp.cos)), r"forecaster\.kernel\.envelope\.function"),
    ]:
        with pytest.raises(ValueError, match=f"{where} is .*which a file cannot hold.*sg.register"):
            model.save(tmp_path / "file")
    assert not list(tmp_path.iterdir())
