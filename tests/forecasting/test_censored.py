"""Values of which a frame has limits only."""

import numpy as np
import pandas as pd
import pytest

import stategp as sg

N = 60
TRUTH = np.sin(np.arange(N) / 6)
VALUES = TRUTH + 0.1 * np.random.default_rng(0).standard_normal(N)
LOW = VALUES < -0.3  # which the instrument does not see
FRAME = pd.DataFrame(
    {
        "ds": pd.date_range("2024-03-01", periods=N),
        "y": np.where(LOW, np.nan, VALUES),
        "limit": np.where(LOW, -0.3, np.nan),
    }
)


def learn(frame=FRAME, likelihood="gaussian", **options):
    made = sg.Forecaster("matern52(20d)", likelihood, inducing=16)
    return made.fit(frame, progress=False, limits=(None, "limit"), **options)


@pytest.fixture(scope="module")
def fitted():
    return learn()


def test_a_detection_limit(fitted):
    likelihood = fitted.posterior.model.likelihood
    assert isinstance(likelihood, sg.likelihoods.Censored)
    assert len(fitted.posterior.data) == N
    np.testing.assert_array_equal(
        np.asarray(fitted.posterior.data.extra), np.where(LOW, -np.inf, 0)
    )
    found = fitted.predict(FRAME["ds"])
    assert np.sqrt(np.mean((found["mean"] - TRUTH)[LOW] ** 2)) < 0.3
    assert np.all(found["mean"][LOW] < -0.2)
    np.testing.assert_allclose(fitted.predict()["mean"], found["mean"])  # at the times of the data
    assert "limits=(None, 'limit')" in fitted.fitted.call


def test_forecasts_and_samples_are_of_the_value(fitted):
    ahead = fitted.forecast("3d")
    assert ahead["lower_95"].lt(ahead["upper_95"]).all()
    assert fitted.sample(FRAME[["ds"]], 2).shape == (N, 3)


def test_what_lies_beyond_its_limit_is_no_outlier(fitted):
    """However far below the limit it is expected: that is what the limit says."""
    found = fitted.outliers()
    assert np.all(found["probability"][LOW] > 0.1)
    assert np.all(found["probability"][LOW][:10] > 0.5)
    assert not found["outlier"][LOW].any()
    in_order = fitted.outliers(FRAME)
    assert in_order["probability"].isna().equals(pd.Series(LOW, name="probability"))


def test_files_and_updates(fitted, tmp_path):
    fitted.save(tmp_path / "file")
    again = sg.load(tmp_path / "file")
    new = pd.DataFrame(
        {"ds": pd.date_range("2024-04-30", periods=2), "y": [np.nan, -0.5], "limit": [-0.3, np.nan]}
    )
    again.update(new)
    np.testing.assert_array_equal(np.asarray(again.posterior.data.extra)[-2:], [-np.inf, 0.0])
    assert len(again.posterior.data) == N + 2


def test_ranks_of_hidden_values_are_drawn(fitted):
    """From all that they may be: the checks of a report stay calibrated."""
    there = fitted.posterior
    x, y = np.arange(2.0), np.array([-0.3, -0.3])
    upper = there.cdf(x, y, censored=[-np.inf, np.inf])
    lower = there.cdf(x, y, censored=[-np.inf, np.inf], strict=True)
    exact = there.cdf(x, y)
    np.testing.assert_allclose(lower, [0.0, exact[1]])
    np.testing.assert_allclose(upper, [exact[0], 1.0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limits": "limit"}, "limits must be the names of two columns"),
        ({"limits": ("y",)}, "limits must be the names of two columns"),
        ({"limits": (None, "none")}, "none"),
        ({"limits": ("limit", "lower")}, "columns 'limit' and 'lower': a lower limit must not"),
        ({"limits": (None, "limit"), "by": "ds"}, "limits are for one series"),
    ],
)
def test_limits_refused(options, message):
    frame = FRAME.assign(lower=-1.0)
    with pytest.raises(ValueError, match=message):
        sg.Forecaster("matern52(20d)").fit(frame, progress=False, **options)


def test_limits_of_counts():
    with pytest.raises(ValueError, match="not for Poisson"):
        learn(likelihood="poisson")
