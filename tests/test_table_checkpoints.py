"""Fits of many series that are stopped and go on: those that were finished are not fitted again."""

import numpy as np
import pandas as pd
import pytest

import stategp as sg
from stategp._forecasting import _parallel
from stategp._many import _fitting

RANDOM = np.random.default_rng(4)
X = np.arange(12.0)
COUNTS = {key: (X, RANDOM.poisson(3.0, 12).astype(float)) for key in "abc"}
COUNTS["b"] = (X, np.full(12, -1.0))  # no counts: it fails, and does not stop the others
POISSON = sg.GP(sg.kernels.Matern32(lengthscale=3.0), sg.likelihoods.Poisson())
GAUSSIAN = sg.GP(sg.kernels.Matern32())
FRAME = pd.concat(pd.DataFrame({"id": k, "ds": x, "y": y}) for k, (x, y) in COUNTS.items())


class Killed(BaseException):
    """As if the process had ended."""


def ending_after(monkeypatch, module, name, calls):
    """Let the process end in the call after so many."""
    real, made = getattr(module, name), []

    def counted(*args, **kwargs):
        made.append(None)
        if len(made) > calls:
            raise Killed
        return real(*args, **kwargs)

    monkeypatch.setattr(module, name, counted)
    return made


def same(first, second):
    """To the last digit."""
    pd.testing.assert_frame_equal(first.table, second.table, check_exact=True)
    for one, other in zip(first.predict_f(X).values(), second.predict_f(X).values(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("model", "size"), [(POISSON, 1), (GAUSSIAN, 2)])
def test_a_fit_of_many_goes_on_with_those_that_are_missing(tmp_path, monkeypatch, model, size):
    file = tmp_path / "many.checkpoint"
    remembered = {"checkpoint": file, "every": 1e-9, "progress": False}
    monkeypatch.setattr(_fitting, "TOGETHER", 2)
    whole = sg.fit_many(model, COUNTS)
    with monkeypatch.context() as context:
        ending_after(context, _fitting, "fit_series", 1)
        with pytest.raises(Killed):
            sg.fit_many(model, COUNTS, **remembered)
    with pytest.raises(FileExistsError, match="give resume=True"):
        sg.fit_many(model, COUNTS, **remembered)
    with pytest.raises(ValueError, match="another fit: the data differs"):
        sg.fit_many(model, COUNTS | {"c": COUNTS["a"]}, resume=True, **remembered)
    with monkeypatch.context() as context:
        made = ending_after(context, _fitting, "fit_series", 3)
        found = sg.fit_many(model, COUNTS, resume=True, **remembered)
    assert len(made) == 3 - size
    if model is POISSON:
        same(found, whole)
        assert found.failures["series"].tolist() == ["b"]
    else:  # other series beside them, so other rounding
        np.testing.assert_allclose(found.log_likelihoods, whole.log_likelihoods, rtol=1e-9)
    with monkeypatch.context() as context:
        ending_after(context, _fitting, "fit_series", 0)
        same(sg.fit_many(model, COUNTS, resume=True, **remembered), found)


def test_ctrl_c_keeps_the_series_that_were_finished(tmp_path, monkeypatch):
    file = tmp_path / "many.checkpoint"
    real, made = _fitting.fit, []

    def interrupted(*args, **kwargs):
        made.append(None)
        if len(made) == 2:
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    with monkeypatch.context() as context:
        context.setattr(_fitting, "fit", interrupted)
        found = sg.fit_many(POISSON, COUNTS, checkpoint=file, progress=False)
    problems = dict(zip(found.keys(), found.problems, strict=True))
    assert problems["a"] == ""
    assert problems["c"] == "interrupted before it was fitted"
    whole = sg.fit_many(POISSON, COUNTS, checkpoint=file, resume=True, progress=False)
    same(whole, sg.fit_many(POISSON, COUNTS))


def test_a_forecaster_of_many_goes_on_too(tmp_path, monkeypatch):
    file = tmp_path / "panel.checkpoint"
    forecaster = sg.Forecaster("matern32(3)", "poisson")
    asked = {"by": "id", "checkpoint": file, "every": 1e-9, "progress": False}
    with monkeypatch.context() as context:
        ending_after(context, _parallel, "fit_part", 2)
        with pytest.raises(Killed):
            forecaster.fit(FRAME, **asked)
    with monkeypatch.context() as context:
        made = ending_after(context, _parallel, "fit_part", 3)
        found = forecaster.fit(FRAME, resume=True, **asked).forecast(2)
        assert len(made) == 1
    assert forecaster.failures_["id"].tolist() == ["b"]
    plain = sg.Forecaster("matern32(3)", "poisson").fit(FRAME, by="id", progress=False)
    pd.testing.assert_frame_equal(found, plain.forecast(2), check_exact=True)


def test_what_cannot_be_remembered_is_refused(tmp_path):
    file = tmp_path / "many.checkpoint"
    for options in ({"share": "all"}, {"n_jobs": 2}):
        with pytest.raises(ValueError, match="leave checkpoint out"):
            sg.fit_many(GAUSSIAN, COUNTS, checkpoint=file, **options)
    with pytest.raises(ValueError, match="give checkpoint="):
        sg.fit_many(GAUSSIAN, COUNTS, resume=True)
    with pytest.raises(OSError, match="cannot be written"):
        sg.fit_many(GAUSSIAN, COUNTS, checkpoint=tmp_path / "none" / "file")
    assert not file.exists()
