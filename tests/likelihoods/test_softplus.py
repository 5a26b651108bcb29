"""The other link, and counts in several stages, against integrals of SciPy's densities."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import stategp as sg
from stategp import likelihoods as lik

MEAN, VARIANCE = np.array([-1.5, 0.4, 6.0]), np.array([0.5, 2.0, 1.0])
_Z = np.linspace(-9, 9, 1801)
_W = stats.norm.pdf(_Z) / np.sum(stats.norm.pdf(_Z))
F = MEAN[:, None] + np.sqrt(VARIANCE)[:, None] * _Z
POSITIVE = np.logaddexp(0.0, F)

LAWS = {
    "gaussian": (lik.Gaussian(variance=0.3), 0.0, lambda s: stats.norm(s, np.sqrt(0.3))),
    "student_t": (lik.StudentT(df=3.0, scale=0.7), 0.0, lambda s: stats.t(3.0, s, 0.7)),
    "poisson": (lik.Poisson(), 1.7, lambda s: stats.poisson(1.7 * s)),
}


@functools.partial(jax.jit, static_argnames="method")
def compute(likelihood: lik.Likelihood, method: str, *columns: Any) -> Any:
    return getattr(likelihood, method)(*columns)


@pytest.mark.parametrize("name", LAWS)
def test_integrals(name):
    of, extra, law = LAWS[name]
    likelihood, y = lik.Softplus(of), np.array([1.0, 0.0, 5.0])
    known = law(POSITIVE)
    log_density = known.logpmf if name == "poisson" else known.logpdf
    logs = log_density(y[:, None])
    columns = (jnp.asarray(y), jnp.asarray(MEAN), jnp.asarray(VARIANCE), jnp.full(3, extra))
    value, slope, bend = compute(likelihood, "expected_slopes", *columns)
    np.testing.assert_allclose(value, logs @ _W, rtol=1e-8)
    np.testing.assert_allclose(slope, (logs * _Z) @ _W / np.sqrt(VARIANCE), rtol=1e-6)
    np.testing.assert_allclose(bend, (logs * (_Z**2 - 1)) @ _W / VARIANCE / 2, rtol=1e-6)
    predictive = compute(likelihood, "log_predictive_density", *columns)
    np.testing.assert_allclose(predictive, np.log(np.exp(logs) @ _W), rtol=1e-6)
    below = compute(likelihood, "predictive_cdf", *columns)
    np.testing.assert_allclose(below, known.cdf(y[:, None]) @ _W, atol=1e-6)
    centre, spread = likelihood.predict(*columns[1:])
    np.testing.assert_allclose(centre, known.mean() @ _W, rtol=1e-6)
    exact = (known.var() + (known.mean() - np.asarray(centre)[:, None]) ** 2) @ _W
    np.testing.assert_allclose(spread, exact, rtol=1e-4)


def test_positive_functions_are_found():
    x = np.linspace(0, 10, 60)
    truth = 3 * np.abs(np.sin(x / 2))
    y = np.random.default_rng(0).poisson(truth).astype(float)
    model = sg.GP(sg.kernels.Matern52(variance=4.0, lengthscale=2.0), lik.Softplus(lik.Poisson()))
    posterior = sg.condition(model, x, y)
    assert posterior.fit_result.converged
    mean, _ = posterior.predict_y(x)
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.5
    drawn = posterior.sample_y(0, x[:3], 2)
    assert np.all(drawn >= 0)
    with pytest.raises(ValueError, match=r"changes the link of Gaussian, .*got Bernoulli"):
        lik.Softplus(lik.Bernoulli())


def test_counts_in_three_stages():
    likelihood, ones = lik.StagedPoisson(), jnp.ones(4)
    mean = np.array([[0.3, -0.4, 0.8]] * 4)
    variance = np.array([[0.5, 1.0, 0.2]] * 4)
    y = np.array([0.0, 1.0, 2.0, 5.0])
    columns = (jnp.asarray(mean), jnp.asarray(variance), 2 * ones)
    f = mean[0][:, None] + np.sqrt(variance[0])[:, None] * _Z
    stop, go, rate = special.log_expit(f[:2]), special.log_expit(-f[:2]), 2 * np.exp(f[2])
    more = stats.poisson.logpmf(np.arange(300.0)[:, None], rate)
    expected = [
        stop[0] @ _W, (go[0] + stop[1]) @ _W, (go.sum(0) + more[0]) @ _W,
        (go.sum(0) + more[3]) @ _W,
    ]  # fmt: skip
    np.testing.assert_allclose(
        compute(likelihood, "expected_log_density", jnp.asarray(y), *columns), expected, rtol=1e-7
    )
    none, one = np.exp(stop) @ _W
    beyond = (1 - none) * (1 - one) * (np.exp(more) @ _W)
    mass = np.concatenate([[none, (1 - none) * one], beyond])
    k = np.arange(302.0)
    logs = compute(likelihood, "log_predictive_density", jnp.asarray(y), *columns)
    np.testing.assert_allclose(logs, np.log(mass[y.astype(int)]), rtol=1e-6)
    below = compute(likelihood, "predictive_cdf", jnp.asarray(y), *columns)
    np.testing.assert_allclose(below, np.cumsum(mass)[y.astype(int)], atol=1e-6)
    centre, spread = likelihood.predict(*columns)
    np.testing.assert_allclose(centre, mass @ k, rtol=1e-7)
    np.testing.assert_allclose(spread, mass @ (k - mass @ k) ** 2, rtol=1e-7)
    given = jnp.tile(jnp.asarray(mean[:1]), (20_000, 1))
    drawn = np.asarray(likelihood.sample(jax.random.key(0), given, jnp.ones(20_000)))
    first, second = (float(v[0]) for v in likelihood.moments(given[:1], jnp.ones(1)))
    assert abs(drawn.mean() - first) < 5 * np.sqrt(second / 20_000)
    assert likelihood.guess(drawn[:50], np.ones(50)).shape == (50, 3)
