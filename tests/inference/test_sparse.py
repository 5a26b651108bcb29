"""Fewer inducing states than data: against a dense twin with the same inter-domain features."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

import stategp as sg
from stategp import kernels as k
from stategp.chain import prior_transitions
from tests import dense, jitted

NOISE = 0.1
KERNELS = {
    "matern12": k.Matern12(lengthscale=0.8),
    "matern32": k.Matern32(lengthscale=0.8),
    "matern52": k.Matern52(lengthscale=0.8),
    "harmonic": k.Harmonic(weights=[1.0, 0.5], frequency=0.4, lengthscale=3.0),
    "matern32 + oscillator": k.Matern32(lengthscale=0.8) + k.Oscillator(period=2.0, quality=4.0),
}
INDUCING = np.array([0.5, 1.2, 2.0, 3.5, 5.0, 5.5, 7.0, 8.0, 9.0])


def series(n=80, seed=0):
    """Observations inside, on, between, and outside the inducing points on both sides."""
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.uniform(-1, 10.5, n - 6), INDUCING[:3], [4.0, 4.0, 4.0]])
    y = np.sin(2 * x) + np.sqrt(NOISE) * rng.standard_normal(n)
    x_new = np.concatenate([rng.uniform(-3, 13, 20), INDUCING])
    return x, y, x_new


def model_of(kernel, noise=NOISE):
    return sg.GP(kernel, sg.likelihoods.Gaussian(variance=noise))


@pytest.mark.parametrize("name", KERNELS)
def test_bound_marginals_and_kl_equal_the_dense_twin(name):
    kernel = KERNELS[name]
    x, y, x_new = series()
    posterior = sg.condition(model_of(kernel), x, y, inducing=INDUCING)
    expected = dense.sparse(kernel, x, y, NOISE, INDUCING, x_new)
    np.testing.assert_allclose(posterior.elbo, expected.elbo, rtol=1e-8)
    mean, variance = posterior.predict_f(x_new)
    np.testing.assert_allclose(mean, expected.mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(variance, expected.variance, rtol=1e-8, atol=1e-10)
    d = kernel.state_dim
    state_mean = posterior.marginals[0].mean[:-1, d:].reshape(-1)
    np.testing.assert_allclose(state_mean, expected.state_mean, rtol=1e-8, atol=1e-8)
    for m in range(len(INDUCING) - 1):
        block = expected.state_covariance[m * d : (m + 2) * d, m * d : (m + 2) * d]
        found = posterior.marginals[0].covariance[m + 1]
        np.testing.assert_allclose(found, block, rtol=1e-8, atol=1e-9)
    prior = jitted.prior_transitions(kernel, posterior.relative_inducing)
    swept = jitted.sweep(prior, posterior.sites[0])
    np.testing.assert_allclose(
        jitted.kl_to_prior(posterior.sites[0], swept), expected.kl, rtol=1e-8
    )


def test_bound_rises_to_the_evidence_and_its_distance_is_the_kl():
    x, y, _ = series()
    model = model_of(KERNELS["matern52"])
    evidence = dense.gp(model.kernel, x, y, NOISE, x).log_evidence
    bounds = []
    for count in [4, 16, 200]:
        posterior = sg.condition(model, x, y, inducing=count)
        np.testing.assert_allclose(posterior.log_marginal_likelihood(), evidence, rtol=1e-10)
        np.testing.assert_allclose(posterior.kl_to_exact(), evidence - posterior.elbo, atol=1e-8)
        bounds.append(posterior.elbo)
    assert all(a < b for a, b in itertools.pairwise(bounds))
    np.testing.assert_allclose(bounds[-1], evidence, rtol=1e-10)


def test_a_thousand_inducing_states_and_a_lengthscale_of_ten_spans():
    """λΔz ≈ 2e-4, where the precision form of the prior is no longer positive definite."""
    x, y, x_new = series(300)
    kernel = k.Matern52(lengthscale=10 * np.ptp(x))
    posterior = sg.condition(model_of(kernel), x, y, inducing=np.linspace(x.min(), x.max(), 1000))
    expected = dense.gp(kernel, x, y, NOISE, x_new)
    np.testing.assert_allclose(posterior.elbo, expected.log_evidence, rtol=1e-9)
    mean, variance = posterior.predict_f(x_new)
    np.testing.assert_allclose(mean, expected.mean, atol=1e-8)
    np.testing.assert_allclose(variance, expected.variance, rtol=1e-6)


@pytest.mark.parametrize("count", [1, 2])
def test_one_or_two_inducing_states(count):
    x, y, x_new = series(30)
    kernel = KERNELS["matern32"]
    z = np.array([2.2, 6.1])[:count]
    posterior = sg.condition(model_of(kernel), x, y, inducing=z)
    expected = dense.sparse(kernel, x, y, NOISE, z, x_new)
    np.testing.assert_allclose(posterior.elbo, expected.elbo, rtol=1e-9)
    np.testing.assert_allclose(posterior.predict_f(x_new)[1], expected.variance, rtol=1e-9)


def test_on_an_inducing_point_the_marginal_is_that_of_its_state():
    x, y, _ = series()
    kernel = KERNELS["matern52"]
    posterior = sg.condition(model_of(kernel), x, y, inducing=INDUCING)
    mean, variance = posterior.predict_f(INDUCING)
    d = kernel.state_dim
    np.testing.assert_array_equal(mean, posterior.marginals[0].mean[:-1, d])
    np.testing.assert_array_equal(variance, posterior.marginals[0].covariance[:-1, d, d])


def test_forecast_and_backcast_return_to_the_prior():
    x, y, _ = series()
    kernel = KERNELS["matern52"]
    posterior = sg.condition(model_of(kernel), x, y, inducing=INDUCING)
    mean, variance = posterior.predict_f([-1e3, 1e3, 1e12])
    np.testing.assert_allclose(mean, 0.0, atol=1e-12)
    np.testing.assert_allclose(variance, 1.0, rtol=1e-12)


def test_deterministic_components_outside_and_between_inducing_points():
    x, y, x_new = series()
    kernel = k.Cosine(period=3.1) + k.Constant(variance=2.0)
    posterior = sg.condition(model_of(kernel), x, y, inducing=[2.0, 6.0])
    expected = dense.gp(kernel, x, y, NOISE, x_new)  # any two states determine the function
    np.testing.assert_allclose(posterior.elbo, expected.log_evidence, rtol=1e-9)
    np.testing.assert_allclose(posterior.predict_f(x_new)[0], expected.mean, atol=1e-9)
    np.testing.assert_allclose(posterior.predict_f(x_new)[1], expected.variance, rtol=1e-7)


def test_conditionals_keep_their_digits_at_every_scale():
    """Residual variances of p(f(x) | u) against a reference in many digits."""
    mpmath = pytest.importorskip("mpmath")
    from stategp._projection import project

    for ratio in [1e-6, 1e-3, 1.0, 30.0]:  # interval length over lengthscale
        kernel = k.Matern52(lengthscale=1.0 / ratio)
        with mpmath.workdps(120):
            rate = mpmath.sqrt(5) * mpmath.mpf(1.0 / ratio) ** -1

            def covariance(i, j, lag, rate=rate):
                """Covariance of the i-th and j-th derivatives at distance `lag` (signed)."""

                def f(t):
                    r = rate * abs(t)
                    return (1 + r + r**2 / 3) * mpmath.exp(-r)

                # closed derivatives of the Matérn-5/2 covariance, lag ≥ 0
                order, sign = i + j, (-1) ** j
                s = 1 if lag >= 0 else -1
                r = rate * abs(lag)
                e = mpmath.exp(-r)
                table = [
                    f(lag),
                    -s * rate * r * (1 + r) / 3 * e,
                    -(rate**2) * (1 + r - r**2) / 3 * e,
                    s * rate**3 * (3 * r - r**2) / 3 * e,
                    rate**4 * (3 - 5 * r + r**2) / 3 * e,
                ]
                return sign * table[order]

            z, points = [0, 1], [mpmath.mpf("0.3"), mpmath.mpf("-0.2"), mpmath.mpf("1.4")]
            features = [(at, i) for at in z for i in range(3)]
            Kuu = mpmath.matrix(
                [[covariance(i, j, a - b) for b, j in features] for a, i in features]
            )
            truth = []
            for x in points:
                row = mpmath.matrix([covariance(0, j, x - b) for b, j in features])
                solved = mpmath.lu_solve(Kuu, row)
                truth.append(float(1 - (row.T * solved)[0]))
        z, at = jnp.array([0.0, 1.0]), jnp.array([0.3, -0.2, 1.4])
        residual = project(kernel, z, at, prior_transitions(kernel, z)).residual[0]
        # The backcast's w is a difference of numbers near one: right to ε², not to relative ε.
        np.testing.assert_allclose(residual, truth, rtol=1e-8, atol=1e-31)
