"""Additive models with one optimiser on everything, against dense algebra and natural gradients."""

import numpy as np
import optax
import pytest

import stategp as sg
from stategp._inference import Batches

k = sg.kernels
NOISE, LENGTH, LEVEL = 0.3, 0.5, 0.2
PLACES = np.linspace(0, 1, 5)


def model():
    kernel = k.Matern12(variance=sg.fixed(1.0), lengthscale=sg.fixed(LENGTH))
    likelihood = sg.likelihoods.Gaussian(variance=sg.fixed(NOISE))
    return sg.AdditiveGP({"a": kernel, "b": kernel}, likelihood, sg.means.Constant(sg.fixed(LEVEL)))


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    x = np.round(rng.uniform(size=(40, 2)), 1)
    x[:2] = 0, 1  # so that inputs are what they are relative to their lowest value
    return x, np.sin(5 * x[:, 0]) - x[:, 1] + 0.3 * rng.standard_normal(40)


@pytest.fixture(scope="module")
def best(data):
    return sg.condition(model(), *data, inducing=[PLACES, PLACES])


@pytest.fixture(scope="module")
def climbed(data):
    return sg.condition(model(), *data, inducing=[PLACES, PLACES], method="gradient")


def projections(x):
    """E[f(x) | f at the inducing points], as a matrix: dense covariances."""

    def covariance(a, b):
        return np.exp(-np.abs(a[:, None] - b[None]) / LENGTH)

    return np.linalg.solve(covariance(PLACES, PLACES), covariance(PLACES, x)).T


@pytest.mark.filterwarnings("ignore::stategp.NotConvergedWarning")
def test_a_step_of_a_minibatch_is_along_the_dense_gradient(data):
    """From the prior, where the divergence is flat, the mean moves by rate/N · Wᵀ(y − level)/s."""
    x, y = data
    rate, size = 0.1, 10
    posterior = sg.condition(
        model(),
        x,
        y,
        inducing=[PLACES, PLACES],
        method="gradient",
        optimiser=optax.sgd(rate),
        batch_size=size,
        max_steps=2,  # the best place has been evaluated: the one after the first step
        seed=4,
    )
    rows = np.asarray(Batches(len(y), size, 4).at(0))
    wanted = np.full(len(y), LEVEL)
    for column in x.T:
        moved = projections(column[rows]).T @ (y[rows] - LEVEL) / NOISE * rate / size
        wanted += projections(column) @ moved
    np.testing.assert_allclose(posterior.predict_f(x)[0], wanted, atol=1e-12)


def test_gradients_end_where_natural_gradients_do(climbed, best, data):
    x, _ = data
    assert climbed.fit_result.converged
    assert best.elbo - 1e-3 < climbed.elbo < best.elbo + 1e-9
    for way in ("predict_f", "predict_y"):
        for one, other in zip(getattr(climbed, way)(x), getattr(best, way)(x), strict=True):
            np.testing.assert_allclose(one, other, atol=0.01)
    for name in ("a", "b"):
        for one, other in zip(climbed.components(x)[name], best.components(x)[name], strict=True):
            np.testing.assert_allclose(one, other, atol=0.01)
    np.testing.assert_allclose(climbed.covariance(x[:5]), best.covariance(x[:5]), atol=0.01)
    joint = [posterior.predict_f(x[:5], joint=True)[1] for posterior in (climbed, best)]
    np.testing.assert_allclose(*joint, atol=0.01)


def test_what_gradients_found_can_be_saved_and_sampled(climbed, data, tmp_path):
    x, _ = data
    climbed.save(tmp_path / "climbed.stategp")
    loaded = sg.load(tmp_path / "climbed.stategp")
    np.testing.assert_array_equal(loaded.predict_f(x)[1], climbed.predict_f(x)[1])
    samples = np.asarray(climbed.sample_f(0, x[:3], 20_000))
    mean, variance = climbed.predict_f(x[:3])
    np.testing.assert_allclose(samples.mean(0), mean, atol=0.03)
    np.testing.assert_allclose(samples.var(0), variance, rtol=0.05)


@pytest.mark.filterwarnings("ignore::stategp.NotConvergedWarning")
def test_natural_gradients_take_all_rows_at_a_rate_of_ones_own(best, data):
    settings = {"optimiser": optax.adam(0.01), "step_size": 0.4, "max_steps": 200}
    found = sg.condition(model(), *data, inducing=[PLACES, PLACES], **settings)
    assert best.elbo - 0.01 < found.elbo < best.elbo + 1e-9


def test_states_without_noise_have_no_precision(data):
    kernels = [k.Matern12(), k.Periodic(period=1.0)]
    with pytest.raises(ValueError, match="deterministic kernels do not have"):
        sg.fit(sg.AdditiveGP(kernels), *data, method="gradient")
