"""Several outputs, each with a likelihood of its own, observed in rows of any order."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from stategp._modules import Module
from stategp.likelihoods import Likelihood

Rows = Float[Array, " rows"]
_STAND_INS = (1.0, 0.5, 0.0)  # one of them is a possible value, whatever the likelihood


class OutputLikelihoods(Module):
    """The likelihoods of several outputs."""

    each: tuple[Likelihood, ...]

    @property
    def conjugate(self) -> bool:
        """Whether all observations are Gaussian."""
        return all(likelihood.conjugate for likelihood in self.each)

    @property
    def log_concave(self) -> bool:
        """Whether all are."""
        return all(likelihood.log_concave for likelihood in self.each)

    def at(self, outputs: Int[Array, " rows"]) -> "RowLikelihood":
        """The likelihood of every row, by the number of its output."""
        return RowLikelihood(self.each, outputs)


class RowLikelihood(Module):
    """A likelihood whose parameters, and whose kind, differ from row to row.

    Likelihoods of one kind are one computation with parameters looked up for every row. Each kind
    is computed for all rows; in those of other kinds a value that is possible stands in for y.
    """

    each: tuple[Likelihood, ...]
    outputs: Int[Array, " rows"]

    def expected_slopes(
        self, y: Rows, mean: Rows, variance: Rows, extra: Rows
    ) -> tuple[Rows, Rows, Rows]:
        """E[log p(y | f)] and its derivatives in the mean and variance of f."""
        return self._row_by_row("expected_slopes", y, mean, variance, extra)

    def expected_log_density(self, y: Rows, mean: Rows, variance: Rows, extra: Rows) -> Rows:
        """E[log p(y | f)]."""
        return self._row_by_row("expected_log_density", y, mean, variance, extra)

    def highest_log_density(self, y: Rows, extra: Rows) -> Rows:
        """The highest log density that any f can give."""
        return self._row_by_row("highest_log_density", y, extra)

    def guess_variance(self, guess: Rows) -> Rows:
        """The variance assumed for f around its guess, to start from."""
        total = jnp.zeros_like(guess)
        for mine, likelihood in self.by_kind():
            there = jax.vmap(lambda one, f: one.guess_variance(f))(likelihood, guess)
            total = jnp.where(mine, there, total)
        return total

    def _row_by_row(self, method: str, *columns: Rows) -> Any:
        return self.row_by_row(lambda one, *row: getattr(one, method)(*row), *columns)

    def by_kind(self) -> list[tuple[Bool[Array, " rows"], Any]]:
        """Which rows each kind has, and the likelihood of every row were it of that kind."""
        return [(self._among(members), likelihood) for members, likelihood in self._kinds()]

    def row_by_row(self, of: Callable[..., Any], *columns: Any) -> Any:
        """A function of a likelihood and a row, of the likelihood of every row.

        Of the columns the first is y, the last what is read beside it.
        """
        kinds, answer = self._kinds(), None
        for members, likelihood in kinds:
            mine = self._among(members)
            given = list(columns)
            if len(kinds) > 1:
                first = self.each[members[0]]
                given[0] = jnp.where(mine, given[0], _possible(first))
                given[-1] = jnp.where(mine, given[-1], first.extra_default)

            here = jax.vmap(of)(likelihood, *given)
            if answer is None:
                answer = here
            else:
                answer = jax.tree.map(lambda a, b, m=mine: _where(m, a, b), here, answer)
        return answer

    def _among(self, members: list[int]) -> Any:
        table = np.isin(np.arange(len(self.each)), members)
        return jnp.asarray(table)[self.outputs]

    def _kinds(self) -> list[tuple[list[int], Any]]:
        """Outputs whose likelihoods are alike, and the likelihood of every row."""
        alike: dict[Any, list[int]] = {}
        for number, likelihood in enumerate(self.each):
            shapes = tuple(np.shape(leaf) for leaf in jax.tree.leaves(likelihood))
            alike.setdefault((jax.tree.structure(likelihood), shapes), []).append(number)
        kinds = []
        for members in alike.values():
            position = np.zeros(len(self.each), dtype=int)
            position[members] = np.arange(len(members))
            at = jnp.asarray(position)[self.outputs]
            stacked = jax.tree.map(
                lambda *leaves: jnp.stack(leaves), *(self.each[i] for i in members)
            )
            kinds.append((members, jax.tree.map(lambda v, at=at: v[at], stacked)))
        return kinds


def _where(mine: Any, here: Any, other: Any) -> Any:
    return jnp.where(mine.reshape(-1, *[1] * (here.ndim - 1)), here, other)


def _possible(likelihood: Likelihood) -> float:
    extra = np.asarray([likelihood.extra_default])
    for value in _STAND_INS:
        if likelihood.valid(np.asarray([value]), extra)[0]:
            return value
    return _STAND_INS[0]
