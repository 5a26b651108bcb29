"""Predictive moments and densities, tilted distributions and draws."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stategp import likelihoods as lik
from tests.likelihoods import reference
from tests.likelihoods.cases import CASES


@jax.jit
def predict(likelihood: lik.Likelihood, *columns: Any) -> Any:
    return likelihood.predict(*columns)


@jax.jit
def log_predictive_density(likelihood: lik.Likelihood, *columns: Any) -> Any:
    return likelihood.log_predictive_density(*columns)


@jax.jit
def tilted(likelihood: lik.Likelihood, *columns: Any) -> Any:
    return likelihood.tilted(*columns)


@jax.jit
def half_tilted(likelihood: lik.Likelihood, *columns: Any) -> Any:
    return likelihood.tilted(*columns, 0.5)


@jax.jit
def tilted_and_slope(likelihood: lik.Likelihood, y: Any, mean: Any, *rest: Any) -> Any:
    """`tilted`, and its derivative in the mean."""
    return jax.jvp(lambda m: likelihood.tilted(y, m, *rest), (mean,), (jnp.ones_like(mean),))


@pytest.mark.parametrize("name", CASES)
def test_predictive_moments(name: str) -> None:
    case = CASES[name]
    points = [(-1.0, 1e-6), (0.4, 0.7)]
    columns = np.array([(*point, case.extra) for point in points]).T
    ours = np.stack(predict(case.likelihood, *columns), -1)
    for (mean, variance), found in zip(points, ours, strict=True):
        f, weights = reference.panels(mean, variance)
        keep = np.abs(f - mean) < 12 * np.sqrt(variance)
        f, weights = f[keep], weights[keep]
        weights = weights * np.exp(reference.log_normal(f, mean, variance))
        given = case.distribution(f)
        centre = np.sum(weights * given.mean())
        spread = np.sum(weights * (given.var() + (given.mean() - centre) ** 2))
        np.testing.assert_allclose(found, [centre, spread], rtol=1e-8)


@pytest.mark.parametrize("name", CASES)
def test_tilted_and_predictive_density(name: str) -> None:
    case = CASES[name]
    points = list(itertools.product(case.y, [-1.3, 2.0], [1e-6, 0.3, 9.0]))
    y, mean, variance = np.array(points).T
    extra = np.full(y.shape, case.extra)
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

    # Beside the points, every y there is: its predictive density adds up to one.
    everything = [np.append(y, case.all_y)]
    for column, value in ((mean, 0.4), (variance, 0.2), (extra, case.extra)):
        everything.append(np.append(column, np.full(len(case.all_y), value)))
    ours, slope = tilted_and_slope(case.likelihood, *everything)
    theirs = check([column[: len(y)] for column in ours], 1.0)
    # ∂ log Z / ∂ mean = (tilted mean − mean) / variance
    identity = (theirs[:, 1] - mean) / variance
    np.testing.assert_allclose(slope.log_normaliser[: len(y)], identity, rtol=1e-6, atol=1e-6)
    check(half_tilted(case.likelihood, y, mean, variance, extra), 0.5)

    density = ours.log_normaliser
    inherited = lik.Likelihood.log_predictive_density  # takes it from `tilted`
    if name == "exponential" or type(case.likelihood).log_predictive_density is not inherited:
        density = log_predictive_density(case.likelihood, *everything)
        np.testing.assert_allclose(density[: len(y)], theirs[:, 0], rtol=1e-8, atol=1e-8)
    total = np.sum(case.weights * np.exp(density[len(y) :]))
    np.testing.assert_allclose(total, 1.0, rtol=1e-7)


@pytest.mark.parametrize("df", [1.0, 4.0, 100.0])
def test_student_t_however_far_and_wide(df: float) -> None:
    ratios, residuals = [1e-3, 0.1, 1.0, 1e3], [0.0, 0.5, 10.0, 1e3, 1e4]
    points = [(r, 0.0, 1 / ratio**2) for ratio in ratios for r in residuals]
    y, mean, variance = np.array(points).T
    likelihood = lik.StudentT(df=df, scale=1.0)
    ours = log_predictive_density(likelihood, y, mean, variance, np.ones_like(y))
    log_density = reference.student_t(df, 1.0)
    theirs = [reference.tilted(log_density, *point, kink=point[0])[0] for point in points]
    np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8)


def test_tilted_finds_a_peak_far_from_the_mean() -> None:
    # exp(f) overflows long before 1e3, and Newton's steps alone come down from there by 1 each.
    y, mean, variance = np.array([0.0, 0.0, 1e6]), np.array([50.0, 600.0, -20.0]), np.ones(3)
    found = np.asarray(tilted(lik.Poisson(), y, mean, variance, np.ones(3)).mean)
    for i in range(3):
        f = np.linspace(found[i] - 3, found[i] + 3, 100_001)
        logs = y[i] * f - np.exp(f) - (f - mean[i]) ** 2 / 2
        mass = np.exp(logs - logs.max())
        np.testing.assert_allclose(found[i], np.sum(mass * f) / np.sum(mass), rtol=1e-9)


@jax.jit
def moments_and_draws(likelihood: lik.Likelihood, f: Any, extra: Any) -> Any:
    return likelihood.moments(f, extra), likelihood.sample(jax.random.key(0), f, extra)


@pytest.mark.parametrize("name", CASES)
def test_draws_have_the_moments(name: str) -> None:
    case = CASES[name]
    count = 20_000
    f, extra = np.full(count, 0.4), np.full(count, case.extra)
    moments, y = jax.tree.map(np.asarray, moments_and_draws(case.likelihood, f, extra))
    mean, variance = (float(v[0]) for v in moments)
    given = case.distribution(np.array([0.4]))
    np.testing.assert_allclose([mean, variance], [given.mean()[0], given.var()[0]], rtol=1e-12)
    assert y.shape == (count,)
    assert np.all(case.likelihood.valid(y, extra))
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
