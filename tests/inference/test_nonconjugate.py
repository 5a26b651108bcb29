"""Other likelihoods: the posterior against dense inference, and convergence from bad starts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy import stats as jstats
from jax.scipy.special import gammaln

import stategp as sg
from stategp import kernels as k
from stategp import likelihoods as lik
from tests import dense_inference

N = 30
RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 6, N))
F = 1.5 * np.sin(2 * X)
KERNEL = k.Matern32(variance=1.3, lengthscale=1.2)
K = np.asarray(KERNEL(X, X))

Y_BINARY = (RNG.uniform(size=N) < 1 / (1 + np.exp(-F))).astype(float)
Y_COUNT = RNG.poisson(np.exp(F)).astype(float)
Y_HEAVY = F + 0.2 * RNG.standard_normal(N)
Y_HEAVY[[0, 11, 20]] += [6.0, -4.0, 9.0]  # the first point too: the filter has seen nothing yet


def student_t(y, f):
    return jstats.t.logpdf(y, 3.0, loc=f, scale=0.2)


CASES = {
    "bernoulli": (
        lik.Bernoulli(),
        Y_BINARY,
        dense_inference.quadrature(lambda y, f: jax.nn.log_sigmoid((2 * y - 1) * f), Y_BINARY),
    ),
    "poisson": (
        lik.Poisson(),
        Y_COUNT,
        lambda m, v: jnp.sum(Y_COUNT * m - jnp.exp(m + v / 2) - gammaln(Y_COUNT + 1)),
    ),
    "student_t": (
        lik.StudentT(df=3.0, scale=0.2, quadrature=80),
        Y_HEAVY,
        dense_inference.quadrature(student_t, Y_HEAVY),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_inducing_points_at_the_data_give_the_dense_variational_posterior(name):
    likelihood, y, expected = CASES[name]
    posterior = sg.condition(sg.GP(KERNEL, likelihood), X, y, inducing="data")
    exact = dense_inference.variational(K, expected)
    mean, variance = posterior.predict_f(X)
    assert posterior.fit_result.converged
    np.testing.assert_allclose(posterior.elbo, exact.log_evidence, rtol=1e-6)
    np.testing.assert_allclose(mean, exact.mean, atol=1e-6)
    np.testing.assert_allclose(variance, exact.variance, atol=1e-6)


def test_some_student_t_sites_are_negative_and_it_is_still_the_optimum():
    likelihood, y, _ = CASES["student_t"]
    posterior = sg.condition(sg.GP(KERNEL, likelihood), X, y, inducing="data")
    assert np.min(np.asarray(posterior.sites[0].precision)[:, 0, 0]) < 0
    f = np.asarray(posterior.sample_f(0, X, num_samples=20_000))
    mean, variance = posterior.predict_f(X)
    assert np.max(np.abs(f.mean(axis=0) - mean) / np.sqrt(variance)) < 4.5 / np.sqrt(20_000)
    np.testing.assert_allclose(f.var(axis=0), variance, rtol=4.5 * np.sqrt(2 / 20_000))


def test_fewer_inducing_points_never_raise_the_bound():
    model = sg.GP(KERNEL, lik.Poisson())
    bounds = [sg.condition(model, X, Y_COUNT, inducing=m).elbo for m in [3, "data"]]
    assert np.all(np.diff(bounds) >= -1e-9)


def test_a_weight_of_two_is_the_observation_twice():
    twice = np.array([4, 9])
    weights = np.ones(N)
    weights[twice] = 2
    model = sg.GP(KERNEL, lik.Bernoulli())
    weighted = sg.condition(model, X, Y_BINARY, weights=weights)
    x, y = np.append(X, X[twice]), np.append(Y_BINARY, Y_BINARY[twice])
    repeated = sg.condition(model, x, y)
    np.testing.assert_allclose(weighted.elbo, repeated.elbo, rtol=1e-9)
    np.testing.assert_allclose(weighted.predict_f(X), repeated.predict_f(X), atol=1e-6)


def test_exposure_scales_the_rate():
    model = sg.GP(KERNEL, lik.Poisson(), mean=0.4)
    exposed = sg.condition(model, X, Y_COUNT, exposure=np.exp(0.4))
    shifted = sg.condition(sg.GP(KERNEL, lik.Poisson(), mean=0.8), X, Y_COUNT)
    np.testing.assert_allclose(exposed.elbo, shifted.elbo, rtol=1e-10)
    rate, _ = exposed.predict_y(X[:3], exposure=np.exp(0.4))
    np.testing.assert_allclose(rate, shifted.predict_y(X[:3])[0], rtol=1e-6)


def test_a_custom_poisson_gives_the_same_posterior():
    def log_density(y, f):
        return y * f - jnp.exp(f) - gammaln(y + 1)

    built_in = sg.condition(sg.GP(KERNEL, "poisson"), X, Y_COUNT, inducing=12)
    custom = sg.condition(sg.GP(KERNEL, lik.Custom(log_density)), X, Y_COUNT, inducing=12)
    np.testing.assert_allclose(custom.elbo, built_in.elbo, rtol=1e-8)
    np.testing.assert_allclose(custom.predict_f(X), built_in.predict_f(X), atol=1e-5)


def test_two_latent_functions_find_where_the_noise_is():
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(0, 10, 200))
    deviation = np.where(x < 5, 0.1, 1.0)
    y = np.sin(x) + deviation * rng.standard_normal(200)
    model = sg.GP((k.Matern52(), k.Matern32()), "heteroscedastic")
    posterior = sg.fit(model, x, y, inducing=20)
    assert posterior.fit_result.converged
    mean, variance = posterior.predict_f([2.5, 7.5])
    assert mean.shape == variance.shape == (2, 2)
    np.testing.assert_allclose(np.exp(mean[:, 1] / 2), [0.1, 1.0], rtol=0.4)
    _, spread = posterior.predict_y([2.5, 7.5])
    assert spread[1] > 20 * spread[0]
    assert posterior.sample_f(0, x, 3).shape == (3, 200, 2)
    assert posterior.sample_y(0, x, 3).shape == (3, 200)
    assert list(posterior.components(x[:4])) == ["0.matern52", "1.matern32"]


# --- from bad starts -----------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [0.01, 100.0])
def test_counts_in_the_thousands_from_a_lengthscale_that_is_off_by_a_hundred(factor):
    rng = np.random.default_rng(1)
    x = np.linspace(0, 10, 80)
    y = rng.poisson(np.exp(8 + np.sin(x))).astype(float)
    kernel = k.Matern52(variance=1.0, lengthscale=2.0 * factor)
    posterior = sg.fit(sg.GP(kernel, "poisson", sg.means.Constant()), x, y, inducing=20)
    assert posterior.fit_result.converged
    mean, _ = posterior.predict_f(x)
    np.testing.assert_allclose(mean, 8 + np.sin(x), atol=0.1)


def test_gross_outliers_converge_and_are_ignored():
    rng = np.random.default_rng(2)
    x = np.linspace(0, 10, 80)
    y = np.sin(x) + 0.1 * rng.standard_normal(80)
    y[[0, 17, 18, 40, 79]] = [1e4, -1e6, 1e6, 300.0, -1e3]
    posterior = sg.fit(sg.GP(k.Matern52(), "student_t"), x, y, inducing="data")
    assert posterior.fit_result.converged
    mean, _ = posterior.predict_f(x)
    np.testing.assert_allclose(mean, np.sin(x), atol=0.2)


def test_interruption_keeps_what_was_reached(monkeypatch):
    import stategp._fitting._methods._natural as natural

    calls, real = [], natural.take_steps

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(natural, "take_steps", interrupted)
    with pytest.warns(sg.NotConvergedWarning, match="interrupted"):
        posterior = sg.condition(sg.GP(KERNEL, "poisson"), X, Y_COUNT, inducing=12)
    assert np.isfinite(posterior.elbo)
    assert posterior.fit_result.steps == 1


def test_steps_and_tolerance_are_what_was_asked_for():
    model = sg.GP(KERNEL, "poisson")
    with pytest.warns(sg.NotConvergedWarning, match="raise max_steps"):
        one = sg.condition(model, X, Y_COUNT, inducing=12, max_steps=1)
    assert one.fit_result.steps == 1
    loose = sg.condition(model, X, Y_COUNT, inducing=12, tolerance=1e-2)
    tight = sg.condition(model, X, Y_COUNT, inducing=12)
    assert loose.fit_result.converged
    assert loose.fit_result.steps < tight.fit_result.steps
    early = sg.fit(model, X, Y_COUNT, inducing=12, tolerance=0.1)
    assert early.fit_result.converged
    assert early.fit_result.steps < sg.fit(model, X, Y_COUNT, inducing=12).fit_result.steps


def test_new_observations_must_be_possible():
    posterior = sg.condition(sg.GP(KERNEL, "bernoulli"), X, Y_BINARY, inducing=12)
    with pytest.raises(ValueError, match=r"y_new must be 0 or 1.*y_new\[1\] is -1"):
        posterior.log_density([0.0, 1.0], [1.0, -1.0])
    assert np.isnan(posterior.log_density([0.0, 1.0], [1.0, np.nan])[1])


def test_what_the_trace_holds():
    result = sg.condition(sg.GP(KERNEL, "poisson"), X, Y_COUNT, inducing=12).fit_result
    assert len(result.trace) == len(result.seconds) == len(result.step_sizes)
    assert np.all(np.diff(result.trace) >= -1e-9)
    assert np.all(np.diff(result.seconds) >= 0)
    assert 0 < max(result.step_sizes) <= 1
