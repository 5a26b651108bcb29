"""Mean functions that change at given inputs."""

import jax.numpy as jnp
import numpy as np
import pytest

import stategp as sg

X = jnp.array([0.0, 6.0, 6.5, 9.0])


def test_steps_and_impulses_are_what_they_say():
    step = sg.means.Step([6.0, 8.0], level=1.0, sizes=[2.0, -0.5])
    np.testing.assert_allclose(step(X), [1.0, 1.0, 3.0, 2.5])
    fading = sg.kernels.Matern32(lengthscale=2.0)
    since = np.sqrt(3) * (X - 6.0) / 2.0
    left = np.where(X > 6, (1 + since) * np.exp(-since), 0.0)
    np.testing.assert_allclose(sg.means.Impulse([6.0], sizes=[2.0], kernel=fading)(X), 2 * left)
    slow = sg.means.Step([6.0], sizes=[2.0], kernel=fading)
    np.testing.assert_allclose(slow(X), 2 * (X > 6) - 2 * left, atol=1e-15)


def test_their_sizes_are_learned():
    x = np.linspace(0, 12, 61)
    y = np.where(x > 6, 3.0, 0.0) + 0.1 * np.random.default_rng(0).standard_normal(61)
    kernel = sg.kernels.Matern32(variance=sg.fixed(0.01), lengthscale=sg.fixed(1.0))
    likelihood = sg.likelihoods.Gaussian(variance=sg.fixed(0.01))
    posterior = sg.fit(sg.GP(kernel, likelihood, sg.means.Step([6.0])), x, y, inducing="data")
    assert abs(float(posterior.model.means[0].sizes.value[0]) - 3.0) < 0.1


def test_what_is_wrong_with_them_is_said():
    with pytest.raises(ValueError, match="at must be a list of one or more inputs"):
        sg.means.Step([])
    with pytest.raises(ValueError, match="one number for each of the 2 inputs"):
        sg.means.Impulse([1.0, 2.0], sizes=[3.0])
    with pytest.raises(ValueError, match="kernel must be a stationary one"):
        sg.means.Step([1.0], kernel=sg.kernels.Scaled(sg.kernels.Matern12(), np.exp))


def test_a_fast_pattern_is_seen_in_full_among_many_observations() -> None:
    """More than are looked at one by one, and a kernel that is far slower than the pattern."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 100, 20_001))
    pattern = np.cos(2 * np.pi * 5 * x)
    y = np.sin(x / 9) + pattern + 0.1 * rng.standard_normal(len(x))
    mean = sg.means.Periodic(period=1.0, cosines=np.eye(5)[4], sines=np.zeros(5))
    kernel, noise = sg.kernels.Matern52(lengthscale=9.0), sg.likelihoods.Gaussian(variance=0.01)
    options = {"inducing": 20, "progress": False}
    seen = sg.condition(sg.GP(kernel, noise, mean), x, y, **options)
    removed = sg.condition(sg.GP(kernel, noise), x, y - pattern, **options)
    np.testing.assert_allclose(seen.elbo, removed.elbo, rtol=1e-9)
    assert mean.rate == pytest.approx(2 * np.pi * 5)
