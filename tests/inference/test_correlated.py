"""Noise that is correlated between outputs: against dense GPs."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import stategp as sg
from stategp._data import PlacedRows, observe_several, seen_together
from stategp._inference import mixed_objective, no_group_sites
from stategp.parameters import to_vector, with_vector
from tests.dense import state_covariances

k, MultivariateGaussian = sg.kernels, sg.likelihoods.MultivariateGaussian
RNG = np.random.default_rng(1)
R = np.array([[0.5, 0.3, -0.2], [0.3, 1.0, 0.1], [-0.2, 0.1, 0.4]])
MIX = np.array([[1.0, 0.2], [0.7, -1.0], [-0.5, 1.5]])
FIXED = sg.fixed(R)
MEAN = np.array([1.0, 0.0, -2.0])
KERNELS = [k.Matern32(lengthscale=1.3), k.Matern52(variance=0.6, lengthscale=0.8)]
OWN = k.Matern12(variance=0.3, lengthscale=2.0)
X = np.sort(RNG.uniform(0, 6, 14))[RNG.permutation(14)]  # unsorted
X[3] = X[7]  # two vectors at one time
Y = RNG.standard_normal((14, 3)) + MEAN
Y[[0, 3, 5, 9], [1, 0, 2, 0]] = np.nan
Y[5, 1], Y[11] = np.nan, np.nan
KNOWN = RNG.uniform(0, 0.5, (14, 3))
NEW = np.array([X[2], 2.2, 9.0])
Y_NEW = np.array([[0.5, np.nan, -1.0], [np.nan, np.nan, np.nan], [1.0, 2.0, 0.0]])


def model_of(q="joint", covariance=FIXED):
    parts = {
        "mixing": sg.fixed(MIX),
        "own": OWN,
        "mean": [sg.means.Constant(m) for m in MEAN],
        "q": q,
    }
    return sg.MultiOutputGP(KERNELS, MultivariateGaussian(covariance), outputs=list("abc"), **parts)


def dense(model, x, y, known, new):
    """log p(y), and mean and covariance of f at new points: (points, outputs), (…, …)."""
    at, p = np.nonzero(~np.isnan(y))
    matrix = np.asarray(model.matrix())
    means = np.array([float(mean.value) for mean in model.means])
    noise = np.asarray(model.noise_covariance())

    def prior(x1, p1, x2, p2):
        parts = [
            np.outer(matrix[p1, i], matrix[p2, i]) * np.asarray(kernel(x1, x2))
            for i, kernel in enumerate(model.kernels)
        ]
        return sum(parts)

    C = prior(x[at], p, x[at], p) + np.where(at[:, None] == at, noise[p][:, p], 0.0)
    C += np.diag(known[at, p])
    residual = y[at, p] - means[p]
    evidence = multivariate_normal(np.zeros(len(at)), C).logpdf(residual)
    x_new, p_new = np.repeat(new, 3), np.tile(np.arange(3), len(new))
    cross = prior(x_new, p_new, x[at], p)
    mean = means[p_new] + cross @ np.linalg.solve(C, residual)
    covariance = prior(x_new, p_new, x_new, p_new) - cross @ np.linalg.solve(C, cross.T)
    blocks = [covariance[3 * i : 3 * i + 3, 3 * i : 3 * i + 3] for i in range(len(new))]
    return evidence, mean.reshape(-1, 3), np.stack(blocks)


@pytest.fixture(scope="module")
def posterior():
    return sg.condition(model_of(), X, Y, noise_variance=KNOWN, inducing="data")


def test_evidence_and_predictions_are_those_of_the_dense_gp(posterior):
    evidence, mean, covariance = dense(posterior.model, X, Y, KNOWN, NEW)
    np.testing.assert_allclose(posterior.elbo, evidence, rtol=1e-10)
    np.testing.assert_allclose(posterior.predict_f(NEW)[0], mean, atol=1e-9)
    np.testing.assert_allclose(posterior.covariance_f(NEW), covariance, atol=1e-9)
    variances = np.diagonal(covariance, axis1=1, axis2=2)
    np.testing.assert_allclose(posterior.predict_f(NEW)[1], variances, atol=1e-9)
    known = np.array([0.1, 0.2, 0.3])
    total = covariance + R + np.diag(known)
    extra = {"noise_variance": np.tile(known, (3, 1))}
    np.testing.assert_allclose(posterior.covariance_y(NEW, **extra), total, atol=1e-9)
    whole = np.asarray(posterior.log_density(NEW, Y_NEW, together=True, **extra))
    exact = [
        multivariate_normal(mean[0][[0, 2]], total[0][[0, 2]][:, [0, 2]]).logpdf(Y_NEW[0][[0, 2]]),
        np.nan,
        multivariate_normal(mean[2], total[2]).logpdf(Y_NEW[2]),
    ]
    np.testing.assert_allclose(whole, exact, rtol=1e-9)


def test_bound_and_gradient_of_few_states_are_those_of_the_dense_twin():
    model, z = model_of(covariance=R), np.linspace(0.0, 6.0, 5)
    at, p = np.nonzero(~np.isnan(Y))
    seen = observe_several(
        model.names, model.likelihoods, X, Y, extras={"noise_variance": KNOWN}, weights=None
    )
    data = [np.asarray(v) for v in (seen.data.x, seen.data.y, seen.data.extra, seen.data.weights)]
    beside = seen_together(seen, 3)
    rows = PlacedRows.padded(data[0], beside, *data[1:], data[1], seen.data.origin)
    inducing = jnp.asarray(z - seen.data.origin)

    def bound(vector):
        moved = with_vector(model, vector)
        matrix, noise = np.asarray(moved.matrix()), np.asarray(moved.noise_covariance())
        means = np.array([float(mean.value) for mean in moved.means])
        reads, left = 0.0, 0.0
        assert matrix.shape == (3, 5)
        for i, kernel in enumerate(moved.kernels):
            w = np.outer(matrix[p, i], matrix[p, i])
            Kuu, Kfu = state_covariances(kernel, z, X[at])
            Q = Kfu @ np.linalg.solve(Kuu, Kfu.T)
            reads, left = reads + w * Q, left + w * (np.asarray(kernel(X[at], X[at])) - Q)
        S = np.where(at[:, None] == at, noise[p][:, p], 0.0) + np.diag(KNOWN[at, p])
        fit = multivariate_normal(means[p], reads + S).logpdf(Y[at, p])
        return fit - np.trace(np.linalg.solve(S, left)) / 2

    vector = np.asarray(to_vector(model))
    assert len(vector) == 4 + 6 + 3 + 3 + 3  # shared, own, variances, means, ties
    nothing = no_group_sites(model, len(z))
    value, gradient, _ = mixed_objective(jnp.asarray(vector), model, rows, inducing, nothing, True)
    np.testing.assert_allclose(value, bound(vector), rtol=1e-10)
    steps = 1e-5 * np.eye(len(vector))
    slopes = [(bound(vector + step) - bound(vector - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-6, atol=1e-7)


def test_every_form_of_the_data_and_a_product_q(posterior):
    there = ~np.isnan(Y)
    alone = X[3] != X  # in lists, rows with one x are told apart by their order only
    x = [X[there[:, i] & alone] for i in range(3)]
    y, known = ([v[there[:, i] & alone, i] for i in range(3)] for v in (Y, KNOWN))
    lists = sg.condition(posterior.model, x, y, noise_variance=known, inducing="data")
    exact, mean, _ = dense(posterior.model, X[alone], Y[alone], KNOWN[alone], NEW)
    np.testing.assert_allclose(lists.elbo, exact, rtol=1e-10)
    product = sg.condition(model_of("product"), x, y, noise_variance=known, inducing="data")
    np.testing.assert_allclose(product.predict_f(NEW)[0], mean, atol=1e-7)
    assert product.elbo < exact
    assert product.covariance_f(NEW).shape == (3, 3, 3)


def test_samples_have_the_covariance_of_new_observations(posterior):
    drawn = np.asarray(posterior.sample_y(0, NEW, 8192))
    covariance = np.asarray(posterior.covariance_y(NEW))
    for at in range(3):
        scale = 6 * np.max(covariance[at]) / np.sqrt(8192)
        np.testing.assert_allclose(np.cov(drawn[:, at].T), covariance[at], atol=scale)
    one = np.asarray(posterior.sample_y(0, NEW, 8, output="b"))
    np.testing.assert_array_equal(one, np.asarray(posterior.sample_y(0, NEW, 8))[..., 1])


@pytest.mark.filterwarnings("ignore::stategp.NotConvergedWarning")
def test_minibatches_of_all_rows_and_gradients_end_at_the_same_q(posterior):
    data = {"x": X, "y": Y, "noise_variance": KNOWN}
    one_step = {"batch_size": 64, "step_size": 1.0, "max_steps": 2}
    whole = sg.condition(posterior.model, **data, inducing="data", **one_step)
    np.testing.assert_allclose(whole.elbo, posterior.elbo, rtol=1e-9)
    few = {"inducing": [0.0, 2.0, 4.0, 6.0]}
    best = sg.condition(posterior.model, **data, **few)
    climbed = sg.condition(posterior.model, **data, **few, method="gradient", tolerance=1e-4)
    assert best.elbo - 1e-3 < climbed.elbo < best.elbo + 1e-9
    np.testing.assert_allclose(climbed.predict_f(NEW)[0], best.predict_f(NEW)[0], atol=0.02)


def test_weights_repeat_times(posterior):
    counts = np.ones(14)
    counts[2] = 2.0
    weighed = sg.condition(posterior.model, X, Y, weights=counts, inducing="data")
    twice = sg.condition(
        posterior.model, np.append(X, X[2]), np.append(Y, Y[[2]], 0), inducing="data"
    )
    np.testing.assert_allclose(weighed.elbo, twice.elbo, rtol=1e-10)
    with pytest.raises(ValueError, match="have one weight"):
        sg.condition(
            posterior.model, X, Y, weights=np.where(np.arange(3) == 1, 2.0, counts[:, None])
        )


@pytest.fixture(scope="module")
def learned():
    t = np.arange(300) / 10
    f = np.stack([np.sin(t), np.cos(0.7 * t), np.sin(t + 1)], axis=1)
    noise = RNG.multivariate_normal(np.zeros(3), R, 300)
    y = np.where(RNG.uniform(size=f.shape) < 0.1, np.nan, f + noise)
    model = sg.MultiOutputGP(k.Matern52(), MultivariateGaussian(), outputs=["a", "b", "c"])
    return sg.fit(model, t, y, inducing=16)


def test_the_covariance_of_the_noise_is_learned(learned, tmp_path):
    assert learned.fit_result.converged
    assert learned.model.q == "joint"
    found = np.asarray(learned.model.noise_covariance())
    # The standard error of a covariance of 240 pairs.
    errors = np.sqrt((np.outer(np.diag(R), np.diag(R)) + R**2) / 240)
    assert np.all(np.abs(found - R) < 3 * errors)
    learned.save(tmp_path / "noise.stategp")
    again = sg.load(tmp_path / "noise.stategp")
    np.testing.assert_array_equal(again.covariance_y(NEW), learned.covariance_y(NEW))
    assert repr(again) == repr(learned)
    assert "MultivariateGaussian([[" in repr(learned)
    table = {row.name: row.value for row in sg.plots.portray(learned).hyperparameters}
    said = table["c (likelihood): noise correlation with a, b"].split(", ")
    scale = np.sqrt(np.diag(found))
    np.testing.assert_allclose(
        [float(v) for v in said], (found / scale / scale[:, None])[2, :2], rtol=1e-4
    )


REFUSED = [
    ([[1.0, 2.0]], "row and a column for each output"),
    ([[1.0, 2.0], [2.0, 1.0]], "positive definite"),
    ([[1.0, 0.5], [0.4, 1.0]], "symmetric"),
    ([1.0, 2.0], "covariance must be"),
    (sg.parameter(np.eye(2), prior=sg.priors.LogNormal(median=1.0, spread=1.0)), "no prior"),
]


@pytest.mark.parametrize(("covariance", "message"), REFUSED)
def test_what_is_no_covariance_is_refused(covariance, message):
    with pytest.raises(ValueError, match=message):
        MultivariateGaussian(covariance)


def test_where_it_makes_no_sense_it_is_refused(posterior):
    noise = MultivariateGaussian(np.eye(2))
    with pytest.raises(ValueError, match=r"to an sg\.MultiOutputGP"):
        sg.GP(k.Matern32(), noise)
    with pytest.raises(ValueError, match="number of outputs is not clear"):
        sg.MultiOutputGP(k.Matern32(), noise, outputs=3)
    with pytest.raises(ValueError, match="beside those that outputs share"):
        sg.MultiOutputGP(k.Matern32(), own=OWN, outputs=3)
    with pytest.raises(ValueError, match="leave output out"):
        posterior.log_density(NEW, Y_NEW, together=True, output="a")
    with pytest.raises(ValueError, match="only Gaussian noise"):
        sg.MultiOutputGP(k.Matern32(), ["poisson", None]).noise_covariance()
