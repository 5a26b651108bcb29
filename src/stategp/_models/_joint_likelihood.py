"""Likelihoods that read several functions, which may be dependent.

For f ~ N(m, Σ), E[log p(y | f)] has derivatives E[∇ log p] in m and ½ E[∇∇ log p] in Σ. By
quadrature, f = m + L t at nodes t of the likelihood, with L the Cholesky factor of Σ, or of the
covariance of differences if only these matter.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stategp._linalg import (
    lower_triangle,
    psd_cholesky,
    solve_upper,
    symmetric,
    times,
    transpose,
)
from stategp._modules import Module
from stategp.likelihoods import Likelihood

_LEAST = 1e-6  # of a variance that is not known from others, or a standard deviation
Rows = Float[Array, " rows"]
Several = Float[Array, "rows functions"]
Matrices = Float[Array, "rows functions functions"]
Spread = Float[Array, "rows spread spread"]  # of what varies between nodes


class JointLikelihood(Module):
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
            lambda f, _: self.likelihood.log_density(y, f, extra),
            mean,
            self._root(covariance),
            jnp.zeros_like(y),
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

        root = self._root(covariance)
        dims = root.shape[-1]

        def parts(f: Several, node: Float[Array, " dims"]) -> Any:
            value, slope, bend = self.likelihood.joint_slopes(y, f, extra)
            return value, slope, bend, slope[:, :dims, None] * node[None, None]

        nothing = (*map(jnp.zeros_like, (y, mean, covariance)), jnp.zeros_like(root))
        value, slope, bend, pull = self._average(parts, mean, root, nothing)
        return value, slope, self._in_covariance(covariance, root, pull, bend)

    def _in_covariance(
        self, covariance: Matrices, root: Spread, pull: Spread, bend: Matrices
    ) -> Matrices:
        """The derivative in the covariance of the sum over nodes, as it is computed.

        That of the integral, ½ E[∇∇ log p], differs by the error of quadrature, and a search for
        the highest sum would not find its end. It stands in where the covariance is singular.
        """
        L, G = (jnp.moveaxis(part, 0, -1) for part in (root, pull))
        half = 1 - jnp.eye(len(L)) / 2
        inner = lower_triangle(times(transpose(L), G)) * half[..., None]
        outer = solve_upper(L, transpose(solve_upper(L, transpose(inner))))
        exact = jnp.moveaxis(symmetric(outer), -1, 0)
        spread = spread_of(covariance, self.likelihood.differences)
        variances = jnp.diagonal(spread, axis1=1, axis2=2)
        pivots = jnp.diagonal(root, axis1=1, axis2=2) ** 2
        wide = jnp.all((pivots > _LEAST * variances) & (variances > _LEAST**2), axis=1)
        if self.likelihood.differences:
            last = -jnp.sum(exact, axis=1, keepdims=True)
            exact = jnp.concatenate([exact, last], axis=1)
            exact = jnp.concatenate([exact, -jnp.sum(exact, axis=2, keepdims=True)], axis=2)
        return jnp.where(wide[:, None, None], exact, bend)

    def outcome_probabilities(
        self, mean: Several, covariance: Matrices, extra: Rows
    ) -> Float[Array, "rows outcomes"]:
        """The probability of each outcome of the likelihood, if there are few."""
        values = range(self.likelihood.outcomes or 0)
        labels = [jnp.full(extra.shape, float(value)) for value in values]

        def each(f: Several, _: Array) -> Float[Array, "rows outcomes"]:
            logs = [self.likelihood.log_density(label, f, extra) for label in labels]
            return jnp.exp(jnp.stack(logs, axis=-1))

        nothing = jnp.zeros((len(extra), len(labels)))
        found: Array = self._average(each, mean, self._root(covariance), nothing)
        return found / jnp.sum(found, axis=-1, keepdims=True)

    def highest_log_density(self, y: Rows, extra: Rows) -> Rows:
        """The highest log density that any f can give."""
        return self.likelihood.highest_log_density(y, extra)

    def guess_variance(self, guess: Several) -> Matrices:
        """The covariance assumed for f around its guess, to start from."""
        variances = self.likelihood.guess_variance(guess)
        return variances[..., None] * jnp.eye(guess.shape[-1])[None]

    def _root(self, covariance: Matrices) -> Spread:
        """Cholesky factors."""
        spread = jnp.moveaxis(spread_of(covariance, self.likelihood.differences), 0, -1)
        return jnp.moveaxis(psd_cholesky(spread), -1, 0)

    def _average(self, function: Any, mean: Several, root: Spread, start: Any) -> Any:
        """Of a function of f and of the node where it is."""
        nodes, weights = (jnp.asarray(part) for part in self.likelihood.joint_nodes())
        stays = mean.shape[-1] - root.shape[-1]  # where only differences matter, the last one

        def term(total: Any, node: tuple[Array, Array]) -> tuple[Any, None]:
            away = jnp.pad(root @ node[0], ((0, 0), (0, stays)))
            parts = function(mean + away, node[0])
            return jax.tree.map(lambda a, b: a + node[1] * b, total, parts), None

        return jax.lax.scan(term, start, (nodes, weights))[0]


def spread_of(covariance: Matrices, differences: bool) -> Spread:
    """The covariance of the functions, or of their differences from the last one."""
    if not differences:
        return covariance
    inner, cross = covariance[:, :-1, :-1], covariance[:, :-1, -1]
    whole = inner - cross[:, :, None] - cross[:, None] + covariance[:, -1:, -1:]
    return (whole + whole.mT) / 2
