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
        "origin", "observations", "log_density", "crps", "rmse", "mase", "smape", "msis", "pinball",
        "coverage_90", "converged",
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
    past = y[: N - 14].to_numpy()
    scale = np.nanmean(np.abs(np.diff(past)))
    lower, upper = norm.ppf([[0.05], [0.95]], mean, deviation)
    losses = [(seen - q) * (p - (seen < q)) for q, p in ((lower, 0.05), (mean, 0.5), (upper, 0.95))]
    missed = np.maximum(lower - seen, 0) + np.maximum(seen - upper, 0)
    expected = {
        "mase": np.mean(np.abs(seen - mean)) / scale,
        "smape": np.mean(200 * np.abs(seen - mean) / (np.abs(seen) + np.abs(mean))),
        "msis": np.mean(upper - lower + 20 * missed) / scale,
        "pinball": np.mean(losses),
        "log_density": norm.logpdf(seen, mean, deviation).mean(),
        "crps": crps.mean(),
        "rmse": np.sqrt(np.mean((seen - mean) ** 2)),
        "coverage_90": np.mean(np.abs(z) < norm.ppf(0.95)),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(scores[name][0], value, rtol=1e-6)


def test_the_forecasts_themselves_and_the_steps_ahead(forecaster, scores):
    frame = FRAME.copy()
    frame.loc[[20, 57], "y"] = np.nan
    asked = {"horizon": "7d", "folds": 2, "level": 0.9, "progress": False}
    rows = forecaster.cross_validate(frame, by="observation", **asked)
    assert list(rows.columns) == ["origin", "ds", "y", "mean", "lower_90", "upper_90"]
    seen = [day for day in DAYS[-14:] if day != DAYS[57]]
    assert rows["ds"].tolist() == seen
    assert rows["origin"].tolist() == [DAYS[-15]] * 7 + [DAYS[-8]] * 6
    np.testing.assert_array_equal(rows["y"], frame.set_index("ds").loc[seen, "y"])
    squares = ((rows["y"] - rows["mean"]) ** 2).groupby(rows["origin"]).mean()
    np.testing.assert_allclose(np.sqrt(squares), scores["rmse"])

    steps = forecaster.cross_validate(frame, by="horizon", **asked)
    assert steps["step"].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert steps["observations"].tolist() == [2, 2, 2, 2, 1, 2, 2]  # the 57th was not seen
    inside = (rows["lower_90"] <= rows["y"]) & (rows["y"] <= rows["upper_90"])
    fifth, last = rows.index[rows["ds"] == DAYS[-10]], rows.index[rows["ds"].isin(DAYS[[-8, -1]])]
    assert steps["coverage_90"].tolist()[4] == inside[fifth].mean()
    assert steps["coverage_90"].tolist()[6] == inside[last].mean()
    total = (steps["observations"] * steps["crps"]).sum()
    assert total == pytest.approx((scores["observations"] * scores["crps"]).sum())


def test_months_have_as_many_steps_each_time():
    months = pd.DataFrame({"ds": pd.date_range("2019-01-01", periods=N, freq="MS")})
    months["y"] = FRAME["y"]
    made = sg.Forecaster("matern32(300d)", inducing=8)
    found = made.cross_validate(
        months, horizon="6mo", folds=3, by="observation", progress=False, max_steps=2
    )
    assert found["origin"].value_counts().tolist() == [6, 6, 6]
    assert sorted(set(found["origin"])) == [months["ds"][at] for at in (N - 19, N - 13, N - 7)]
    assert found["ds"].tolist() == months["ds"][-18:].tolist()


def test_hours_are_not_lost_to_rounding():
    """41/24 − 7/24 is less than 34/24 in floating point: the last forecast would have eight."""
    hours = pd.DataFrame({"ds": pd.date_range("2024-03-01", periods=42, freq="h")})
    hours["y"] = FRAME["y"][:42]
    made = sg.Forecaster("matern32(10h)", inducing=8)
    found = made.cross_validate(
        hours, horizon="7h", folds=3, by="horizon", progress=False, max_steps=2
    )
    assert found["observations"].tolist() == [3] * 7


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
        ({"horizon": "7d", "season": 0}, "season must be a whole number of at least 1"),
        ({"horizon": "7d", "by": "fold"}, "by must be 'origin', 'horizon', 'observation', got 'fo"),
    ],
)
def test_wrong_options(options, words, forecaster):
    with pytest.raises(ValueError, match=words):
        forecaster.cross_validate(FRAME, **options)


def test_a_picture_of_forecasts_and_what_came(forecaster):
    from matplotlib.figure import Figure

    rows = forecaster.cross_validate(FRAME, horizon="7d", folds=2, by="observation", progress=False)
    figure = forecaster.plot_backtest(FRAME, forecasts=rows)
    assert isinstance(figure, Figure)
    (axes,) = figure.axes
    means = [line for line in axes.lines if len(line.get_xdata()) == 7]
    np.testing.assert_array_equal(
        np.concatenate([line.get_ydata() for line in means]), rows["mean"]
    )
    inside = ((rows["lower_95"] <= rows["y"]) & (rows["y"] <= rows["upper_95"])).sum()
    assert axes.get_title(loc="left") == (
        f"Forecasts from 2 origins: {100 * inside / 14:.0f} % of 14 observations inside the "
        "95 % interval"
    )
    drawn = forecaster.plot_backtest(FRAME, horizon="7d", folds=2, progress=False)
    assert drawn.axes[0].get_title(loc="left") == axes.get_title(loc="left")


def test_pictures_need_forecasts(forecaster):
    with pytest.raises(ValueError, match="give a horizon, or forecasts="):
        forecaster.plot_backtest(FRAME)
    with pytest.raises(ValueError, match="by='observation'"):
        forecaster.plot_backtest(FRAME, forecasts=FRAME)
    with pytest.raises(ValueError, match="so horizon would not be used"):
        forecaster.plot_backtest(FRAME, forecasts=FRAME, horizon="7d")
