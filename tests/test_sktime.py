"""The forecaster for sktime; most of it needs sktime (`make sktime-checks`)."""

import importlib.util

import numpy as np
import pytest

import stategp as sg

HAS_SKTIME = importlib.util.find_spec("sktime") is not None
needs_sktime = pytest.mark.skipif(not HAS_SKTIME, reason="needs sktime: make sktime-checks")
pytestmark = pytest.mark.filterwarnings("ignore")  # sktime warns of its own plans

SIZE = 40
VALUES = np.sin(np.arange(SIZE) / 4) + 0.1 * np.random.default_rng(0).normal(size=SIZE)


@pytest.mark.skipif(HAS_SKTIME, reason="sktime is installed")
def test_without_sktime_it_says_what_to_install() -> None:
    with pytest.raises(ImportError, match=r"pip install \"stategp\[sktime\]\""):
        importlib.import_module("stategp.sktime")


def index(kind: str):
    import pandas as pd

    return {
        "numbers": lambda: pd.RangeIndex(3, 3 + SIZE),
        "dates": lambda: pd.date_range("2024-01-01", periods=SIZE, freq="D"),
        "months": lambda: pd.period_range("2020-01", periods=SIZE, freq="M"),
    }[kind]()


@needs_sktime
@pytest.mark.parametrize("kind", ["numbers", "dates", "months"])
def test_it_says_what_the_forecaster_says(kind: str) -> None:
    import pandas as pd
    from sktime.forecasting.base import ForecastingHorizon

    from stategp.sktime import StateGPForecaster

    y = pd.Series(VALUES, index=index(kind), name="value")
    y.iloc[5] = np.nan
    found = StateGPForecaster("matern32").fit(y)
    times = y.index.to_timestamp() if kind == "months" else y.index
    same = sg.Forecaster("matern32").fit(
        pd.DataFrame({"ds": times, "y": y.to_numpy()}), progress=False
    )
    ahead = y.index[-1] + np.arange(1, 4) * getattr(y.index, "freq", 1)
    stamps = pd.PeriodIndex(ahead).to_timestamp() if kind == "months" else ahead
    expected = same.predict(pd.Index(stamps), levels=[0.5, 0.9])

    mean = found.predict(fh=[1, 2, 3])
    assert mean.name == "value"
    assert list(mean.index) == list(ahead)
    np.testing.assert_allclose(mean, expected["mean"], rtol=1e-8)
    absolute = ForecastingHorizon(pd.Index(ahead), is_relative=False)
    np.testing.assert_allclose(found.predict(fh=absolute), mean)

    quantiles = found.predict_quantiles(fh=[1, 2, 3], alpha=[0.95, 0.5, 0.05, 0.25])
    np.testing.assert_allclose(quantiles["value", 0.95], expected["upper_90"], rtol=1e-8)
    np.testing.assert_allclose(quantiles["value", 0.5], expected["mean"], rtol=1e-8)
    np.testing.assert_allclose(quantiles["value", 0.05], expected["lower_90"], rtol=1e-8)
    np.testing.assert_allclose(quantiles["value", 0.25], expected["lower_50"], rtol=1e-8)
    interval = found.predict_interval(fh=[1, 2, 3], coverage=0.9)
    np.testing.assert_allclose(interval["value", 0.9, "upper"], expected["upper_90"], rtol=1e-8)
    narrow = found.predict_interval(fh=[1, 2, 3], coverage=0.1)["value", 0.1]  # 0.45 and 0.55
    np.testing.assert_allclose(narrow.mean(axis=1), expected["mean"], rtol=1e-8)
    variance = found.predict_var(fh=[1, 2, 3])["value"]
    reach = (expected["upper_90"] - expected["lower_90"]).to_numpy() / 2
    np.testing.assert_allclose(np.sqrt(variance) * 1.6448536, reach, rtol=1e-6)
    assert len(found.predict(fh=[-3, 0])) == 2


@needs_sktime
def test_counts_have_counts_as_quantiles() -> None:
    import pandas as pd

    from stategp.sktime import StateGPForecaster

    y = pd.Series(np.random.default_rng(0).poisson(3.0, SIZE), index=index("numbers"))
    found = StateGPForecaster("matern32", "poisson").fit(y, fh=[1, 2])
    quantiles = found.predict_quantiles(alpha=[0.1, 0.5, 0.9]).to_numpy()
    assert np.all(quantiles == np.round(quantiles))
    assert np.all(np.diff(quantiles, axis=1) >= 0)


@needs_sktime
def test_exogenous_columns_have_effects() -> None:
    import pandas as pd

    from stategp.sktime import StateGPForecaster

    months = pd.period_range("2020-01", periods=SIZE + 3, freq="M")
    X = pd.DataFrame({"price": np.random.default_rng(1).normal(size=SIZE + 3)}, index=months)
    y = pd.Series(VALUES + 3 * X["price"][:SIZE], index=months[:SIZE])
    found = StateGPForecaster("matern32").fit(y, X=X[:SIZE], fh=[1, 2, 3])
    mean = found.predict(X=X[SIZE:])
    frame = pd.DataFrame({"ds": months.to_timestamp(), "price": X["price"].to_numpy()})
    same = sg.Forecaster("matern32", regressors="price").fit(
        frame[:SIZE].assign(y=y.to_numpy()), progress=False
    )
    np.testing.assert_allclose(mean, same.predict(frame[SIZE:])["mean"], rtol=1e-8)
    interval = found.predict_interval(X=X[SIZE:], coverage=0.9)
    assert np.all(interval.iloc[:, 0] < mean)
