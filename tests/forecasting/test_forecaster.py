"""Forecaster: frames in, frames of the same kind out."""

import datetime
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.stats

import stategp as sg
from stategp._forecasting._defaults import default_model, rank_correlation

N = 60
RNG = np.random.default_rng(0)
DAYS = pd.date_range("2024-03-01", periods=N)
Y = np.sin(np.arange(N) / 9) + 0.1 * RNG.standard_normal(N)
FRAME = pd.DataFrame({"ds": DAYS, "y": Y, "other": "text"})
COUNTS = pd.DataFrame(
    {"ds": DAYS, "n": RNG.poisson(np.exp(1 + Y) * np.where(np.arange(N) % 2, 2.0, 1.0))}
).assign(hours=np.where(np.arange(N) % 2, 2.0, 1.0))


def fitted(frame, kernel="matern32(10d)", likelihood="gaussian", **options):
    made = sg.Forecaster(kernel, likelihood, inducing=8)
    return made.fit(frame, **{"progress": False, "max_steps": 5, **options})


@pytest.fixture(scope="module", autouse=True)
def _few_steps():
    """Five steps of learning are enough here, and seldom reach an optimum."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stategp._fitting._requests.warn_unless_converged", lambda result: None)
        yield


@pytest.fixture(scope="module")
def daily():
    return fitted(FRAME)


@pytest.fixture(scope="module")
def counts():
    return fitted(COUNTS, likelihood="poisson", target="n", exposure="hours")


def columns_of(frame):
    return {name: np.asarray(frame[name]) for name in ("mean", "lower_95", "upper_95")}


KINDS = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_answers_are_frames_of_the_kind_that_came_in(kind, zone, daily):
    days = DAYS if zone is None else DAYS.tz_localize(zone)
    frame = KINDS[kind](FRAME.assign(ds=days))
    forecaster = fitted(frame)
    forecast = forecaster.forecast("7d")
    for answer in (
        forecast,
        forecaster.predict(),
        forecaster.predict(frame, of="function"),
        forecaster.components(frame),
        forecaster.sample(frame, 2),
        forecaster.outliers(frame),
    ):
        assert type(answer) is type(frame)
    times = pd.Series(
        forecast["ds"].to_numpy(zero_copy_only=False) if kind == "pyarrow" else forecast["ds"]
    )
    zoned = (
        pa.types.is_timestamp(forecast["ds"].type) and forecast["ds"].type.tz
        if kind == "pyarrow"
        else getattr(forecast["ds"].dtype, "time_zone", None)
        or str(getattr(forecast["ds"].dtype, "tz", None) or "")
    )
    assert (zoned or None) == zone
    assert len(times) == 7
    if zone is None:
        np.testing.assert_array_equal(times, pd.date_range("2024-04-30", periods=7))
        for name, column in columns_of(daily.forecast("7d")).items():
            np.testing.assert_allclose(np.asarray(forecast[name]), column, rtol=1e-9)


def test_midnights_stay_midnights_where_clocks_change():
    # On 31 March clocks in Berlin went forward: the days of March are an hour less.
    frame = FRAME.assign(ds=pd.date_range("2024-01-31", periods=N, tz="Europe/Berlin"))
    forecaster = fitted(frame)
    assert float(forecaster.posterior.data.x[-1]) == N - 1
    times = forecaster.forecast("3d")["ds"]
    assert times.dt.strftime("%d %H:%M %z").tolist() == [
        "31 00:00 +0100", "01 00:00 +0200", "02 00:00 +0200"
    ]  # fmt: skip
    texts = forecaster.predict(["2024-04-01 00:00"])["ds"]  # local, as the data
    assert texts[0] == pd.Timestamp("2024-04-01", tz="Europe/Berlin")


@pytest.mark.parametrize(
    ("times", "after"),
    [
        (DAYS.strftime("%Y-%m-%d"), pd.Timestamp("2024-04-30")),
        (DAYS.strftime("%Y-%m-%dT%H:%M:%S+01:00"), pd.Timestamp("2024-04-29T23:00Z")),
        (pd.Series([day.date() for day in DAYS], dtype=object), pd.Timestamp("2024-04-30")),
        (pd.date_range("1903-01-01", periods=N), pd.Timestamp("1903-03-02")),
        (pd.date_range("1203-01-01", periods=N, unit="s"), pd.Timestamp("1203-03-02")),
        (DAYS.tz_localize("+01:00"), pd.Timestamp("2024-04-30", tz="+01:00")),
    ],
)
def test_dates_of_every_kind(times, after, daily):
    forecast = fitted(FRAME.assign(ds=times)).forecast("7d")
    assert forecast["ds"][0] == after
    np.testing.assert_allclose(forecast["mean"], daily.forecast("7d")["mean"], rtol=1e-9)


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
@pytest.mark.parametrize("offset", ["+01:00", "-03:30"])
def test_answers_have_the_offset_of_the_texts(kind, offset):
    texts = DAYS.strftime(f"%Y-%m-%dT%H:%M:%S{offset}")
    forecast = fitted(KINDS[kind](FRAME.assign(ds=texts))).forecast("1d")
    first = (forecast["ds"].to_pylist() if kind == "pyarrow" else forecast["ds"].to_list())[0]
    assert first == datetime.datetime.fromisoformat(f"2024-04-30T00:00:00{offset}")
    if kind == "pyarrow" or offset == "+01:00":  # polars has zones of whole hours
        assert first.isoformat() == f"2024-04-30T00:00:00{offset}"


def test_a_series_with_an_index_of_dates(daily):
    series = pd.Series(Y, index=DAYS)
    forecaster = fitted(series)
    pd.testing.assert_frame_equal(forecaster.forecast("7d"), daily.forecast("7d"))
    np.testing.assert_array_equal(forecaster.outliers(series)["y"], Y)
    pd.testing.assert_frame_equal(forecaster.predict(series), daily.predict(FRAME))
    named = fitted(series.rename("visits").rename_axis("day"))
    assert (named.fitted.time, named.fitted.target) == ("day", "visits")
    assert named.forecast("7d").columns[0] == "day"
    # The index of a frame is taken where no column is called like that.
    framed = fitted(FRAME.set_index("ds"))
    np.testing.assert_array_equal(framed.forecast("7d")["mean"], daily.forecast("7d")["mean"])
    np.testing.assert_array_equal(
        framed.predict(FRAME.set_index("ds"))["mean"], daily.predict(FRAME)["mean"]
    )
    with pytest.raises(ValueError, match="a series needs an index of dates, got one of int64"):
        fitted(pd.Series(Y))
    with pytest.raises(ValueError, match="there is no column 'when'"):
        fitted(FRAME.set_index("ds"), time="when")


def test_periods_begin_on_their_first_day():
    months = pd.Series(Y, index=pd.period_range("2019-01", periods=N, freq="M"))
    forecast = fitted(months, kernel="matern32(100d)").forecast("2024-03-01")
    assert forecast["ds"].tolist() == [
        pd.Timestamp("2024-01-01"), pd.Timestamp("2024-02-01"), pd.Timestamp("2024-03-01")
    ]  # fmt: skip


def test_texts_of_dates_keep_their_order(daily):
    frame = FRAME.assign(ds=DAYS.strftime("%d/%m/%Y"))
    forecaster = fitted(frame)
    # 01/05 alone could be the fifth of January; the model was fitted to days before months.
    expected = daily.predict(["2024-05-01"])["mean"]
    np.testing.assert_allclose(forecaster.predict(["01/05/2024"])["mean"], expected, rtol=1e-9)
    assert forecaster.forecast("01/05/2024")["ds"].iloc[-1] == pd.Timestamp("2024-05-01")
    few = FRAME[:10].assign(ds=DAYS[:10].strftime("%d/%m/%Y"))
    with pytest.raises(ValueError, match="day or month first"):
        fitted(few)
    said = fitted(frame, date_format="%d/%m/%Y")
    assert "date_format='%d/%m/%Y'" in said.fitted.call
    np.testing.assert_array_equal(said.forecast("7d")["mean"], forecaster.forecast("7d")["mean"])


@pytest.mark.parametrize(
    ("times", "unit"),
    [
        (np.arange(N), 1),
        (np.arange(N) / 4, 0.25),
        (1_700_000_000_000_000_000 + 7 * np.arange(N), 7),
    ],
)
def test_times_that_are_numbers(times, unit, daily):
    forecaster = fitted(FRAME.assign(ds=times), f"matern32({10 * unit})")
    forecast = forecaster.forecast(7 * unit)
    assert forecast["ds"].dtype == times.dtype
    assert forecast["ds"].tolist() == [times[-1] + unit * i for i in range(1, 8)]
    assert forecaster.predict()["ds"].tolist() == times.tolist()
    np.testing.assert_allclose(forecast["mean"], daily.forecast("7d")["mean"], rtol=1e-6)


def test_nanoseconds_are_not_lost(daily):
    times = pd.Timestamp("2024-01-01").as_unit("ns") + pd.to_timedelta(7 * np.arange(N), unit="ns")
    forecast = fitted(FRAME.assign(ds=times), "matern32(70ns)").forecast("49ns")
    assert forecast["ds"][0] == times[-1] + pd.Timedelta(7, unit="ns")
    np.testing.assert_allclose(forecast["mean"], daily.forecast("7d")["mean"], rtol=1e-4)


def test_any_order_gaps_duplicates_and_missing_targets():
    rows = np.concatenate([np.arange(20), np.arange(35, N), np.arange(35, 50)])
    times, y = DAYS[rows], Y[rows].copy()
    y[[3, 40]] = np.nan
    shuffled = RNG.permutation(len(rows))
    frame = pd.DataFrame({"ds": times[shuffled], "y": y[shuffled]}, index=np.zeros(len(rows)))
    forecaster = fitted(frame)
    seen = np.isfinite(y)
    expected = sg.condition(
        forecaster.posterior.model, rows[seen], y[seen], inducing=forecaster.posterior.inducing
    )
    mean, variance = expected.predict_y(rows[shuffled])
    found = forecaster.predict(frame, levels=[0.5, 0.9])
    np.testing.assert_allclose(found["mean"], mean, rtol=1e-6)
    half = 1.6448536269514722 * np.sqrt(np.asarray(variance))  # of a normal distribution, 90 %
    np.testing.assert_allclose(found["upper_90"] - found["mean"], half, rtol=1e-6)
    assert list(found.columns) == ["ds", "mean", "lower_50", "upper_50", "lower_90", "upper_90"]
    outliers = forecaster.outliers(frame)
    np.testing.assert_array_equal(np.isnan(outliers["probability"]), np.isnan(frame["y"]))


@pytest.mark.filterwarnings("ignore::stategp.ForecastWarning")
@pytest.mark.parametrize("frame", [FRAME[:1], FRAME[:2], FRAME.assign(y=3.0), FRAME.assign(y=0.0)])
@pytest.mark.parametrize("kernel", [None, "matern32(10d)"])
def test_very_little_to_learn_from(frame, kernel):
    forecast = fitted(frame, kernel).forecast("7d")
    assert np.isfinite(forecast[["mean", "lower_95", "upper_95"]]).all(axis=None)
    assert (forecast["upper_95"] >= forecast["lower_95"]).all()


@pytest.mark.parametrize(
    "times",
    [
        ["2024-05-01", "2024-05-02"],
        [datetime.datetime(2024, 5, 1), datetime.datetime(2024, 5, 2)],
        [datetime.date(2024, 5, 1), datetime.date(2024, 5, 2)],
        np.array(["2024-05-01", "2024-05-02"], dtype="datetime64[D]"),
        pd.Series(pd.to_datetime(["2024-05-01", "2024-05-02"]), index=[5, 5]),
        pd.to_datetime(["2024-05-01", "2024-05-02"]),
        pl.Series([datetime.date(2024, 5, 1), datetime.date(2024, 5, 2)]),
        pa.array([datetime.date(2024, 5, 1), datetime.date(2024, 5, 2)]),
        pl.DataFrame({"a": [1, 2], "ds": ["2024-05-01", "2024-05-02"]}),
        {"ds": ["2024-05-01", "2024-05-02"]},
    ],
)
def test_times_to_predict_at(times, daily):
    found = daily.predict(times)
    assert found["ds"].tolist() == [pd.Timestamp("2024-05-01"), pd.Timestamp("2024-05-02")]
    np.testing.assert_array_equal(found["mean"], daily.forecast("3d")["mean"][1:])


def test_one_time_and_none(daily):
    assert len(daily.predict("2024-05-01")) == 1
    assert len(daily.predict(pd.Timestamp("2024-05-01"))) == 1
    assert len(daily.predict([])) == 0
    assert len(daily.predict(FRAME[:0])) == 0


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ([1, 2], "holds numbers, but the model was fitted to times in dates"),
        (DAYS.tz_localize("UTC"), "with a time zone, but the model was fitted to dates without"),
        (FRAME[["y"]], "there is no column 'ds'; the columns are 'y'"),
        (pl.from_pandas(FRAME).lazy(), "call .collect"),
        (["soon"], "cannot be read as a date"),
    ],
)
def test_times_of_the_wrong_kind(times, words, daily):
    with pytest.raises(ValueError, match=words):
        daily.predict(times)


@pytest.mark.parametrize(
    ("frame", "options", "words"),
    [
        (FRAME, {"time": "date"}, "there is no column 'date'; the columns are 'ds', 'y', 'other'"),
        (FRAME, {"target": "other"}, "row 0 is 'text'"),
        (FRAME, {"target": "ds"}, "both column 'ds'"),
        (FRAME, {"exposure": "y"}, "exposure has no meaning for Gaussian"),
        (FRAME[:0], {}, "has no numbers"),
        (FRAME.assign(y=np.nan), {}, "has no numbers"),
        (FRAME.assign(ds=np.arange(N)), {}, "has the length 10d, but the times are numbers"),
        (pd.concat([FRAME, FRAME], axis=1), {}, "have the same name"),
        (pl.from_pandas(FRAME).lazy(), {}, "call .collect"),
        (Y, {}, "expected a pandas, polars or pyarrow data frame, got ndarray"),
    ],
)
def test_wrong_frames(frame, options, words):
    with pytest.raises(ValueError, match=words):
        fitted(frame, **options)


def test_impossible_targets_are_named():
    with pytest.raises(ValueError, match="column 'y' must be a count"):
        fitted(FRAME, likelihood="poisson")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"levels": 95}, "between 0 and 1"),
        ({"levels": "wide"}, "between 0 and 1"),
        ({"of": "f"}, "'observation' or 'function'"),
        ({"exposure": 2.0}, "no meaning for Gaussian"),
    ],
)
def test_wrong_options_of_predict(options, words, daily):
    with pytest.raises(ValueError, match=words):
        daily.predict(**options)
    with pytest.raises(ValueError, match="has not been fitted"):
        sg.Forecaster().predict(**options)


def test_columns_that_would_hide_the_times(daily):
    forecaster = fitted(FRAME.rename(columns={"ds": "mean"}), time="mean")
    with pytest.raises(ValueError, match="rename the column of times"):
        forecaster.forecast("7d")


def test_the_origin_is_kept_when_fitted_again():
    forecaster = fitted(FRAME)
    axis = forecaster.fitted.axis
    again = {"progress": False, "max_steps": 5}
    forecaster.fit(FRAME[20:], **again)
    assert forecaster.fitted.axis == axis
    assert float(forecaster.posterior.data.origin) == 20.0
    forecaster.fit(FRAME.assign(ds=DAYS.tz_localize("UTC")), **again)  # another kind of time
    assert forecaster.fitted.axis.zone == "UTC"
    forecaster.kernel = "matern32(10)"
    forecaster.fit(FRAME.assign(ds=np.arange(N)), **again)
    assert not forecaster.fitted.axis.dates
    assert forecaster.forecast(2)["ds"].tolist() == [N, N + 1]


def test_components_add_up_and_samples_scatter(daily):
    kernel = "trend: matern32(10d) + week: cosine(1w)"
    parts = fitted(FRAME, kernel)
    found = parts.components(["2024-05-01"])
    assert list(found.columns) == [
        "ds", "trend", "trend_lower_95", "trend_upper_95", "week", "week_lower_95", "week_upper_95"
    ]  # fmt: skip
    level = float(parts.posterior.model.mean.value.value)
    total = parts.predict(["2024-05-01"])["mean"]
    np.testing.assert_allclose(found["trend"] + found["week"] + level, total)
    drawn = daily.sample(["2024-05-01"], 400, seed=1)
    assert drawn.shape == (1, 401)
    row = daily.predict(["2024-05-01"])
    np.testing.assert_allclose(drawn.iloc[0, 1:].astype(float).mean(), row["mean"][0], atol=0.1)


def test_counts_have_a_median_and_bounds_that_are_counts(counts):
    found = counts.predict(COUNTS)
    assert list(found.columns) == ["ds", "mean", "median", "lower_95", "upper_95"]
    bounds = found[["lower_95", "median", "upper_95"]].to_numpy()
    np.testing.assert_array_equal(bounds, np.round(bounds))
    expected = counts.posterior.quantiles(np.arange(N), [0.025], exposure=COUNTS["hours"])
    np.testing.assert_array_equal(found["lower_95"], expected[0])
    np.testing.assert_array_equal(counts.predict()["mean"], found["mean"])


def test_exposure_is_read_given_or_usual(counts):
    once = counts.predict(["2024-05-01"], exposure=1.0)["mean"][0]
    twice = counts.predict(pd.DataFrame({"ds": ["2024-05-01"], "hours": [2.0]}))["mean"][0]
    np.testing.assert_allclose(twice, 2 * once)
    usual = counts.predict(["2024-05-01"])["mean"][0]  # the median of one and two hours
    np.testing.assert_allclose(usual, 1.5 * once)
    np.testing.assert_allclose(counts.forecast("2d")["mean"][1], usual)
    without = pd.DataFrame({"ds": ["2024-05-01"]})
    with pytest.raises(ValueError, match="no column 'hours', which the fit read as exposure"):
        counts.predict(without)
    np.testing.assert_allclose(counts.predict(without, exposure=1.0)["mean"], once)
    assert len(counts.predict(without, of="function")) == len(counts.components(without)) == 1


def test_outliers_are_found_and_nothing_else(daily):
    odd = FRAME.copy()
    odd.loc[[10, 30], "y"] += [3.0, -3.0]
    found = fitted(odd).outliers(odd)
    assert found.index[found["outlier"]].tolist() == [10, 30]
    clean = daily.outliers(FRAME)["probability"]
    assert 0.3 < clean.mean() < 0.7  # uniform if the model is right


def test_an_exposure_may_be_missing_where_the_count_is():
    frame = COUNTS.assign(n=COUNTS["n"].astype(float))
    frame.loc[5, ["n", "hours"]] = np.nan
    forecaster = fitted(frame, likelihood="poisson", target="n", exposure="hours")
    probability = forecaster.outliers(frame)["probability"]
    assert np.flatnonzero(np.isnan(probability)).tolist() == [5]


# ---- leaving one out ------------------------------------------------------------------------


def test_leaving_one_out_of_gaussian_data_is_fitting_without_it(daily):
    model, x = daily.posterior.model, np.arange(N)
    exact = sg.condition(model, x, Y, inducing="data")
    mean, variance = exact.leave_one_out(x, Y)
    probability = exact.tail_probability(x, Y)
    for left in (0, 30):
        y = np.where(x == left, np.nan, Y)
        others = sg.condition(model, x, y, inducing=x)
        expected = [np.asarray(v)[0] for v in others.predict_f([left])]
        np.testing.assert_allclose([mean[left], variance[left]], expected, rtol=1e-6)
        below = float(others.cdf([left], Y[left])[0])
        np.testing.assert_allclose(probability[left], 2 * min(below, 1 - below), rtol=1e-6)


def test_leaving_one_out_of_counts_is_nearly_fitting_without_it(counts):
    model, x = counts.posterior.model, np.arange(N)
    y, hours = COUNTS["n"].to_numpy(dtype=float), COUNTS["hours"].to_numpy()
    every = sg.condition(model, x, y, inducing=x, exposure=hours)
    mean, variance = every.leave_one_out(x, y, exposure=hours)
    with_it, _ = every.predict_f(x)
    moved = int(np.argmax(np.abs(np.asarray(mean - with_it))))  # where it matters most
    others = sg.condition(model, x, np.where(x == moved, np.nan, y), inducing=x, exposure=hours)
    expected, spread = (np.asarray(v)[0] for v in others.predict_f([moved]))
    away = abs(float(with_it[moved]) - expected)
    assert abs(float(mean[moved]) - expected) < 0.1 * away
    np.testing.assert_allclose(variance[moved], spread, rtol=0.1)
    with pytest.raises(ValueError, match="y must be a count"):
        every.leave_one_out(x, y - 100, exposure=hours)


# ---- files ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(counts, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "counts.stategp"
    counts.save(path)
    return path


def test_a_forecaster_comes_back_from_its_file(counts, saved, tmp_path):
    again = sg.load(saved)
    assert repr(again) == repr(counts)
    assert again.fitted.axis == counts.fitted.axis
    pd.testing.assert_frame_equal(again.forecast("7d"), counts.forecast("7d"), check_exact=True)
    again.save(tmp_path / "again.stategp")
    assert (tmp_path / "again.stategp").read_bytes() == saved.read_bytes()
    unfitted = sg.Forecaster(None, sg.likelihoods.StudentT(), inducing=sg.Auto(0.1))
    unfitted.save(tmp_path / "unfitted.stategp")
    assert repr(sg.load(tmp_path / "unfitted.stategp")) == repr(unfitted)


def test_another_process_forecasts_the_same_bits(counts, saved):
    code = (
        "import sys, numpy as np, stategp as sg\n"
        "print(sg.load(sys.argv[1]).forecast('7d')['mean'].to_numpy().tobytes().hex())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(saved)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == counts.forecast("7d")["mean"].to_numpy().tobytes().hex()


def test_damaged_files_of_forecasters(counts, saved, tmp_path):
    content, rng = saved.read_bytes(), np.random.default_rng(1)
    refused = 0
    for number in range(50):
        damaged = bytearray(content)
        at = int(rng.integers(len(content) - 8))
        if number % 3 == 0:
            damaged[at] ^= 1 << int(rng.integers(8))
        elif number % 3 == 1:
            damaged[at : at + 8] = rng.bytes(8)
        else:
            damaged = damaged[:at]
        (tmp_path / "file").write_bytes(damaged)
        try:
            again = sg.load(tmp_path / "file")
        except ValueError:
            refused += 1
        else:  # a bit that no reader looks at
            assert again.forecast("7d").equals(counts.forecast("7d"))
    assert refused > 40


# ---- what is fitted when nothing is said -----------------------------------------------------


def parts_of(x, f, dates=True, **options):
    """The parts of the kernel, and the pattern beside it, of the one model for long series."""
    made = default_model(np.asarray(x, dtype=float), np.asarray(f, dtype=float), dates, **options)
    sg.parse_kernel(made.kernel)
    return re.findall(r"(\w+): ", made.kernel), made


def repeating(times, *periods):
    return sum(np.cos(2 * np.pi * times / period) for period in periods)


def test_seasons_are_those_that_span_and_spacing_support():
    def of(times):
        times = np.asarray(times, dtype=float)
        names, made = parts_of(times, repeating(times, 1.0, 7.0, 365.25))
        return [name for name in [made.season, *names] if name not in ("", "trend", "short")]

    assert of(np.arange(24 * 10) / 24) == ["daily"]
    assert of(np.arange(24 * 30) / 24) == ["weekly"]  # the hours of a week
    assert of(np.arange(3 * 365)) == ["weekly", "yearly"]
    assert of(np.arange(60) * 30.4375) == ["yearly"]
    assert of(np.cumsum([90, 91, 92, 92] * 5)) == ["yearly"]
    assert of(np.arange(30) * 365.25) == []
    assert of(np.arange(5)) == of([0, 1]) == []


def test_a_pattern_has_the_harmonics_that_the_data_have():
    times = np.arange(24 * 28) / 24
    noise = 0.1 * np.random.default_rng(0).standard_normal(len(times))
    wave = 3 * np.cos(2 * np.pi * times) + np.sin(2 * np.pi * 5 * times / 7)
    _, made = parts_of(times, 40 + wave + noise)
    cosines, sines = (np.asarray(side.value) for side in (made.pattern.cosines, made.pattern.sines))
    assert (cosines[6], sines[4]) == (pytest.approx(3, abs=0.03), pytest.approx(1, abs=0.03))
    others = np.delete(np.hypot(cosines, sines), [4, 6])
    assert others.max() < 0.03  # what is left of noise
    assert "beside a weekly pattern of" in made.words
    slow = parts_of(times, 40 + wave + noise, fastest=2 * np.pi * 1.01)[1]
    assert len(slow.pattern.cosines.value) == 7  # none faster than a day
    names, beside = parts_of(times, 40 + wave + noise, mean=False)  # there is a mean already
    assert beside.pattern is None
    assert names[:3] == ["trend", "weekly", "daily"]  # a wave each: what is left of noise is none
    assert beside.kernel.startswith("trend: matern52(")
    assert beside.kernel.count("cosine") == 2


def test_a_pattern_of_more_rows_than_are_looked_at():
    """From means over stretches: the same, to what noise and their width leave."""
    rng = np.random.default_rng(1)
    times = np.sort(rng.uniform(0, 60, 40_000))
    _, made = parts_of(times, 3 * np.cos(2 * np.pi * times) + 0.1 * rng.standard_normal(40_000))
    np.testing.assert_allclose(made.pattern.cosines.value[6], 3, rtol=0.01)


@pytest.mark.parametrize("count", [20, 60, 300])
def test_a_period_in_numbers_is_found_and_noise_has_none(count):
    x = np.linspace(0, 60, count)
    for seed in range(20):
        noise = np.random.default_rng(seed).standard_normal(count)
        assert "season" not in parts_of(x, noise, False)[0]
    assert "season" in parts_of(x, np.sin(2 * np.pi * x / 7) + 0.1 * noise, False)[0]


def test_the_one_model_goes_on_as_the_data_do():
    """A line and a day of two peaks, far beyond the data: a smooth trend would fall back."""
    dates = pd.date_range("2025-01-01", periods=24 * 14, freq="h")
    hours = np.arange(24 * 28)

    def truth(hours):
        return 0.1 * hours + 3 * np.cos(np.pi * hours / 12) + 2 * np.cos(np.pi * hours / 4)

    noise = 0.2 * np.random.default_rng(0).standard_normal(len(dates))
    frame = pd.DataFrame({"ds": dates, "y": truth(hours[: len(dates)]) + noise})
    made = sg.Forecaster(inducing=8).fit(frame, progress=False)
    ahead = made.forecast("7d")
    away = ahead["mean"].to_numpy() - truth(hours[len(dates) : len(dates) + len(ahead)])
    assert np.max(np.abs(away)) < 0.5
    assert np.mean(np.abs(away) < (ahead["upper_95"] - ahead["mean"]).to_numpy()) > 0.9
    assert "pattern" in made.components(dates[:3])
    np.testing.assert_array_equal(made.posterior.data.y, frame["y"])
    assert "one model without comparison" in made.explain()
    assert "a daily pattern" in made.explain()


def test_the_kernel_from_the_data_is_printed(capsys):
    fitted(FRAME, None, progress=None)
    assert capsys.readouterr().err.startswith("kernel from the data: trend: integrated_wiener(")


def test_a_call_that_can_be_read():
    forecaster = fitted(COUNTS, likelihood="poisson", target="n", exposure="hours")
    assert forecaster.fitted.call == (
        "Forecaster('matern32(10d)', likelihood='poisson', inducing=8).fit(frame, time='ds', "
        "target='n', exposure='hours', max_steps=5)"
    )
    assert repr(sg.Forecaster()) == "Forecaster()"


def test_the_story_and_the_forecast_have_the_same_rows():
    """Calendar months, not thirty days each; every one of them, with the same numbers."""
    months = pd.DataFrame({"ds": pd.date_range("2019-01-01", periods=N, freq="MS"), "y": Y})
    made = fitted(months, "matern32(300d)")
    ahead, story = made.forecast("12mo"), made.story(horizon="12mo", points=64)
    np.testing.assert_array_equal(story.forecast.x, ahead["ds"].to_numpy("datetime64[us]"))
    np.testing.assert_allclose(story.forecast.mean, ahead["mean"], rtol=1e-9)
    np.testing.assert_allclose(story.forecast.intervals[0.95][1], ahead["upper_95"], rtol=1e-6)


def test_rank_correlation_is_spearmans():
    rng = np.random.default_rng(0)
    one, other = rng.standard_normal(50), rng.poisson(1.0, 50)  # with ties
    expected = scipy.stats.spearmanr(one, other).statistic
    np.testing.assert_allclose(rank_correlation(one, other), expected, rtol=1e-12)
    assert np.isnan(rank_correlation(one, np.ones(50)))
