"""Laplace, power EP and the logistic bound, against dense implementations."""

import jax.numpy as jnp
import numpy as np
import pytest

import stategp as sg
from stategp import kernels as k
from stategp import likelihoods as lik
from stategp._data import observe
from stategp._fitting._methods._laplace import laplace_objective
from stategp._fitting._methods._power_ep import ep_objective
from stategp.parameters import to_vector
from tests import dense, dense_inference

N = 200
RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 10, N))
F = 2 * np.sin(X)
Y = (RNG.uniform(size=N) < 1 / (1 + np.exp(-F))).astype(float)
KERNEL = k.Matern32(variance=2.0, lengthscale=1.5)
K = np.asarray(KERNEL(X, X))
LOGIT, PROBIT = (sg.GP(KERNEL, lik.Bernoulli(link=link)) for link in ["logit", "probit"])


def assert_same(posterior, expected, tolerance):
    mean, variance = posterior.predict_f(X)
    np.testing.assert_allclose(posterior.elbo, expected.log_evidence, rtol=tolerance)
    np.testing.assert_allclose(mean, expected.mean, atol=tolerance)
    np.testing.assert_allclose(variance, expected.variance, atol=tolerance)


def test_laplace_is_the_dense_one():
    posterior = sg.condition(LOGIT, X, Y, inducing="data", method="laplace")
    assert posterior.fit_result.converged
    assert len(posterior.fit_result.trace) == posterior.fit_result.steps + 1 > 3
    assert_same(posterior, dense_inference.laplace_logit(K, Y), 1e-8)


def test_ep_is_the_dense_one():
    posterior = sg.condition(PROBIT, X, Y, inducing="data", method="ep")
    assert posterior.fit_result.converged
    assert_same(posterior, dense_inference.ep_probit(K, Y), 1e-6)


@pytest.fixture(scope="module")
def variational():
    return sg.condition(LOGIT, X, Y, inducing="data")


def test_the_logistic_bound_is_a_lower_one(variational):
    posterior = sg.condition(LOGIT, X, Y, inducing="data", method="vb")
    assert posterior.fit_result.converged
    assert variational.elbo - 0.02 * N < posterior.elbo < variational.elbo
    np.testing.assert_allclose(posterior.predict_f(X)[0], variational.predict_f(X)[0], atol=0.15)
    assert isinstance(posterior.model.likelihood, lik.Bernoulli)


def test_small_powers_approach_the_variational_answer(variational):
    distances = []
    for power in [1.0, 0.05]:
        posterior = sg.condition(LOGIT, X, Y, inducing="data", method=sg.PowerEP(power=power))
        assert posterior.fit_result.converged
        variance, exact_variance = (q.predict_f(X)[1] for q in (posterior, variational))
        distances.append(np.max(np.abs(variance - exact_variance)))
    assert distances[0] > distances[1]
    assert distances[1] < 0.002
    np.testing.assert_allclose(posterior.elbo, variational.elbo, atol=0.2)


def test_gaussian_observations_make_all_methods_the_same():
    y = F + 0.3 * RNG.standard_normal(N)
    model = sg.GP(KERNEL, lik.Gaussian(variance=0.09))
    exact = dense.gp(KERNEL, X, y, 0.09, X)
    for method in ["natural", "laplace", sg.PowerEP(power=0.3)]:
        posterior = sg.condition(model, X, y, inducing="data", method=method)
        expected = dense_inference.Approximation(exact.log_evidence, exact.mean, exact.variance)
        assert_same(posterior, expected, 1e-7)


def test_sparse_power_ep_of_gaussian_observations_is_fitc():
    """Power 1: the residual variance adds to the noise of each observation (FITC)."""
    y = F + 0.3 * RNG.standard_normal(N)
    z = np.linspace(0, 10, 9)
    model = sg.GP(KERNEL, lik.Gaussian(variance=0.09))
    posterior = sg.condition(model, X, y, inducing=z, method="ep")
    Kuu, Kfu = dense.state_covariances(KERNEL, z, X)
    Q = Kfu @ np.linalg.solve(Kuu, Kfu.T)
    C = Q + np.diag(0.09 + np.diag(K) - np.diag(Q))
    _, log_det = np.linalg.slogdet(C)
    fitc = -(y @ np.linalg.solve(C, y) + log_det + N * np.log(2 * np.pi)) / 2
    np.testing.assert_allclose(posterior.elbo, fitc, rtol=1e-8)
    with pytest.raises(ValueError, match="have no bound"):
        posterior.kl_to_exact()


CLEAR_X = np.linspace(0, 10, 10)
ROUGH = k.Matern12(variance=1.0, lengthscale=1.0)


@pytest.mark.parametrize("noise", [1e-14, 1e-16])
@pytest.mark.parametrize("method", ["laplace", "ep"])
def test_exact_methods_keep_their_digits_far_above_the_noise(method, noise):
    y = np.sin(CLEAR_X)
    model = sg.GP(ROUGH, lik.Gaussian(variance=noise), mean=sg.means.Zero())
    posterior = sg.condition(model, CLEAR_X, y, inducing="data", method=method)
    exact = dense.gp(ROUGH, CLEAR_X, y, noise, CLEAR_X)  # this kernel is well conditioned
    assert posterior.elbo == pytest.approx(exact.log_evidence, rel=1e-10)
    assert abs(posterior.kl_to_exact()) < 1e-9


def test_approximations_give_no_number_without_digits():
    y = np.sin(CLEAR_X)
    noises = {"ep": lik.Gaussian(variance=1e-12), "laplace": lik.StudentT(df=5.0, scale=1e-6)}
    for method, noise in noises.items():
        model = sg.GP(ROUGH, noise, mean=sg.means.Zero())
        inducing = CLEAR_X[::3] if method == "ep" else "data"
        with pytest.raises(FloatingPointError, match="orders of magnitude above the noise"):
            sg.condition(model, CLEAR_X, y, inducing=inducing, method=method)


@pytest.mark.parametrize("method", ["laplace", "ep"])
def test_gradients_are_those_of_the_approximate_evidence(method):
    model = sg.GP(k.Matern32(variance=2.0, lengthscale=1.5), lik.Bernoulli(), mean=0.3)
    data = observe(X[::4], Y[::4], model.likelihood)
    inducing = jnp.linspace(0.0, 10.0, 12)
    objective = (
        laplace_objective(model, data, inducing)
        if method == "laplace"
        else ep_objective(model, data, inducing, sg.PowerEP())
    )
    start, step = np.asarray(to_vector(model)), 1e-5
    _, gradient = objective(start)
    for i, shift in enumerate(step * np.eye(len(start))):
        slope = (objective(start + shift)[0] - objective(start - shift)[0]) / (2 * step)
        np.testing.assert_allclose(gradient[i], slope, rtol=1e-5, atol=1e-5)


def test_hyperparameters_are_learned_by_the_logistic_bound():
    start = sg.GP(k.Matern32(variance=1.0, lengthscale=1.0), lik.Bernoulli())
    fitted = sg.fit(start, X[::2], Y[::2], inducing=25, method="vb")
    assert fitted.fit_result.converged
    assert fitted.elbo > sg.condition(start, X[::2], Y[::2], inducing=25, method="vb").elbo


def test_what_does_not_go_together_is_refused_in_words():
    with pytest.raises(ValueError, match="bound on the logistic function"):
        sg.condition(PROBIT, X, Y, method="vb")
    with pytest.raises(ValueError, match="one latent function"):
        sg.condition(sg.GP(KERNEL, "heteroscedastic"), X, F, method="ep")
    with pytest.raises(ValueError, match="does not take weights"):
        sg.condition(LOGIT, X, Y, method="ep", weights=np.full(N, 2.0))
    for unknown in ("mcmc", ["ep"], sg.PowerEP):
        with pytest.raises(ValueError, match=r"method must be one of .* such as sg.PowerEP\(0.5\)"):
            sg.condition(LOGIT, X, Y, method=unknown)
    with pytest.raises(ValueError, match=r"GP models takes all data.*got minibatches"):
        sg.fit(LOGIT, X, Y, method="laplace", batch_size=10)
    with pytest.raises(ValueError, match="takes all data with optimiser='lbfgs'"):
        sg.fit(LOGIT, X, Y, method="laplace", optimiser="adam")
    with pytest.raises(ValueError, match="optimiser must be"):
        sg.fit(LOGIT, X, Y, optimiser="sgd")
    with pytest.raises(ValueError, match="does not have; use method='natural'"):
        sg.condition(sg.GP(KERNEL, "laplace"), X, F, method="laplace")
    with pytest.raises(ValueError, match="deterministic kernels do not have"):
        sg.condition(sg.GP(KERNEL + k.Constant()), X, F, method="gradient")
    with pytest.raises(ValueError, match="step_size is the step size of natural gradients"):
        sg.fit(LOGIT, X, Y, step_size=0.1)
    for wrong in [{"batch_size": 1.5}, {"max_steps": "many"}, {"starts": 0.5}, {"seed": "a"}]:
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be a whole number"):
            sg.fit(LOGIT, X, Y, **wrong)
    with pytest.raises(ValueError, match="tolerance must be a positive number"):
        sg.fit(LOGIT, X, Y, tolerance="small")
    with pytest.raises(ValueError, match="power and damping"):
        sg.PowerEP(power=2.0)
    with pytest.raises(ValueError, match="exposure has no meaning for Bernoulli"):
        sg.condition(LOGIT, X, Y, exposure=2.0)
    with pytest.raises(ValueError, match=r"be 0 or 1.*y\[0\] is 3"):
        sg.condition(LOGIT, X, Y + 2)
