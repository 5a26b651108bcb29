"""What series of a panel share of the models that are compared by default."""

import joblib
import numpy as np
import pandas as pd
import pytest

import stategp as sg
from stategp.priors import LogNormal

RNG = np.random.default_rng(1)
NUMBERS = ["mean", "lower_95", "upper_95"]
AHEAD, LONG, SHORT = 6, 6, 120
TREND = "a level that changes, and a slope"


def wandering(name, count):
    """A random walk and little noise, in a unit of its own; below zero, so without logarithms."""
    unit = np.exp(RNG.standard_normal())
    y = np.cumsum(RNG.standard_normal(count)) + 0.2 * RNG.standard_normal(count)
    columns = {"unique_id": name, "ds": np.arange(float(count)), "y": unit * y - 1000}
    return pd.DataFrame(columns | {"unit": unit})


LENGTHS = {f"long{n}": 80 for n in range(LONG)} | {f"short{n}": 8 for n in range(SHORT)}
ALL = {name: wandering(name, count + AHEAD) for name, count in LENGTHS.items()}
FRAME = pd.concat(one[:-AHEAD] for one in ALL.values()).drop(columns="unit")
FUTURE = pd.concat(one[-AHEAD:] for one in ALL.values())
BROKEN = FRAME[:5].assign(unique_id="bad", y=np.nan)
SPIKE = FRAME[FRAME["unique_id"] == "long0"].assign(unique_id="spike")
SPIKE.loc[40, "y"] += 1e4


def fitted(share, frame=FRAME, **options):
    asked = {"by": "unique_id", "share": share, "progress": False} | options
    return sg.Forecaster().fit(frame, **asked)


def errors(forecaster):
    """The mean absolute error of each series, in its unit."""
    found = forecaster.predict(FUTURE[["unique_id", "ds"]])["mean"].to_numpy()
    away = np.abs(found - FUTURE["y"].to_numpy()) / FUTURE["unit"].to_numpy()
    return away.reshape(-1, AHEAD).mean(axis=1)


def learned(forecaster, key):
    """The model with the level alone: its kernel's hyperparameters, and the noise."""
    choices = forecaster[key].fitted.choices
    (model,) = (choice.posterior.model for choice in choices if choice.trend == TREND)
    return model.kernel.named_parameters() | {"noise": model.likelihood.variance}


def diffusivities(forecaster):
    """How fast the level of each short series changes, in its unit; the truth is 1."""
    keys = list(LENGTHS)[LONG : LONG + 10]
    found = [float(learned(forecaster, key)["trend__level__diffusivity"].value) for key in keys]
    return np.array(found) / np.array([ALL[key]["unit"].iloc[0] ** 2 for key in keys])


@pytest.fixture(scope="module")
def borrowing():
    return fitted("prior", pd.concat([FRAME, BROKEN, SPIKE]))


def test_short_series_borrow_from_long_ones(borrowing):
    alone = fitted("none")
    gain = (errors(alone) - errors(borrowing))[LONG:]
    assert np.mean(gain) > 2 * np.std(gain, ddof=1) / np.sqrt(SHORT)
    ours, theirs = (np.log(diffusivities(found)) for found in (borrowing, alone))
    # Alone, a few observations hardly move it from where its prior has it.
    assert np.abs(np.mean(ours)) < np.abs(np.mean(theirs)) / 2
    assert np.std(ours) < np.std(theirs)


def test_failures_stay_with_their_series_and_those_that_stand_alone_borrow(borrowing):
    assert borrowing.failures_["unique_id"].tolist() == ["bad"]
    assert [borrowing.panel.keys[n] for n in borrowing.panel.alone] == [("spike",)]

    (spike,) = borrowing.panel.alone.values()
    prior = spike.posterior.model.likelihood.variance.prior
    assert isinstance(prior, LogNormal)
    assert float(prior.spread) < 1.4  # 1.5 for a series alone


def test_what_was_shared_is_said_and_stored(borrowing, tmp_path):
    words = f"shared: the prior of hyperparameters was learned from {LONG + SHORT} series"
    assert words in borrowing["long0"].explain()
    assert words in borrowing["spike"].explain()
    borrowing.save(tmp_path / "all.stategp")
    again = sg.load(tmp_path / "all.stategp")
    pd.testing.assert_frame_equal(again.forecast(3.0), borrowing.forecast(3.0))
    assert words in again["short0"].explain()
    given = sg.Forecaster("matern32(10)")
    given.fit(FRAME[:240], by="unique_id", share="all", progress=False)
    said = given["long1"].explain().splitlines()
    assert said[1] == "shared: hyperparameters are those of 3 series together"


@pytest.mark.parametrize("share", ["prior", "all"])
def test_a_series_that_never_varies_borrows_and_does_not_teach(share):
    frame = FRAME[FRAME["unique_id"].str.match("long[0-3]")]
    dead = frame[frame["unique_id"] == "long0"].assign(unique_id="dead", y=-1000.0)
    without, found = fitted(share, frame), fitted(share, pd.concat([frame, dead]))
    assert "4 series" in found["dead"].explain()
    assert found.failures_.empty
    expected, ours = (each.forecast(3.0) for each in (without, found))
    kept = ours[ours["unique_id"] != "dead"][NUMBERS]
    np.testing.assert_allclose(kept, expected[NUMBERS], rtol=1e-6)


def test_one_value_for_all():
    found = fitted("all", FRAME[FRAME["unique_id"].str.match("long[0-4]")])
    names = [f"long{n}" for n in range(5)]
    models = [learned(found, name) for name in names]
    ratios = [float(m["noise"].value) / float(m["trend__level__diffusivity"].value) for m in models]
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-3)  # medians have four digits
    assert not models[0]["noise"].learned


@pytest.mark.parametrize("share", ["prior", "all"])
def test_series_that_are_alike_have_the_answer_of_one(share):
    one = FRAME[FRAME["unique_id"] == "long3"]
    frame = pd.concat([one.assign(unique_id=f"copy{n}") for n in range(4)])
    found = fitted(share, frame).forecast(3.0)[NUMBERS].to_numpy().reshape(4, 3, 3)
    np.testing.assert_allclose(found, found[:1].repeat(4, axis=0), rtol=1e-9)
    alone = sg.Forecaster().fit(one, progress=False).forecast(3.0)[NUMBERS].to_numpy()
    deviation = (alone[:, 2] - alone[:, 1]) / 3.92
    # Four of a kind are surer of hyperparameters than one, but not of others.
    assert np.max(np.abs(found[0] - alone) / deviation[:, None]) < 0.25


def test_jobs_divide_what_was_learned_together():
    frame = FRAME[FRAME["unique_id"].str.match("long[0-3]")]
    expected = fitted("prior", frame)
    with joblib.parallel_config(backend="threading"):
        found = fitted("prior", frame, n_jobs=2)
    assert "from 4 series" in found["long0"].explain()
    ours, theirs = (one.forecast(3.0)[NUMBERS] for one in (found, expected))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_origins_learn_from_the_same_origin_of_others():
    frame = FRAME[FRAME["unique_id"].str.match("long[0-3]")]
    asked = {"horizon": 4.0, "folds": 2, "share": "prior", "progress": False}
    scores = sg.Forecaster().cross_validate(frame, by="unique_id", **asked)
    assert scores.series["origins"].tolist() == [2, 2, 2, 2]
    early = fitted("prior", frame[frame["ds"] <= 71]).forecast(4.0)
    rows = scores.forecasts[scores.forecasts["origin"] == 71]
    np.testing.assert_allclose(rows["mean"], early["mean"], rtol=1e-6)


def test_a_single_series_has_nobody_to_learn_from():
    one = FRAME[FRAME["unique_id"] == "long3"]
    found, alone = fitted("prior", one), fitted("none", one)
    pd.testing.assert_frame_equal(found.forecast(3.0), alone.forecast(3.0))
    assert "shared" not in found["long3"].explain()


def test_after_ctrl_c_nothing_is_fitted(monkeypatch):
    from stategp._forecasting import _panel_fitting

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_panel_fitting, "teach", interrupted)
    for jobs in (None, 2):
        problems = fitted("prior", FRAME[:160], n_jobs=jobs).failures_["problem"]
        assert problems.tolist() == ["interrupted before it was fitted"] * 2
