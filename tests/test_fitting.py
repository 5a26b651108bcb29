"""Learning hyperparameters: optima, priors, starting values, and honesty when it fails."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import stategp as sg
from stategp import kernels as k
from stategp._fitting._methods._natural import Natural
from stategp._inference import LBFGS, run
from stategp.parameters import to_vector, with_vector
from tests import dense

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 20, 60))
Y = 2 * np.sin(X) + 0.3 * RNG.standard_normal(60)


def gp(**kwargs):
    return sg.GP(k.Matern32(**kwargs), sg.likelihoods.Gaussian())


def test_learns_what_a_dense_optimiser_learns():
    start = sg.GP(k.Matern32(variance=1.0, lengthscale=1.0), sg.likelihoods.Gaussian(variance=0.5))
    posterior = sg.fit(start, X, Y)
    assert posterior.fit_result.converged

    def negative(vector):
        model = with_vector(start, jnp.asarray(vector))
        noise = float(model.likelihood.variance)
        return -dense.gp(model.kernel, X, Y, noise, X[:1]).log_evidence

    best = minimize(negative, np.asarray(to_vector(start)), method="Nelder-Mead", tol=1e-10)
    np.testing.assert_allclose(posterior.elbo, -best.fun, atol=1e-6)
    np.testing.assert_allclose(to_vector(posterior.model), best.x, atol=1e-3)


def test_starting_values_come_from_the_data_only_where_none_is_given():
    shifted, scaled = X * 1e6 + 1e9, Y * 1e-4
    posterior = sg.fit(gp(), shifted, scaled)
    same = sg.fit(gp(), X, Y)
    assert posterior.fit_result.converged
    ratio = float(posterior.model.kernel.lengthscale) / float(same.model.kernel.lengthscale)
    np.testing.assert_allclose(ratio, 1e6, rtol=1e-3)
    untouched = sg.fit(gp(lengthscale=1.7), X, Y, max_steps=500)
    np.testing.assert_allclose(untouched.elbo, same.elbo, atol=1e-5)


def test_condition_uses_parameters_as_they_are():
    posterior = sg.condition(gp(), X, Y)
    assert float(posterior.model.kernel.lengthscale) == 1.0
    assert posterior.fit_result is None


def test_fixed_parameters_stay_and_priors_pull():
    free = sg.fit(gp(), X, Y).model.kernel
    held = sg.fit(gp(lengthscale=sg.fixed(5.0)), X, Y).model.kernel
    assert float(held.lengthscale) == 5.0
    prior = sg.priors.LogNormal(median=20.0, spread=0.05)
    pulled = sg.fit(gp(lengthscale=sg.parameter(prior=prior)), X, Y).model.kernel
    assert float(free.lengthscale) < 5 < float(pulled.lengthscale) < 21


def test_a_period_is_found_from_the_data():
    x = np.linspace(0, 30, 200)
    y = np.sin(2 * np.pi * x / 3.7)
    kernel = k.Periodic(lengthscale=sg.fixed(2.0))
    posterior = sg.fit(sg.GP(kernel), x, y + 0.1 * RNG.standard_normal(200), inducing=20)
    np.testing.assert_allclose(float(posterior.model.kernel.period), 3.7, rtol=1e-2)


def test_a_periodic_kernel_gains_harmonics_when_its_lengthscale_shrinks():
    rng = np.random.default_rng(2)
    x = np.sort(rng.uniform(0, 6, 150))
    rough = k.Periodic(period=1.0, lengthscale=0.8)
    covariance = np.asarray(rough(x, x)) + 0.05**2 * np.eye(150)
    y = np.linalg.cholesky(covariance) @ rng.standard_normal(150)
    kernel = k.Periodic(period=sg.fixed(1.0), lengthscale=1.3)
    posterior = sg.fit(sg.GP(kernel), x, y, inducing=10)
    learned = posterior.model.kernel
    assert learned.order > kernel.order
    assert float(learned.truncation_error()) <= learned.tolerance


def test_linear_mean_is_learned_far_from_the_origin():
    model = sg.GP(k.Matern32(), sg.likelihoods.Gaussian(), sg.means.Linear())
    y = 0.1 * Y + 0.25 * X
    near, far = (sg.fit(model, X + origin, y, inducing=10) for origin in [0, 1e6])
    slopes = [float(posterior.model.mean.slope) for posterior in (near, far)]
    np.testing.assert_allclose(slopes[1], slopes[0], rtol=1e-3)
    np.testing.assert_allclose(slopes[1], 0.25, atol=0.03)


def test_several_starts_keep_the_best():
    bad = gp(lengthscale=1e4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.NotConvergedWarning)
        one = sg.fit(bad, X, Y, inducing=20)
        many = sg.fit(bad, X, Y, inducing=20, starts=4)
    assert many.elbo >= one.elbo - 1e-9


def test_a_fit_that_does_not_converge_says_so():
    with pytest.warns(sg.NotConvergedWarning, match="raise max_steps"):
        posterior = sg.fit(gp(), X, Y, max_steps=1)
    assert not posterior.fit_result.converged
    assert np.isfinite(posterior.elbo)
    assert "NOT converged" in repr(posterior)


def test_nothing_to_learn():
    model = sg.GP(
        k.Matern32(variance=sg.fixed(1.0), lengthscale=sg.fixed(2.0)),
        sg.likelihoods.Gaussian(variance=sg.fixed(0.1)),
    )
    posterior = sg.fit(model, X, Y)
    assert posterior.elbo == sg.condition(model, X, Y).elbo


def test_the_trace_rises():
    trace = sg.fit(gp(), X, Y).fit_result.trace
    assert len(trace) > 3
    assert np.all(np.diff(trace) >= 0)


def test_constant_y_and_zero_y_fit_to_finite_values():
    for value in [3.0, 0.0]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sg.NotConvergedWarning)
            posterior = sg.fit(gp(), X, np.full(60, value))
        mean, variance = posterior.predict_f([10.0, 30.0])
        assert np.isfinite(posterior.elbo)
        assert np.all(np.isfinite(variance))
        np.testing.assert_allclose(mean[0], value, atol=0.01)


def test_ctrl_c_returns_the_best_so_far():
    calls = []

    def function(vector):
        calls.append(vector)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return -float(np.sum((vector - 3) ** 4)), -4 * (vector - 3) ** 3

    low, high = np.full(2, -10.0), np.full(2, 10.0)
    search = LBFGS(function, np.zeros(2), observations=1, low=low, high=high, max_steps=50)
    result = run(search, lambda *_: None)
    best, value, _ = search.best
    assert result.outcome is sg.Outcome.interrupted
    assert value == max(-float(np.sum((v - 3) ** 4)) for v in calls[:3])
    assert function(best)[0] == value


def test_steps_into_nan_are_shortened():
    def function(vector):
        if vector[0] > 2.5:
            return float("nan"), np.full(1, np.nan)
        return -float((vector[0] - 2.0) ** 2), -2 * (vector - 2.0)

    low, high = np.full(1, -70.0), np.full(1, 30.0)
    search = LBFGS(function, np.array([-20.0]), observations=1, low=low, high=high, max_steps=100)
    result = run(search, lambda *_: None)
    np.testing.assert_allclose(search.best.vector, 2.0, atol=1e-4)
    assert result.converged


def test_progress_is_shown_when_asked(capsys):
    sg.fit(gp(), X, Y, progress=True)
    assert "step" in capsys.readouterr().err
    sg.fit(gp(), X, Y)
    assert capsys.readouterr().err == ""


def test_double_precision_is_on():
    assert jax.config.jax_enable_x64
    assert sg.condition(gp(), X, Y).predict_f(X)[0].dtype == np.float64


def test_noise_free_data_end_finite_and_say_what_happened():
    x = np.linspace(0, 1, 20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.NotConvergedWarning)
        posterior = sg.fit(sg.GP(k.Matern32() + k.Cosine(period=0.3)), x, x**2)
    mean, variance = posterior.predict_f(x)
    highest = -10 * np.log(2 * np.pi * float(posterior.model.likelihood.variance))
    assert posterior.elbo <= highest + 1
    assert np.all(np.isfinite(variance))
    np.testing.assert_allclose(mean, x**2, atol=1e-2)


def test_hyperparameters_at_the_end_of_double_precision_are_right_or_refused_in_words():
    kernel = k.Matern32(variance=1e12, lengthscale=100.0) + k.Matern12(variance=1e12)
    right = sg.condition(sg.GP(kernel, sg.likelihoods.Gaussian(variance=1e-12)), X, Y)
    np.testing.assert_allclose(right.elbo, -852.500091786744, rtol=1e-12)  # mpmath, 80 digits
    with pytest.raises(FloatingPointError, match="for double precision"):
        sg.condition(sg.GP(kernel, sg.likelihoods.Gaussian(variance=1e-40)), X, Y)


def test_a_series_that_would_need_endless_harmonics_is_not_called_converged():
    rng = np.random.default_rng(4)
    kernel = k.Periodic(period=sg.fixed(1.0), lengthscale=0.3)
    x = np.linspace(0, 1, 40)
    with pytest.warns(sg.NotConvergedWarning, match="harmonics"):
        posterior = sg.fit(
            sg.GP(kernel, sg.likelihoods.Gaussian(variance=sg.fixed(1e-3))),
            x,
            rng.standard_normal(40),
        )
    assert np.isfinite(posterior.elbo)


def test_tails_without_outliers_end_as_gaussian_and_say_so():
    rng = np.random.default_rng(3)
    y = np.sin(X) + 0.2 * rng.uniform(-1, 1, 60)  # tails lighter than a Gaussian's
    posterior = sg.fit(sg.GP(k.Matern52(), "student_t"), X, y, inducing=20)
    assert posterior.fit_result.outcome is sg.Outcome.converged
    assert "a Gaussian likelihood is sufficient" in str(posterior.fit_result)
    assert float(posterior.model.likelihood.df) <= 1.001e4


def test_a_lengthscale_that_runs_away_is_not_passed_over_in_silence():
    rng = np.random.default_rng(3)
    level = 3.0 + 0.1 * rng.standard_normal(60)
    posterior = sg.fit(sg.GP(k.Matern12()), X, level, inducing=20)
    assert float(posterior.model.kernel.lengthscale) > 1e3 * (X[-1] - X[0])
    assert "Matern12 lengthscale rose to" in posterior.fit_result.message


def test_an_optimiser_with_nothing_to_learn_takes_no_steps():
    plain = sg.condition(gp(), X, Y, inducing=20)
    with_adam = sg.condition(gp(), X, Y, inducing=20, optimiser="adam")
    assert with_adam.fit_result is None
    assert with_adam.elbo == plain.elbo


def test_methods_are_objects_and_a_user_may_bring_one():
    class Twice(Natural):
        name = "twice"

        def infer(self, model, task, warm):
            first = super().infer(model, task, warm)
            return super().infer(model, task, first.sites if warm is None else warm)

    posterior = sg.condition(gp(), X, Y, inducing=20, method=Twice())
    assert posterior.elbo == sg.condition(gp(), X, Y, inducing=20).elbo
    with pytest.raises(ValueError, match="cannot be used with AdditiveGP models"):
        sg.fit(sg.AdditiveGP([k.Matern32()]), X[:, None], Y, method=Twice())


def test_an_interrupted_start_keeps_the_ones_before(monkeypatch):
    import stategp._fitting._hyperparameters as hyperparameters

    real, calls = hyperparameters.run, []

    def run(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(hyperparameters, "run", run)
    with pytest.warns(sg.NotConvergedWarning, match="interrupted"):
        posterior = sg.fit(gp(), X, Y, inducing=20, starts=3)
    assert posterior.fit_result.outcome is sg.Outcome.interrupted
    assert len(calls) == 2


def test_ctrl_c_in_the_last_inference_does_not_lose_what_was_learned(monkeypatch):
    real, calls = Natural.at_end, []

    def at_end(*arguments):
        calls.append(arguments)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(Natural, "at_end", at_end)
    with pytest.warns(sg.NotConvergedWarning, match="interrupted"):
        posterior = sg.fit(gp(), X, Y, inducing=20)
    assert len(calls) == 2
    assert posterior.elbo > sg.condition(gp(), X, Y, inducing=20).elbo
