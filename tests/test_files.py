"""Files: what was saved comes back to the last bit, and nothing else does."""

import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

import stategp as sg

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


def test_additive_and_deep_posteriors(tmp_path):
    x = np.random.default_rng(0).uniform(size=(30, 2))
    additive = sg.condition(sg.AdditiveGP({"a": k.Matern32(), "b": k.Matern32()}), x, x[:, 0])
    additive.save(tmp_path / "additive.stategp")
    again = sg.load(tmp_path / "additive.stategp")
    np.testing.assert_array_equal(again.predict_f(x)[1], additive.predict_f(x)[1])
    np.testing.assert_array_equal(again.components(x)["a"][1], additive.components(x)["a"][1])

    def composition(f, t):
        return 2.0 * f["only"](t)

    layer = sg.Layer(k.Matern32(), 5, between=(0, 5))
    for deep, function in [
        (sg.DeepGP.stack([layer]), None),
        (sg.DeepGP({"only": layer}, composition), composition),
    ]:
        fitted = sg.condition(deep, X, np.sin(X), max_steps=2, step_size=1.0, tolerance=1e9)
        fitted.save(tmp_path / "deep.stategp")
        again = sg.load(tmp_path / "deep.stategp", function=function)
        np.testing.assert_array_equal(again.predict_f(NEW), fitted.predict_f(NEW))
    with pytest.raises(ValueError, match="the function that composes"):
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


def test_a_file_can_only_name_what_is_known(tmp_path):
    import hashlib
    import json

    for tree, words in [
        ({"class": "Popen", "fields": {}}, "no class is called 'Popen'"),
        ({"class": "GP", "fields": {"kernels": None}}, "do not match"),
        ({"class": "Matern32", "fields": {"variance": 1.0, "lengthscale": 1.0}}, "not a posterior"),
        ({"run": "code"}, "unexpected entries"),
        ([1], "unexpected list"),
    ]:
        for version, expected in [(1, words), (2, "format 2")]:
            text = json.dumps({"format": version, "tree": tree})
            checksum = hashlib.sha256(text.encode()).hexdigest()
            header = {"stategp": json.dumps({"sha256": checksum, "content": text})}
            (tmp_path / "file").write_bytes(safetensors.numpy.save({}, metadata=header))
            with pytest.raises(ValueError, match=expected):
                sg.load(tmp_path / "file")


def test_what_a_file_cannot_hold_is_named(tmp_path):
    made = sg.condition(sg.GP(k.Matern32(), mean=jnp.sin), X, np.sin(X), inducing=4)
    with pytest.raises(ValueError, match="a file cannot hold"):
        made.save(tmp_path / "model.stategp")
    assert not list(tmp_path.iterdir())
