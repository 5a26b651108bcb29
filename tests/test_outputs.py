"""Several outputs, as users fit them: against single series, and against one another."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import gammaln
from scipy.stats import multivariate_normal

import stategp as sg
from stategp._story import Line
from tests.dense_inference import variational_jointly

k, noise = sg.kernels, sg.likelihoods
RNG = np.random.default_rng(0)
X = np.linspace(0, 10, 40)
G = np.stack([np.sin(X), np.cos(2.3 * X)], axis=1)
MIX = np.array([[1.0, 0.2], [3.0, -1.0], [-2.0, 5.0]])
Y = G @ MIX.T + np.array([10.0, 0.0, -5.0]) + 0.1 * RNG.standard_normal((40, 3))
Y[RNG.uniform(size=Y.shape) < 0.2] = np.nan
GAP = slice(18, 28)
Y[GAP, 1] = np.nan
NEW = np.array([-0.5, 5.2, 11.0])
KERNEL = k.Matern52(variance=2.0, lengthscale=1.5)
MIXED = {"mixing": sg.fixed(MIX), "outputs": ["a", "b", "c"], "mean": [10.0, 0.0, -5.0]}
NOISE = noise.Gaussian(variance=0.01)


@pytest.fixture(scope="module")
def mixed():
    return sg.condition(sg.MultiOutputGP([KERNEL] * 2, NOISE, **MIXED), X, Y, inducing="data")


@pytest.fixture(scope="module")
def learned():
    model = sg.MultiOutputGP([k.Matern52()] * 2, mixing="learned", outputs=["a", "b", "c"])
    return sg.fit(model, X, Y, inducing=20)


def test_independent_outputs_are_separate_series():
    likelihoods = [noise.Gaussian(variance=0.1), "poisson"]
    counts = np.where(np.isnan(Y[:, 1]), np.nan, np.arange(40) % 5)
    both = np.stack([Y[:, 0], counts], axis=1)
    model = sg.MultiOutputGP({"y": KERNEL, "n": KERNEL}, likelihoods, mean=[10.0, 0.5])
    together = sg.condition(model, X, both, inducing=12)
    total = 0.0
    for i, name in enumerate(model.names):
        own = sg.GP(KERNEL, model.likelihoods[i], model.means[i])
        alone = sg.condition(own, X, both[:, i], inducing=together.inducing)
        total += alone.elbo
        for one, other in zip(
            alone.predict_y(NEW), together.predict_y(NEW, output=name), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=1e-6)
    np.testing.assert_allclose(together.elbo, total, rtol=1e-8)


def test_mixtures_are_those_of_the_dense_gp(mixed):
    rows = np.argwhere(~np.isnan(Y))
    x, p = X[rows[:, 0]], rows[:, 1]
    C = (MIX[p] @ MIX[p].T) * np.asarray(KERNEL(x, x)) + 0.01 * np.eye(len(x))
    cross = (MIX[[1]] @ MIX[p].T) * np.asarray(KERNEL(NEW, x))
    y = Y[rows[:, 0], p] - np.array([10.0, 0.0, -5.0])[p]
    mean, variance = mixed.predict_f(NEW, output="b")
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(C, y), rtol=1e-6, atol=1e-8)
    evidence = multivariate_normal(np.zeros(len(x)), C).logpdf(y)
    np.testing.assert_allclose(mixed.elbo, evidence, rtol=1e-8)
    exact = 2.0 * (MIX[1] @ MIX[1]) - np.sum(cross * np.linalg.solve(C, cross.T).T, axis=1)
    np.testing.assert_allclose(variance, exact, rtol=1e-5, atol=1e-8)


def test_every_form_of_the_data_says_the_same(mixed):
    there = ~np.isnan(Y)
    rows = np.argwhere(there)[::-1]
    forms = [
        (X, dict(zip("abc", Y.T, strict=True))),
        ([X[there[:, i]] for i in range(3)], [Y[there[:, i], i] for i in range(3)]),
        ((X[rows[:, 0]], rows[:, 1]), Y[tuple(rows.T)]),
        ((X[rows[:, 0]], np.array(["a", "b", "c"])[rows[:, 1]]), Y[tuple(rows.T)]),
    ]
    for x, y in forms:
        other = sg.condition(mixed.model, x, y, inducing="data")
        np.testing.assert_allclose(other.elbo, mixed.elbo, rtol=1e-9)
    np.testing.assert_array_equal(mixed.inducing, X[there.any(axis=1)])


def test_learned_mixtures_fill_gaps_of_one_output_from_the_others(learned):
    assert learned.fit_result.converged
    truth = G @ MIX.T + np.array([10.0, 0.0, -5.0])
    mean = np.asarray(learned.predict_f(X)[0])
    assert np.sqrt(np.mean((mean - truth)[GAP, 1] ** 2)) < 0.3  # of values between −4 and 4
    assert not learned.model.kernels[0].variance.learned
    low, _, high = np.asarray(learned.quantiles(X, [0.005, 0.5, 0.995]))
    seen = ~np.isnan(Y)
    assert np.mean((low <= Y)[seen] & (high >= Y)[seen]) > 0.95


def test_samples_have_the_moments_of_predictions(mixed):
    mean, variance = (np.asarray(v) for v in mixed.predict_f(NEW))
    drawn = np.asarray(mixed.sample_f(0, NEW, 4096))
    assert drawn.shape == (4096, 3, 3)
    np.testing.assert_allclose(drawn.mean(0), mean, atol=5 * np.sqrt(variance.max() / 4096))
    np.testing.assert_allclose(drawn.var(0), variance, rtol=0.2)
    noisy = np.asarray(mixed.sample_y(0, NEW, 4096, output="a"))
    np.testing.assert_allclose(noisy.var(0), np.asarray(mixed.predict_y(NEW)[1])[:, 0], rtol=0.2)


def test_scores_are_those_of_each_output(mixed):
    y = np.array([[9.0, 1.0, np.nan], [10.0, 0.0, -5.0], [11.0, np.nan, 2.0]])
    whole = np.asarray(mixed.log_density(NEW, y))
    np.testing.assert_array_equal(np.isnan(whole), np.isnan(y))
    np.testing.assert_array_equal(whole[:, 1], mixed.log_density(NEW, y[:, 1], output=1))
    mean, variance = (np.asarray(v) for v in mixed.predict_y(NEW))
    exact = -((y - mean) ** 2 / variance + np.log(2 * np.pi * variance)) / 2
    np.testing.assert_allclose(whole, exact, rtol=1e-9)
    assert mixed.crps(NEW, y).shape == mixed.cdf(NEW, y).shape == (3, 3)


def test_saved_and_loaded_it_answers_the_same(learned, tmp_path):
    learned.save(tmp_path / "outputs.stategp")
    again = sg.load(tmp_path / "outputs.stategp")
    np.testing.assert_array_equal(again.predict_f(NEW)[0], learned.predict_f(NEW)[0])
    np.testing.assert_array_equal(again.sample_f(0, NEW, 2), learned.sample_f(0, NEW, 2))
    assert repr(again) == repr(learned)


def test_the_figure_has_a_panel_for_each_output(learned):
    assert [axes.get_ylabel() for axes in learned.plot(until=12.0).axes] == ["a", "b", "c"]
    for chosen, titles in [("b", ["b"]), (["c", 0], ["c", "a"])]:
        figure = learned.plot(output=chosen)
        assert [a.get_title(loc="left") for a in figure.axes] == [f"Output {t}" for t in titles]
    with pytest.raises(ValueError, match="output must be a number below 3"):
        learned.plot(output="d")
    with pytest.raises(
        TypeError, match=r"plot_components\(\) of a MultiOutputPosterior takes no of"
    ):
        learned.plot_components(of="b")
    rows = {row.name for row in sg.plots.portray(learned).hyperparameters}
    assert {"process 1: lengthscale", "b: mixing", "c (likelihood): variance"} <= rows
    assert learned.processes(NEW)[0].shape == (3, 2)


def test_minibatches_and_optax_climb_too():
    model = sg.MultiOutputGP(KERNEL, outputs=1)
    start = sg.condition(sg.MultiOutputGP(KERNEL, noise.Gaussian(), outputs=1), X, Y[:, 0])
    for options in ({"optimiser": "adam"}, {"batch_size": 16, "step_size": 0.9}):
        with pytest.warns(sg.NotConvergedWarning):
            slow = sg.fit(model, X, Y[:, :1], inducing=12, max_steps=5, **options)
        assert slow.elbo > start.elbo


@pytest.mark.filterwarnings("ignore::stategp.NotConvergedWarning")
def test_minibatches_of_several_product_chains_end_at_the_optimum():
    """Three outputs of two processes, each a chain; steps that do not shrink to begin with."""
    model = sg.MultiOutputGP([KERNEL] * 2, noise.Gaussian(variance=0.5), q="product", **MIXED)
    best = sg.condition(model, X, Y, inducing=6)
    options = {"batch_size": 24, "step_size": lambda step: 1.0 / (1 + step / 20), "max_steps": 200}
    found = sg.condition(model, X, Y, inducing=best.inducing, **options)
    per_row = (best.elbo - found.elbo) / np.sum(~np.isnan(Y))
    assert -1e-9 < per_row < 0.01
    means = [np.asarray(one.predict_f(X)[0]) for one in (best, found)]
    np.testing.assert_allclose(means[1], means[0], atol=0.3)  # of values between −10 and 10
    spreads = [np.asarray(one.predict_f(X)[1]) for one in (best, found)]
    np.testing.assert_allclose(spreads[1], spreads[0], rtol=0.25)


SEVERAL = np.array([0.0, 0.6, 1.1, 1.9, 2.4, 3.0])
WIND = np.array([0.2, 1.4, 0.3, -1.1, -0.2, 0.9])
SKY = np.array([0.0, 2.0, np.nan, 1.0, 2.0, 0.0])
COUNTS = np.array([1.0, np.nan, 0.0, 3.0, 2.0, 1.0])
OWN = (
    k.Matern32(variance=1.0, lengthscale=1.0), k.Matern12(variance=0.8, lengthscale=2.0),
    k.Matern32(variance=2.0, lengthscale=0.7),
)  # fmt: skip


def test_columns_that_read_several_functions_are_those_of_the_dense_twin():
    """Noise that varies, and counts that read both functions of the first column."""
    weights = np.array([[1.0, 0.3], [0.0, 1.0], [0.5, -0.8]])
    means = (0.1, -0.5, 0.4)
    model = sg.MultiOutputGP(
        OWN[:2], ["heteroscedastic", "poisson"], mixing=sg.fixed(weights),
        outputs=["wind", "n"], mean=[(0.1, -0.5), 0.4],
    )  # fmt: skip
    data = np.stack([WIND, COUNTS], axis=1)
    found = sg.condition(model, SEVERAL, data, inducing="data")
    seen, counts = ~np.isnan(COUNTS), jnp.asarray(np.nan_to_num(COUNTS))

    def expected(mean, covariance):
        f = mean @ weights.T + np.asarray(means)[None]
        S = weights @ covariance @ weights.T
        away = jnp.asarray(WIND) - f[:, 0] + S[:, 0, 1]
        square = (away**2 + S[:, 0, 0]) * jnp.exp(S[:, 1, 1] / 2 - f[:, 1])
        wind = -(square + f[:, 1] + np.log(2 * np.pi)) / 2
        rate = counts * f[:, 2] - jnp.exp(f[:, 2] + S[:, 2, 2] / 2) - gammaln(counts + 1)
        return jnp.sum(wind) + jnp.sum(jnp.where(seen, rate, 0.0))

    dense = variational_jointly(OWN[:2], (0.0, 0.0), SEVERAL, expected)
    assert found.fit_result.converged
    np.testing.assert_allclose(found.elbo, dense.bound, atol=1e-6)
    mean = dense.mean @ weights.T + np.asarray(means)
    np.testing.assert_allclose(found.predict_f(SEVERAL)[0], mean, atol=1e-3)
    spread = weights @ dense.covariance @ weights.T
    np.testing.assert_allclose(found.covariance_f(SEVERAL), spread, atol=1e-3)
    assert found.predict_f(SEVERAL, output="wind")[0].shape == (6, 2)
    assert found.predict_f(SEVERAL, output="n")[0].shape == (6,)
    assert found.sample_f(0, SEVERAL, 2).shape == (2, 6, 3)
    assert np.all(np.isfinite(found.sample_y(0, SEVERAL, 2)))
    np.testing.assert_array_equal(np.isnan(found.log_density(SEVERAL, data)), np.isnan(data))


def test_independent_columns_are_joint_functions_of_their_own(tmp_path):
    model = sg.MultiOutputGP(
        {"wind": OWN[0], "sky": OWN}, [noise.Gaussian(variance=0.2), noise.Softmax(classes=3)]
    )
    found = sg.condition(model, SEVERAL, np.stack([WIND, SKY], axis=1), inducing="data")
    wind = sg.condition(sg.GP(OWN[0], model.likelihoods[0], model.means[0]), SEVERAL, WIND,
                        inducing="data")  # fmt: skip
    sky = sg.condition(sg.JointGP(OWN, model.likelihoods[1], model.means[1:]), SEVERAL, SKY,
                       inducing="data")  # fmt: skip
    np.testing.assert_allclose(found.elbo, wind.elbo + sky.elbo, atol=1e-6)
    chances = found.predict_probabilities(NEW, output="sky")
    np.testing.assert_allclose(chances, sky.predict_probabilities(NEW), atol=1e-4)
    np.testing.assert_allclose(found.predict_y(NEW, output=0), wind.predict_y(NEW), atol=1e-6)
    y = np.zeros((3, 2))
    for name, given in {"predict_y": (), "quantiles": (), "cdf": (y,), "crps": (y,)}.items():
        asked = rf"output='sky'.*; of the others ask {name}\(.*, output='wind'\)"
        with pytest.raises(ValueError, match=asked):
            getattr(found, name)(NEW, *given)
    with pytest.raises(ValueError, match="classes of output 'sky'"):
        found.quantiles(NEW, output="sky")
    panels = sg.plots.portray(found, until=9.0).panels
    assert [(panel.title, panel.up.label) for panel in panels] == [
        ("Output wind", "wind"), ("Output sky", "Probability")
    ]  # fmt: skip
    lines = [mark for mark in panels[1].marks if isinstance(mark, Line)]
    assert [line.name for line in lines] == ["class 0", "class 1", "class 2"]
    np.testing.assert_allclose(sum(line.y for line in lines), 1.0, atol=1e-6)
    figure = found.plot(output=["sky"])
    assert [axes.get_ylabel() for axes in figure.axes] == ["Probability"]
    found.save(tmp_path / "columns.stategp")
    again = sg.load(tmp_path / "columns.stategp")
    np.testing.assert_array_equal(again.covariance_f(NEW), found.covariance_f(NEW))
    assert {row.name for row in sg.plots.portray(found).hyperparameters} >= {
        "sky 1: lengthscale", "sky 2 (mean): value", "wind (likelihood): variance"
    }  # fmt: skip


def test_what_one_of_several_likelihoods_reads_is_given_by_its_name():
    model = sg.MultiOutputGP({"wind": KERNEL, "n": KERNEL}, ["gaussian", "poisson"])
    x, days = np.arange(8.0), 1.0 + np.arange(8.0)
    counts = np.arange(8.0) % 3
    y = np.stack([np.sin(x), counts], axis=1)
    whole = np.stack([np.ones(8), days], axis=1)
    known = sg.condition(model, x, y, exposure=whole, inducing=4)
    rows = np.tile(x, 2), np.repeat(["wind", "n"], 8)
    for inputs, targets in [(x, y), ([x, x], list(y.T)), (rows, y.T.ravel())]:
        found = sg.condition(model, inputs, targets, exposure={"n": days}, inducing=4)
        np.testing.assert_allclose(found.elbo, known.elbo, rtol=1e-10)
    weighted = sg.condition(model, x, y, weights={"n": 2 * np.ones(8)}, inducing=4)
    twice = sg.condition(model, [x, np.tile(x, 2)], [y[:, 0], np.tile(counts, 2)], inducing=4)
    np.testing.assert_allclose(weighted.elbo, twice.elbo, rtol=1e-6)
    for one, other in zip(
        known.predict_y(x, exposure={"n": days}), known.predict_y(x, exposure=whole), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    for wrong, words in [
        ({"wind": days}, "'wind', but Gaussian does not read it: leave it to n"),
        ({"m": days}, "'m', which is none of the 2 outputs"),
        ({"n": days[:3]}, "output 'n': exposure must have one value per observation"),
    ]:
        with pytest.raises(ValueError, match=words):
            sg.condition(model, x, y, exposure=wrong)


REFUSED = [
    ({"kernels": KERNEL}, "how many outputs are there"),
    ({"kernels": [KERNEL] * 2, "outputs": 3}, "number of outputs is not clear"),
    (
        {"kernels": [KERNEL], "mixing": "all", "outputs": 2},
        "mixing must be None, 'learned', an array",
    ),
    ({"kernels": [KERNEL], "mixing": np.ones((2, 3))}, "mixing must have a row for each of 2"),
    ({"kernels": {"a": KERNEL}, "mixing": "learned", "outputs": 2}, "latent processes"),
    ({"kernels": KERNEL, "outputs": ["a", "a"]}, "a name of its own"),
    ({"kernels": KERNEL, "outputs": 2, "q": "mean field"}, "q must be 'joint'"),
    (
        {"kernels": KERNEL, "outputs": 2, "q": "product", "likelihood": "heteroscedastic"},
        "need q='joint'",
    ),
    ({"kernels": [(KERNEL, KERNEL)], "likelihood": "poisson"}, "kernel has 2 parts"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_models_that_make_no_sense_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        sg.MultiOutputGP(**arguments)


def test_data_that_make_no_sense_are_refused(mixed):
    model = mixed.model
    for x, y, message in [
        (X, Y[:, :2], "a column for each of 3 outputs"),
        (X[:5], Y, "equal lengths"),
        (X, {"a": Y[:, 0]}, "no column 'b'"),
        (X, np.full(Y.shape, np.nan), "no output has observations"),
        ((X, np.full(40, 7)), Y[:, 0], "none of the 3 outputs"),
        ((X, ["a"] * 40), np.full(40, np.inf), "output 'a'|be finite"),
    ]:
        with pytest.raises(ValueError, match=message):
            sg.condition(model, x, y)
    for options, message in [
        ({"method": "laplace"}, "cannot be used with MultiOutputGP"),
        ({"exposure": 2.0}, "exposure has no meaning"),
        ({"inducing": sg.Learned(5)}, "learned inducing locations"),
    ]:
        with pytest.raises(ValueError, match=message):
            sg.condition(model, X, Y, **options)
    with pytest.raises(ValueError, match="output must be a number below 3"):
        mixed.predict_f(NEW, output="d")
    open_model = sg.MultiOutputGP([KERNEL], mixing="learned", outputs=3)
    with pytest.raises(ValueError, match="mixing matrix is to be learned"):
        sg.condition(open_model, X, Y)


def test_an_output_without_observations_follows_the_others():
    y = Y.copy()
    y[:, 0] = np.nan
    posterior = sg.condition(sg.MultiOutputGP([KERNEL] * 2, NOISE, **MIXED), X, y, inducing=12)
    assert np.all(np.asarray(posterior.predict_f(X)[1])[:, 0] < 2.0 * (MIX[0] @ MIX[0]))


# --- weights that change with x ----------------------------------------------------------------


def weights(t):
    """Three outputs, two processes."""
    return jnp.array([[1.0, 0.2 * t], [jnp.cos(t), -1.0], [0.0, 3.0 / (1 + t)]])


def dense_weights(x):
    return np.array([[[1.0, 0.2 * t], [np.cos(t), -1.0], [0.0, 3.0 / (1 + t)]] for t in x])


@pytest.mark.parametrize("ties", [False, True])
def test_known_weights_that_change_with_x_are_those_of_the_dense_gp(ties, tmp_path):
    """Also with noise that outputs share; x does not begin at zero."""
    rng, x, new = np.random.default_rng(3), np.linspace(2.0, 6.0, 9), np.array([1.5, 3.3, 7.0])
    y = rng.standard_normal((9, 3))
    y[[0, 4], [1, 2]] = np.nan
    shared = np.array([[0.3, 0.1, 0.0], [0.1, 0.4, -0.1], [0.0, -0.1, 0.2]])
    likelihood = noise.MultivariateGaussian(sg.fixed(shared)) if ties else NOISE
    R = shared if ties else 0.01 * np.eye(3)
    kernels = [KERNEL, k.Matern12(lengthscale=0.7)]
    model = sg.MultiOutputGP(kernels, likelihood, mixing=weights, outputs=3, mean=0.5)
    found = sg.condition(model, x, y, inducing="data")

    at, p = (part[~np.isnan(y).ravel()] for part in (np.repeat(x, 3), np.tile(range(3), 9)))
    values = y[~np.isnan(y)] - 0.5

    def covariance(left, right):
        each = [np.asarray(kernel(left[0], right[0])) for kernel in kernels]
        ours, theirs = (dense_weights(a)[np.arange(len(a)), b] for a, b in (left, right))
        return sum(np.outer(ours[:, i], theirs[:, i]) * K for i, K in enumerate(each))

    C = covariance((at, p), (at, p)) + R[p][:, p] * (at[:, None] == at[None])
    evidence = multivariate_normal(np.zeros(len(at)), C).logpdf(values)
    assert found.elbo == pytest.approx(evidence, rel=1e-9)
    there = np.repeat(new, 3), np.tile(range(3), 3)
    cross = covariance(there, (at, p))
    exact = covariance(there, there) - cross @ np.linalg.solve(C, cross.T)
    mean, variance = found.predict_f(new)
    np.testing.assert_allclose(mean.ravel(), 0.5 + cross @ np.linalg.solve(C, values), atol=1e-9)
    np.testing.assert_allclose(variance.ravel(), np.diag(exact), rtol=1e-7, atol=1e-10)
    blocks = np.stack([exact[3 * i : 3 * i + 3, 3 * i : 3 * i + 3] for i in range(3)])
    np.testing.assert_allclose(found.covariance_f(new), blocks, rtol=1e-6, atol=1e-9)
    drawn = np.asarray(found.sample_f(0, new, 2000)).reshape(2000, -1)
    np.testing.assert_allclose(np.cov(drawn.T), exact, atol=0.15 * np.abs(exact).max())
    with pytest.raises(ValueError, match="which a file cannot hold"):
        found.save(tmp_path / "outputs")


def test_hyperparameters_beside_weights_that_change_are_learned():
    """And an output that reads two functions has a row of weights for each of them."""
    rng, x = np.random.default_rng(4), np.linspace(0, 6, 30)
    process = np.sin(2 * x)
    y = np.asarray(dense_weights(x))[:, :, 0] * process[:, None] + 0.1 * rng.standard_normal(
        (30, 3)
    )
    model = sg.MultiOutputGP(k.Matern52(), mixing=lambda t: weights(t)[:, :1], own=k.Matern12())
    fitted = sg.fit(model, x, y, inducing=10)
    assert fitted.fit_result.converged
    seen = np.asarray(fitted.processes(x)[0])[:, 0]
    assert np.corrcoef(seen, process)[0, 1] > 0.99
    assert "weights" not in repr(fitted.model)
    pair = sg.MultiOutputGP(
        [KERNEL, KERNEL], "heteroscedastic", mixing=lambda t: jnp.diag(jnp.array([t, 1.0])),
        outputs=1, mean=0.0,
    )  # fmt: skip
    twin = sg.JointGP((k.Scaled(KERNEL, lambda t: t), KERNEL), "heteroscedastic", mean=0.0)
    one = sg.condition(pair, x, y[:, :1], inducing=x)
    other = sg.condition(twin, x, y[:, 0], inducing=x)
    assert one.elbo == pytest.approx(other.elbo, abs=1e-6)


@pytest.mark.parametrize(
    ("mixing", "message"),
    [
        (lambda t: t, "got shape"),
        (lambda t: np.sin(float(t)), "by operations of jax.numpy"),
        (lambda t: jnp.ones((3, 4)), "a column for each of 2 kernels"),
    ],
)
def test_weights_that_are_no_matrix_are_refused(mixing, message):
    with pytest.raises(ValueError, match=message):
        sg.MultiOutputGP([KERNEL] * 2, mixing=mixing, outputs=3)
    posterior = sg.MultiOutputGP([KERNEL] * 2, mixing=weights)
    with pytest.raises(ValueError, match="matrix_at"):
        posterior.matrix()
