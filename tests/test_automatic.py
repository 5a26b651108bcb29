"""`inducing="auto"`: enough inducing points, not many more, and a certificate that is true."""

import dataclasses

import numpy as np
import pytest

import stategp as sg
from stategp import kernels as k
from stategp._data import observe
from stategp._fitting._automatic import choose, exact_is_cheaper
from stategp._fitting._methods import find_method
from stategp._fitting._settings import choose_settings

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 20, 400))
WAVE = np.sin(X)


@pytest.fixture
def choosing(monkeypatch):
    """As if a state at every input cost more than choosing fewer."""
    monkeypatch.setattr("stategp._fitting._automatic._PATIENCE", 0.0)


def test_gaussian_observations_have_an_exact_certificate(choosing):
    y = WAVE + 0.3 * RNG.standard_normal(400)
    posterior = sg.fit(sg.GP(k.Matern52()), X, y, inducing="auto")
    found = posterior.certificate
    assert found.exact
    assert found.reached
    assert found.inducing == len(posterior.inducing) <= 64
    np.testing.assert_allclose(found.error, posterior.kl_to_exact(), atol=1e-6)
    np.testing.assert_allclose(found.tolerance, 0.01 * 400 / 1000)
    assert found.error <= found.tolerance
    exact = sg.condition(posterior.model, X, y, inducing="data")
    mean, _ = posterior.predict_f(X)
    exact_mean, exact_variance = exact.predict_f(X)
    assert np.max(np.abs(mean - exact_mean) / np.sqrt(exact_variance)) < 0.1
    assert "below the tolerance" in str(found)
    assert str(found) in repr(posterior)


def test_too_many_for_their_state_have_an_estimate(choosing, monkeypatch):
    few = 9 * 400 - 1  # of three by three, one less
    monkeypatch.setattr("stategp._fitting._automatic._AFFORDABLE", few)
    y = WAVE + 0.3 * np.random.default_rng(1).standard_normal(400)
    posterior = sg.fit(sg.GP(k.Matern52()), X, y, inducing="auto")
    found = posterior.certificate
    assert not found.exact
    assert found.reached
    assert posterior.kl_to_exact() <= 1.05 * found.error <= found.tolerance
    assert "each further doubling" in str(found)


def test_other_observations_have_an_estimate_that_is_not_too_small(choosing):
    y = RNG.poisson(np.exp(1 + WAVE)).astype(float)
    model = sg.GP(k.Matern32(variance=1.0, lengthscale=3.0), "poisson")
    posterior = sg.condition(model, X, y, inducing=sg.Auto(tolerance=0.5))
    found = posterior.certificate
    best = sg.condition(model, X, y, inducing="data").elbo
    assert not found.exact
    assert best - posterior.elbo <= found.error * 1.05 <= 1.05 * found.tolerance
    half = sg.condition(model, X, y, inducing=found.inducing // 4)
    assert best - half.elbo > found.tolerance
    assert [m for m, _ in found.history] == sorted({m for m, _ in found.history})
    assert "each further doubling" in str(found)


def test_a_wave_much_shorter_than_the_span_is_not_called_noise(choosing):
    x = np.linspace(0, 100, 1000)  # ten points per period
    y = np.sin(2 * np.pi * x) + 0.1 * RNG.standard_normal(1000)
    posterior = sg.fit(sg.GP(k.Matern52()), x, y, inducing="auto")
    assert float(posterior.model.likelihood.variance) < 0.05


def test_interrupted_between_fits_keeps_the_last_one(choosing, monkeypatch):
    import stategp._fitting._requests as fitting
    from stategp._fitting._methods._natural import Natural

    real, fits = (fitting.infer, Natural.learn), []

    def learn(*arguments):
        fits.append(real[1](*arguments))
        return fits[-1]

    def infer(*arguments):
        if fits:
            raise KeyboardInterrupt
        return real[0](*arguments)

    monkeypatch.setattr(fitting, "infer", infer)
    monkeypatch.setattr(Natural, "learn", learn)
    model = sg.GP(k.Matern52(variance=1.0, lengthscale=3.0))
    posterior = sg.condition(model, X, WAVE, inducing=sg.Auto(tolerance=0.5))
    assert not posterior.certificate.reached
    assert "NOT below" in str(posterior.certificate)
    assert "interrupted" in str(posterior.certificate)
    assert np.all(np.isfinite(posterior.predict_f(X)))


def test_few_inputs_are_inducing_points_themselves():
    posterior = sg.condition(sg.GP(k.Matern32()), X[:50], WAVE[:50])
    assert posterior.certificate.inducing == 50
    assert posterior.certificate.error == 0
    assert "one at every distinct input" in str(posterior.certificate)


def test_few_points_of_a_short_wave_are_not_called_noise():
    x = 0.2 * np.arange(200)
    y = np.sin(2 * np.pi * x) + 0.1 * RNG.standard_normal(200)
    assert float(sg.fit(sg.GP(k.Matern52()), x, y).model.likelihood.variance) < 0.1


def test_a_search_that_ended_short_of_the_optimum_is_part_of_the_error():
    y = WAVE + 0.3 * RNG.standard_normal(400)
    model = sg.GP(k.Matern32(variance=1.0, lengthscale=2.0), sg.likelihoods.Gaussian(variance=0.1))
    posterior = sg.condition(model, X[:200], y[:200], batch_size=20, max_steps=60)
    found = posterior.certificate
    np.testing.assert_allclose(found.error, posterior.kl_to_exact(), rtol=1e-6)
    assert found.error > found.tolerance
    assert not found.reached
    assert "the search for q" in str(found)


def test_no_certificate_where_the_user_chose():
    assert sg.condition(sg.GP(k.Matern32()), X[:50], WAVE[:50], inducing=10).certificate is None


def test_a_tolerance_must_be_positive():
    for wrong in (0.0, True, "small", np.nan):
        with pytest.raises(ValueError, match="tolerance must be a positive number"):
            sg.Auto(tolerance=wrong)
    assert sg.Auto(np.float32(0.5)) == sg.Auto(0.5)


def test_the_exact_answer_is_taken_where_it_is_cheaper():
    y = WAVE + 0.3 * np.random.default_rng(2).standard_normal(400)
    posterior = sg.fit(sg.GP(k.Matern32()), X, y)
    at_data = sg.fit(sg.GP(k.Matern32()), X, y, inducing="data")
    assert len(posterior.inducing) == 400
    assert posterior.certificate.error == 0
    assert posterior.elbo >= at_data.elbo - 1e-6
    settings = choose_settings(
        lambda regime: find_method(posterior.model, "natural", regime),
        stochastic=False, optimiser=None, batch_size=None, step_size=None,
        starts=1, seed=0, max_steps=None, tolerance=None,
    )  # fmt: skip
    seasons = sg.GP(k.Matern52() + k.Periodic(order=9) + k.Periodic(order=9))
    counts = sg.GP(k.Matern52() + k.Periodic(order=5), "poisson")
    cheap = [exact_is_cheaper(model, 2_700, settings) for model in (posterior.model, seasons)]
    assert cheap == [True, False]
    assert exact_is_cheaper(seasons, 700, settings)
    assert not exact_is_cheaper(counts, 2_700, settings)
    assert not exact_is_cheaper(posterior.model, 10**6, settings)


def test_a_worse_optimum_of_few_inducing_points_is_left_again(choosing):
    """Learned with too few, a rough part looks like noise; more of them start afresh too."""
    rng = np.random.default_rng(5)
    x = np.arange(400.0)
    rough = np.zeros(400)
    for i in range(1, 400):
        rough[i] = 0.7 * rough[i - 1] + rng.standard_normal()
    y = rough + 5 * np.sin(x / 60)
    kernel = k.Matern52() + k.Matern12()
    chosen = sg.fit(sg.GP(kernel), x, y)
    exact = sg.fit(sg.GP(kernel), x, y, inducing="data")
    assert chosen.log_marginal_likelihood() > exact.elbo - 0.5


def _told(outcome, elbo, inducing=16):
    """As much of a posterior as the choice of a number looks at."""
    result = sg.FitResult(outcome, 3, (elbo,), (0.0,))
    start = sg.condition(sg.GP(k.Matern32()), X[:inducing], WAVE[:inducing])
    return dataclasses.replace(start, elbo=elbo, fit_result=result)


@pytest.mark.parametrize("raises", [False, True])
def test_ctrl_c_in_the_fresh_start_is_not_swallowed(choosing, raises):
    """The second fit grows, and the fit from the first values beside it is interrupted."""
    ended = [_told(sg.Outcome.converged, -50.0), _told(sg.Outcome.converged, -40.0, 50)]
    fits = iter([*ended, None if raises else _told(sg.Outcome.interrupted, -45.0, 50)])

    def learn(models, locations):
        posterior = next(fits)
        if posterior is None:
            raise KeyboardInterrupt
        return posterior

    def bound(model, locations):
        """Enough for the first hyperparameters, far too few for those learned."""
        if model is not ended[0].model and model is not ended[1].model:
            return 0.0
        return -100.0 / len(locations)

    settings = choose_settings(
        lambda regime: find_method(ended[0].model, "natural", regime),
        stochastic=False, optimiser=None, batch_size=None, step_size=None,
        starts=1, seed=0, max_steps=None, tolerance=None,
    )  # fmt: skip
    data = observe(X, WAVE, sg.likelihoods.Gaussian(), extras={}, weights=None)
    posterior = choose(
        lambda scale: sg.GP(k.Matern32(variance=1.0, lengthscale=2.0)),
        data,
        sg.Auto(),
        bound=bound,
        learn=learn,
        settings=settings,
    )
    assert posterior.elbo == -40.0
    assert posterior.fit_result.outcome is sg.Outcome.interrupted
    assert posterior.certificate.inducing == len(posterior.inducing) == 50
    assert not posterior.certificate.reached
