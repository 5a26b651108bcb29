"""Regressors and events: the dense GP with kernel K + Φ S Φᵀ, frames, what is not known."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.stats import norm

import stategp as sg
from stategp._forecasting._design import smooth_columns

N, AHEAD = 50, 8
RNG = np.random.default_rng(0)
DAYS = pd.date_range("2024-03-01", periods=N + AHEAD)
T = np.arange(N + AHEAD)
HEAT, PROMO = RNG.normal(15, 5, len(T)), (RNG.uniform(size=len(T)) < 0.3).astype(float)
SALES = ["2024-03-08", "2024-04-05"]
ON_SALE = np.isin(T, [7, 35]).astype(float)
Y = np.sin(T / 9) + 0.2 * HEAT + PROMO - 2 * ON_SALE + 0.1 * RNG.standard_normal(len(T))
FRAME = pd.DataFrame({"ds": DAYS, "y": Y, "heat": HEAT, "promo": PROMO})
KERNEL = "slow: matern32(20d) + quick: matern32(5d, variance=0.1)"


@pytest.fixture(scope="module", autouse=True)
def _few_steps():
    """Five steps of learning are enough here, and seldom reach an optimum."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stategp._fitting._requests.warn_unless_converged", lambda result: None)
        yield


def made(frame=FRAME[:N], kernel="matern32(20d)", likelihood="gaussian", **options):
    forecaster = sg.Forecaster(kernel, likelihood, **options)
    return forecaster.fit(frame, progress=False, max_steps=5)


@pytest.fixture(scope="module")
def sales():
    return made(kernel=KERNEL, regressors=["heat", "promo"], events={"sale": SALES})


class Dense:
    """The GP of y whose covariance has the effects in it."""

    def __init__(self, posterior):
        x = jnp.asarray(T, dtype=float)
        columns = [(HEAT - HEAT[:N].mean()) / HEAT[:N].std(), PROMO, ON_SALE]
        sizes = posterior.effect_deviations**2
        kernels = zip(("slow", "quick"), posterior.model.kernel.kernels, strict=True)
        self.parts = {name: np.asarray(kernel(x, x)) for name, kernel in kernels}
        effects = zip(("heat", "promo", "sale"), columns, sizes, strict=True)
        self.parts |= {name: size * np.outer(c, c) for name, c, size in effects}
        self.noise = float(posterior.model.likelihood.variance.value)
        self.level = float(posterior.model.mean.value.value)
        self.total = sum(self.parts.values())
        self.seen = self.total[:N, :N] + self.noise * np.eye(N)
        self.away = np.linalg.solve(self.seen, Y[:N] - self.level)

    def moments(self, prior):
        cross = prior[:, :N]
        covariance = prior - cross @ np.linalg.solve(self.seen, cross.T)
        return cross @ self.away, np.diag(covariance)


def test_it_is_the_dense_gp_with_the_effects_in_its_kernel(sales):
    dense = Dense(sales.posterior)
    forecast = sales.predict(FRAME, of="function")
    mean, variance = dense.moments(dense.total)
    np.testing.assert_allclose(forecast["mean"], dense.level + mean, atol=1e-9)
    width = (forecast["upper_95"] - forecast["mean"]) / 1.959963984540054
    np.testing.assert_allclose(width, np.sqrt(variance), rtol=1e-8)
    _, log_determinant = np.linalg.slogdet(dense.seen)
    square = (Y[:N] - dense.level) @ dense.away
    evidence = -(square + log_determinant + N * np.log(2 * np.pi)) / 2
    np.testing.assert_allclose(sales.posterior.elbo, evidence, rtol=1e-10)
    assert sales.posterior.log_marginal_likelihood() == sales.posterior.elbo


def test_components_are_those_of_the_dense_gp(sales):
    dense, parts = Dense(sales.posterior), sales.components(FRAME)
    assert [name for name in parts.columns if "_" not in name] == ["ds", *dense.parts]
    for name, prior in dense.parts.items():
        mean, variance = dense.moments(prior)
        np.testing.assert_allclose(parts[name], mean, atol=1e-9)
        width = (parts[f"{name}_upper_95"] - parts[name]) / 1.959963984540054
        np.testing.assert_allclose(width, np.sqrt(np.maximum(variance, 0)), atol=1e-9)


def test_each_observation_without_itself(sales):
    dense = Dense(sales.posterior)
    inverse = np.linalg.inv(dense.seen)
    mean, variance = sales.posterior.leave_one_out(T[:N], Y[:N])
    np.testing.assert_allclose(mean, Y[:N] - dense.away / np.diag(inverse), rtol=1e-8)
    np.testing.assert_allclose(variance, 1 / np.diag(inverse) - dense.noise, rtol=1e-7)
    z = dense.away / np.sqrt(np.diag(inverse))
    found = sales.outliers(FRAME[:N])["probability"]
    np.testing.assert_allclose(found, 2 * norm.sf(np.abs(z)), rtol=1e-6)


def test_samples_are_joint(sales):
    dense = Dense(sales.posterior)
    known = sales._knowing(FRAME, T).posterior
    drawn = np.asarray(known.sample_f(0, T, 4000))
    cross = dense.total[:, :N]
    covariance = dense.total - cross @ np.linalg.solve(dense.seen, cross.T)
    deviations = np.sqrt(np.diag(covariance))
    error = np.cov(drawn.T) - covariance
    assert np.abs(error / np.outer(deviations, deviations)).max() < 0.1
    middle = dense.level + cross @ dense.away
    assert np.abs((drawn.mean(axis=0) - middle) / deviations).max() < 5 / np.sqrt(4000)
    assert sales.sample(FRAME, 2).shape == (len(T), 3)


def test_effects_are_in_units_of_the_column(sales):
    found = sales.effects(level=0.9).set_index("name")
    truth = {"heat": 0.2, "promo": 1.0, "sale": -2.0}
    assert list(found.index) == list(truth)
    for name, value in truth.items():
        row = found.loc[name]
        assert row["lower"] < row["effect"] < row["upper"]
        assert abs(row["effect"] - value) < 1.5 * (row["upper"] - row["lower"])
    with pytest.raises(ValueError, match="without regressors"):
        sg.Forecaster("matern32").fit(FRAME[:N], max_steps=1, progress=False).effects()


def test_a_forecast_needs_the_future_of_its_regressors(sales):
    with pytest.raises(ValueError, match="'heat', 'promo' are not known at 3 times from"):
        sales.forecast("3d")
    with pytest.raises(ValueError, match="'promo' are not known at 2024-04-20: give a table"):
        sales.forecast("1d", future=FRAME[N:][["ds", "heat"]])
    with pytest.raises(ValueError, match="not known at 2025-01-01"):
        sales.predict(["2025-01-01"])
    ahead = sales.forecast("8d", future=FRAME[N:])
    pd.testing.assert_frame_equal(ahead, sales.predict(FRAME[N:]).reset_index(drop=True))
    without = FRAME.assign(y=np.where(T < N, Y, np.nan))
    same = made(without, KERNEL, regressors=["heat", "promo"], events={"sale": SALES})
    pd.testing.assert_frame_equal(ahead, same.forecast("8d"))


def test_what_if(sales):
    """Other values at known times replace them."""
    changed = sales.predict(FRAME.assign(promo=1 - PROMO)[:N])["mean"] - sales.predict()["mean"]
    effect = sales.effects().set_index("name").loc["promo", "effect"]
    np.testing.assert_allclose(changed, np.where(PROMO[:N] == 1, -effect, effect), rtol=1e-9)


def test_files_keep_it_all(sales, tmp_path):
    sales.save(tmp_path / "sales.stategp")
    same = sg.load(tmp_path / "sales.stategp")
    assert repr(same) == repr(sales)
    pd.testing.assert_frame_equal(same.effects(), sales.effects())
    future = FRAME[N:]
    pd.testing.assert_frame_equal(
        same.forecast("8d", future=future), sales.forecast("8d", future=future)
    )
    sales.posterior.save(tmp_path / "posterior.stategp")
    assert sg.load(tmp_path / "posterior.stategp").elbo == sales.posterior.elbo


def test_rolling_origins_know_the_regressors():
    model = sg.Forecaster("matern32(20d)", regressors=sg.Effect("heat", lags=(0, 1)))
    plain = sg.Forecaster("matern32(20d)")
    options = {"horizon": "7d", "folds": 2, "progress": False, "max_steps": 5}
    scores, others = (each.cross_validate(FRAME, **options) for each in (model, plain))
    assert scores["rmse"].max() < others["rmse"].min()


def test_figures_and_report(sales, tmp_path):
    story = sales.story(horizon="8d", future=FRAME[N:])
    assert list(story.components) == ["slow", "quick", "heat", "promo", "sale"]
    assert len(story.forecast.x) == AHEAD
    sales.report(tmp_path / "sales.html", horizon="8d", future=FRAME[N:])
    assert "promo" in (tmp_path / "sales.html").read_text()


def test_lags_are_rows_earlier():
    y = 0.3 * np.roll(HEAT, 2) + 0.05 * RNG.standard_normal(len(T))
    found = made(FRAME.assign(y=y)[:N], regressors=sg.Effect("heat", lags=[0, 2]))
    effects = found.effects().set_index("name")["effect"]
    np.testing.assert_allclose(effects, [0, 0.3], atol=0.02)
    assert list(effects.index) == ["heat", "heat, lag 2"]
    assert len(found.posterior.data) == N - 2  # what acted on the first two is unknown
    found.forecast("2d", future=FRAME[N:])
    assert "heat" in found.components()
    probability = found.outliers(FRAME.assign(y=y)[:N])["probability"]
    assert np.isnan(probability).tolist() == [True] * 2 + [False] * (N - 2)


def test_an_effect_can_vary_with_a_season():
    phase = 2 * np.pi * T / 7
    y = (HEAT - 15) * (0.3 + 0.2 * np.cos(phase)) + 0.05 * RNG.standard_normal(len(T))
    found = made(FRAME.assign(y=y)[:N], regressors=sg.Effect("heat", season="1w"))
    effects = found.effects().set_index("name")["effect"]
    assert list(effects.index) == ["heat"]
    np.testing.assert_allclose(effects["heat"], 0.3, atol=0.02)
    parts = found.components()
    away = HEAT[:N] - HEAT[:N].mean()
    np.testing.assert_allclose(parts["heat"], away * (0.3 + 0.2 * np.cos(phase[:N])), atol=0.3)


def test_a_smooth_effect_follows_a_curve():
    z = RNG.uniform(-2, 2, len(T))
    y = np.sin(2 * z) + 0.05 * RNG.standard_normal(len(T))
    frame = pl.from_pandas(FRAME.assign(y=y, z=z))
    found = made(frame[:N], regressors=sg.Effect("z", kind="smooth"))
    ahead = found.forecast(f"{AHEAD}d", future=frame[N:])
    assert isinstance(ahead, pl.DataFrame)
    assert np.abs(ahead["mean"].to_numpy() - np.sin(2 * z[N:])).max() < 0.5
    effects = found.effects()
    assert isinstance(effects, pl.DataFrame)
    assert [name.split(" = ")[0] for name in effects["name"]] == ["z"] * 3


@pytest.mark.parametrize("largest", [2.0, 30.0])
def test_columns_of_a_smooth_effect_make_a_covariance(largest):
    knots = np.linspace(-3, largest + 1, 16)
    z = np.linspace(-2, largest, 40)
    columns = smooth_columns(z, knots)
    lengthscale = max(1.0, 2 * (knots[1] - knots[0]))
    expected = sg.kernels.Matern52(lengthscale=lengthscale)(jnp.asarray(z), jnp.asarray(z))
    np.testing.assert_allclose(columns @ columns.T, expected, atol=0.02)


def test_counts_agree_with_poisson_regression():
    eta = 2 + 0.03 * HEAT + PROMO
    counts = RNG.poisson(np.exp(eta))
    kernel = sg.kernels.Matern32(variance=sg.fixed(1e-8), lengthscale=sg.fixed(20.0))
    found = made(FRAME.assign(y=counts)[:N], kernel, "poisson", regressors=["heat", "promo"])
    effects = found.effects().set_index("name")
    level = float(found.posterior.model.mean.value.value)
    heat = HEAT[:N] - HEAT[:N].mean()
    X = np.stack([heat, PROMO[:N]], axis=1)
    prior = found.posterior.effect_deviations / [HEAT[:N].std(), 1]

    def loss(b):
        return np.sum(np.exp(level + X @ b)) - counts[:N] @ (X @ b) + np.sum((b / prior) ** 2) / 2

    best = minimize(loss, np.zeros(2)).x
    curvature = X.T @ (np.exp(level + X @ best)[:, None] * X) + np.diag(1 / prior**2)
    deviation = np.sqrt(np.diag(np.linalg.inv(curvature)))
    assert np.all(np.abs(effects["effect"] - best) < 0.1 * deviation)
    width = (effects["upper"] - effects["lower"]) / (2 * 1.96)
    np.testing.assert_allclose(width, deviation, rtol=0.05)


def test_numbers_as_times_and_repeated_rows():
    frame = pd.DataFrame({"ds": np.repeat(T[:30], 2), "y": np.repeat(Y[:30], 2) + [0, 0.1] * 30})
    frame = frame.assign(heat=np.repeat(HEAT[:30], 2))
    found = made(frame, "matern32(20)", regressors=["heat"])
    dense = np.repeat(np.arange(30.0), 2)
    kernel, column = found.posterior.model.kernel, (HEAT[:30] - HEAT[:30].mean()) / HEAT[:30].std()
    K = np.asarray(kernel(jnp.asarray(dense), jnp.asarray(dense)))
    phi = np.repeat(column, 2)
    K = K + found.posterior.effect_deviations**2 * np.outer(phi, phi)
    level = float(found.posterior.model.mean.value.value)
    noise = float(found.posterior.model.likelihood.variance.value)
    away = np.linalg.solve(K + noise * np.eye(60), frame["y"] - level)
    np.testing.assert_allclose(found.predict()["mean"], level + K @ away, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"regressors": ["cold"]}, "there is no column 'cold'"),
        ({"regressors": ["y"]}, "cannot be a regressor too"),
        ({"regressors": ["heat", "heat"]}, "'heat' is among the regressors twice"),
        ({"regressors": [3]}, "the name of a column or an sg.Effect, got 3"),
        ({"regressors": ["gappy"]}, r"'gappy' is empty in row 4, where 'y' is given \(2 such rows"),
        ({"regressors": ["heat"], "inducing": 8}, "leave inducing out"),
        ({"regressors": sg.Effect("heat", season="often")}, "not a duration"),
        ({"events": ["sale"]}, "events must be sg.Event"),
        ({"events": {"sale": [3.0]}}, "must have dates"),
        ({"holidays": 3}, "holidays must be a country"),
        ({"regressors": ["heat"], "likelihood": "heteroscedastic"}, "one latent function"),
    ],
)
def test_wrong_arguments(options, words):
    frame = FRAME.assign(gappy=np.where(np.isin(T, [4, 6]), np.nan, 1.0))
    with pytest.raises(ValueError, match=words):
        made(frame[:N], **options)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sg.Effect("heat", kind="cubic"), "kind must be 'linear' or 'smooth'"),
        (lambda: sg.Effect("heat", lags=[-1]), "lags must be different whole numbers from 0"),
        (lambda: sg.Effect("heat", scale=0), "scale must be a positive number"),
        (lambda: sg.Event("sale", SALES, before=-1), "days from 0 to 60"),
        (lambda: sg.Holidays("DE", windows={"Easter": 3}), "the days before and after"),
    ],
)
def test_wrong_effects(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_two_values_at_a_time_are_refused():
    frame = pd.concat([FRAME[:N], FRAME[3:4].assign(heat=0.0)])
    with pytest.raises(ValueError, match="column 'heat' has two values at 2024-03-04"):
        made(frame, regressors=["heat"])


def test_what_the_data_do_not_show_is_said_and_uncertain(capsys):
    events = sg.Event("fair", ["2024-03-08", "2024-04-22"], after=1), sg.Event("gala", "2024-04-21")
    forecaster = sg.Forecaster("matern32(20d)", events=events)
    forecaster.fit(FRAME[:N], max_steps=5)
    assert "only the prior is known of their effects: gala" in capsys.readouterr().err
    found = forecaster.effects().set_index("name")
    assert list(found.index) == ["fair", "fair, 1 day after"]
    ahead = forecaster.forecast("4d")
    width = np.asarray(ahead["upper_95"] - ahead["lower_95"])
    assert width[1] > 1.2 * width[0]  # the gala


def test_states_are_refused(sales):
    with pytest.raises(ValueError, match="sample_f gives joint samples"):
        sales.posterior.covariance([1.0, 2.0])


def test_noise_is_the_most_probable_with_effects_integrated_out():
    """With many effects, that of a fit at their means would be far too small."""
    X = RNG.standard_normal((N, 10))
    y = np.sin(T[:N] / 9) + X.sum(axis=1) + 0.3 * RNG.standard_normal(N)
    names = [f"c{i}" for i in range(10)]
    frame = pd.DataFrame(X, columns=names).assign(ds=DAYS[:N], y=y)
    kernel = sg.kernels.Matern32(variance=sg.fixed(0.5), lengthscale=sg.fixed(15.0))
    found = sg.Forecaster(kernel, regressors=names, mean=sg.means.Zero()).fit(frame, progress=False)
    columns = (X - X.mean(axis=0)) / X.std(axis=0) * found.posterior.effect_deviations
    x = jnp.asarray(T[:N], dtype=float)
    prior = np.asarray(kernel(x, x)) + columns @ columns.T

    def loss(log_noise):
        covariance = prior + np.exp(log_noise) * np.eye(N)
        return np.linalg.slogdet(covariance)[1] + y @ np.linalg.solve(covariance, y)

    best = np.exp(minimize_scalar(loss, bounds=(-8, 2), method="bounded").x)
    np.testing.assert_allclose(found.posterior.model.likelihood.variance.value, best, rtol=0.02)


def test_changes_of_slope_are_columns_that_grow_from_then_on():
    """Two dates, one of them after the data: of that only how large such changes are is known."""
    bent = Y + 0.5 * np.maximum(T - 30, 0)
    frame = FRAME[:N].assign(y=bent[:N])
    dates = ["2024-03-31", pd.Timestamp("2024-04-23")]  # days 30 and 53
    forecaster = made(frame, changepoints=dates)
    posterior, x = forecaster.posterior, jnp.asarray(T, dtype=float)
    grown = np.maximum(T[:, None] - [30, 53], 0) / (N - 1) * posterior.effect_deviations
    prior = np.asarray(posterior.model.kernel(x, x)) + grown @ grown.T
    seen = prior[:N, :N] + float(posterior.model.likelihood.variance.value) * np.eye(N)
    level = float(posterior.model.mean.value.value)
    cross = prior[:, :N] @ np.linalg.inv(seen)
    found = forecaster.predict(DAYS, of="function")
    np.testing.assert_allclose(found["mean"], level + cross @ (bent[:N] - level), atol=1e-9)
    variance = np.diag(prior - cross @ prior[:N])
    width = (found["upper_95"] - found["mean"]) / 1.959963984540054
    np.testing.assert_allclose(width, np.sqrt(variance), rtol=1e-8)
    (effect,) = forecaster.effects().itertuples()
    assert effect.name == "slope from 2024-03-31, per day"
    inverse = grown[:N, 0] / (N - 1) @ np.linalg.solve(seen, bent[:N] - level)
    np.testing.assert_allclose(effect.effect, posterior.effect_deviations[0] * inverse, rtol=1e-8)
    assert "changepoints" in forecaster.components()
    assert "changepoints=['2024-03-31', '2024-04-23T00:00:00']" in repr(forecaster)


def test_changepoints_are_times_of_the_data():
    with pytest.raises(ValueError, match="changepoints must be dates"):
        made(changepoints=[3.0])
    with pytest.raises(ValueError, match=r"changepoints must be dates .* got None"):
        sg.Forecaster(changepoints=[None])
    with pytest.raises(ValueError, match="is a date, but the times are numbers"):
        made(pd.DataFrame({"ds": T[:N], "y": Y[:N]}), "matern32(20)", changepoints="2024-03-31")
