"""fit_many: what `fit` finds for each series, found side by side."""

import dataclasses
import warnings

import jax
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

import stategp as sg
from stategp._data import observe
from stategp._fitting import _together
from stategp._fitting._templates import Template
from stategp._inference import batched_evidence, starting_model
from stategp._inference._batch import rows_of, slots_for
from stategp._native import _kernels
from stategp.parameters import all_parameters, to_vector

RNG = np.random.default_rng(3)
MODEL = sg.GP(sg.kernels.Matern32(), sg.likelihoods.Gaussian(), sg.means.Constant())
X_NEW = np.array([-1.0, 4.5, 30.0, 70.0])


def simulated(count, level=0.0, stretch=1.0):
    """A series with gaps, in no order."""
    x = RNG.permutation(np.sort(RNG.choice(60, count, replace=False))).astype(float)
    y = level + np.sin(x / (4 * stretch)) + 0.3 * RNG.standard_normal(count)
    return x, y


SERIES = {
    "a": simulated(40),
    "b": simulated(25, 5.0),
    "c": simulated(30, -3.0, 2.0),
    "d": simulated(1),
}
SERIES["b"][1][3] = np.nan
SERIES["c"][0][:5] = SERIES["c"][0][5:10]  # several observations at the same times


def long(series=SERIES, name="sensor"):
    parts = [pd.DataFrame({name: key, "ds": x, "y": y}) for key, (x, y) in series.items()]
    return pd.concat(parts).sample(frac=1, random_state=0)


@pytest.fixture(scope="module")
def many():
    return sg.fit_many(MODEL, long(), by="sensor")


@pytest.mark.parametrize("key", ["a", "b", "c"])
def test_each_series_has_what_fit_finds(many, key):
    alone = sg.fit(MODEL, *SERIES[key])
    together = many[key]
    number = many.keys().index(key)
    assert many.log_likelihoods[number] == pytest.approx(alone.elbo, abs=1e-9)
    assert together.elbo == pytest.approx(alone.elbo, abs=1e-9)
    assert together.fit_result.converged
    np.testing.assert_allclose(to_vector(together.model), to_vector(alone.model), atol=2e-5)
    for found in (together.predict_f(X_NEW), many.predict_f(X_NEW)[key]):
        for ours, theirs in zip(found, alone.predict_f(X_NEW), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5)


def test_jobs_in_other_processes_find_the_same(many):
    """By loky, joblib's default."""
    broken = {"e": ([0.0, 1.0], [np.inf, 1.0])}
    found = sg.fit_many(MODEL, long({"e": broken["e"], **SERIES}), by="sensor", n_jobs=2)
    assert found.failures["sensor"].tolist() == ["e"]
    assert len(found.models) == len(many.models)
    wanted = ["sensor", "observations", "log_likelihood", "converged", "lengthscale"]
    mine, theirs = (m.table.set_index("sensor")[wanted[1:]] for m in (found, many))
    for key in SERIES:
        np.testing.assert_allclose(
            mine.loc[key].to_numpy(float), theirs.loc[key].to_numpy(float), rtol=1e-6
        )
    np.testing.assert_allclose(found["b"].predict_f(X_NEW)[0], many["b"].predict_f(X_NEW)[0])
    with pytest.raises(ValueError, match="share='prior' learns from all series together"):
        sg.fit_many(MODEL, SERIES, share="prior", n_jobs=2)


def dense_log_likelihood(x, y, variance, lengthscale, noise, level=0.0):
    """That of a dense Gaussian process."""
    distance = np.sqrt(3) * np.abs(x[:, None] - x[None]) / lengthscale
    covariance = variance * (1 + distance) * np.exp(-distance) + noise * np.eye(len(x))
    return multivariate_normal(np.full(len(x), level), covariance).logpdf(y)


@pytest.mark.parametrize("key", ["a", "b", "c", "d"])
def test_the_likelihood_is_that_of_a_dense_process(many, key):
    row = many.table.set_index("sensor").loc[key]
    x, y = SERIES[key]
    seen = np.isfinite(y)
    names = ("variance", "lengthscale", "likelihood__variance", "mean__value")
    expected = dense_log_likelihood(x[seen], y[seen], *(row[name] for name in names))
    assert row["log_likelihood"] == pytest.approx(expected, abs=1e-7)
    assert row["observations"] == seen.sum()


def test_predictions_at_once_are_those_of_each_posterior(many):
    frame = pd.DataFrame({"sensor": ["b", "a", "b"], "ds": [70.0, 4.5, 1.25]})
    found = many.predict(frame)
    assert list(found.columns) == ["sensor", "ds", "mean", "lower_95", "upper_95"]
    assert found["sensor"].tolist() == ["b", "a", "b"]
    mean, variance = many["b"].predict_y([70.0, 1.25])
    np.testing.assert_allclose(found["mean"].to_numpy()[[0, 2]], mean, rtol=1e-9)
    reach = 1.959963984540054 * np.sqrt(variance)
    np.testing.assert_allclose(found["upper_95"].to_numpy()[[0, 2]], mean + reach, rtol=1e-9)
    narrow = many.predict(frame, of="function", levels=[0.5, 0.9])
    assert list(narrow.columns)[3:] == ["lower_50", "upper_50", "lower_90", "upper_90"]
    everything = many.predict()
    assert len(everything) == int(many.data.counts.sum())
    with pytest.raises(KeyError, match="there is no series 'z'; there are"):
        many.predict(frame.assign(sensor="z"))
    with pytest.raises(ValueError, match="of must be"):
        many.predict(frame, of="noise")


def test_forecasts_start_at_the_end_of_each_series(many):
    found = many.forecast(2.0, every=1.0)
    for key in ("a", "b", "c"):
        ends = np.nanmax(np.where(np.isfinite(SERIES[key][1]), SERIES[key][0], np.nan))
        rows = found[found["sensor"] == key]
        assert rows["ds"].tolist() == [ends + 1, ends + 2]
        mean, variance = many[key].predict_y([ends + 1, ends + 2])
        np.testing.assert_allclose(rows["mean"], mean, rtol=1e-9, atol=1e-9)
        reach = 1.959963984540054 * np.sqrt(variance)
        np.testing.assert_allclose(rows["lower_95"], mean - reach, rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="horizon must be positive"):
        many.forecast(-1.0)


def test_some_series_without_a_forecast_are_a_warning():
    data = {"close": (np.arange(9.0), np.zeros(9)), "far": (np.arange(9.0) * 50, np.ones(9))}
    fixed = sg.kernels.Matern32(variance=sg.fixed(1.0), lengthscale=sg.fixed(3.0))
    many = sg.fit_many(sg.GP(fixed, sg.likelihoods.Gaussian(variance=sg.fixed(0.1))), data)
    with pytest.warns(UserWarning, match="no forecast for series 'far': the horizon 3.0 is"):
        assert set(many.forecast(3.0)["series"]) == {"close"}


KINDS = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}


@pytest.mark.parametrize("kind", KINDS)
def test_frames_of_all_kinds_and_keys_of_several_columns(kind, many):
    frame = long().assign(site=lambda f: (f["sensor"] == "a").astype(int))
    found = sg.fit_many(MODEL, KINDS[kind](frame), by=["site", "sensor"])
    assert type(found.forecast(2.0, every=1.0)) is type(KINDS[kind](frame))
    assert (1, "a") in found
    assert "a" not in found
    order = [(int(key == "a"), key) for key in many]
    assert found.keys() == order
    np.testing.assert_allclose(found.log_likelihoods, many.log_likelihoods, atol=1e-9)
    table = found.table if kind == "pandas" else found.table.to_pandas()
    assert list(zip(table["site"], table["sensor"], strict=True)) == order


def test_keys_are_integers_dates_are_days():
    x = np.arange(12)
    days = pd.Timestamp("2024-02-25", tz="Europe/Berlin") + pd.to_timedelta(x, "D")
    frame = pd.DataFrame({"id": 7, "when": days, "value": np.cos(x / 2)})
    found = sg.fit_many(MODEL, frame, by="id", time="when", target="value", tolerance=1e-2)
    ahead = found.forecast("2d")
    assert ahead["when"].tolist() == [days[-1] + pd.Timedelta(days=n) for n in (1, 2)]
    assert 7 in found
    np.testing.assert_allclose(found[7].data.x, x)


def test_a_broken_series_does_not_stop_the_others(many):
    bad = pd.DataFrame(
        {
            "sensor": ["inf"] * 3 + ["empty"] * 2 + ["text"],
            "ds": [1.0, 2.0, 3.0, 1.0, 2.0, 1.0],
            "y": [1.0, np.inf, 2.0, np.nan, np.nan, "n/a?"],
        }
    )
    found = sg.fit_many(MODEL, pd.concat([long(), bad]), by="sensor")
    problems = found.failures.set_index("sensor")["problem"]
    assert set(problems.index) == {"inf", "empty", "text"}
    assert "row 1 is inf" in problems["inf"]
    assert "every y is NaN" in problems["empty"]
    assert repr(found) == "ManyPosteriors(7 series: 4 converged, 3 failed)"
    assert found.table.set_index("sensor").loc["empty", "status"].startswith("failed: every y")
    np.testing.assert_allclose(
        [found.log_likelihoods[found.keys().index(key)] for key in many],
        many.log_likelihoods,
        atol=1e-9,
    )
    with pytest.raises(ValueError, match="series 'empty' could not be fitted: every y is NaN"):
        found["empty"]
    asked = found.predict(pd.DataFrame({"sensor": ["empty", "a"], "ds": [1.0, 1.0]}))
    assert np.isnan(asked["mean"][0])
    assert np.isfinite(asked["mean"][1])
    assert "empty" not in set(found.forecast(2.0, every=1.0)["sensor"])


def test_signals_far_above_the_noise_are_fitted_alone():
    x = np.arange(30.0)
    data = {"clear": (x, np.sin(x / 5)), "a": SERIES["a"]}
    found = sg.fit_many(MODEL, data)
    alone = sg.fit(MODEL, *data["clear"])
    assert found.log_likelihoods[0] == pytest.approx(alone.elbo, rel=1e-6)
    assert found.results[1].converged


def test_dictionaries_and_lists_of_pairs(many):
    named, listed = sg.fit_many(MODEL, SERIES), sg.fit_many(MODEL, list(SERIES.values()))
    assert list(named) == ["a", "b", "c", "d"]
    assert list(listed) == [0, 1, 2, 3]
    expected = [many.log_likelihoods[many.keys().index(key)] for key in SERIES]
    np.testing.assert_allclose(named.log_likelihoods, expected, atol=1e-9)
    np.testing.assert_array_equal(named.log_likelihoods, listed.log_likelihoods)
    assert next(iter(named.table.columns)) == "series"


def test_known_noise_and_weights_are_columns():
    x, y = SERIES["a"]
    noise, weights = RNG.uniform(0.001, 0.03, len(x)), RNG.integers(1, 4, len(x)).astype(float)
    frame = pd.DataFrame({"id": "a", "ds": x, "y": y, "noise": noise, "times": weights})
    found = sg.fit_many(MODEL, frame, by="id", noise_variance="noise", weights="times")
    alone = sg.fit(MODEL, x, y, noise_variance=noise, weights=weights)
    assert found.log_likelihoods[0] == pytest.approx(alone.elbo, abs=1e-9)
    assert found["a"].elbo == pytest.approx(alone.elbo, abs=1e-9)


def test_files_hold_everything(many, tmp_path):
    many.save(tmp_path / "many.stategp")
    again = sg.load(tmp_path / "many.stategp")
    assert repr(again) == repr(many)
    pd.testing.assert_frame_equal(again.table, many.table)
    pd.testing.assert_frame_equal(again.forecast(2.0, every=1.0), many.forecast(2.0, every=1.0))
    assert again["a"].elbo == many["a"].elbo


def test_other_likelihoods_are_fitted_one_by_one():
    x = np.arange(12.0)
    data = {"a": (x, RNG.poisson(3.0, 12)), "b": (x, np.full(12, -1.0))}
    kernel = sg.kernels.Matern12(variance=sg.fixed(1.0), lengthscale=sg.fixed(5.0))
    model = sg.GP(kernel, "poisson")
    found = sg.fit_many(model, data)
    assert "must be" in found.failures["problem"][0]
    assert found["a"].elbo == pytest.approx(sg.fit(model, *data["a"]).elbo, abs=1e-9)
    assert {"mean", "median", "upper_95"} <= set(found.forecast(2.0).columns)
    with pytest.raises(ValueError, match="share='all' is for Gaussian observations"):
        sg.fit_many(model, data, share="all")


def test_after_an_interruption_there_is_what_was_found(monkeypatch):
    calls = iter(range(1000))
    plain = batched_evidence

    def interrupted(*arguments):
        if next(calls) == 12:
            raise KeyboardInterrupt
        return plain(*arguments)

    monkeypatch.setattr(_together, "batched_evidence", interrupted)
    monkeypatch.setattr(_together, "slots_for", lambda *_: 4)
    data = dict.fromkeys(range(6), SERIES["a"])
    with pytest.warns(sg.NotConvergedWarning, match=r"the fits of 4 series of 6 .* interrupted"):
        found = sg.fit_many(MODEL, data, tolerance=1e-9)
    assert [result is not None for result in found.results] == [True] * 4 + [False] * 2
    assert found.results[0].outcome is sg.Outcome.interrupted
    assert found.failures["problem"].tolist() == ["interrupted before it was fitted"] * 2


def test_shared_hyperparameters_are_those_of_all_series_together():
    level_free = sg.GP(sg.kernels.Matern32(), sg.likelihoods.Gaussian())
    data = {"a": SERIES["a"], "c": simulated(12)}
    found = sg.fit_many(level_free, data, share="all")

    def loss(vector):
        return -sum(dense_log_likelihood(*data[key], *np.exp(vector)) for key in data)

    best = minimize(loss, np.log([1.0, 5.0, 0.1]), tol=1e-10)
    assert found.log_likelihoods.sum() == pytest.approx(-best.fun, abs=1e-6)
    values = np.log(found.table[["variance", "lengthscale", "likelihood__variance"]].to_numpy())
    np.testing.assert_allclose(values, np.tile(best.x, (2, 1)), atol=1e-3)
    assert not any(p.learned for p in all_parameters(found.model))


def test_levels_are_not_shared():
    data = {"a": SERIES["a"], "b": SERIES["b"]}
    found = sg.fit_many(MODEL, data, share="all")
    table = found.table
    assert table["lengthscale"].nunique() == 1
    # Each level is the best for the hyperparameters that all have.
    for key in data:
        model = found.model
        alone = sg.fit(model, *data[key])
        number = found.keys().index(key)
        assert found.log_likelihoods[number] == pytest.approx(alone.elbo, abs=1e-7)


def test_short_series_borrow_from_long_ones():
    level_free = sg.GP(sg.kernels.Matern32(), sg.likelihoods.Gaussian())
    data = {number: simulated(40) for number in range(5)} | {"short": simulated(4)}
    alone = np.log(sg.fit_many(level_free, data).table["lengthscale"].to_numpy())
    found = sg.fit_many(level_free, data, share="prior")
    together = np.log(found.table["lengthscale"].to_numpy())
    middle = np.mean(together[:5])
    assert abs(together[5] - middle) < abs(alone[5] - middle) / 3
    assert np.ptp(together[:5]) < np.ptp(alone[:5])
    prior = found.model.kernel.lengthscale.prior
    assert isinstance(prior, sg.priors.LogNormal)
    # The mode of the density is where the series are.
    assert np.log(prior.median) - prior.spread**2 == pytest.approx(middle, abs=0.1)
    # The model is what each series was fitted with.
    again = sg.fit(found.model, *data["short"])
    assert again.elbo == pytest.approx(found.log_likelihoods[5], abs=1e-5)


@pytest.mark.parametrize("kind", ["zeros", "stuck", "line"])
def test_series_of_another_kind_borrow_and_do_not_teach(kind):
    """A dead sensor is without noise, which says nothing of sensors that are alive."""
    x, random = np.arange(40.0), np.random.default_rng(5)
    y = {"zeros": np.zeros(40), "stuck": np.where(x < 35, 1.0, 1.01), "line": 2 * x + 1}[kind]
    waves = {n: (x, np.sin(x / 4 + n) + 0.3 * random.standard_normal(40)) for n in range(8)}
    known = {"short": (x[:5], waves[0][1][:5])} | waves
    for share in ("prior", "all") if kind == "zeros" else ("prior",):
        without = sg.fit_many(MODEL, known, share=share)
        found = sg.fit_many(MODEL, known | {"dead": (x, y)}, share=share)
        assert found.failures.empty
        one, other = (list(all_parameters(m.model)) for m in (found, without))
        for ours, theirs in zip(one, other, strict=True):
            if share == "all":
                np.testing.assert_allclose(ours.value, theirs.value, rtol=1e-3)
            elif theirs.prior is not None:
                modes = [np.log(p.prior.median) - p.prior.spread**2 for p in (ours, theirs)]
                assert modes[0] == pytest.approx(modes[1], abs=0.1)
                assert ours.prior.spread == pytest.approx(theirs.prior.spread, abs=0.15)
        ours, theirs = (many.table.iloc[0] for many in (found, without))
        for name in ("lengthscale", "variance", "likelihood__variance"):
            assert np.log(ours[name] / theirs[name]) == pytest.approx(0, abs=0.1)


def test_kernels_that_grow_with_their_parameters_do_so():
    x = np.arange(48.0)
    waves = np.cos(2 * np.pi * np.arange(1, 4)[:, None] * x / 12)
    y = np.array([1.0, 0.6, 0.3]) @ waves + 0.1 * RNG.standard_normal(48)
    kernel = sg.kernels.Periodic(period=sg.fixed(12.0), lengthscale=2.0, tolerance=1e-2)
    model = sg.GP(kernel, sg.likelihoods.Gaussian())
    found, alone = sg.fit_many(model, {"a": (x, y)}), sg.fit(model, x, y)
    assert found["a"].model.kernel.order == alone.model.kernel.order > kernel.order
    assert found.log_likelihoods[0] == pytest.approx(alone.elbo, abs=1e-8)


def test_templates_are_models_as_numbers():
    data = observe(*SERIES["a"])
    model = sg.GP("matern32 + cosine(7)", mean=sg.means.Constant())
    template = Template.of(model, data)
    for stretch in (1.0, 0.25):
        start = starting_model(model, data, stretch)
        (values,) = template.starts(template.leaves, data, [stretch])
        expected = [np.asarray(parameter.value) for parameter in all_parameters(start)]
        for ours, theirs in zip(values, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_allclose(template.vector(values), to_vector(start), rtol=1e-15)
        assert repr(template.with_values(values)) == repr(start)


def test_the_twin_of_the_compiled_kernels_says_the_same():
    data = observe(*SERIES["a"])
    template = Template.of(MODEL, data)
    rows, size = rows_of(data)
    vector = np.asarray(to_vector(template.model))
    leaves, rows = jax.tree.map(lambda leaf: np.asarray(leaf)[None], (template.leaves, rows))
    vectors, leaves, rows = jax.device_put((vector[None], leaves, rows))
    arguments = vectors, jax.tree.unflatten(template.structure, leaves), rows
    compiled = batched_evidence(*arguments)
    before, _kernels._PROBLEM = _kernels._PROBLEM, "compared with"
    try:
        twin = jax.jit(lambda *given: batched_evidence.__wrapped__(*given))(*arguments)
    finally:
        _kernels._PROBLEM = before
    for ours, theirs in zip(compiled, twin, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11)
    assert slots_for(size, 2, 3) == 4


def test_what_is_asked_is_checked():
    frame = long()
    for arguments, words in {
        "by must be the name of a column": {"by": 3},
        "there is no column 'station'": {"by": "station"},
        "there is no column 'when'": {"by": "sensor", "time": "when"},
        "time and by are both column 'ds'": {"by": "ds"},
        "share must be 'none', 'all', 'prior'": {"by": "sensor", "share": "some"},
        "max_steps must be a whole number": {"by": "sensor", "max_steps": 0},
    }.items():
        with pytest.raises(ValueError, match=arguments):
            sg.fit_many(MODEL, frame, **words)
    with pytest.raises(TypeError, match="fit_many has no option 'steps'"):
        sg.fit_many(MODEL, frame, by="sensor", steps=3)
    with pytest.raises(ValueError, match="no rows"):
        sg.fit_many(MODEL, frame[:0], by="sensor")
    with pytest.raises(ValueError, match="there are no series"):
        sg.fit_many(MODEL, {})
    with pytest.raises(ValueError, match=r"series 'ds' must be a pair .* for a frame of columns"):
        sg.fit_many(MODEL, {"ds": np.arange(3.0)})
    with pytest.raises(ValueError, match="give a data frame and `by`"):
        sg.fit_many(MODEL, frame)
    with pytest.raises(ValueError, match=r"column 'sensor' .* row 0 has none"):
        sg.fit_many(MODEL, frame.assign(sensor=None), by="sensor")
    with pytest.raises(ValueError, match="weights is the name of a column"):
        sg.fit_many(MODEL, SERIES, weights="w")
    with pytest.raises(ValueError, match=r"model must be an sg\.GP"):
        sg.fit_many("matern32", frame, by="sensor")


def test_progress_is_a_line_on_standard_error(capsys):
    with warnings.catch_warnings():
        sg.fit_many(MODEL, SERIES, progress=True)
    assert "fitted" in capsys.readouterr().err


def test_more_observations_of_some_series(many, tmp_path):
    new = pd.DataFrame({"sensor": ["a", "e", "a"], "ds": [61.0, 1.0, 62.5], "y": [0.5, 1.0, 0.2]})
    longer = many.update(new)
    expected = many["a"].update([61.0, 62.5], [0.5, 0.2])
    for a, b in zip(longer["a"].predict_f(X_NEW), expected.predict_f(X_NEW), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
    assert longer["b"].elbo == many["b"].elbo
    assert longer["e"].data.observed == 1  # a new one
    assert longer["e"].elbo == pytest.approx(sg.fit(MODEL, [1.0], [1.0]).elbo, abs=1e-9)
    assert "a" in set(longer.forecast(2.0)["sensor"])
    longer.save(tmp_path / "many")
    assert len(sg.load(tmp_path / "many")["a"].data) == 42
    assert len(many.update(new[:1], window=5.0)["a"].data) < 7
    with pytest.raises(TypeError, match="no option 'colour'"):
        many.update(new, colour="red")


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_rows_that_a_series_cannot_take_in_stop_no_other(likelihood, tmp_path):
    """A series keeps its posterior; one that failed before is fitted with all rows that fit."""
    kernel = sg.kernels.Matern12(variance=sg.fixed(1.0), lengthscale=sg.fixed(5.0))
    model = sg.GP(kernel, likelihood)
    x, y = np.arange(6.0), np.array([1.0, 0.0, 2.0, 1.0, 3.0, 1.0])
    known = {"a": (x, y), "failed": (x, np.full(6, np.nan)), "b": (x, y)}
    many = sg.fit_many(model, known)
    wrong = np.inf if likelihood == "gaussian" else -1.0
    more = {"a": ([6.0, 7.0], [1.0, wrong]), "b": ([6.0], [2.0]), "failed": (x[:4], y[:4])}
    with pytest.warns(UserWarning, match="new rows of series 'a' were left out: y"):
        found = many.update(more | {"new": ([1.0], [wrong])})
    assert found.keys() == ["a", "failed", "b", "new"]
    assert found["a"].elbo == many["a"].elbo
    assert [len(found[key].data) for key in ("a", "failed", "b")] == [6, 4, 7]
    assert found["failed"].elbo == pytest.approx(sg.fit(model, x[:4], y[:4]).elbo, abs=1e-6)
    assert found.failures["series"].tolist() == ["a", "new"]
    assert found.failures["problem"][0].startswith("its new rows were left out: y")
    assert "1 with new rows left out" in repr(found)
    found.save(tmp_path / "many")
    again = sg.load(tmp_path / "many")
    assert again.failures["problem"].tolist() == found.failures["problem"].tolist()
    # The next update that succeeds leaves nothing to say of it.
    better = found.update({"a": ([6.0], [1.0]), "new": ([1.0, 2.0], [1.0, 1.0])})
    assert better.failures.empty
    assert [len(better[key].data) for key in better] == [7, 4, 7, 2]


def test_series_that_could_not_be_fitted_keep_the_rows_that_were_fit_for_it():
    many = sg.fit_many(MODEL, {"a": SERIES["a"], "b": SERIES["b"]})
    nothing = dataclasses.replace(many.results[0], outcome=sg.Outcome.interrupted)
    half = dataclasses.replace(
        many, which=np.array([0, -1]), values=many.values[: many.starts[1]],
        results=(many.results[0], nothing), problems=("", "interrupted before it was fitted"),
    )  # fmt: skip
    found = half.update({"b": ([61.0, 62.5], [4.0, 5.0])})
    x, y = SERIES["b"]
    alone = sg.fit(MODEL, np.append(x, [61.0, 62.5]), np.append(y, [4.0, 5.0]))
    assert found["b"].elbo == pytest.approx(alone.elbo, abs=1e-6)
    assert found["a"].elbo == many["a"].elbo


def test_hyperparameters_of_some_series_are_refined(many):
    more = {"a": (61.0 + np.arange(6), np.array([3.0, -2.0, 2.5, -3.0, 2.0, -2.0]))}
    refined = many.update(more, refine=True, progress=False)
    expected = many["a"].update(*more["a"], refine=True)
    assert refined["a"].elbo == pytest.approx(expected.elbo, abs=1e-6)
    np.testing.assert_allclose(
        to_vector(refined["a"].model), to_vector(expected.model), rtol=1e-3, atol=1e-4
    )
    assert refined["a"].elbo > many.update(more)["a"].elbo + 1
    assert refined["b"].elbo == many["b"].elbo
    shared = dataclasses.replace(many, share="all")
    with pytest.raises(ValueError, match="these share hyperparameters"):
        shared.update(more, refine=True)


def test_series_that_were_fitted_alone_are_refined():
    model = sg.GP(sg.kernels.Matern32(), sg.likelihoods.Poisson())
    counts = RNG.poisson(3.0, 20).astype(float)
    many = sg.fit_many(model, [(np.arange(15.0), counts[:15])])
    refined = many.update([(np.arange(15.0, 20.0), counts[15:])], refine=True)
    whole = sg.fit_many(model, [(np.arange(20.0), counts)])
    assert refined[0].elbo == pytest.approx(whole[0].elbo, abs=1e-3)
    assert refined.log_likelihoods[0] == refined[0].elbo
