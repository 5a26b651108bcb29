"""Predictive moments and densities, tilted distributions and draws."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stategp import likelihoods as lik
from tests.likelihoods import reference
from tests.likelihoods.cases import CASES


@pytest.mark.parametrize("name", CASES)
def test_predictive_moments(name: str) -> None:
    case = CASES[name]
    for mean, variance in [(-1.0, 1e-6), (0.4, 0.7)]:
        f, weights = reference.panels(mean, variance)
        keep = np.abs(f - mean) < 12 * np.sqrt(variance)
        f, weights = f[keep], weights[keep]
        weights = weights * np.exp(reference.log_normal(f, mean, variance))
        given = case.distribution(f)
        centre = np.sum(weights * given.mean())
        spread = np.sum(weights * (given.var() + (given.mean() - centre) ** 2))
        ours = case.likelihood.predict(*(jnp.array([v]) for v in (mean, variance, case.extra)))
        np.testing.assert_allclose(np.ravel(ours), [centre, spread], rtol=1e-8)


@pytest.mark.parametrize("name", CASES)
def test_tilted_and_predictive_density(name: str) -> None:
    case = CASES[name]
    points = list(itertools.product(case.y, [-1.3, 2.0], [1e-6, 0.3, 9.0]))
    y, mean, variance = (jnp.asarray(column) for column in np.array(points).T)
    extra = jnp.full(y.shape, case.extra)
    scale = np.stack([np.ones(len(y)), np.sqrt(variance), variance], -1)
    centre = case.centre or (lambda y: None)

    def check(ours, power):
        kinks = [centre(y) for y, _, _ in points]
        theirs = np.stack(
            [
                reference.tilted(case.log_density, *point, power, kink=kink)
                for point, kink in zip(points, kinks, strict=True)
            ]
        )
        size = scale + np.array([1, 0, 0]) * np.abs(theirs)
        assert np.max(np.abs(np.stack(ours, -1) - theirs) / size) < 1e-8
        return theirs

    def value(mean):
        return case.likelihood.tilted(y, mean, variance, extra)

    ours, slope = jax.jit(lambda m: jax.jvp(value, (m,), (jnp.ones_like(m),)))(mean)
    theirs = check(ours, 1.0)
    # ∂ log Z / ∂ mean = (tilted mean − mean) / variance
    identity = (theirs[:, 1] - mean) / variance
    np.testing.assert_allclose(slope.log_normaliser, identity, rtol=1e-6, atol=1e-6)
    check(jax.jit(lambda m: case.likelihood.tilted(y, m, variance, extra, 0.5))(mean), 0.5)
    if name in ("gaussian", "bernoulli_probit"):  # the others take it from `tilted`
        density = case.likelihood.log_predictive_density(y, mean, variance, extra)
        np.testing.assert_allclose(density, theirs[:, 0], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", CASES)
def test_predictive_density_adds_up_to_one(name: str) -> None:
    case = CASES[name]
    y = jnp.asarray(case.all_y)
    mean, variance, extra = (jnp.full(y.shape, v) for v in (0.4, 0.2, case.extra))
    density = jnp.exp(
        jax.jit(lambda m: case.likelihood.log_predictive_density(y, m, variance, extra))(mean)
    )
    np.testing.assert_allclose(np.sum(case.weights * density), 1.0, rtol=1e-7)


@pytest.mark.parametrize("df", [1.0, 4.0, 100.0])
def test_student_t_however_far_and_wide(df: float) -> None:
    ratios, residuals = [1e-3, 0.1, 1.0, 1e3], [0.0, 0.5, 10.0, 1e3, 1e4]
    points = [(r, 0.0, 1 / ratio**2) for ratio in ratios for r in residuals]
    y, mean, variance = (jnp.asarray(column) for column in np.array(points).T)
    likelihood = lik.StudentT(df=df, scale=1.0)
    ours = likelihood.log_predictive_density(y, mean, variance, jnp.ones_like(y))
    log_density = reference.student_t(df, 1.0)
    theirs = [reference.tilted(log_density, *point, kink=point[0])[0] for point in points]
    np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8)


def test_tilted_finds_a_peak_far_from_the_mean() -> None:
    # exp(f) overflows long before 1e3, and Newton's steps alone come down from there by 1 each.
    y, mean, variance = jnp.array([0.0, 0.0, 1e6]), jnp.array([50.0, 600.0, -20.0]), jnp.ones(3)
    tilted = lik.Poisson().tilted(y, mean, variance, jnp.ones(3))
    for i in range(3):
        f = np.linspace(tilted.mean[i] - 3, tilted.mean[i] + 3, 100_001)
        logs = y[i] * f - np.exp(f) - (f - mean[i]) ** 2 / 2
        mass = np.exp(logs - logs.max())
        np.testing.assert_allclose(tilted.mean[i], np.sum(mass * f) / np.sum(mass), rtol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_draws_have_the_moments(name: str) -> None:
    case = CASES[name]
    count = 20_000
    f, extra = jnp.full(count, 0.4), jnp.full(count, case.extra)
    mean, variance = (float(v[0]) for v in case.likelihood.moments(f, extra))
    given = case.distribution(np.array([0.4]))
    np.testing.assert_allclose([mean, variance], [given.mean()[0], given.var()[0]], rtol=1e-12)
    y = np.asarray(case.likelihood.sample(jax.random.key(0), f, extra))
    assert y.shape == (count,)
    assert np.all(case.likelihood.valid(y, np.asarray(extra)))
    assert abs(y.mean() - mean) < 5 * np.sqrt(variance / count)
    squares = (y - mean) ** 2
    if name != "student_t":  # with df = 3 the square has no variance
        assert abs(squares.mean() - variance) < 5 * squares.std() / np.sqrt(count)


def test_student_t_without_a_variance() -> None:
    mean, variance = lik.StudentT(df=2.0).predict(jnp.ones(1), jnp.ones(1), jnp.ones(1))
    assert mean[0] == 1
    assert jnp.isinf(variance[0])


def test_heteroscedastic_draws() -> None:
    f = jnp.tile(jnp.array([1.0, -2.0]), (20_000, 1))
    y = lik.HeteroscedasticGaussian().sample(jax.random.key(0), f, jnp.zeros(20_000))
    assert abs(y.mean() - 1) < 5 * np.exp(-1) / np.sqrt(20_000)
    assert abs(y.var() / np.exp(-2) - 1) < 5 * np.sqrt(2 / 20_000)
