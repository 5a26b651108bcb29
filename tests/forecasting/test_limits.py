"""Floors and caps: scales, averages, forecasters."""

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, special, stats

import stategp as sg
from stategp._forecasting._averages import Average, Part
from stategp._forecasting._scales import Scale, moved_inside, scales_of


@pytest.mark.parametrize(
    ("scale", "values", "expected"),
    [
        (Scale(), [-1.0, 2.0], [-1.0, 2.0]),
        (Scale(True), [1.0, np.e], [0.0, 1.0]),
        (Scale(True, 3.0), [4.0, 3 + np.e], [0.0, 1.0]),
        (Scale(True, None, 5.0), [4.0, 5 - np.e], [0.0, -1.0]),
        (Scale(True, 2.0, 4.0), [3.0, 2 + 2 * special.expit(3.0)], [0.0, 3.0]),
    ],
)
def test_there_and_back(scale, values, expected) -> None:
    y = np.array(values)
    np.testing.assert_allclose(scale.forward(y), expected, atol=1e-12)
    np.testing.assert_allclose(scale.backward(scale.forward(y)), y)
    step = 1e-6
    slopes = (scale.backward(np.array(expected) + step) - y) / step
    np.testing.assert_allclose(scale.slope(y), slopes, rtol=1e-4)
    np.testing.assert_allclose(scale.log_slopes(y), -np.log(slopes), atol=1e-4)


def test_scales_for_limits() -> None:
    y = np.array([1.0, 2.0, 3.0])
    assert scales_of(y, None, None) == (Scale(), Scale(True))
    assert scales_of(y, 0.0, None) == (Scale(False, 0.0), Scale(True, 0.0))
    assert scales_of(y, 1.0, None) == (Scale(False, 1.0),)  # one lies on it
    assert scales_of(y, 0.0, 9.0) == (Scale(True, 0.0, 9.0),)
    np.testing.assert_allclose(moved_inside(np.array([0.0, 1, 9]), 0.0, 9.0), [0.5, 1, 5])
    np.testing.assert_allclose(moved_inside(np.array([0.0, 9.0]), 0.0, 9.0), [0.09, 8.91])
    np.testing.assert_array_equal(moved_inside(np.array([0.0, 1]), 0.0, None), [0, 1])


def test_a_normal_cut_off_at_a_floor() -> None:
    """Against SciPy: the mean of max(Y, 0), and the probability of 0."""
    there = Average((Part(1.0, False, np.array([0.5]), np.array([2.0]), 0.0),))
    theirs = stats.norm(0.5, 2.0)
    mean = integrate.quad(lambda y: y * theirs.pdf(y), 0, 30)[0]
    np.testing.assert_allclose(there.moments()[0], mean, rtol=1e-3)
    np.testing.assert_allclose(there.quantiles([0.1, 0.9])[:, 0], [0, theirs.ppf(0.9)])
    np.testing.assert_allclose(there.cdf(np.array([0.0])), theirs.cdf(0))
    np.testing.assert_allclose(there.cdf(np.array([1.0])), theirs.cdf(1))
    np.testing.assert_allclose(there.log_density(np.array([0.0])), theirs.logcdf(0))
    np.testing.assert_allclose(there.log_density(np.array([1.0])), theirs.logpdf(1))
    assert not there.normal


def test_a_mean_that_only_a_tail_makes_is_limited() -> None:
    there = Average((Part(1.0, True, np.zeros(3), np.array([0.4, 1.0, 9.0])),))
    mean = there.moments()[0]
    np.testing.assert_allclose(mean[0], stats.lognorm(0.4).mean())
    np.testing.assert_allclose(mean[1:], stats.lognorm(0.45).mean())
    between = Average((Part(1.0, True, np.zeros(1), np.ones(1), 0.0, 2.0),))  # which has no tail
    np.testing.assert_allclose(between.moments()[0], 1.0)


DATES = pd.date_range("2019-01-01", periods=48, freq="MS")


def test_a_floor_that_data_lie_on() -> None:
    rng = np.random.default_rng(0)
    y = np.maximum(8 - 0.25 * np.arange(48) + rng.normal(size=48), 0.0)
    frame = pd.DataFrame({"ds": DATES, "y": y})
    forecaster = sg.Forecaster(floor=0).fit(frame, progress=False)
    ahead = forecaster.forecast("12mo", levels=[0.5, 0.95])
    assert ahead.drop(columns="ds").to_numpy().min() == 0
    assert np.all(ahead["mean"] > 0)
    drawn = forecaster.sample(ahead.ds, 20).drop(columns="ds").to_numpy()
    assert drawn.min() == 0
    assert "observations lie on it" in forecaster.explain()
    assert repr(forecaster) == "Forecaster(floor=0)"
    assert forecaster.outliers(frame).outlier.sum() <= 1


def test_growth_that_saturates(tmp_path) -> None:
    rng = np.random.default_rng(0)
    month = np.arange(48)
    y = 100 / (1 + np.exp(-(month - 30) / 8)) * np.exp(0.02 * rng.normal(size=48))
    y[2] = 0.0
    frame = pd.DataFrame({"ds": DATES, "y": y})
    forecaster = sg.Forecaster(floor=0, cap=120).fit(frame, progress=False)
    ahead = forecaster.forecast("24mo", levels=0.999)
    numbers = ahead.drop(columns="ds").to_numpy()
    assert np.all((numbers > 0) & (numbers < 120))
    drawn = forecaster.sample(ahead.ds, 20).drop(columns="ds").to_numpy()
    assert np.all((drawn >= 0) & (drawn <= 120))
    assert "log odds" in forecaster.explain()
    assert len(forecaster.outliers(frame)) == 48
    assert np.max(forecaster.story(horizon="6mo", points=50).forecast.mean) < 120
    forecaster.save(tmp_path / "model.stategp")
    same = sg.load(tmp_path / "model.stategp").forecast("24mo", levels=0.999)
    pd.testing.assert_frame_equal(same, ahead)


def test_limits_with_a_kernel_of_ones_own() -> None:
    y = 5 + np.sin(np.arange(48) / 4) + 0.3 * np.random.default_rng(0).standard_normal(48)
    frame = pd.DataFrame({"ds": DATES, "y": y})
    forecaster = sg.Forecaster("matern32(3mo)", floor=3).fit(frame, progress=False)
    assert forecaster.forecast("12mo", levels=0.99).lower_99.min() > 3
    assert isinstance(forecaster.posterior.model.likelihood, sg.likelihoods.Bounded)


def test_limits_that_are_none() -> None:
    frame = pd.DataFrame({"ds": DATES, "y": np.arange(48.0)})
    with pytest.raises(ValueError, match="floor must lie below cap; got 2 and 1"):
        sg.Forecaster(floor=2, cap=1)
    with pytest.raises(ValueError, match="floor must be a finite number or None, got 'a'"):
        sg.Forecaster(floor="a")
    with pytest.raises(
        ValueError, match=r"5 values below the floor of 5 .the first is 0, in row 0"
    ):
        sg.Forecaster(floor=5).fit(frame)
    with pytest.raises(ValueError, match=r"1 values above the cap of 46\.5 .the first is 47"):
        sg.Forecaster(cap=46.5).fit(frame)
    with pytest.raises(ValueError, match="Poisson has limits of its own"):
        sg.Forecaster(floor=0, likelihood="poisson").fit(frame)
