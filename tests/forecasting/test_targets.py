"""Several target columns: the same as fitting one after the other."""

import numpy as np
import pandas as pd
import pytest

import stategp as sg

T = np.arange(40)
FRAME = pd.DataFrame(
    {
        "ds": pd.date_range("2024-01-01", periods=40),
        "load": np.sin(T / 6) + 5.0,
        "price": np.cos(T / 4) + np.where(T == 7, np.nan, 0.0),
    }
)


def test_every_target_is_a_series_of_its_own():
    both = sg.Forecaster("matern52(10d)").fit(FRAME, target=["load", "price"], progress=False)
    ahead = both.forecast("3d")
    assert list(ahead.columns) == ["target", "ds", "mean", "lower_95", "upper_95"]
    assert list(ahead["target"]) == ["load"] * 3 + ["price"] * 3
    alone = sg.Forecaster("matern52(10d)").fit(FRAME, target="price", progress=False)
    expected = alone.forecast("3d")["mean"].to_numpy()
    np.testing.assert_allclose(ahead["mean"].to_numpy()[3:], expected, rtol=1e-3)
    np.testing.assert_allclose(both["price"].forecast("3d")["mean"], expected, rtol=1e-3)


def test_targets_that_cannot_be_are_refused():
    forecaster = sg.Forecaster("matern52(10d)")
    for target, message in [
        ([], "a column or a list of columns"),
        (["load", "load"], "different columns"),
        (["load", "ds"], "none of them 'ds'"),
        (["load", "wind"], "there is no column 'wind'"),
    ]:
        with pytest.raises(ValueError, match=message):
            forecaster.fit(FRAME, target=target)
    with pytest.raises(ValueError, match="'target' is made by fit"):
        forecaster.fit(FRAME.assign(target=1), target=["load", "price"])
