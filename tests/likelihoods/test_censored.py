"""Values known within limits: probabilities far out, expectations, scores, and a fit."""

import itertools

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy import integrate, special, stats

import stategp as sg
from stategp import likelihoods as lik
from stategp.likelihoods._normal import log_mass
from tests.likelihoods import reference

INF = np.inf


def exact_log_mass(start: float, width: float) -> mpmath.mpf:
    a, b = mpmath.mpf(start), mpmath.mpf(start) + mpmath.mpf(width)
    if a > 0:
        a, b = -b, -a
    return mpmath.log(mpmath.ncdf(b) - mpmath.ncdf(a))


def test_log_mass_and_its_derivatives_however_far_and_narrow() -> None:
    starts, widths = [-300.0, -31.0, -4.0, -1e-3, 0.0, 0.7, 8.0, 200.0], [1e-7, 0.02, 0.04, 2.0, 50]
    points = np.array(list(itertools.product(starts, widths)))
    start, width = (jnp.asarray(column) for column in points.T)

    def slope(at):
        return jax.jvp(lambda s: log_mass(s, width), (at,), (jnp.ones_like(at),))

    @jax.jit
    def both(at):
        (value, first), (_, second) = jax.jvp(slope, (at,), (jnp.ones_like(at),))
        return value, first, second

    ours = np.stack(both(start), axis=-1)
    with mpmath.workdps(80):
        for (a, w), found in zip(points, ours, strict=True):
            theirs = [exact_log_mass(a, w)]
            theirs += [mpmath.diff(lambda s, w=w: exact_log_mass(s, w), a, n) for n in (1, 2)]
            exact = np.array([float(v) for v in theirs])
            np.testing.assert_allclose(found[:2], exact[:2], rtol=1e-10, atol=1e-11)
            np.testing.assert_allclose(found[2], exact[2], rtol=1e-6, atol=1e-9)


def hidden(extra: float, noise: float):
    """SciPy's log probability of a value within its limits, as a function of y and f."""

    def log_density(y, f):
        if np.isinf(extra):
            return special.log_ndtr(np.sign(extra) * (f - y) / np.sqrt(noise))
        lower, upper = ((np.sort([y, y + extra])[:, None] - f) / np.sqrt(noise))[:, :]
        flip = lower + upper > 0
        lower, upper = np.where(flip, -upper, lower), np.where(flip, -lower, upper)
        logs = special.log_ndtr(upper)
        return logs + np.log(-np.expm1(special.log_ndtr(lower) - logs))

    return log_density


KINDS = [INF, -INF, 0.8, -3.0]
NOISES = [1e-4, 0.3, 40.0]
MOMENTS = list(itertools.product([0.3, 2.0], [-1.3, 2.5], [1e-6, 0.3, 4.0]))


@pytest.fixture(scope="module")
def expected():
    """The expectation and its three derivatives, at every moment for all kinds and noises."""

    @jax.jit
    def compute(noise, y, mean, variance, extra):
        def value(mean, variance, noise):
            return lik.Censored(variance=sg.fixed(noise)).expected_log_density(
                y, mean, variance, extra
            )

        one, at = jnp.ones_like(mean), (mean, variance, noise)
        directions = [(one, 0 * one, 0.0), (0 * one, one, 0.0), (0 * one, 0 * one, 1.0)]
        moves = [jax.jvp(value, at, direction)[1] for direction in directions]
        return jnp.stack([value(*at), *moves], axis=-1)

    return compute


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("extra", KINDS)
def test_expectations_whatever_the_noise(expected, extra: float, noise: float) -> None:
    y, mean, variance = (jnp.asarray(column) for column in np.array(MOMENTS).T)
    ours = np.asarray(expected(noise, y, mean, variance, jnp.full(y.shape, extra)))
    for (y, m, v), found in zip(MOMENTS, ours, strict=True):
        centres = [y] if np.isinf(extra) else [y, y + extra]
        f, weights = reference.panels(m, v, *centres)
        weights = weights * np.exp(reference.log_normal(f, m, v))
        with np.errstate(all="ignore"):
            values = np.where(weights > 1e-40, hidden(extra, noise)(y, f), 0.0)
        size = 1 + np.abs(np.sum(weights * values))
        np.testing.assert_allclose(found[0], np.sum(weights * values), rtol=1e-7, atol=1e-7)
        t = (f - m) / np.sqrt(v)
        rest = values - values[np.argmin(np.abs(t))]
        slope = np.sum(weights * rest * t) / np.sqrt(v)
        bend = np.sum(weights * rest * (t**2 - 1)) / (2 * v)
        if v > 1e-3:
            np.testing.assert_allclose(
                found[1:3], [slope, bend], rtol=1e-5, atol=1e-6 * size / noise
            )
        assert found[2] <= 0
        near = [
            np.sum(weights * np.where(weights > 1e-40, hidden(extra, noise * c)(y, f), 0.0))
            for c in (1 - 1e-4, 1 + 1e-4)
        ]
        np.testing.assert_allclose(
            found[3], np.diff(near)[0] / (2e-4 * noise), rtol=1e-4, atol=1e-5 * size / noise
        )


@jax.jit
def tilted_and_density(likelihood, *columns):
    return likelihood.tilted(*columns), likelihood.log_predictive_density(*columns)


@pytest.mark.parametrize("extra", KINDS)
def test_tilted_and_predictive_density(extra: float) -> None:
    columns = [*np.array(MOMENTS, dtype=float).T, np.full(len(MOMENTS), extra)]
    found, density = tilted_and_density(lik.Censored(variance=0.3), *columns)
    ours = np.stack(found, axis=-1)
    for (y, m, v), found, whole in zip(MOMENTS, ours, density, strict=True):
        theirs = reference.tilted(hidden(extra, 0.3), y, m, v, kink=y)
        np.testing.assert_allclose(found, theirs, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(whole, theirs[0], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("extra", KINDS)
def test_without_variance_it_is_the_density_itself(expected, extra: float) -> None:
    f = np.linspace(-3, 9, len(MOMENTS))
    columns = np.full(f.shape, 0.2), f, np.zeros(f.shape), np.full(f.shape, extra)
    ours = np.asarray(expected(0.3, *columns))
    low, at, high = (hidden(extra, 0.3)(0.2, f + step) for step in (-1e-4, 0, 1e-4))
    np.testing.assert_allclose(ours[:, 0], at, rtol=1e-10)
    np.testing.assert_allclose(ours[:, 1], (high - low) / 2e-4, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(ours[:, 2], (high - 2 * at + low) / 2e-8, rtol=1e-3, atol=1e-5)


def test_scores_leave_out_what_is_not_known() -> None:
    likelihood, given = lik.Censored(variance=0.3), stats.norm(0.4, 1.0)
    y, extra = np.array([0.1, 0.1, 0.1, 0.1]), np.array([0.0, INF, -INF, 1.5])
    column = jnp.ones(4)
    ours = likelihood.crps(jnp.asarray(y), 0.4 * column, 0.7 * column, jnp.asarray(extra))
    below = integrate.quad(lambda u: given.cdf(u) ** 2, -20, 0.1)[0]
    above, further = (integrate.quad(lambda u: given.sf(u) ** 2, a, 20)[0] for a in (0.1, 1.6))
    np.testing.assert_allclose(ours, [below + above, below, above, below + further], rtol=1e-7)
    # New values are those of the Gaussian, whatever is known of one.
    mean, variance = likelihood.predict(column, column, jnp.asarray(extra))
    np.testing.assert_allclose([mean, variance], [np.ones(4), np.full(4, 1.3)])


def test_limits_become_observations() -> None:
    lower = [np.nan, -INF, 1.0, 2.0, 3.0, np.nan, 4.0]
    upper = [0.5, 0.5, np.nan, 2.5, 3.0, np.nan, 1.0]
    y, censored = lik.within(lower, upper, [np.nan] * 6 + [7.0])
    np.testing.assert_array_equal(y, [0.5, 0.5, 1.0, 2.0, 3.0, np.nan, 7.0])
    np.testing.assert_array_equal(censored, [-INF, -INF, INF, 0.5, 0.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="observation 1 has 4 and 1"):
        lik.within([0.0, 4.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="must be numbers"):
        lik.within(["a"], [1.0])
    with pytest.raises(ValueError, match="must be numbers"):
        lik.within([1.0, 2.0], [1.0, 2.0, 3.0])


@pytest.fixture(scope="module")
def series():
    """A sine of which nothing is seen below −0.5 and above 0.8."""
    rng = np.random.default_rng(0)
    x = np.linspace(0, 12, 90)
    truth = np.sin(x)
    y = truth + 0.1 * rng.standard_normal(90)
    return x, truth, np.clip(y, -0.5, 0.8), np.where(y <= -0.5, -INF, np.where(y >= 0.8, INF, 0))


def test_a_fit_sees_beyond_the_limits(series) -> None:
    x, truth, shown, censored = series
    model = sg.GP(sg.kernels.Matern52(), "censored")
    posterior = sg.fit(model, x, shown, censored=censored, progress=False)
    naive = sg.fit(sg.GP(sg.kernels.Matern52()), x, shown, progress=False)
    errors = [np.sqrt(np.mean((p.predict_f(x)[0] - truth) ** 2)) for p in (posterior, naive)]
    assert errors[0] < 0.6 * errors[1]
    assert 0.05 < np.sqrt(posterior.model.likelihood.variance.value) < 0.2
    hidden = censored != 0
    density = posterior.log_density(x, shown, censored=censored)
    assert np.all(density[hidden] <= 0)  # the logarithms of probabilities


def test_what_censored_may_be() -> None:
    model = sg.GP(sg.kernels.Matern32(), "censored")
    with pytest.raises(ValueError, match=r"censored\[1\] is nan"):
        sg.condition(model, [0.0, 1.0], [0.0, 1.0], censored=[0.0, np.nan])
    with pytest.raises(ValueError, match="censored has no meaning for Gaussian"):
        sg.condition(sg.GP(sg.kernels.Matern32()), [0.0], [0.0], censored=[0.0])
