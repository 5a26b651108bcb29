"""Several targets in one model: each tells of the others."""

import numpy as np
import pandas as pd
import pytest

import stategp as sg

RNG = np.random.default_rng(3)
N, GAP = 60, slice(44, 60)
STEPS = RNG.multivariate_normal([0.0, 0.0], [[1.0, 0.99], [0.99, 1.0]], N)
LEVELS = 10 + np.cumsum(STEPS, axis=0) * [1.0, 5.0]
Y = LEVELS + 0.2 * RNG.standard_normal((N, 2)) * [1.0, 5.0]
WHOLE = pd.DataFrame({"ds": pd.date_range("2024-01-01", periods=N, freq="W")})
WHOLE["a"], WHOLE["b"] = Y.T
FRAME = WHOLE.copy()
FRAME.loc[N - 16 :, "b"] = np.nan
BOTH = ["a", "b"]


@pytest.fixture(scope="module")
def forecaster():
    return sg.Forecaster().fit(FRAME, target=BOTH, joint=True, progress=False)


def rows(frame, target):
    return frame[frame["target"] == target].reset_index(drop=True)


def test_a_target_that_ends_early_follows_the_other(forecaster):
    told = rows(forecaster.predict(), "b")
    error = np.sqrt(np.mean((told["mean"].to_numpy() - Y[:, 1])[GAP] ** 2))
    # Steps that the other explains leave a fiftieth of the variance of a random walk.
    alone = np.sqrt(np.mean((Y[43, 1] - Y[GAP, 1]) ** 2))
    assert error < alone / 2
    inside = (told["lower_95"] <= WHOLE["b"]) & (told["upper_95"] >= WHOLE["b"])
    assert inside.mean() > 0.85
    steps = forecaster.joint.posterior.model
    C = np.asarray(steps.mixing.value) @ np.asarray(steps.mixing.value).T
    assert C[0, 1] / np.sqrt(C[0, 0] * C[1, 1]) > 0.7


def test_answers_are_long_frames_of_all_targets(forecaster, tmp_path):
    ahead = forecaster.forecast("3w", levels=(0.5, 0.95))
    assert list(ahead.columns)[:3] == ["target", "ds", "mean"]
    assert list(ahead["target"]) == ["a"] * 3 + ["b"] * 3
    assert ahead["ds"][0] == pd.Timestamp("2025-03-02")
    assert (ahead["lower_95"] < ahead["lower_50"]).all()
    there = forecaster.predict(["2024-05-05"], of="function")
    assert len(there) == 2
    drawn = forecaster.sample(WHOLE[-2:], num_samples=3)
    assert list(drawn.columns) == ["target", "ds", "sample_0", "sample_1", "sample_2"]
    forecaster.save(tmp_path / "joint.stategp")
    again = sg.load(tmp_path / "joint.stategp")
    pd.testing.assert_frame_equal(again.forecast("3w", levels=(0.5, 0.95)), ahead)


def test_figures_have_a_panel_for_each_target(forecaster, tmp_path):
    figure = forecaster.plot("4w")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Output a", "Output b"]
    first, last = figure.axes[0].dataLim.intervalx  # days since 1970
    assert 19_700 < first < last < 20_200
    forecaster.report(tmp_path / "joint.html", horizon="4w")
    assert "joint=True" in (tmp_path / "joint.html").read_text()


def test_a_kernel_is_that_of_the_shared_processes():
    table = pd.DataFrame({"ds": np.arange(20), "a": Y[:20, 0], "b": Y[:20, 1]})
    one = sg.Forecaster("matern32(5)").fit(
        table, target=BOTH, joint=1, progress=False, tolerance=1e-3
    )
    model = one.joint.posterior.model
    assert model.mixing.value.shape == (2, 1)
    assert model.ties is not None
    assert list(one.forecast(2)["ds"]) == [20, 21, 20, 21]


def test_what_is_not_there_is_refused(forecaster):
    joint = {"target": BOTH, "joint": True, "progress": False}
    for options, message in [
        ({"regressors": "a"}, "modelled without regressors"),
        ({"floor": 0.0, "holidays": "DE"}, "without holidays and floor"),
        ({"likelihood": "poisson"}, "give a kernel"),
    ]:
        with pytest.raises(ValueError, match=message):
            sg.Forecaster(**options).fit(FRAME, **joint)
    for options, message in [
        ({"joint": 3}, r"1\s+to 2"),
        ({"by": "a"}, "joint is for a list of targets"),
        ({"target": "a"}, "joint is for a list of targets"),
        ({"exposure": "a"}, "without exposure"),
        ({"target": ["a", "c"]}, "there is no column 'c'"),
    ]:
        with pytest.raises(ValueError, match=message):
            sg.Forecaster().fit(FRAME, **(joint | options))
    with pytest.raises(ValueError, match="fewer than 4 times"):
        sg.Forecaster().fit(FRAME[:3], **joint)
    with pytest.raises(ValueError, match="have forecast, predict, sample"):
        forecaster.components()
    with pytest.raises(TypeError, match="answered for together"):
        forecaster["a"]
    with pytest.raises(ValueError, match="no regressors"):
        forecaster.forecast("3w", future=FRAME)


def test_kernels_that_depend_on_where_they_are_are_refused():
    kernel = sg.kernels.Piecewise([sg.kernels.Matern12(), sg.kernels.Matern12()], [20.0])
    for options in ({"target": "a"}, {"target": BOTH, "joint": True}):
        with pytest.raises(ValueError, match="depends on where it is"):
            sg.Forecaster(kernel).fit(FRAME, **options, progress=False)
