"""Several outputs, some of which read several functions, observed in rows of any order.

Rows have as many functions as the output that reads most; an output that reads fewer reads the
first ones.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stategp._models._joint_likelihood import JointLikelihood
from stategp._models._row_likelihoods import RowLikelihood
from stategp._modules import Module
from stategp.likelihoods import Likelihood

Rows = Float[Array, " rows"]
Several = Float[Array, "rows functions"]
Matrices = Float[Array, "rows functions functions"]


class RowFunctions(Module):
    """A likelihood whose kind differs from row to row, of functions that may be dependent."""

    rows: RowLikelihood
    functions: int = eqx.field(static=True)

    def expected_log_density(
        self, y: Rows, mean: Several, covariance: Matrices, extra: Rows
    ) -> Rows:
        """E[log p(y | f)] for f ~ N(mean, covariance)."""

        def of(one: Likelihood, y: Any, mean: Any, covariance: Any, extra: Any) -> Any:
            if one.latents == 1:
                return one.expected_log_density(y, mean[0], covariance[0, 0], extra)
            there = _first(one, y, mean, covariance, extra)
            return JointLikelihood(one).expected_log_density(*there)[0]

        answer: Rows = self.rows.row_by_row(of, y, mean, covariance, extra)
        return answer

    def expected_slopes(
        self, y: Rows, mean: Several, covariance: Matrices, extra: Rows
    ) -> tuple[Rows, Several, Matrices]:
        """E[log p(y | f)] and its derivatives in the mean and, symmetric, in the covariance."""

        def of(one: Likelihood, y: Any, mean: Any, covariance: Any, extra: Any) -> Any:
            more = (0, self.functions - one.latents)
            if one.latents == 1:
                value, slope, bend = one.expected_slopes(y, mean[0], covariance[0, 0], extra)
                return value, jnp.pad(slope[None], more), jnp.pad(bend[None, None], (more, more))
            there = _first(one, y, mean, covariance, extra)
            value, slopes, bends = JointLikelihood(one).expected_slopes(*there)
            return value[0], jnp.pad(slopes[0], more), jnp.pad(bends[0], (more, more))

        answer: tuple[Rows, Several, Matrices] = self.rows.row_by_row(
            of, y, mean, covariance, extra
        )
        return answer

    def highest_log_density(self, y: Rows, extra: Rows) -> Rows:
        """The highest log density that any f can give."""
        return self.rows.highest_log_density(y, extra)

    def guess_variance(self, guess: Several) -> Matrices:
        """The covariance assumed for f around its guess, to start from."""
        total = jnp.zeros_like(guess)
        for mine, likelihood in self.rows.by_kind():
            latents = likelihood.latents
            part = guess[:, 0] if latents == 1 else guess[:, :latents]
            there = jax.vmap(lambda one, f: one.guess_variance(f))(likelihood, part)
            there = there[:, None] if latents == 1 else there
            there = jnp.pad(there, ((0, 0), (0, self.functions - latents)))
            total = jnp.where(mine[:, None], there, total)
        return total[..., None] * jnp.eye(self.functions)[None]


def _first(one: Likelihood, y: Any, mean: Any, covariance: Any, extra: Any) -> tuple[Any, ...]:
    """What the likelihood reads, as a single row."""
    count = one.latents
    return y[None], mean[None, :count], covariance[None, :count, :count], extra[None]
