"""Observations with outliers whose scale varies along x."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from stategp.likelihoods._base import Latent, Likelihood, Points, check_quadrature
from stategp.likelihoods._distribution import Coordinate, average
from stategp.likelihoods._heteroscedastic import HeteroscedasticGaussian
from stategp.likelihoods._quadrature import expectation, hermite
from stategp.likelihoods._student_t import StudentT
from stategp.parameters import Parameter, Value, positive

_NODES = 24  # for the scale; the location needs none of its own


class HeteroscedasticStudentT(Likelihood):
    """y = f₁(x) + exp(f₂(x)/2) · t, where t has a Student-t distribution with `df` degrees.

    Two latent functions: the location, and the logarithm of the squared scale. Predictions give the
    location as the mean of y, even if `df` ≤ 1, and an infinite variance if `df` ≤ 2.

    >>> import stategp as sg
    >>> sg.likelihoods.HeteroscedasticStudentT(df=3.0)
    HeteroscedasticStudentT(df=3)
    """

    latents: ClassVar[int] = 2

    df: Parameter
    quadrature: int = eqx.field(static=True)

    def __init__(self, *, df: Value = None, quadrature: int = _NODES):
        self.df = positive("df", df, default=4.0, role="tails")
        self.quadrature = check_quadrature(quadrature)

    @property
    def standard(self) -> StudentT:
        """The distribution of t, with scale one."""
        return StudentT(df=self.df, scale=1.0)

    def _scaled(
        self, y: Points, mean: Latent, variance: Latent, log_square: Points
    ) -> tuple[Points, Points, Points]:
        """The residual from the location and its variance, in units of the scale."""
        size = jnp.exp(-log_square / 2)
        return (y - mean[..., 0]) * size, jnp.zeros_like(y), variance[..., 0] * size**2

    def log_density(self, y: Points, f: Latent, extra: Points) -> Points:
        residual = (y - f[..., 0]) * jnp.exp(-f[..., 1] / 2)
        inner = self.standard.log_density(residual, jnp.zeros_like(y), extra)
        return inner - f[..., 1] / 2

    def expected_log_density(
        self, y: Points, mean: Latent, variance: Latent, extra: Points
    ) -> Points:
        def given_scale(log_square: Points) -> Points:
            columns = self._scaled(y, mean, variance, log_square)
            return self.standard.expected_log_density(*columns, extra)

        rule = (mean[..., 1], variance[..., 1], self.quadrature)
        return expectation(given_scale, *rule) - mean[..., 1] / 2

    def moments(self, f: Latent, extra: Points) -> tuple[Points, Points]:
        return self.predict(f, jnp.zeros_like(f), extra)

    def predict(self, mean: Latent, variance: Latent, extra: Points) -> tuple[Points, Points]:
        square = jnp.exp(mean[..., 1] + variance[..., 1] / 2)
        nothing = jnp.zeros_like(square)
        _, of_t = self.standard.predict(nothing, nothing, extra)
        return mean[..., 0], variance[..., 0] + square * of_t

    def log_predictive_density(
        self, y: Points, mean: Latent, variance: Latent, extra: Points
    ) -> Points:
        nodes, weights = hermite(self.quadrature)
        deviation = jnp.sqrt(variance[..., 1])

        def at(node: Any) -> Points:
            log_square = mean[..., 1] + deviation * node
            columns = self._scaled(y, mean, variance, log_square)
            return self.standard.log_predictive_density(*columns, extra) - log_square / 2

        logs = jax.lax.map(at, jnp.asarray(nodes))
        shape = (len(weights),) + (1,) * y.ndim
        return jax.nn.logsumexp(logs, axis=0, b=jnp.asarray(weights).reshape(shape))

    def continued_cdf(self, y: Points, mean: Latent, variance: Latent, extra: Points) -> Points:
        def given_scale(log_square: Points) -> Points:
            columns = self._scaled(y, mean, variance, log_square)
            return self.standard.continued_cdf(*columns, extra)

        return average(given_scale, mean[..., 1], variance[..., 1])

    def coordinate(self, mean: Latent, variance: Latent, extra: Points) -> Coordinate:
        square = jnp.exp(mean[..., 1] + variance[..., 1] / 2)
        return Coordinate("real", mean[..., 0], jnp.sqrt(variance[..., 0] + square))

    def sample(self, key: PRNGKeyArray, f: Latent, extra: Points) -> Points:
        drawn = jax.random.t(key, self.df.value, f.shape[:-1])
        return f[..., 0] + jnp.exp(f[..., 1] / 2) * drawn

    def guess_variance(self, guess: Latent) -> Latent:
        return HeteroscedasticGaussian().guess_variance(guess)

    def guess(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return HeteroscedasticGaussian().guess(y, extra)
