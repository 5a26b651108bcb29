"""The prediction at some points, each separately: computed once, used for many quantities."""

from typing import Any

import numpy as np
from jaxtyping import Array, Float

from stategp._data import check_support, extra_values
from stategp._data import numbers as as_numbers
from stategp._modules import Module
from stategp._posteriors._pointwise import Latent, Points, check_levels, per_point
from stategp._runtime import on_device
from stategp.likelihoods import Likelihood


class Marginals(Module):
    """The distribution of f and of a new observation at each of some points.

    Moments, quantiles, probabilities and scores all follow from the mean and variance of f, which
    are computed once.

    >>> import numpy as np, stategp as sg
    >>> posterior = sg.condition(sg.GP(sg.kernels.Matern32()), np.arange(3), [0.0, 1.0, 0.0])
    >>> there = marginals_at(posterior, [0.5, 10.0])
    >>> (mean, variance), (low, high) = there.moments(), there.quantiles([0.1, 0.9])
    """

    likelihood: Likelihood
    mean: Latent  # of f
    variance: Latent
    extra: Points  # what the likelihood reads beside y

    def __len__(self) -> int:
        return len(self.mean)

    def __getitem__(self, part: slice) -> "Marginals":
        columns = (np.asarray(column)[part] for column in (self.mean, self.variance, self.extra))
        return Marginals(self.likelihood, *on_device(tuple(columns)))

    @property
    def normal(self) -> bool:
        """Whether a new observation is normally distributed."""
        return self.likelihood.conjugate

    def moments(self) -> tuple[Points, Points]:
        """Mean and variance of a new observation."""
        refuse_classes(self.likelihood)
        moments: tuple[Points, Points] = per_point(
            self.likelihood, "predict", self.mean, self.variance, self.extra
        )
        return moments

    def probabilities(self) -> Float[Array, "points outcomes"]:
        """The probability of each outcome, if there are few."""
        found: Float[Array, "points outcomes"] = per_point(
            self.likelihood, "outcome_probabilities", self.mean, self.variance, self.extra
        )
        return found

    def expected(self, f: Any) -> Points:
        """The mean of a new observation were f this."""
        return per_point(self.likelihood, "moments", f, self.extra)[0]

    def quantiles(self, levels: Any) -> Float[Array, "levels points"]:
        """The smallest y with P(Y ≤ y) ≥ level, a row for each level."""
        refuse_classes(self.likelihood)
        wanted = check_levels(levels)
        # All levels together: one after the other would fill more blocks.
        columns = (
            np.concatenate([c] * len(wanted)) for c in (self.mean, self.variance, self.extra)
        )
        every = np.repeat(wanted, len(self))
        rows = np.asarray(per_point(self.likelihood, "predictive_quantile", every, *columns))
        quantiles: Float[Array, "levels points"] = on_device(rows.reshape(len(wanted), len(self)))
        return quantiles

    def cdf(self, y: Any, *, strict: Any = False) -> Points:
        """P(Y ≤ y), or P(Y < y) if `strict` (NaN where y is NaN)."""
        refuse_classes(self.likelihood)
        values = as_targets(y, len(self))
        highest, below = self.likelihood.edges(values, np.asarray(self.extra))
        return self._each("predictive_cdf", below if strict else highest)

    def crps(self, y: Any) -> Points:
        """Continuous ranked probability score (NaN where y is NaN)."""
        refuse_classes(self.likelihood)
        return self._each("crps", self._supported(y))

    def log_density(self, y: Any) -> Points:
        """Log predictive density (NaN where y is NaN)."""
        values = self._supported(y)
        # A missing y must not disturb what is computed for it; a valid value stands in.
        missing = np.isnan(values)
        stand_in = values[np.argmin(missing)] if len(values) else 0.0
        density = self._each("log_predictive_density", np.where(missing, stand_in, values))
        answer: Points = on_device(np.where(missing, np.nan, np.asarray(density)))
        return answer

    def _each(self, method: str, first: np.ndarray) -> Points:
        answer: Points = per_point(
            self.likelihood, method, first, self.mean, self.variance, self.extra
        )
        return answer

    def _supported(self, y: Any) -> np.ndarray:
        values = as_targets(y, len(self))
        check_support(self.likelihood, "y_new", values, np.asarray(self.extra))
        return values


def marginals_at(posterior: Any, x_new: Any, **extras: Any) -> Marginals:
    """The prediction of a posterior at new points; extras are those of `predict_y`."""
    mean, variance = posterior.predict_f(x_new)
    likelihood = posterior.model.likelihood
    extra = on_device(np.asarray(extra_values(likelihood, len(mean), extras)))
    return Marginals(likelihood, mean, variance, extra)


def refuse_classes(likelihood: Likelihood) -> None:
    """Classes in no order have probabilities, but no mean, variance or quantile."""
    if likelihood.nominal:
        raise ValueError(
            f"the classes of {type(likelihood).__name__} have no order, so their numbers have no "
            "mean, variance, quantiles, distribution function or CRPS: ask "
            "posterior.predict_probabilities(x_new) for the probability of each class, log_density "
            "for a score"
        )


def as_targets(y_new: Any, points: int) -> np.ndarray:
    """One value for each point; a single number stands for all."""
    y = as_numbers("y_new", [y_new] * points if np.ndim(y_new) == 0 else y_new)
    if len(y) != points:
        raise ValueError(f"y_new must have one value per point, got {len(y)} for {points}")
    return y
