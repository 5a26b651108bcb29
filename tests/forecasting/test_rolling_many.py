"""Rolling origins of many series: the scores of each are those that it has alone."""

import numpy as np
import pandas as pd
import pytest

import stategp as sg

RNG = np.random.default_rng(0)
ASKED = {"horizon": "4d", "folds": 2, "level": 0.9, "progress": False}


def series(name, length, start="2024-01-01"):
    t = np.arange(length)
    y = np.sin(t / 5) + 0.2 * RNG.standard_normal(length)
    return pd.DataFrame({"shop": name, "ds": pd.date_range(start, periods=length), "y": y})


PARTS = {
    "north": series("north", 30),
    "south": series("south", 26, "2024-02-10"),
    "new": series("new", 5),
    "broken": series("broken", 20).assign(y=np.inf),
}
PARTS["south"].loc[24, "y"] = np.nan
FRAME = pd.concat(PARTS.values()).sample(frac=1.0, random_state=1)
MODEL = sg.Forecaster("matern32(10d)")


@pytest.fixture(scope="module")
def found():
    return MODEL.cross_validate(FRAME, by="shop", **ASKED)


def test_scores_are_those_of_each_series_alone(found):
    table = found.series.set_index("shop")
    assert sorted(table.index) == ["north", "south"]
    for name in table.index:
        rows = MODEL.cross_validate(PARTS[name], by="observation", **ASKED)
        mine = found.forecasts[found.forecasts["shop"] == name].sort_values(["origin", "ds"])
        assert list(mine.columns) == ["shop", *rows.columns]
        pd.testing.assert_frame_equal(
            mine.drop(columns="shop").reset_index(drop=True), rows, rtol=1e-4, check_dtype=False
        )
        rmse = np.sqrt(np.mean((rows["mean"] - rows["y"]) ** 2))
        assert table.loc[name, "rmse"] == pytest.approx(rmse, rel=1e-4)
        assert table.loc[name, "origins"] == 2


def test_all_series_together(found):
    overall = found.overall.iloc[0]
    assert (overall["series"], overall["observations"]) == (2, 15)  # one is missing
    squares = (found.forecasts["mean"] - found.forecasts["y"]) ** 2
    assert overall["rmse"] == pytest.approx(np.sqrt(squares.mean()))
    assert list(found.horizons["step"]) == [1, 2, 3, 4]
    assert found.horizons["observations"].sum() == 15


def test_what_cannot_be_scored_is_listed(found):
    problems = dict(found.failures.to_numpy())
    assert "too little data" in problems["new"]
    assert "broken" in problems
    with pytest.raises(ValueError, match="no series can be scored; of the first: 2 origins"):
        MODEL.cross_validate(PARTS["new"], by="shop", **ASKED)
    with pytest.raises(ValueError, match="one of shop, ds, y"):
        MODEL.cross_validate(FRAME, by="shops", **ASKED)
    with pytest.raises(ValueError, match="n_jobs is for many"):
        MODEL.cross_validate(PARTS["north"], n_jobs=2, **ASKED)


def test_series_that_stand_alone_and_other_frames():
    pl = pytest.importorskip("polars")
    model = sg.Forecaster("matern32(10d)", regressors=["z"])
    frame = PARTS["north"].assign(z=np.cos(np.arange(30)), size=1)
    asked = ASKED | {"folds": 1}
    many = model.cross_validate(pl.from_pandas(frame), by=["shop", "size"], **asked)
    alone = model.cross_validate(frame, **asked)
    assert many.series["crps"][0] == pytest.approx(alone["crps"][0], rel=1e-6)
    assert many.series["shop"].to_list() == ["north"]
