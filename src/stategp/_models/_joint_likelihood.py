"""Likelihoods that read several functions, which may be dependent.

For f ~ N(m, Σ), E[log p(y | f)] has derivatives E[∇ log p] in m and ½ E[∇∇ log p] in Σ. By
quadrature, f = m + L t at nodes t of the likelihood, with L the Cholesky factor of Σ, or of the
covariance of differences if only these matter.
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

        def parts(f: Several) -> Any:
            return self.likelihood.joint_slopes(y, f, extra)

        nothing = (jnp.zeros_like(y), jnp.zeros_like(mean), jnp.zeros_like(covariance))
        answer: tuple[Rows, Several, Matrices] = self._average(parts, mean, covariance, nothing)
        return answer

    def outcome_probabilities(
        self, mean: Several, covariance: Matrices, extra: Rows
    ) -> Float[Array, "rows outcomes"]:
        """The probability of each outcome of the likelihood, if there are few."""
        values = range(self.likelihood.outcomes or 0)
        labels = [jnp.full(extra.shape, float(value)) for value in values]

        def each(f: Several) -> Float[Array, "rows outcomes"]:
            logs = [self.likelihood.log_density(label, f, extra) for label in labels]
            return jnp.exp(jnp.stack(logs, axis=-1))

        nothing = jnp.zeros((len(extra), len(labels)))
        found: Array = self._average(each, mean, covariance, nothing)
        return found / jnp.sum(found, axis=-1, keepdims=True)

    def highest_log_density(self, y: Rows, extra: Rows) -> Rows:
        """The highest log density that any f can give."""
        return self.likelihood.highest_log_density(y, extra)

    def guess_variance(self, guess: Several) -> Matrices:
        """The covariance assumed for f around its guess, to start from."""
        variances = self.likelihood.guess_variance(guess)
        return variances[..., None] * jnp.eye(guess.shape[-1])[None]

    def _average(self, function: Any, mean: Several, covariance: Matrices, start: Any) -> Any:
        nodes, weights = (jnp.asarray(part) for part in self.likelihood.joint_nodes())
        last = self.likelihood.differences  # stays where its mean is: any one may
        root = jnp.moveaxis(psd_cholesky(jnp.moveaxis(spread_of(covariance, last), 0, -1)), -1, 0)

        def term(total: Any, node: tuple[Array, Array]) -> tuple[Any, None]:
            away = jnp.pad(root @ node[0], ((0, 0), (0, int(last))))
            parts = function(mean + away)
            return jax.tree.map(lambda a, b: a + node[1] * b, total, parts), None

        return jax.lax.scan(term, start, (nodes, weights))[0]


def spread_of(covariance: Matrices, differences: bool) -> Float[Array, "rows spread spread"]:
    """The covariance of the functions, or of their differences from the last one."""
    if not differences:
        return covariance
    inner, cross = covariance[:, :-1, :-1], covariance[:, :-1, -1]
    whole = inner - cross[:, :, None] - cross[:, None] + covariance[:, -1:, -1:]
    return (whole + whole.mT) / 2
