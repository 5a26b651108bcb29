"""New observations with few outcomes, where a likelihood reads several dependent functions."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from stategp._data import check_support
from stategp._models import JointLikelihood, bare
from stategp._modules import Module
from stategp._posteriors._marginals import refuse_classes
from stategp._posteriors._pointwise import Points, by_blocks
from stategp._runtime import on_device
from stategp.likelihoods import Likelihood


class JointOutcomes(Module):
    """The probability of each outcome 0, 1, … at some points, from which all else follows."""

    likelihood: Likelihood
    chances: np.ndarray  # (points, outcomes)
    extra: np.ndarray

    @staticmethod
    def of(
        likelihood: Likelihood, mean: np.ndarray, covariance: np.ndarray, extra: np.ndarray
    ) -> "JointOutcomes":
        """From the moments of all functions: (points, functions) and (points, functions, ·)."""
        plain = bare(likelihood)
        chances = by_blocks(lambda *block: _chances(plain, *block), mean, covariance, extra)
        return JointOutcomes(likelihood, chances, extra)

    def __len__(self) -> int:
        return len(self.chances)

    def moments(self) -> tuple[Points, Points]:
        """Mean and variance of a new observation."""
        refuse_classes(self.likelihood)
        labels = np.arange(self.chances.shape[1])
        mean = self.chances @ labels
        spread = np.sum((labels - mean[:, None]) ** 2 * self.chances, axis=1)
        answer: tuple[Points, Points] = on_device((mean, spread))
        return answer

    def probabilities(self) -> Float[Array, "points outcomes"]:
        """The probability of each outcome."""
        answer: Float[Array, "points outcomes"] = on_device(self.chances)
        return answer

    def log_density(self, y: np.ndarray) -> Points:
        """Log predictive probability (NaN where y is NaN)."""
        check_support(self.likelihood, "y_new", y, self.extra)
        missing = np.isnan(y)
        chosen = np.where(missing, 0, y).astype(int)[:, None]
        log = np.log(np.take_along_axis(self.chances, chosen, axis=1)[:, 0])
        answer: Points = on_device(np.where(missing, np.nan, log))
        return answer

    def cdf(self, y: np.ndarray, *, strict: Any = False) -> Points:
        """P(Y ≤ y), or P(Y < y) if `strict` (NaN where y is NaN)."""
        refuse_classes(self.likelihood)
        labels = np.arange(self.chances.shape[1])
        upto = labels < y[:, None] if strict else labels <= y[:, None]
        below = np.sum(np.where(upto, self.chances, 0.0), axis=1)
        answer: Points = on_device(np.where(np.isnan(y), np.nan, below))
        return answer

    def quantiles(self, levels: Any) -> Float[Array, "levels points"]:
        """The smallest y with P(Y ≤ y) ≥ level."""
        refuse_classes(self.likelihood)
        upto = np.cumsum(self.chances, axis=1)[:, :-1]
        rows = np.sum(upto[None] < np.asarray(levels)[:, None, None], axis=-1)
        answer: Float[Array, "levels points"] = on_device(1.0 * rows)
        return answer


@jax.jit
def _chances(likelihood: Likelihood, mean: Any, covariance: Any, extra: Any) -> Any:
    return JointLikelihood(likelihood).outcome_probabilities(mean, covariance, extra)
