"""Forecaster.fit(frame, by=…): what it would find for each series, as one long frame."""

import dataclasses
import sys

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest

import stategp as sg
from stategp._forecasting._long import read_long
from stategp._forecasting._reading import read_series

RNG = np.random.default_rng(5)
KERNEL = "matern32(10d)"


def series(name, count, start="2024-03-01"):
    days = pd.date_range(start, periods=count)
    y = 5 + np.sin(np.arange(count) / 5) + 0.2 * RNG.standard_normal(count)
    return pd.DataFrame({"unique_id": name, "ds": days, "y": y})


FRAME = pd.concat([series("a", 40), series("b", 30, "2023-01-05")])
BROKEN = pd.DataFrame({"unique_id": "bad", "ds": pd.date_range("2024", periods=3), "y": np.nan})
NUMBERS = ["mean", "lower_95", "upper_95"]


def part(frame, key):
    return frame[frame["unique_id"] == key].reset_index(drop=True)


@pytest.fixture(scope="module")
def given():
    frame = pd.concat([FRAME, BROKEN]).sample(frac=1, random_state=1)
    return sg.Forecaster(KERNEL).fit(frame, by="unique_id", progress=False)


@pytest.mark.parametrize("key", ["a", "b"])
def test_each_series_has_the_forecast_it_would_have_alone(given, key):
    alone = sg.Forecaster(KERNEL).fit(part(FRAME, key), progress=False)
    expected, found = alone.forecast("5d"), part(given.forecast("5d"), key)
    assert found["ds"].tolist() == expected["ds"].tolist()
    np.testing.assert_allclose(found[NUMBERS], expected[NUMBERS], atol=1e-4)
    one = given[key]
    np.testing.assert_allclose(one.forecast("5d")[NUMBERS], found[NUMBERS], atol=1e-9)
    assert one.posterior.elbo == pytest.approx(alone.posterior.elbo, abs=1e-8)
    inside = given.predict(part(FRAME, key)[["unique_id", "ds"]].iloc[[4, 2]])
    np.testing.assert_allclose(inside[NUMBERS], one.predict().iloc[[4, 2]][NUMBERS], atol=1e-9)


@pytest.mark.parametrize("share", ["all", "prior"])
def test_hyperparameters_are_shared_as_by_fit_many(share):
    frame = pd.concat([FRAME, series("short", 5), BROKEN])
    found = sg.Forecaster(KERNEL).fit(frame, by="unique_id", share=share, progress=False)
    model = sg.GP(KERNEL, mean=sg.means.Constant())
    many = sg.fit_many(model, frame, by="unique_id", share=share)
    pd.testing.assert_frame_equal(found.forecast("3d"), many.forecast("3d"), rtol=1e-9)
    assert found.failures_["unique_id"].tolist() == ["bad"]
    kernels = [found[key].posterior.model.kernel for key in ("a", "b", "short")]
    lengths = np.log([float(kernel.lengthscale) for kernel in kernels])
    assert np.ptp(lengths) < (1e-12 if share == "all" else 0.5)


def test_what_cannot_be_shared_is_said():
    for forecaster, options, words in [
        (sg.Forecaster(), {"share": "prior", "max_steps": 5}, "without other options"),
        (sg.Forecaster(holidays="DE"), {"share": "prior"}, "without regressors, holidays"),
        (sg.Forecaster(KERNEL, inducing=5), {"share": "all"}, "a state at every input"),
        (sg.Forecaster(KERNEL), {"share": "some"}, "share must be 'none', 'all', 'prior'"),
        (sg.Forecaster(KERNEL), {"share": "all", "n_jobs": 2}, "leave n_jobs out"),
        (sg.Forecaster(KERNEL), {"share": "all", "by": None}, "share='all' is for many series"),
    ]:
        with pytest.raises(ValueError, match=words):
            forecaster.fit(FRAME, **({"by": "unique_id", "progress": False} | options))


def test_origins_share_a_kernel_with_the_same_origin_of_others():
    ends = FRAME.groupby("unique_id")["ds"].transform("max")
    frame = FRAME[ends - FRAME["ds"] >= pd.Timedelta(days=3)]
    asked = {"by": "unique_id", "share": "all", "progress": False}
    scores = sg.Forecaster(KERNEL).cross_validate(FRAME, horizon="3d", folds=1, **asked)
    ahead = sg.Forecaster(KERNEL).fit(frame, **asked).forecast("3d")
    np.testing.assert_allclose(scores.forecasts["mean"], ahead["mean"], rtol=1e-6)


def test_failures_are_listed(given):
    assert given.failures_["unique_id"].tolist() == ["bad"]
    assert "every y is NaN" in given.failures_["problem"][0]
    assert "bad" not in set(given.forecast("2d")["unique_id"])
    assert np.isnan(given.predict(BROKEN)["mean"]).all()
    with pytest.raises(ValueError, match="series 'bad' could not be fitted"):
        given["bad"]
    with pytest.raises(KeyError, match="no series 'c'; there are"):
        given["c"]
    with pytest.raises(ValueError, match="ask it for one by its key"):
        given.components()


def test_predictions_without_a_frame_are_those_of_the_data(given):
    found = given.predict(of="function", levels=0.5)
    assert list(found.columns) == ["unique_id", "ds", "mean", "lower_50", "upper_50"]
    assert len(found) == len(FRAME)


def test_files_hold_all_series(given, tmp_path):
    given.save(tmp_path / "all.stategp")
    again = sg.load(tmp_path / "all.stategp")
    pd.testing.assert_frame_equal(again.forecast("3d"), given.forecast("3d"))
    pd.testing.assert_frame_equal(again.failures_, given.failures_)


def test_the_models_that_are_compared_are_those_of_each_series():
    t = np.arange(24.0)
    values = {"up": 3 + 0.4 * t + RNG.standard_normal(24), "short": np.array([1.0, 2.0, 1.5])}
    values["spike"] = np.where(t == 11, 1e4, values["up"])
    frame = pl.concat(
        pl.DataFrame({"unique_id": key, "ds": t[: len(y)], "y": y}) for key, y in values.items()
    )
    found = sg.Forecaster().fit(frame, by="unique_id", progress=False)
    alone = sg.Forecaster().fit(frame.filter(pl.col("unique_id") == "up"), progress=False)
    ours = found.forecast(3.0).filter(pl.col("unique_id") == "up")
    theirs = alone.forecast(3.0)
    assert isinstance(ours, pl.DataFrame)
    np.testing.assert_allclose(ours["ds"], theirs["ds"])
    for name in NUMBERS:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=2e-3)
    chosen = found["up"].fitted.choices
    assert [c.weight for c in chosen] == pytest.approx(
        [c.weight for c in alone.fitted.choices], abs=1e-3
    )
    assert "rises" in found["up"].explain()
    # Three times are too few to compare models, and outliers take a second look.
    assert list(found.panel.alone) == [1, 2]
    assert found["spike"].fitted.doubted == (11.0,)
    assert len(found.forecast(3.0).filter(pl.col("unique_id") == "short")) == 3


def test_the_calendar_is_that_of_all_series():
    def axis(*dates, business=True):
        parts = [pd.DataFrame({"k": i, "ds": d, "y": 1.0}) for i, d in enumerate(dates)]
        long = read_long(pd.concat(parts), "k", "ds", "y")
        return read_series(long, "ds", "y", {}, None, business=business)[0].axis

    weekdays, days = pd.bdate_range("2025-01-06", periods=30), pd.date_range("2025", periods=30)
    months = pd.date_range("2020-01-01", periods=12, freq="MS")
    assert axis(weekdays, weekdays[3:], days[:2]).business
    assert not axis(weekdays, weekdays, business=False).business
    assert not axis(weekdays, days).business
    assert axis(months, months[:5], months[:2]).even_months
    assert not axis(months, days).even_months
    assert axis(days.tz_localize("Europe/Berlin")).clock


def test_regressors_are_read_for_each_series():
    frame = FRAME.assign(sun=RNG.standard_normal(len(FRAME)))
    frame["y"] += 2 * frame["sun"]
    found = sg.Forecaster(KERNEL, regressors="sun").fit(
        frame, by="unique_id", progress=False, max_steps=5
    )
    ends = FRAME.groupby("unique_id")["ds"].max()
    future = pd.DataFrame(
        {"unique_id": ["a", "b"], "ds": [ends["a"], ends["b"]], "sun": [0.0, 3.0]}
    ).assign(ds=lambda f: f["ds"] + pd.Timedelta(days=1))
    ahead = found.forecast("1d", future=future)
    expected = found["b"].forecast("1d", future=part(future, "b"))
    np.testing.assert_allclose(part(ahead, "b")[NUMBERS], expected[NUMBERS])
    assert part(ahead, "b")["mean"][0] > 8
    with pytest.raises(ValueError, match="sun"):
        found.forecast("1d")


def test_several_columns_tell_series_apart_and_weights_count(given):
    frame = FRAME.assign(shop=1, times=2.0).rename(columns={"unique_id": "item"})
    found = sg.Forecaster(KERNEL).fit(frame, by=["shop", "item"], weights="times", progress=False)
    assert list(found.forecast("1d").columns) == ["shop", "item", "ds", *NUMBERS]
    weighed = sg.Forecaster(KERNEL).fit(part(FRAME, "a").assign(w=2.0), weights="w", progress=False)
    assert found[1, "a"].posterior.elbo == pytest.approx(weighed.posterior.elbo, abs=1e-8)
    assert found[1, "a"].posterior.elbo != pytest.approx(given["a"].posterior.elbo, abs=1)


def test_jobs_share_the_series(given):
    frame = pd.concat([FRAME, BROKEN])
    with joblib.parallel_config(backend="threading"):
        found = sg.Forecaster(KERNEL).fit(frame, by="unique_id", n_jobs=2, progress=False)
    for key in ("a", "b"):
        np.testing.assert_allclose(
            part(found.forecast("3d"), key)[NUMBERS], part(given.forecast("3d"), key)[NUMBERS]
        )
    assert found.failures_["unique_id"].tolist() == ["bad"]


def test_what_is_asked_is_checked(given, monkeypatch):
    with pytest.raises(ValueError, match="n_jobs is for many series"):
        sg.Forecaster(KERNEL).fit(FRAME, n_jobs=2)
    with pytest.raises(ValueError, match="n_jobs must not be 0"):
        sg.Forecaster(KERNEL).fit(FRAME, by="unique_id", n_jobs=0)
    with pytest.raises(ValueError, match="failures_ is for many series"):
        _ = sg.Forecaster(KERNEL).failures_
    with pytest.raises(TypeError, match="has one series"):
        sg.Forecaster(KERNEL)["a"]
    with pytest.raises(ValueError, match="'soon' is not a duration"):
        given.forecast("soon")
    monkeypatch.setitem(sys.modules, "joblib", None)
    with pytest.raises(ImportError, match="n_jobs needs joblib"):
        sg.Forecaster(KERNEL).fit(FRAME, by="unique_id", n_jobs=2)


def test_many_series_take_in_new_rows(given):
    """Models stay, each series is conditioned on its rows; a series that is new is fitted."""
    days = pd.date_range("2024-04-10", periods=3)
    new = pd.DataFrame({"unique_id": ["a", "a", "c"], "ds": days, "y": [5.5, 5.0, 1.0]})
    panel = given.panel
    longer = dataclasses.replace(given).update(new)
    one = given["a"].update(new[:2].drop(columns="unique_id"), progress=False)
    found, expected = part(longer.forecast("5d"), "a"), one.forecast("5d")
    assert found["ds"].tolist() == expected["ds"].tolist()
    np.testing.assert_allclose(found[NUMBERS], expected[NUMBERS], atol=1e-8)
    assert len(longer["a"].posterior.data) == 42
    assert len(longer["b"].posterior.data) == 30
    assert longer.failures_["unique_id"].tolist() == ["bad"]
    assert longer["c"].posterior.data.observed == 1
    assert set(longer.forecast("5d")["unique_id"]) == {"a", "b", "c"}
    shared = dataclasses.replace(panel, call=f"{panel.call[:-1]}, share='all')")
    others = dataclasses.replace(given, panel=shared).update(new)
    assert "shares hyperparameters" in others.failures_["problem"][1]
    assert given.panel is panel
    recent = dataclasses.replace(given).update(new, window="10d")
    assert len(recent["a"].posterior.data) == 11
    refined = dataclasses.replace(given).update(new, refine=True)["a"].posterior
    assert refined.elbo == pytest.approx(
        given["a"].update(new[:2], refine=True, progress=False).posterior.elbo, abs=1e-6
    )
    with pytest.raises(ValueError, match="learns every series by itself"):
        dataclasses.replace(given, panel=shared).update(new, refine=True)


def test_rows_that_a_series_cannot_take_in_stop_no_other(given, tmp_path):
    days = pd.date_range("2024-04-10", periods=3)
    values = {"a": [5.5, np.inf, 5.0], "b": [1.0, 2.0, 3.0], "bad": [2.0, 1.0, 2.0]}
    new = pd.concat(pd.DataFrame({"unique_id": k, "ds": days, "y": y}) for k, y in values.items())
    longer = dataclasses.replace(given)
    with pytest.warns(UserWarning, match=r"new rows of series 'a' were left out: .*finite"):
        longer.update(new, progress=False)
    assert [len(longer[key].posterior.data) for key in ("a", "b", "bad")] == [40, 33, 3]
    expected = part(given.forecast("5d"), "a")
    pd.testing.assert_frame_equal(part(longer.forecast("5d"), "a"), expected)
    alone = sg.Forecaster(KERNEL).fit(new[new["unique_id"] == "bad"], progress=False)
    assert longer["bad"].posterior.elbo == pytest.approx(alone.posterior.elbo, abs=1e-6)
    assert longer.failures_["unique_id"].tolist() == ["a"]
    longer.save(tmp_path / "model")
    assert "left out" in sg.load(tmp_path / "model").failures_["problem"][0]
    shared = dataclasses.replace(given.panel, call=f"{given.panel.call[:-1]}, share='all')")
    others = dataclasses.replace(given, panel=shared).update(new[-3:])
    assert "shares hyperparameters" in others.failures_["problem"][0]


def test_series_with_a_forecaster_of_their_own_take_in_new_rows():
    frame = FRAME.assign(on=1.0 * (np.arange(len(FRAME)) % 5 == 0))
    forecaster = sg.Forecaster(KERNEL, regressors=["on"])
    forecaster.fit(frame.iloc[:-4], by="unique_id", progress=False)
    before = forecaster["b"].posterior.data
    forecaster.update(frame.iloc[-4:], forget="20d")
    after = forecaster["b"].posterior.data
    assert (len(before), len(after), len(forecaster["a"].posterior.data)) == (26, 30, 40)
    expected = np.append(np.full(26, np.exp(-4 / 20)), np.exp(np.arange(-3, 1) / 20))
    np.testing.assert_allclose(after.weights, expected, rtol=1e-9)
    forecaster.update(frame.iloc[-1:], window="5d")
    assert len(forecaster["b"].posterior.data) == 7
    with pytest.warns(UserWarning, match="new rows of series 'b' were left out"):
        forecaster.update(frame.iloc[-1:].assign(y=np.inf))
    assert len(forecaster["b"].posterior.data) == 7
