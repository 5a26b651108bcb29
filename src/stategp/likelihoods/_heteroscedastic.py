"""Gaussian observations whose noise varies along x."""

import math
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import PRNGKeyArray

from stategp.likelihoods._base import QUADRATURE, Latent, Likelihood, Points, check_quadrature
from stategp.likelihoods._distribution import average
from stategp.likelihoods._quadrature import hermite


class HeteroscedasticGaussian(Likelihood):
    """y = f₁(x) + noise of variance exp(f₂(x)): two latent functions, the mean and the noise.

    >>> import stategp as sg
    >>> sg.likelihoods.HeteroscedasticGaussian().latents
    2
    """

    latents: ClassVar[int] = 2
    log_concave: ClassVar[bool] = True  # in each latent on its own

    quadrature: int = eqx.field(static=True)

    def __init__(self, *, quadrature: int = QUADRATURE):
        self.quadrature = check_quadrature(quadrature)

    def log_density(self, y: Points, f: Latent, extra: Points) -> Points:
        return _log_normal((y - f[..., 0]) ** 2 * jnp.exp(-f[..., 1]), f[..., 1])

    def expected_log_density(
        self, y: Points, mean: Latent, variance: Latent, extra: Points
    ) -> Points:
        square = (y - mean[..., 0]) ** 2 + variance[..., 0]
        return _log_normal(square * jnp.exp(variance[..., 1] / 2 - mean[..., 1]), mean[..., 1])

    def expected_jointly(
        self, y: Points, mean: Latent, covariance: Latent, extra: Points
    ) -> Points:
        """E[log p(y | f)] where the two functions are dependent: (points, 2, 2)."""
        # Under N(mean, covariance) times exp(−f₂), f₁ has its mean moved by minus the covariance.
        away = y - mean[..., 0] + covariance[..., 0, 1]
        weight = jnp.exp(covariance[..., 1, 1] / 2 - mean[..., 1])
        return _log_normal((away**2 + covariance[..., 0, 0]) * weight, mean[..., 1])

    def moments(self, f: Latent, extra: Points) -> tuple[Points, Points]:
        return f[..., 0], jnp.exp(f[..., 1])

    def predict(self, mean: Latent, variance: Latent, extra: Points) -> tuple[Points, Points]:
        noise = jnp.exp(mean[..., 1] + variance[..., 1] / 2)
        return mean[..., 0], variance[..., 0] + noise

    def log_predictive_density(
        self, y: Points, mean: Latent, variance: Latent, extra: Points
    ) -> Points:
        # f₁ in closed form, f₂ at the nodes.
        nodes, weights = hermite(self.quadrature)
        deviation = jnp.sqrt(variance[..., 1])
        square = (y - mean[..., 0]) ** 2

        def at(node: Any) -> Points:
            total = variance[..., 0] + jnp.exp(mean[..., 1] + deviation * node)
            return _log_normal(square / total, jnp.log(total))

        logs = jax.vmap(at)(jnp.asarray(nodes))
        shape = (len(weights),) + (1,) * y.ndim
        return jax.nn.logsumexp(logs, axis=0, b=jnp.asarray(weights).reshape(shape))

    def continued_cdf(self, y: Points, mean: Latent, variance: Latent, extra: Points) -> Points:
        def cdf_at_noise(f: Points) -> Points:
            return ndtr((y - mean[..., 0]) / jnp.sqrt(variance[..., 0] + jnp.exp(f)))

        return average(cdf_at_noise, mean[..., 1], variance[..., 1])

    def sample(self, key: PRNGKeyArray, f: Latent, extra: Points) -> Points:
        return f[..., 0] + jnp.exp(f[..., 1] / 2) * jax.random.normal(key, f.shape[:-1])

    def guess_variance(self, guess: Latent) -> Latent:
        """The mean is known to within the noise; else a perfect guess would say nothing of it."""
        noise = jnp.exp(guess[..., 1])
        return jnp.stack([noise, jnp.zeros_like(noise)], axis=-1)

    def guess(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        window = max(3, len(y) // 10)
        centred = y - np.mean(y)  # so that running sums keep their digits
        square = _moving_average((centred - _moving_average(centred, window)) ** 2, window)
        # Where y does not vary over a window: a small part of its overall size.
        least = 1e-6 * np.mean(square) + 1e-12 * np.mean(y**2)
        return np.stack([y, np.log(np.maximum(square, least or 1.0))], axis=-1)


def _log_normal(square: Points, log_variance: Points) -> Points:
    return -(square + log_variance + math.log(2 * math.pi)) / 2


def _moving_average(values: np.ndarray, window: int) -> np.ndarray:
    """The mean over a window around each entry, shorter at the ends."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    at = np.arange(len(values))
    start = np.maximum(at - window // 2, 0)
    end = np.minimum(at + window // 2 + 1, len(values))
    return (sums[end] - sums[start]) / (end - start)
