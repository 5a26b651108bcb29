"""Cross-validation over rolling origins."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import norm

import stategp as sg

N = 60
DAYS = pd.date_range("2024-03-01", periods=N)
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"ds": DAYS, "y": np.sin(np.arange(N) / 9) + 0.1 * RNG.standard_normal(N)})


@pytest.fixture(scope="module")
def forecaster():
    return sg.Forecaster("matern32(10d)", inducing=8)


@pytest.fixture(scope="module")
def scores(forecaster):
    frame = FRAME.copy()
    frame.loc[[20, 57], "y"] = np.nan
    return forecaster.cross_validate(frame, horizon="7d", folds=2, level=0.9, progress=False)


def test_scores_are_those_of_a_fit_up_to_the_origin(forecaster, scores):
    assert list(scores.columns) == [
        "origin", "observations", "log_density", "crps", "rmse", "coverage_90", "converged"
    ]  # fmt: skip
    assert scores["origin"].tolist() == [DAYS[-15], DAYS[-8]]
    assert scores["observations"].tolist() == [7, 6]  # one of the last seven is missing
    assert scores["converged"].all()
    assert forecaster.fitted is None  # what was given stays as it was

    y = FRAME["y"].mask(FRAME.index == 20)
    by_hand = sg.Forecaster("matern32(10d)", inducing=8)
    by_hand.fit(FRAME.assign(y=y)[: N - 14], progress=False)
    mean, variance = map(np.asarray, by_hand.posterior.predict_y(np.arange(N - 14, N - 7)))
    deviation, seen = np.sqrt(variance), FRAME["y"][N - 14 : N - 7].to_numpy()
    z = (seen - mean) / deviation
    crps = deviation * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    expected = {
        "log_density": norm.logpdf(seen, mean, deviation).mean(),
        "crps": crps.mean(),
        "rmse": np.sqrt(np.mean((seen - mean) ** 2)),
        "coverage_90": np.mean(np.abs(z) < norm.ppf(0.95)),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(scores[name][0], value, rtol=1e-6)


def test_counts_with_exposure_in_any_kind_of_frame():
    counts = pd.DataFrame({"t": np.arange(N), "n": RNG.poisson(4, N), "hours": 2.0})
    made = sg.Forecaster("matern32(10)", "poisson", inducing=8)
    found = made.cross_validate(
        pl.from_pandas(counts), "t", "n", horizon=5, folds=2, every=10, exposure="hours",
        progress=False, max_steps=3,
    )  # fmt: skip
    assert isinstance(found, pl.DataFrame)
    assert found["origin"].to_list() == [44.0, 54.0]
    assert np.isfinite(found["crps"].to_numpy()).all()
    assert not found["converged"].all()  # told here, and no warning is raised


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"horizon": "7d", "folds": 20}, "at most 7 are possible"),
        ({"horizon": "soon"}, "not a duration"),
        ({"horizon": "7d", "folds": 0}, "folds must be a whole number of at least 1"),
        ({"horizon": "7d", "folds": 1, "level": 95}, "between 0 and 1"),
        ({"horizon": "7d", "target": "z"}, "there is no column 'z'"),
    ],
)
def test_wrong_options(options, words, forecaster):
    with pytest.raises(ValueError, match=words):
        forecaster.cross_validate(FRAME, **options)
