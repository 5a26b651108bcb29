"""The model for statsforecast: on its own, and inside statsforecast where that is installed."""

import os
import warnings

import numpy as np
import pytest

import stategp as sg
from stategp.statsforecast import StateGP

TIME = np.arange(48.0)
Y = 20 + 0.3 * TIME + np.tile([4.0, 1.0, -2.0, -3.0], 12) + np.random.default_rng(0).normal(size=48)


@pytest.fixture(scope="module")
def fitted() -> StateGP:
    return StateGP(season_length=4, alias="gp").fit(Y)


def test_trend_and_season_go_on(fitted: StateGP) -> None:
    found = fitted.predict(h=8, level=[95, 50])
    expected = 20 + 0.3 * (48 + np.arange(8)) + np.tile([4.0, 1.0, -2.0, -3.0], 2)
    assert list(found) == ["mean", "lo-50", "hi-50", "lo-95", "hi-95"]
    np.testing.assert_allclose(found["mean"], expected, atol=2.0)
    assert np.all(found["lo-95"] < found["lo-50"])
    assert np.all((found["lo-95"] < expected) & (expected < found["hi-95"]))
    assert repr(fitted) == "gp"


def test_it_says_what_the_forecaster_says(fitted: StateGP) -> None:
    quarters = np.arange("2001-01", "2013-07", 3, dtype="datetime64[M]").astype("datetime64[us]")
    same = sg.Forecaster().fit({"ds": quarters[:48], "y": Y}, progress=False)
    frame = same.predict(quarters[48:], levels=0.9)
    found = fitted.predict(h=2, level=[90])
    np.testing.assert_allclose(found["mean"], frame["mean"], rtol=1e-8)
    np.testing.assert_allclose(found["hi-90"], frame["upper_90"], rtol=1e-8)


def test_forecast_leaves_the_model_alone_and_forward_keeps_what_was_learned(
    fitted: StateGP,
) -> None:
    new = fitted.new()
    found = new.forecast(Y, h=2, level=[90], fitted=True)
    assert new.model_ is fitted.model_
    np.testing.assert_allclose(found["mean"], fitted.predict(2)["mean"], rtol=1e-8)
    inside = fitted.predict_in_sample([90])
    np.testing.assert_allclose(found["fitted-lo-90"], inside["fitted-lo-90"], rtol=1e-8)
    ahead = fitted.forward(Y, h=2)
    np.testing.assert_allclose(ahead["mean"], fitted.predict(2)["mean"], rtol=1e-6)
    shifted = fitted.forward(Y[:-4], h=2)
    np.testing.assert_allclose(shifted["mean"], Y[-4:-2], atol=3.0)


def test_seasons_that_no_calendar_has() -> None:
    y = 20 + 0.3 * TIME + np.tile([4.0, 1.0, -2.0], 16)
    found = StateGP(season_length=3).forecast(y, h=3)
    np.testing.assert_allclose(found["mean"], y[:3] + 0.3 * 48, atol=1.0)


def test_no_season_without_two_of_them() -> None:
    assert StateGP(12)._default(23) == "trend: damped_trend"
    assert StateGP(12)._default(24) == "trend: damped_trend + season: periodic(12, order=6)"


def test_exogenous_columns_have_effects() -> None:
    X = np.random.default_rng(1).normal(size=(52, 2))
    y = Y + X[:48] @ [3.0, 0.0]
    model = StateGP(season_length=4, floor=-100.0).fit(y, X[:48])
    same = sg.Forecaster(regressors=["a", "b"], floor=-100.0)
    quarters = np.arange("2001-01", "2014-01", 3, dtype="datetime64[M]").astype("datetime64[us]")
    same.fit({"ds": quarters[:48], "y": y, "a": X[:48, 0], "b": X[:48, 1]}, progress=False)
    expected = same.predict({"ds": quarters[48:], "a": X[48:, 0], "b": X[48:, 1]})
    found = model.predict(h=4, X=X[48:])
    np.testing.assert_allclose(found["mean"], expected["mean"], rtol=1e-8)
    assert (
        np.corrcoef(found["mean"] - model.predict(h=4, X=0 * X[48:])["mean"], X[48:, 0])[0, 1]
        > 0.99
    )
    assert len(model.predict_in_sample()["fitted"]) == 48
    with pytest.raises(ValueError, match="fitted with 2 exogenous columns"):
        model.predict(h=4)


def test_refused() -> None:
    with pytest.raises(ValueError, match="season_length must be a whole number of at least 1"):
        StateGP(season_length=0)
    model = StateGP()
    model.prediction_intervals = object()
    with pytest.raises(ValueError, match="intervals of its own"):
        model.fit(Y)


def test_forked_processes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="n_jobs=1"):
        StateGP().fit(Y)


def test_inside_statsforecast() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        statsforecast = pytest.importorskip("statsforecast")
    import pandas as pd

    days = pd.date_range("2024-01-01", periods=48)
    frame = pd.DataFrame({"unique_id": "a", "ds": days, "y": Y})
    both = pd.concat([frame, frame.assign(unique_id="b", y=Y + 5)])
    models = statsforecast.StatsForecast(models=[StateGP(season_length=4)], freq="D")
    found = models.forecast(df=both, h=3, level=[90], fitted=True)
    expected = StateGP(season_length=4).forecast(Y, h=3, level=[90])
    np.testing.assert_allclose(found["StateGP"][:3], expected["mean"], rtol=1e-6)
    np.testing.assert_allclose(found["StateGP-lo-90"][:3], expected["lo-90"], rtol=1e-6)
    assert len(models.forecast_fitted_values()) == 96
    assert len(models.cross_validation(df=both, h=3, n_windows=2)) == 12
    ahead = pd.DataFrame({"ds": pd.date_range("2024-02-18", periods=3), "price": 1.0})
    ahead = pd.concat([ahead.assign(unique_id=name) for name in "ab"])
    priced = models.forecast(df=both.assign(price=np.tile(Y % 2, 2)), h=3, X_df=ahead)
    assert np.all(np.isfinite(priced["StateGP"]))
