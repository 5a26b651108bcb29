"""Counts with more zeros than their rate explains."""

import abc
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from stategp._arguments import whole_number
from stategp.likelihoods._base import Likelihood, Points, is_count
from stategp.likelihoods._counts import NegativeBinomial, Poisson
from stategp.likelihoods._distribution import Coordinate
from stategp.likelihoods._quadrature import Tilted, expectation, expectation_and_slopes, trapezoid
from stategp.parameters import Parameter, Value, positive

_NODES = 128
_LARGEST = 300.0  # logarithm of a rate


class _ZeroInflated(Likelihood):
    """A count, replaced by a zero with a probability that does not depend on f."""

    extra: ClassVar[str | None] = "exposure"
    extra_default: ClassVar[float] = 1.0
    support: ClassVar[str] = "be a count 0, 1, 2, …"
    discrete: ClassVar[bool] = True

    odds: eqx.AbstractVar[Parameter]
    quadrature: eqx.AbstractVar[int]

    @property
    @abc.abstractmethod
    def counts(self) -> Likelihood:
        """How counts depend on f where they are not replaced."""

    @property
    def share(self) -> Array:
        """The probability that a count is replaced by zero."""
        return self.odds.value / (1 + self.odds.value)

    def _logs(self) -> tuple[Array, Array]:
        """The logarithms of that probability and of its complement."""
        rest = -jnp.log1p(self.odds.value)
        return jnp.log(self.odds.value) + rest, rest

    def _log_zero(self, f: Points, extra: Points) -> Points:
        """log p(0 | f)."""
        replaced, counted = self._logs()
        low = jnp.minimum(f, _LARGEST)  # beyond there is no zero, and its slope would overflow
        plain = self.counts.log_density(jnp.zeros_like(f), low, extra)
        return jnp.logaddexp(replaced, counted + plain)

    def log_density(self, y: Points, f: Points, extra: Points) -> Points:
        some = self._logs()[1] + self.counts.log_density(y, f, extra)
        return jnp.where(y == 0, self._log_zero(f, extra), some)

    def expected_log_density(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> Points:
        zero = expectation(
            lambda f: self._log_zero(f, extra), mean, variance, self.quadrature, trapezoid
        )
        some = self._logs()[1] + self.counts.expected_log_density(y, mean, variance, extra)
        return jnp.where(y == 0, zero, some)

    def expected_slopes(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> tuple[Points, Points, Points]:
        zero = expectation_and_slopes(
            lambda f: self._log_zero(f, extra), mean, variance, self.quadrature, trapezoid
        )
        value, slope, curvature = self.counts.expected_slopes(y, mean, variance, extra)
        some = (self._logs()[1] + value, slope, curvature)
        first, second, third = (jnp.where(y == 0, a, b) for a, b in zip(zero, some, strict=True))
        return first, second, third

    def moments(self, f: Points, extra: Points) -> tuple[Points, Points]:
        return self._thinned(*self.counts.moments(f, extra))

    def predict(self, mean: Points, variance: Points, extra: Points) -> tuple[Points, Points]:
        return self._thinned(*self.counts.predict(mean, variance, extra))

    def _thinned(self, centre: Points, spread: Points) -> tuple[Points, Points]:
        kept = 1 - self.share
        return kept * centre, kept * (spread + self.share * centre**2)

    def tilted(
        self, y: Points, mean: Points, variance: Points, extra: Points, power: float = 1.0
    ) -> Tilted:
        some = self.counts.tilted(jnp.maximum(y, 1.0), mean, variance, extra, power)
        some = some._replace(log_normaliser=some.log_normaliser + power * self._logs()[1])
        zero = self._tilted_by_zero(mean, variance, extra, power)
        chosen = (jnp.where(y == 0, a, b) for a, b in zip(zero, some, strict=True))
        return Tilted(*chosen)

    def _tilted_by_zero(
        self, mean: Points, variance: Points, extra: Points, power: float
    ) -> Tilted:
        """N(f) · p(0 | f)^power, which may have two peaks: on the nodes of N(f)."""
        nodes, weights = (jnp.asarray(v) for v in trapezoid(2 * self.quadrature))
        column = (-1, *[1] * mean.ndim)
        deviation = jnp.sqrt(variance)
        z = jnp.broadcast_to(nodes.reshape(column), (len(nodes), *mean.shape))
        logs = jax.vmap(lambda z: power * self._log_zero(mean + deviation * z, extra))(z)
        total = jax.nn.logsumexp(logs, axis=0, b=weights.reshape(column))
        mass = weights.reshape(column) * jnp.exp(logs - total[None])
        shift = jnp.sum(mass * z, axis=0)
        spread = jnp.sum(mass * (z - shift[None]) ** 2, axis=0)
        return Tilted(total, mean + deviation * shift, variance * spread)

    def log_predictive_density(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> Points:
        replaced, counted = self._logs()
        some = counted + self.counts.log_predictive_density(y, mean, variance, extra)
        return jnp.where(y == 0, jnp.logaddexp(replaced, some), some)

    def continued_cdf(self, y: Points, mean: Points, variance: Points, extra: Points) -> Points:
        inner = self.counts.continued_cdf(y, mean, variance, extra)
        return self.share + (1 - self.share) * inner

    def coordinate(self, mean: Points, variance: Points, extra: Points) -> Coordinate:
        return self.counts.coordinate(mean, variance, extra)

    def bounds(self, extra: Points) -> tuple[Points | float, Points | float]:
        return 0.0, jnp.inf

    def sample(self, key: PRNGKeyArray, f: Points, extra: Points) -> Points:
        of_zeros, of_counts = jax.random.split(key)
        replaced = jax.random.bernoulli(of_zeros, self.share, f.shape)
        return jnp.where(replaced, 0.0, self.counts.sample(of_counts, f, extra))

    def guess(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return self.counts.guess(y, extra)

    def valid(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return is_count(y)

    def highest_log_density(self, y: Points, extra: Points) -> Points:
        return jnp.zeros_like(y)  # a probability


class ZeroInflatedPoisson(_ZeroInflated):
    """Counts of `Poisson`, replaced by zeros with the probability odds / (1 + odds).

    >>> import stategp as sg
    >>> sg.likelihoods.ZeroInflatedPoisson(odds=0.25)  # one in five
    ZeroInflatedPoisson(odds=0.25)
    """

    odds: Parameter
    quadrature: int = eqx.field(static=True)

    def __init__(self, *, odds: Value = None, quadrature: int = _NODES):
        self.odds = positive("odds", odds, default=0.25, role="shape")
        self.quadrature = whole_number("quadrature", quadrature, least=16)

    @property
    def counts(self) -> Likelihood:
        return Poisson()


class ZeroInflatedNegativeBinomial(_ZeroInflated):
    """Counts of `NegativeBinomial`, replaced by zeros with the probability odds / (1 + odds).

    >>> import stategp as sg
    >>> sg.likelihoods.ZeroInflatedNegativeBinomial(odds=0.25, shape=2.0)
    ZeroInflatedNegativeBinomial(odds=0.25, shape=2)
    """

    odds: Parameter
    shape: Parameter
    quadrature: int = eqx.field(static=True)

    def __init__(self, *, odds: Value = None, shape: Value = None, quadrature: int = _NODES):
        self.odds = positive("odds", odds, default=0.25, role="shape")
        self.shape = positive("shape", shape, default=1.0, role="shape")
        self.quadrature = whole_number("quadrature", quadrature, least=16)

    @property
    def counts(self) -> Likelihood:
        return NegativeBinomial(shape=self.shape)
