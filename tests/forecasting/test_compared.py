"""Models compared with regressors, with other likelihoods, and with sudden changes of level."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import stategp as sg
from stategp._forecasting import _single
from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._changes import surprise, with_changes
from stategp._forecasting._choosing import averaged
from stategp._forecasting._design import Design
from stategp._forecasting._learning import Series
from stategp._forecasting._pooling import pooled_likelihood

N, AHEAD = 40, 6
T = np.arange(N + AHEAD, dtype=float)
RNG = np.random.default_rng(3)
ON = (RNG.uniform(size=len(T)) < 0.3).astype(float)
SMOOTH = 20 + 0.1 * T + np.cumsum(0.2 * RNG.standard_normal(len(T)))
NOISE = 0.5 * RNG.standard_normal(len(T))
JUMP = np.where(T >= N - 12, -15.0, 0.0)  # which makes y negative: there is no logarithm
FRAME = pd.DataFrame({"t": T, "y": SMOOTH - 25 + 3 * ON + NOISE, "on": ON, "never": 0.0})


@pytest.fixture(scope="module")
def sales():
    return sg.Forecaster(regressors="on").fit(FRAME[:N], "t", progress=False)


def test_models_with_a_regressor_are_compared(sales) -> None:
    assert len(sales.fitted.choices) == 4
    assert sum(choice.weight for choice in sales.fitted.choices) == pytest.approx(1)
    assert "a level that changes, and a slope" in sales.explain()
    effect = sales.effects().iloc[0]
    assert effect.lower < 3 < effect.upper
    assert effect.upper - effect.lower < 1.5
    ahead = sales.forecast(AHEAD, future=FRAME[N:])
    assert np.max(np.abs(ahead["mean"] - FRAME.y[N:].to_numpy())) < 2.5
    with pytest.raises(ValueError, match="'on' are not known"):
        sales.forecast(AHEAD)


def test_every_model_knows_the_regressor(sales) -> None:
    """What a column adds to the average is the average of what it adds to each model."""
    both = FRAME[N:].assign(on=1.0), FRAME[N:].assign(on=0.0)
    with_it, without = (sales.forecast(AHEAD, future=frame)["mean"] for frame in both)
    added = sum(c.weight * c.posterior.effect_mean[0] for c in sales.fitted.choices)
    np.testing.assert_allclose(with_it - without, added, rtol=1e-8)


def test_a_regressor_that_never_acts_changes_nothing() -> None:
    plain = sg.Forecaster().fit(FRAME[:N], "t", progress=False)
    beside = sg.Forecaster(regressors="never").fit(FRAME[:N], "t", progress=False)
    found = beside.forecast(AHEAD, future=FRAME[N:])
    for column, value in plain.forecast(AHEAD).items():
        np.testing.assert_allclose(found[column], value, rtol=0.02, atol=0.1)
    evidences = [[c.posterior.elbo for c in one.fitted.choices] for one in (plain, beside)]
    np.testing.assert_allclose(*evidences, atol=0.05)


def test_saved_and_grown(sales, tmp_path) -> None:
    sales.save(tmp_path / "sales.stategp")
    same = sg.load(tmp_path / "sales.stategp")
    future = FRAME[N:]
    pd.testing.assert_frame_equal(
        same.forecast(AHEAD, future=future), sales.forecast(AHEAD, future=future)
    )
    same.update(FRAME[N : N + 3], progress=False)
    ahead = same.forecast(2, future=FRAME[N + 3 :])
    assert list(ahead.t) == [N + 3, N + 4]
    assert np.max(np.abs(ahead["mean"] - FRAME.y[N + 3 : N + 5].to_numpy())) < 2.5


@pytest.fixture(scope="module")
def counts():
    rng = np.random.default_rng(5)
    y = rng.negative_binomial(20, 20 / (20 + np.exp(SMOOTH / 8)))
    frame = pd.DataFrame({"t": T, "y": y.astype(float)})
    return frame, sg.Forecaster(likelihood="negative-binomial").fit(frame[:N], "t", progress=False)


def test_models_of_counts_are_compared(counts) -> None:
    frame, forecaster = counts
    assert len(forecaster.fitted.choices) == 4
    assert "f: a level" in forecaster.explain()
    assert "look like counts" not in forecaster.explain()
    ahead = forecaster.forecast(AHEAD)
    assert np.all(ahead.lower_95 == np.round(ahead.lower_95))
    assert np.all(ahead.lower_95 <= frame.y[N:].to_numpy())
    assert np.all(ahead.upper_95 >= frame.y[N:].to_numpy())
    drawn = forecaster.sample(ahead.t, 2000).drop(columns="t").to_numpy()
    np.testing.assert_allclose(drawn.mean(axis=1), ahead["mean"], rtol=0.1)
    assert forecaster.story(horizon=AHEAD, points=50).forecast.mean == pytest.approx(ahead["mean"])


def test_nothing_but_zeros() -> None:
    frame = pd.DataFrame({"t": T[:N], "y": np.zeros(N)})
    none = sg.Forecaster(likelihood="negative-binomial").fit(frame, "t", progress=False)
    assert np.all(none.forecast(2)["mean"] < 0.5)  # though nothing says how small f is


def test_functions_are_averaged_with_their_likelihoods(counts) -> None:
    _, forecaster = counts
    choices = forecaster.fitted.choices
    function = forecaster.predict(T[N:], of="function")
    each = [np.asarray(c.posterior.predict_f(T[N:])[0]) for c in choices]
    weights = [c.weight for c in choices]
    np.testing.assert_allclose(function["mean"], np.average(each, axis=0, weights=weights))
    learned = [c.posterior.model.likelihood for c in choices]
    names = [name for name in vars(learned[0]) if hasattr(getattr(learned[0], name), "value")]
    for name in names:
        values = [float(getattr(one, name)) for one in learned]
        expected = stats.gmean(values, weights=weights)
        assert float(getattr(pooled_likelihood(choices), name)) == pytest.approx(expected)


@pytest.fixture(scope="module")
def jumped():
    frame = FRAME.assign(y=SMOOTH - 25 + NOISE + JUMP)
    return frame, sg.Forecaster().fit(frame[:N], "t", progress=False)


def test_a_change_of_level_becomes_an_effect(jumped, tmp_path) -> None:
    frame, forecaster = jumped
    design = forecaster.posterior.design
    assert design.changes == (N - 12,)
    (effect,) = forecaster.effects().itertuples()
    assert effect.name == f"level from {N - 12}"
    assert effect.lower < -15 < effect.upper
    ahead = forecaster.forecast(AHEAD)
    assert np.max(np.abs(ahead["mean"] - frame.y[N:].to_numpy())) < 3
    assert np.mean(ahead.upper_95 - ahead.lower_95) < 10  # ± 1.96 random steps of 15/√40: 9 at once
    assert "sudden changes of level" in forecaster.explain()
    assert "changes" in forecaster.components()
    forecaster.save(tmp_path / "jumped.stategp")
    again = sg.load(tmp_path / "jumped.stategp").forecast(AHEAD)
    pd.testing.assert_frame_equal(again, ahead)


def test_changes_of_slope_go_on_and_are_told() -> None:
    bend = 1.5 * np.maximum(T - (N - 12), 0.0)
    frame = FRAME.assign(y=SMOOTH - 25 + NOISE + bend)
    forecaster = sg.Forecaster(changepoints=N - 12).fit(frame[:N], "t", progress=False)
    (effect,) = forecaster.effects().itertuples()
    assert effect.name == f"slope from {N - 12}, per unit of time"
    assert abs(effect.effect - 1.5) < 0.3
    ahead = forecaster.forecast(AHEAD)
    assert np.max(np.abs(ahead["mean"] - frame.y[N:].to_numpy())) < 3
    told = forecaster.explain().splitlines()
    by = (N - 1) * effect.effect
    assert told[1].startswith(
        f"changes of slope, in {N - 1} units of time: {N - 12} by {by:+.3g} ("
    )
    assert told[0].startswith("trend: rises")  # to which the change of slope belongs


def test_a_change_is_at_its_observation_whatever_the_origin() -> None:
    design = Design.of_changes(TimeAxis(False), (0.1 + 0.2,))
    np.testing.assert_array_equal(design.matrix(np.array([0.29, 0.3, 0.31]))[:, 0], [0, 1, 1])


def test_the_same_beside_a_regressor_and_among_others(jumped) -> None:
    frame, forecaster = jumped
    both = frame.assign(y=frame.y + 3 * ON)
    design = sg.Forecaster(regressors="on").fit(both[:N], "t", progress=False).posterior.design
    assert [column.name for column in design.columns] == ["on", f"level from {N - 12}"]
    long = pd.concat([frame[:N].assign(which="jumps"), FRAME[:N].assign(which="flows")])
    panel = sg.Forecaster().fit(long, "t", by="which", progress=False)
    np.testing.assert_allclose(
        panel["jumps"].forecast(AHEAD)["mean"], forecaster.forecast(AHEAD)["mean"]
    )


def test_changes_that_the_latest_observations_do_not_show() -> None:
    rng = np.random.default_rng(0)
    x, y = np.arange(700.0), rng.standard_normal(700)
    axis = TimeAxis(False)

    def known(y):
        series = Series.of(x, y, None, dates=False, robust=True)
        return series, with_changes(series, axis)

    series, same = known(y)
    assert same is series
    series, same = known(y + 50 * (x >= 100))  # hyperparameters are learned from the last 400
    assert same is series
    _, other = known(y + 50 * (x >= 500))
    assert other.beside.design.changes == (500,)
    assert surprise(other) == pytest.approx(np.log(len(other.latest)))


def test_many_observations_have_one_model_of_all(monkeypatch) -> None:
    """And options of the search are those of every model that is compared."""
    assert len(sg.Forecaster().fit(FRAME[:N], "t", progress=False, max_steps=40).fitted.choices) > 1
    monkeypatch.setattr(_single, "_MOST", 30)
    many = sg.Forecaster().fit(FRAME[:N], "t", progress=False)
    assert many.fitted.choices == ()
    assert many.posterior.data.observed == N


def test_values_within_limits_are_compared() -> None:
    low = np.quantile(FRAME.y, 0.2)
    hidden = FRAME.assign(
        below=np.where(FRAME.y < low, low, np.nan), y=FRAME.y.where(FRAME.y > low)
    )
    made = sg.Forecaster().fit(hidden[:N], "t", limits=(None, "below"), progress=False)
    assert len(made.fitted.choices) == 4
    assert isinstance(made.posterior.model.likelihood, sg.likelihoods.Censored)
    whole = sg.Forecaster().fit(FRAME[:N], "t", progress=False).forecast(AHEAD)
    ahead = made.forecast(AHEAD)
    assert (
        np.max(np.abs(ahead["mean"] - whole["mean"])) < whole.eval("upper_95 - lower_95").max() / 4
    )


def test_positive_series_have_no_negative_bounds() -> None:
    y = np.exp(1 + np.cumsum(0.4 * np.random.default_rng(5).standard_normal(N)))
    frame = pd.DataFrame({"t": T[:N], "y": y})
    made = sg.Forecaster().fit(frame, "t", progress=False)
    plain = next(choice for choice in made.fitted.choices if not choice.log)
    assert averaged((plain,), np.array([N + 30.0])).quantiles([0.025])[0] < 0  # by itself
    ahead = made.forecast(30)
    assert ahead["lower_95"].min() >= 0
    assert made.sample(ahead["t"], 50).min(axis=None) >= 0
    assert "no forecast is negative" in made.explain()
