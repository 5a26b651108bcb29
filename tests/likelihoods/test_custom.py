"""Likelihoods that the user writes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import gammaln

from stategp import likelihoods as lik
from stategp.parameters import to_vector
from tests.likelihoods.test_expectations import expected


def poisson(y, f):
    return y * f - jnp.exp(f) - gammaln(y + 1)


def two_part(y, f):
    square = (y - f[..., 0]) ** 2 * jnp.exp(-f[..., 1])
    return -(square + f[..., 1] + jnp.log(2 * jnp.pi)) / 2


def cauchy(y, f, scale):
    return -jnp.log(jnp.pi * scale) - jnp.log1p(((y - f) / scale) ** 2)


def test_custom_poisson_is_poisson() -> None:
    y, mean, variance = [0.0, 3.0, 7.0], [-1.0, 1.0, 2.0], [0.0, 0.3, 1.0]
    custom = lik.Custom(
        poisson,
        mean=jnp.exp,
        variance=jnp.exp,
        sample=lambda key, f: jax.random.poisson(key, jnp.exp(f)).astype(float),
    )
    ours, theirs = (expected(one, y, mean, variance) for one in (custom, lik.Poisson()))
    np.testing.assert_allclose(ours, theirs, rtol=1e-10)
    f, v, ones = jnp.asarray(mean), jnp.asarray(variance), jnp.ones(3)
    np.testing.assert_allclose(
        custom.predict(f, v, ones), lik.Poisson().predict(f, v, ones), rtol=1e-9
    )
    draws = (one.sample(jax.random.key(0), f, ones) for one in (custom, lik.Poisson()))
    np.testing.assert_array_equal(*draws)


def test_custom_with_two_latents_is_heteroscedastic() -> None:
    custom = lik.Custom(
        two_part, latents=2, mean=lambda f: f[..., 0], variance=lambda f: jnp.exp(f[..., 1])
    )
    builtin = lik.HeteroscedasticGaussian()
    assert custom.latents == 2
    y, extra = jnp.array([0.3, -2.0]), jnp.zeros(2)
    mean, variance = jnp.array([[0.1, -0.4], [1.0, 0.5]]), jnp.array([[0.3, 0.2], [1.0, 0.5]])

    def all_of(likelihood):
        def total(mean, variance):
            return jnp.sum(likelihood.expected_log_density(y, mean, variance, extra))

        return [
            total(mean, variance),
            *jax.grad(total, argnums=(0, 1))(mean, variance),
            *likelihood.predict(mean, variance, extra),
            *likelihood.slopes(y, mean, extra),
        ]

    for ours, theirs in zip(all_of(custom), all_of(builtin), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8)
    np.testing.assert_allclose(
        custom.log_predictive_density(y, mean, variance, extra),
        builtin.log_predictive_density(y, mean, variance, extra),
        atol=1e-3,  # 12 nodes each, against a closed form
    )
    np.testing.assert_array_equal(custom.guess(np.zeros(3), np.zeros(3)), np.zeros((3, 2)))


def test_parameters_are_learned_and_passed_on() -> None:
    custom = lik.Custom(cauchy, parameters={"scale": 0.5})
    np.testing.assert_allclose(to_vector(custom), [np.log(0.5)])
    y, f = jnp.array([0.0, 2.0]), jnp.array([0.1, -1.0])
    builtin = lik.StudentT(df=1.0, scale=0.5)
    np.testing.assert_allclose(
        custom.log_density(y, f, y), builtin.log_density(y, f, y), rtol=1e-13
    )
    assert repr(custom) == "Custom(cauchy, scale=0.5)"


def test_guess_looks_for_the_best_f() -> None:
    guess = lik.Custom(poisson).guess(np.array([0.0, 1.0, 50.0]), np.zeros(3))
    assert guess[0] < -2
    np.testing.assert_allclose(guess[1:], np.log([1, 50]), atol=0.1)
    nowhere = lik.Custom(lambda y, f: y * jnp.nan + f).guess(np.zeros(2), np.zeros(2))
    np.testing.assert_array_equal(nowhere, 0)


def test_what_is_missing_is_said_in_words() -> None:
    custom = lik.Custom(poisson)
    f = jnp.zeros(2)
    with pytest.raises(ValueError, match=r"pass Custom\(\.\.\., mean=\.\.\., variance=\.\.\.\)"):
        custom.predict(f, f, f)
    with pytest.raises(ValueError, match=r"pass Custom.*sample="):
        custom.sample(jax.random.key(0), f, f)
    with pytest.raises(ValueError, match="one number per observation"):
        lik.Custom(lambda y, f: jnp.sum(y - f))
    with pytest.raises(ValueError, match="one number per observation"):
        lik.Custom(lambda y, f: -((y[:, None] - f) ** 2), latents=2)
    with pytest.raises(ValueError, match="log_density must be a function"):
        lik.Custom("poisson")
    with pytest.raises(ValueError, match="mean must be a function"):
        lik.Custom(poisson, mean=3.0)
    with pytest.raises(ValueError, match="latents must be a whole number"):
        lik.Custom(poisson, latents=0)
    with pytest.raises(ValueError, match="parameters must be a dictionary"):
        lik.Custom(poisson, parameters=[1.0])
    with pytest.raises(ValueError, match="scale must be positive"):
        lik.Custom(cauchy, parameters={"scale": -1.0})


def test_a_kink_has_a_variance():
    def log_density(y, f):
        return -jnp.abs(y - f) / 0.3 - jnp.log(0.6)

    custom, built_in = lik.Custom(log_density, quadrature=200), lik.Laplace(scale=0.3)
    y, mean, variance = jnp.array([0.2, 0.0]), jnp.array([0.0, 1.0]), jnp.array([0.5, 2.0])

    def slopes(likelihood):
        def of(v):
            return likelihood.expected_log_density(y, mean, v, y)

        return jax.jvp(of, (variance,), (jnp.ones(2),))

    for found, exact in zip(slopes(custom), slopes(built_in), strict=True):
        np.testing.assert_allclose(found, exact, rtol=0.05)


def test_log_densities_that_are_not_for_arrays_are_refused_in_words():
    with pytest.raises(ValueError, match=r"jnp\.where instead of if"):
        lik.Custom(lambda y, f: f if f > 0 else -f)
    with pytest.raises(ValueError, match=r"written with jax\.numpy"):
        lik.Custom(lambda y, f: np.log(f) * y)
    with pytest.raises(ValueError, match=r"written with jax\.numpy"):
        lik.Custom(lambda y: y)
