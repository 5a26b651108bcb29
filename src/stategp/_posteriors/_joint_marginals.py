"""New observations where a likelihood reads several functions that are dependent.

The first function is treated as the likelihood treats it, given the others at quadrature nodes: the
distribution of y is a mixture over these.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._data import check_support
from stategp._modules import Module
from stategp._posteriors._joint_outcomes import JointOutcomes
from stategp._posteriors._pointwise import Points, per_point
from stategp._runtime import on_device
from stategp.likelihoods import Likelihood

_BISECTIONS = 32  # of a range that the nodes leave: to a relative 1e-9 of it


class JointMarginals(Module):
    """The distribution of new observations at some points, from the joint one of all functions."""

    likelihood: Likelihood
    mean: np.ndarray  # of the functions at each node and point: (nodes, points, functions)
    variance: np.ndarray
    weights: np.ndarray  # of the nodes
    extra: np.ndarray

    @staticmethod
    def of(
        likelihood: Likelihood, mean: np.ndarray, covariance: np.ndarray, extra: np.ndarray
    ) -> "JointMarginals":
        """From the moments of all functions: (points, functions) and (points, functions, ·)."""
        others = mean.shape[1] - 1
        nodes, weights = _nodes_of_others(likelihood, others)
        # The others first: what the first function adds to them is its own.
        order = [*range(1, others + 1), 0]
        root = _root(covariance[:, order][:, :, order])
        shift = np.einsum("nij,kj->kni", root[:, :, :others], nodes)[..., [others, *range(others)]]
        variance = np.zeros_like(mean)
        variance[:, 0] = root[:, others, others] ** 2
        spread = np.broadcast_to(variance, shift.shape)
        return JointMarginals(likelihood, mean[None] + shift, spread, weights, extra)

    def __len__(self) -> int:
        return self.mean.shape[1]

    def moments(self) -> tuple[Points, Points]:
        """Mean and variance of a new observation."""
        means, variances = self._ask("predict")
        mean = self.weights @ means
        answer: tuple[Points, Points] = on_device(
            (mean, self.weights @ (variances + (means - mean) ** 2))
        )
        return answer

    def log_density(self, y: np.ndarray) -> Points:
        """Log predictive density (NaN where y is NaN)."""
        check_support(self.likelihood, "y_new", y, self.extra)
        missing = np.isnan(y)
        stand_in = y[np.argmin(missing)] if len(y) else 0.0
        logs = self._ask("log_predictive_density", np.where(missing, stand_in, y))
        from scipy.special import logsumexp  # slow to import

        density = logsumexp(logs, axis=0, b=self.weights[:, None])
        answer: Points = on_device(np.where(missing, np.nan, density))
        return answer

    def cdf(self, y: np.ndarray, *, strict: Any = False) -> Points:
        """P(Y ≤ y), or P(Y < y) if `strict`."""
        y = np.ceil(y) - 1 if strict and self.likelihood.discrete else y
        answer: Points = on_device(self.weights @ self._ask("predictive_cdf", y))
        return answer

    def quantiles(self, levels: Any) -> Float[Array, "levels points"]:
        """The smallest y with P(Y ≤ y) ≥ level, which lies between those of the nodes."""
        rows = []
        for level in np.asarray(levels):
            points = self.mean.shape[1]
            each = self._ask("predictive_quantile", np.full(points, level))
            low, high = each.min(axis=0), each.max(axis=0)
            for _ in range(_BISECTIONS):
                middle = (low + high) / 2
                enough = np.asarray(self.cdf(middle)) >= level
                low, high = np.where(enough, low, middle), np.where(enough, middle, high)
            rows.append(np.ceil(high - 1e-6) if self.likelihood.discrete else high)
        answer: Float[Array, "levels points"] = on_device(np.stack(rows))
        return answer

    def _ask(self, method: str, *first: np.ndarray) -> Any:
        """A method of the likelihood at every node and point."""
        nodes, points, functions = self.mean.shape
        columns = [np.tile(column, nodes) for column in first]
        flat = [part.reshape(-1, functions) for part in (self.mean, self.variance)]
        answers = per_point(self.likelihood, method, *columns, *flat, np.tile(self.extra, nodes))
        return jax.tree.map(lambda leaf: np.asarray(leaf).reshape(nodes, points), answers)


def joint_marginals(
    likelihood: Likelihood, mean: np.ndarray, covariance: np.ndarray, extra: np.ndarray
) -> JointMarginals | JointOutcomes:
    """What new observations are like, from the moments of all functions."""
    kind = JointMarginals if likelihood.outcomes is None else JointOutcomes
    there: JointMarginals | JointOutcomes = kind.of(likelihood, mean, covariance, extra)
    return there


def _root(covariance: np.ndarray) -> np.ndarray:
    """Cholesky factors of small matrices, some of which may be singular."""
    root = np.zeros_like(covariance)
    for j in range(covariance.shape[1]):
        left = covariance[:, j:, j] - (root[:, j:, :j] @ root[:, j, :j, None])[..., 0]
        pivot = np.sqrt(np.maximum(left[:, :1], 0.0))
        root[:, j:, j] = np.divide(left, pivot, out=np.zeros_like(left), where=pivot > 0)
    return root


def _nodes_of_others(likelihood: Likelihood, others: int) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal nodes of all functions but the first, and their weights."""
    nodes, weights = (
        np.asarray(part) for part in likelihood.nodes(jnp.zeros(others + 1), jnp.ones(others + 1))
    )
    one = nodes[:, 0] == nodes[0, 0]  # the product rule at one node of the first function
    return nodes[one][:, 1:], weights[one] / np.sum(weights[one])
