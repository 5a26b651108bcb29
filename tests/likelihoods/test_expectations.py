"""E[log p(y | f)] and its derivatives against integrals done by brute force."""

import functools
import itertools

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy import special

from stategp import likelihoods as lik
from stategp._fitting._methods._logistic import LogisticBound
from stategp.parameters import to_vector, with_vector
from tests.likelihoods import reference
from tests.likelihoods.cases import CASES, Case


@jax.jit
def _all_three(likelihood, y, mean, variance, extra):
    def value(mean, variance):
        return likelihood.expected_log_density(y, mean, variance, extra)

    ones = jnp.ones_like(mean)
    result, in_mean = jax.jvp(lambda m: value(m, variance), (mean,), (ones,))
    return result, in_mean, jax.jvp(lambda v: value(mean, v), (variance,), (ones,))[1]


def expected(likelihood, y, mean, variance, extra=1.0):
    """The value, and the derivatives in mean and variance, one column each."""
    y, mean, variance = (np.asarray(v, dtype=float) for v in (y, mean, variance))
    return np.stack(_all_three(likelihood, y, mean, variance, np.full(y.shape, extra)), axis=-1)


@jax.jit
def slopes_and_highest(likelihood, y, f, extra):
    """The log density with its two slopes, and the highest that it can be."""
    return likelihood.slopes(y, f, extra), likelihood.highest_log_density(y, extra)


def by_hand(case: Case, points):
    centre = case.centre or (lambda y: None)
    return np.stack(
        [reference.expectation(case.log_density, *point, kink=centre(point[0])) for point in points]
    )


def error(ours, theirs):
    return np.max(np.abs(ours - theirs) / (1 + np.abs(theirs)))


@functools.cache
def table(name: str):
    """Points (y, mean, variance) and what we make of them: compiled once for all the tests."""
    case = CASES[name]
    rng = np.random.default_rng(1)
    points = list(itertools.product(case.y, [-1.3, 0.37, 2.0], [0.0, 1e-6, 0.3, 1.0]))
    points += list(itertools.product(case.y, 4 * rng.normal(size=10), [1e-3, *rng.gamma(1, 2, 4)]))
    points = np.array(points)
    return points, expected(case.likelihood, *points.T, case.extra)


@pytest.mark.parametrize("name", CASES)
def test_value_and_derivatives(name: str) -> None:
    case = CASES[name]
    points, ours = table(name)
    chosen = (points[:, 2] >= 1e-6) & (points[:, 2] <= 1.0) & (np.abs(points[:, 1]) <= 2)
    assert error(ours[chosen], by_hand(case, points[chosen])) < 1e-8


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c.likelihood.log_concave])
def test_log_concave_ones_never_curve_up(name: str) -> None:
    assert np.all(table(name)[1][:, 2] <= 0)


@pytest.mark.parametrize("name", CASES)
def test_log_density_and_its_slopes(name: str) -> None:
    case = CASES[name]
    points, ours = table(name)
    still = points[:, 2] == 0
    y, f = points[still, :2].T
    slopes, highest = slopes_and_highest(case.likelihood, y, f, np.full(y.shape, case.extra))
    slopes = np.stack(slopes, -1)
    if name != "laplace":  # it has no second derivative at y: see below
        # Without variance the expectation is the density itself.
        np.testing.assert_allclose(ours[still], slopes * [1, 1, 0.5], rtol=1e-9, atol=1e-15)
    near = [case.log_density(a, np.array([b - 1e-5, b, b + 1e-5])) for a, b in points[still, :2]]
    theirs = np.array(near)
    np.testing.assert_allclose(slopes[:, 0], theirs[:, 1], rtol=1e-12, atol=1e-12)
    central = (theirs[:, 2] - theirs[:, 0]) / 2e-5
    np.testing.assert_allclose(slopes[:, 1], central, rtol=1e-6, atol=1e-8)
    assert np.all(slopes[:, 0] <= np.asarray(highest) + 1e-12)


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if to_vector(c.likelihood).size])
def test_gradient_in_the_parameters(name: str) -> None:
    case = CASES[name]
    y = jnp.asarray(case.y)
    mean, variance, extra = (jnp.asarray(np.full(y.shape, v)) for v in (0.4, 0.5, case.extra))

    def total(vector):
        likelihood = with_vector(case.likelihood, vector)
        return jnp.sum(likelihood.expected_log_density(y, mean, variance, extra))

    start = np.asarray(to_vector(case.likelihood))
    steps = 1e-5 * np.eye(start.size)
    points = np.concatenate([start[None], start + steps, start - steps])
    values, gradients = jax.jit(jax.vmap(jax.value_and_grad(total)))(points)
    up, down = np.split(np.asarray(values)[1:], 2)
    np.testing.assert_allclose(gradients[0], (up - down) / 2e-5, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("ratio", [0.1, 1.0, 5.0, 1e3])  # √variance / scale
def test_student_t_at_any_ratio_of_variance_to_scale(ratio: float) -> None:
    for df in (1.0, 4.0, 100.0):
        case = CASES["student_t"]._replace(log_density=reference.student_t(df, 1.0))
        points = list(itertools.product([0.0, 3.0, 100.0, 1e4], [0.0], [ratio**2]))
        ours = expected(lik.StudentT(df=df, scale=1.0), *np.array(points).T)
        assert error(ours, by_hand(case, points)) < 1e-8


@pytest.mark.parametrize(
    ("name", "within", "beyond"),
    # At variance 4 (wide for these) 32 nodes give this; 100 give the second.
    [("bernoulli", 1e-6, 1e-12), ("negative_binomial", 1e-5, 1e-11), ("beta", 1e-4, 1e-9)],
)
def test_more_nodes_for_wider_distributions(name: str, within: float, beyond: float) -> None:
    case = CASES[name]
    points = list(itertools.product(case.y, [0.0, 2.0], [4.0]))
    theirs = by_hand(case, points)
    few = error(expected(case.likelihood, *np.array(points).T, case.extra), theirs)
    finer = _with_nodes(case.likelihood, 100)
    many = error(expected(finer, *np.array(points).T, case.extra), theirs)
    assert beyond < few < within
    assert many < beyond


@pytest.mark.parametrize("variance", [1e-9, 0.03, 0.12, 0.24, 0.5, 0.8])  # the ends of the rules
def test_labels_of_a_narrow_f_keep_all_digits(variance: float) -> None:
    mean = np.array([-40.0, -2.0, 0.0, 0.3, 5.0, 40.0])
    t = np.linspace(-12, 12, 481)[:, None]  # equal steps converge as fast as the normal decays
    f = mean + np.sqrt(variance) * t
    density = np.exp(-(t**2) / 2) / np.sum(np.exp(-(t**2) / 2))
    yes, no = special.expit(f), special.expit(-f)
    parts = special.log_expit(f), no, -yes * no / 2
    theirs = np.stack([np.sum(density * part, axis=0) for part in parts], axis=-1)
    ours = expected(lik.Bernoulli(), np.ones(6), mean, np.full(6, variance))
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_labels_of_any_f_have_finite_expectations() -> None:
    mean = np.array([0.0, 1e3, -1e3, 1e5])
    variance = np.array([1e8, 1e6, 1e6, 1.0])
    value, slope, curvature = expected(lik.Bernoulli(), np.zeros(4), mean, variance).T
    assert np.all(np.isfinite(value) & (value <= 0))
    assert np.all((slope <= 0) & (slope >= -1) & (curvature <= 0))
    np.testing.assert_allclose(value[3], -1e5)
    unknown = expected(lik.Bernoulli(), np.zeros(2), [0.0, 1.0], [np.nan, 0.5])
    assert np.all(np.isnan(unknown[0]))
    assert np.all(np.isfinite(unknown[1]))


SUMMED = {
    "bernoulli": lik.Bernoulli(),
    "bernoulli, probit": lik.Bernoulli(link="probit"),
    "a bound on bernoulli": LogisticBound(),
    "binomial": lik.Binomial(),
    "binomial, probit": lik.Binomial(link="probit"),
    "ordinal": lik.Ordinal(levels=3),
    "poisson": lik.Poisson(),
    "exponential": lik.Exponential(),
    "gamma": lik.Gamma(shape=2.5),
}


@pytest.mark.parametrize("name", SUMMED)
def test_what_is_read_of_an_observation_gives_its_log_density(name: str) -> None:
    likelihood = SUMMED[name]
    y, extra = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 1.0]), np.array([1.0, 1.0, 3.0, 4.0, 2.0, 1.0])
    if not likelihood.discrete:
        y = y + 0.3
    mean, variance = jnp.linspace(-2.0, 3.0, 6), jnp.array([0.0, 1e-3, 0.1, 0.5, 1.0, 0.3])

    @jax.jit
    def both(y, extra):
        features = likelihood.expected_features(mean, variance)
        return features, likelihood.expected_slopes(y, mean, variance, extra)

    features, slopes = both(jnp.asarray(y), jnp.asarray(extra))
    read = likelihood.statistics(jnp.asarray(y), jnp.asarray(extra))
    for ours, theirs in zip(features, slopes, strict=True):
        np.testing.assert_allclose(np.sum(read * ours, axis=0), theirs, rtol=1e-12, atol=1e-14)


def test_few_numbers_do_not_hold_every_observation() -> None:
    one = np.ones(1)
    assert lik.StudentT().statistics(one, one) is None
    assert lik.NegativeBinomial().statistics(one, one) is None


def _with_nodes(likelihood, nodes):
    arguments = {
        f: getattr(likelihood, f) for f in ("link", "shape", "precision") if hasattr(likelihood, f)
    }
    return type(likelihood)(**arguments, quadrature=nodes)


def test_laplace_is_finite_without_variance() -> None:
    values = expected(lik.Laplace(scale=0.5), [1.0, 1.0], [1.0, 3.0], [0.0, 0.0])
    assert np.all(np.isfinite(values))
    np.testing.assert_allclose(values[:, 0], [0.0, -4.0], atol=1e-9)
    np.testing.assert_allclose(values[1, 1:], [-2.0, 0.0])
    assert -2 * values[0, 2] > 1e6


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_tails_of_the_links(link: str) -> None:
    likelihood = lik.Bernoulli(link=link)
    f = np.array([40.0, -40.0, 1e3, -1e3, 1e5, -1e5])
    (value, first, second), _ = slopes_and_highest(likelihood, np.ones(6), f, np.ones(6))
    with np.errstate(under="ignore"):
        np.testing.assert_allclose(value, reference.bernoulli(link)(1, f), rtol=1e-13)
    # Left tail: log σ(f) ≈ f; log Φ(f) ≈ −f²/2 − log|f|, so λ = −f − 1/f, λ' = −1 + 1/f².
    left = f[1::2]
    expected_first = np.ones(3) if link == "logit" else -left - 1 / left + 2 / left**3
    expected_second = np.zeros(3) if link == "logit" else -1 + 1 / left**2 - 6 / left**4
    np.testing.assert_allclose(first[1::2], expected_first, rtol=1e-6)
    np.testing.assert_allclose(second[1::2], expected_second, atol=1e-7)
    np.testing.assert_allclose(first[::2], 0.0, atol=1e-16)
    np.testing.assert_allclose(second[::2], 0.0, atol=1e-16)


def test_ordinal_far_out_and_between_close_cuts() -> None:
    probabilities = jax.jit(lambda likelihood, f: likelihood.probabilities(f))
    for link in ("logit", "probit"):
        likelihood = lik.Ordinal(3, link=link, cutpoints=[0.0, 1e-3])
        f = np.array([-300.0, -30.0, 0.0, 30.0, 300.0])
        for level in (0.0, 1.0, 2.0):
            values, _ = slopes_and_highest(likelihood, np.full(5, level), f, np.ones(5))
            assert np.all(np.isfinite(values))
            assert np.all(np.asarray(values[2]) <= 1e-12)
        total = np.asarray(probabilities(likelihood, f)).sum(-1)
        np.testing.assert_allclose(total, 1.0, rtol=1e-13)


def test_logistic_bound_is_below_and_smooth() -> None:
    y, mean, variance = [0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 2.0, -30.0], [0.0, 1e-3, 1.0, 4.0]
    bound = expected(LogisticBound(), y, mean, variance)
    exact = expected(lik.Bernoulli(), y, mean, variance)
    assert np.all(np.isfinite(bound))
    assert np.all(bound[:, 0] <= exact[:, 0] + 1e-15)
    xi = np.sqrt(np.square(mean) + variance)[1:]
    written = np.log(1 / (1 + np.exp(-xi))) + (np.array(y) - 0.5)[1:] * mean[1:] - xi / 2
    np.testing.assert_allclose(bound[1:, 0], written, rtol=1e-14)
    np.testing.assert_allclose(bound[1:, 2], -np.tanh(xi / 2) / (4 * xi), rtol=1e-12)
    np.testing.assert_allclose(bound[0], [-np.log(2), -0.5, -1 / 8], rtol=1e-15)


@jax.jit
def _of_two_latents(likelihood, y, mean, variance, extra):
    return (
        likelihood.expected_log_density(y, mean, variance, extra),
        likelihood.log_predictive_density(y, mean, variance, extra),
        likelihood.predict(mean, variance, extra),
    )


def test_heteroscedastic_in_closed_form() -> None:
    likelihood = lik.HeteroscedasticGaussian()
    y = np.array([0.3, -2.0])
    mean, variance = np.array([[0.1, -0.4], [1.0, 0.5]]), np.array([[0.3, 0.2], [1.0, 0.7]])
    expectation, log_predictive, moments = jax.tree.map(
        np.asarray, _of_two_latents(likelihood, y, mean, variance, np.zeros(2))
    )
    t, w = np.polynomial.hermite_e.hermegauss(50)
    w = np.outer(w, w) / (2 * np.pi)
    for i in range(2):
        f1 = mean[i, 0] + np.sqrt(variance[i, 0]) * t[:, None]
        f2 = mean[i, 1] + np.sqrt(variance[i, 1]) * t[None, :]
        density = reference.log_normal(y[i], f1, np.exp(f2))
        np.testing.assert_allclose(expectation[i], np.sum(w * density), rtol=1e-10)
        predictive = np.log(np.sum(w * np.exp(density)))
        np.testing.assert_allclose(log_predictive[i], predictive, rtol=1e-6)
        centre = np.sum(w * f1)
        total = np.sum(w * (np.exp(f2) + (f1 - centre) ** 2))
        np.testing.assert_allclose([v[i] for v in moments], [centre, total], rtol=1e-10)


def test_a_negative_binomial_with_a_large_shape_keeps_its_digits():
    y, f = np.array([0.0, 3.0, 40.0]), np.array([0.2, 1.0, 3.5])
    log_density = jax.jit(lambda likelihood, *columns: likelihood.log_density(*columns))
    for shape in [49.0, 51.0, 1e4, 1e8, 1e12]:
        found = np.asarray(log_density(lik.NegativeBinomial(shape=shape), y, f, np.ones(3)))
        with mpmath.workdps(50):
            for value, count, latent in zip(found, y, f, strict=True):
                r, mean = mpmath.mpf(shape), mpmath.exp(mpmath.mpf(float(latent)))
                exact = mpmath.loggamma(r + float(count)) - mpmath.loggamma(r)
                exact -= mpmath.loggamma(float(count) + 1)
                exact += r * mpmath.log(r / (r + mean)) + float(count) * mpmath.log(
                    mean / (r + mean)
                )
                np.testing.assert_allclose(float(value), float(exact), rtol=1e-11)
