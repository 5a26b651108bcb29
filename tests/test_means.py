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
