"""Likelihoods that read several functions, which may be dependent.

For f ~ N(m, Σ), E[log p(y | f)] has derivatives E[∇ log p] in m and ½ E[∇∇ log p] in Σ. By
quadrature, f = m + L t at the product of Gauss–Hermite nodes t, with L the Cholesky factor of Σ.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stategp._linalg import psd_cholesky
from stategp.likelihoods import Likelihood

Rows = Float[Array, " rows"]
Several = Float[Array, "rows functions"]
Matrices = Float[Array, "rows functions functions"]


class JointLikelihood(eqx.Module):
    """A likelihood whose functions have a joint distribution in every row.

    One with an `expected_jointly(y, mean, covariance, extra)` has its expectations from there.
    """

    likelihood: Likelihood

    def expected_log_density(
        self, y: Rows, mean: Several, covariance: Matrices, extra: Rows
    ) -> Rows:
        """E[log p(y | f)] for f ~ N(mean, covariance)."""
        if hasattr(self.likelihood, "expected_jointly"):
            answer: Rows = self.likelihood.expected_jointly(y, mean, covariance, extra)
            return answer
        return self._average(
            lambda f: self.likelihood.log_density(y, f, extra), mean, covariance, jnp.zeros_like(y)
        )

    def expected_slopes(
        self, y: Rows, mean: Several, covariance: Matrices, extra: Rows
    ) -> tuple[Rows, Several, Matrices]:
        """E[log p(y | f)] and its derivatives in the mean and, symmetric, in the covariance."""

        def closed(mean: Array, covariance: Array, y: Array, extra: Array) -> Array:
            one = self.expected_log_density(
                y[None], mean[None], (covariance + covariance.T)[None] / 2, extra[None]
            )
            return one[0]

        if hasattr(self.likelihood, "expected_jointly"):
            slopes = jax.vmap(jax.value_and_grad(closed, argnums=(0, 1)))
            value, (slope, curvature) = slopes(mean, covariance, y, extra)
            return value, slope, curvature

        def one(f: Array, y: Array, extra: Array) -> Array:
            return self.likelihood.log_density(y[None], f[None], extra[None])[0]

        def parts(f: Several) -> Any:
            value, slope = jax.vmap(jax.value_and_grad(one))(f, y, extra)
            return value, slope, jax.vmap(jax.hessian(one))(f, y, extra) / 2

        nothing = (jnp.zeros_like(y), jnp.zeros_like(mean), jnp.zeros_like(covariance))
        answer: tuple[Rows, Several, Matrices] = self._average(parts, mean, covariance, nothing)
        return answer

    def highest_log_density(self, y: Rows, extra: Rows) -> Rows:
        """The highest log density that any f can give."""
        return self.likelihood.highest_log_density(y, extra)

    def guess_variance(self, guess: Several) -> Matrices:
        """The covariance assumed for f around its guess, to start from."""
        variances = self.likelihood.guess_variance(guess)
        return variances[..., None] * jnp.eye(guess.shape[-1])[None]

    def _average(self, function: Any, mean: Several, covariance: Matrices, start: Any) -> Any:
        functions = mean.shape[-1]
        nodes, weights = self.likelihood.nodes(jnp.zeros(functions), jnp.ones(functions))
        root = jnp.moveaxis(psd_cholesky(jnp.moveaxis(covariance, 0, -1)), -1, 0)

        def term(total: Any, node: tuple[Array, Array]) -> tuple[Any, None]:
            parts = function(mean + root @ node[0])
            return jax.tree.map(lambda a, b: a + node[1] * b, total, parts), None

        return jax.lax.scan(term, start, (nodes, weights))[0]
