"""The posterior of several functions that one likelihood reads, all of them together."""

from typing import Any

import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._data import observe
from stategp._models import JointGP
from stategp._posteriors._joint_marginals import JointMarginals, joint_marginals
from stategp._posteriors._joint_outcomes import JointOutcomes
from stategp._posteriors._marginals import as_targets
from stategp._posteriors._mixed import MixedPosterior
from stategp._posteriors._pointwise import Points, check_levels
from stategp._posteriors._with_more import condition_all, rows_together
from stategp._runtime import as_count, as_key, on_device

Functions = Float[Array, "points functions"]


class JointPosterior(MixedPosterior):
    """The posterior of an `sg.JointGP`, returned by `sg.condition` and `sg.fit`.

    Moments and samples of f have a last axis with one entry for each function.
    """

    model: JointGP

    def predict_f(self, x_new: Any) -> tuple[Functions, Functions]:
        """Mean and variance of every function."""
        mean, covariance = self._joint_moments(x_new)
        variance = np.diagonal(covariance, axis1=1, axis2=2)
        moments: tuple[Functions, Functions] = on_device((mean, np.ascontiguousarray(variance)))
        return moments

    def covariance_f(self, x_new: Any) -> Float[Array, "points functions functions"]:
        """The covariance matrix of the functions at each point.

        >>> import numpy as np, stategp as sg
        >>> model = sg.JointGP(sg.kernels.Matern32(), sg.likelihoods.HeteroscedasticGaussian())
        >>> posterior = sg.condition(model, np.arange(4), [0.0, 1.0, -1.0, 0.5])
        >>> posterior.covariance_f([0.5, 10.0]).shape
        (2, 2, 2)
        """
        answer: Float[Array, "points functions functions"] = on_device(
            self._joint_moments(x_new)[1]
        )
        return answer

    def sample_f(
        self, key: PRNGKeyArray | int | Any, x_new: Any, num_samples: Any = 1
    ) -> Float[Array, "samples points functions"]:
        """Joint samples of all functions; `key` is a JAX random key or an integer seed."""
        count, x = as_count(num_samples), self._points("x_new", x_new)
        if count == 0 or len(x) == 0:
            f = np.zeros((count, len(x), self.model.functions))
        else:
            f = self._processes_at(as_key(key), x, count) + self._offsets_at(x, ())
        drawn: Float[Array, "samples points functions"] = on_device(f)
        return drawn

    def predict_y(self, x_new: Any, **extras: Any) -> tuple[Points, Points]:
        """Mean and variance of a new observation."""
        return self._there(x_new, extras).moments()

    def predict_probabilities(self, x_new: Any) -> Float[Array, "points outcomes"]:
        """The probability of each class of a new observation."""
        there = self._there(x_new, {})
        if not isinstance(there, JointOutcomes):
            raise ValueError(
                f"{type(self.model.likelihood).__name__} has no few outcomes that could each have "
                "a probability; ask for quantiles, or for the distribution function (cdf)"
            )
        return there.probabilities()

    def log_density(self, x_new: Any, y_new: Any, **extras: Any) -> Points:
        """Log predictive density of each new observation separately (NaN where y is NaN)."""
        there = self._there(x_new, extras)
        return there.log_density(as_targets(y_new, len(there)))

    def quantiles(
        self, x_new: Any, levels: Any = (0.025, 0.5, 0.975), **extras: Any
    ) -> Float[Array, "levels points"]:
        """Quantiles of a new observation at each point: the smallest y with P(Y ≤ y) ≥ level."""
        return self._there(x_new, extras).quantiles(check_levels(levels))

    def cdf(self, x_new: Any, y_new: Any, *, strict: Any = False, **extras: Any) -> Points:
        """P(Y ≤ y) of each new observation, or P(Y < y) if `strict` (NaN where y is NaN)."""
        there = self._there(x_new, extras)
        return there.cdf(as_targets(y_new, len(there)), strict=strict)

    def crps(self, x_new: Any, y_new: Any, **extras: Any) -> Points:
        """Not available where functions are dependent."""
        raise ValueError(
            "the CRPS is not available for an sg.JointGP: use log_density, or an sg.GP"
        )

    def _with_more(
        self, x_new: Any, y_new: Any, beside: dict[str, Any], options: dict[str, Any]
    ) -> "JointPosterior":
        likelihood = self.model.likelihood
        rows = rows_together(self, observe(x_new, y_new, likelihood, **beside), None)
        extras = {} if likelihood.extra is None else {likelihood.extra: rows.extra}
        found: JointPosterior = condition_all(self.model, rows.x, rows, extras, options)
        return found

    def _joint_moments(self, x_new: Any) -> tuple[np.ndarray, np.ndarray]:
        return self._moments_at(self._points("x_new", x_new), ())

    def _there(self, x_new: Any, extras: dict[str, Any]) -> JointMarginals | JointOutcomes:
        mean, covariance = self._joint_moments(x_new)
        extra = self._extra(len(mean), extras)
        return joint_marginals(self.model.likelihood, mean, covariance, extra)

    def __repr__(self) -> str:
        return self._told(f"JointPosterior of {self.model!r}")
