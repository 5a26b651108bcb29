"""Another link: f enters through softplus(f) = log(1 + exp(f)), which is positive.

Where f is large that is f itself, so that effects add; the exponential of counts multiplies them.
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from stategp.likelihoods._base import Likelihood, Points, check_quadrature
from stategp.likelihoods._counts import NegativeBinomial, Poisson
from stategp.likelihoods._distribution import Coordinate, average
from stategp.likelihoods._gaussian import Gaussian
from stategp.likelihoods._laplace import Laplace
from stategp.likelihoods._positive import Exponential, Gamma, Weibull
from stategp.likelihoods._quadrature import expectation, expectation_and_slopes, trapezoid
from stategp.likelihoods._student_t import StudentT

_LOCATIONS = (Gaussian, StudentT, Laplace)  # read f itself
_RATES = (Poisson, NegativeBinomial, Exponential, Gamma, Weibull)  # read its exponential
_NODES = 96
_SMALL = -36.0  # where softplus(f) is exp(f), to rounding


class Softplus(Likelihood):
    """A likelihood that reads softplus(f(x)) where it would read f(x), or its exponential.

    Of `Gaussian`, `StudentT` and `Laplace` the location is positive then; y itself need not be. Of
    `Poisson`, `NegativeBinomial`, `Exponential`, `Gamma` and `Weibull` the rate or scale is
    softplus(f) instead of exp(f): large effects add instead of multiplying.

    >>> import stategp as sg
    >>> sg.likelihoods.Softplus(sg.likelihoods.Poisson())
    Softplus(Poisson())
    """

    extra_of_new: ClassVar[bool] = True

    of: Likelihood
    quadrature: int = eqx.field(static=True)

    def __init__(self, of: Likelihood, *, quadrature: int = _NODES):
        if not isinstance(of, (*_LOCATIONS, *_RATES)):
            names = ", ".join(kind.__name__ for kind in (*_LOCATIONS, *_RATES))
            raise ValueError(f"Softplus changes the link of {names}, got {of!r}")
        self.of, self.quadrature = of, check_quadrature(quadrature)

    @property
    def extra(self) -> str | None:  # type: ignore[override]  # here and below: of the instance
        return self.of.extra

    @property
    def extra_default(self) -> float:  # type: ignore[override]
        return self.of.extra_default

    @property
    def log_concave(self) -> bool:  # type: ignore[override]
        return isinstance(self.of, Poisson)  # log softplus is concave, softplus convex

    @property
    def support(self) -> str:  # type: ignore[override]
        return self.of.support

    @property
    def discrete(self) -> bool:  # type: ignore[override]
        return self.of.discrete

    def _link(self, f: Points) -> Points:
        return jax.nn.softplus(f) if isinstance(self.of, _LOCATIONS) else _log_softplus(f)

    def log_density(self, y: Points, f: Points, extra: Points) -> Points:
        return self.of.log_density(y, self._link(f), extra)

    def expected_log_density(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> Points:
        rule = (mean, variance, self.quadrature, trapezoid)
        return expectation(lambda f: self.log_density(y, f, extra), *rule)

    def expected_slopes(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> tuple[Points, Points, Points]:
        rule = (mean, variance, self.quadrature, trapezoid)
        return expectation_and_slopes(lambda f: self.log_density(y, f, extra), *rule)

    def moments(self, f: Points, extra: Points) -> tuple[Points, Points]:
        return self.of.moments(self._link(f), extra)

    def continued_cdf(self, y: Points, mean: Points, variance: Points, extra: Points) -> Points:
        def given(f: Points) -> Points:
            return self.of.continued_cdf(y, self._link(f), jnp.zeros_like(f), extra)

        return average(given, mean, variance)

    def coordinate(self, mean: Points, variance: Points, extra: Points) -> Coordinate:
        at, slope = jax.jvp(self._link, (mean,), (jnp.ones_like(mean),))
        return self.of.coordinate(at, slope**2 * variance, extra)

    def bounds(self, extra: Points) -> tuple[Points | float, Points | float]:
        return self.of.bounds(extra)

    def sample(self, key: PRNGKeyArray, f: Points, extra: Points) -> Points:
        return self.of.sample(key, self._link(f), extra)

    def guess(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        guess = self.of.guess(y, extra)
        if not isinstance(self.of, _LOCATIONS):
            guess = np.exp(guess)
        least = 0.05 * np.mean(np.abs(guess)) + 1e-3 * (not np.any(guess))
        positive = np.maximum(guess, least)
        return np.asarray(positive + np.log(-np.expm1(-positive)))  # softplus, inverted

    def valid(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return self.of.valid(y, extra)

    def highest_log_density(self, y: Points, extra: Points) -> Points:
        return self.of.highest_log_density(y, extra)

    def __repr__(self) -> str:
        return f"Softplus({self.of!r})"


def _log_softplus(f: Points) -> Points:
    """log softplus(f), which for very negative f is f."""
    low = f < _SMALL
    return jnp.where(low, f, jnp.log(jax.nn.softplus(jnp.where(low, 0.0, f))))
