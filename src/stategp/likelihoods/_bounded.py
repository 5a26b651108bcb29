"""Observations between limits, normal once they are stretched to the whole line."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from stategp._arguments import as_number
from stategp.likelihoods._base import Likelihood, Points
from stategp.likelihoods._gaussian import Gaussian
from stategp.likelihoods._quadrature import Tilted
from stategp.parameters import Parameter, Value, positive

_LARGEST = 300.0  # logarithm of y
_NODES = np.linspace(-9.0, 9.0, 109)  # of a normal variable: the trapezoidal rule, to all digits
_WEIGHTS = np.exp(-(_NODES**2) / 2) / np.sum(np.exp(-(_NODES**2) / 2))


class Bounded(Likelihood):
    """Observations above a floor, below a cap, or between both.

    With g(y) = log(y − floor), −log(cap − y), or log((y − floor)/(cap − y)): g(y) = f(x) + noise of
    the given variance. The median of y is the value with g(y) = f.

    >>> import stategp as sg
    >>> sg.likelihoods.Bounded(floor=0.0, cap=100.0)
    Bounded(floor=0.0, cap=100.0, variance=1)
    """

    log_concave: ClassVar[bool] = True
    support: ClassVar[str] = "lie strictly between `floor` and `cap`"

    floor: float | None = eqx.field(static=True)
    cap: float | None = eqx.field(static=True)
    variance: Parameter

    def __init__(self, floor: Any = 0.0, cap: Any = 1.0, *, variance: Value = None):
        self.floor, self.cap = _limits(floor, cap)
        if self.floor is None and self.cap is None:
            raise ValueError("give a floor, a cap or both; without limits there is Gaussian")
        self.variance = positive("variance", variance, default=1.0, role="noise")

    def stretched(self, y: Any) -> Any:
        """g(y), of arrays of NumPy or of JAX."""
        log = np.log if isinstance(y, np.ndarray) else jnp.log
        below, above = self._distances(y)
        if self.floor is None:
            return -log(above)
        return log(below) if self.cap is None else log(below) - log(above)

    def within(self, f: Points) -> Points:
        """The y with g(y) = f."""
        if self.cap is None:
            return (self.floor or 0.0) + jnp.exp(jnp.minimum(f, _LARGEST))
        if self.floor is None:
            return self.cap - jnp.exp(jnp.minimum(-f, _LARGEST))
        return self.floor + (self.cap - self.floor) * jax.nn.sigmoid(f)

    def log_slope(self, y: Points) -> Points:
        """log g′(y)."""
        below, above = self._distances(y)
        if self.floor is None:
            return -jnp.log(above)
        return -jnp.log(below) if self.cap is None else jnp.log(1 / below + 1 / above)

    def _distances(self, y: Any) -> tuple[Any, Any]:
        return (
            y if self.floor is None else y - self.floor,
            y if self.cap is None else self.cap - y,
        )

    @property
    def of_stretched(self) -> Gaussian:
        """How g(y) depends on f."""
        return Gaussian(variance=self.variance)

    def log_density(self, y: Points, f: Points, extra: Points) -> Points:
        inner = self.of_stretched.log_density(self.stretched(y), f, jnp.zeros_like(f))
        return inner + self.log_slope(y)

    def expected_log_density(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> Points:
        inner = self.of_stretched.expected_log_density(
            self.stretched(y), mean, variance, jnp.zeros_like(mean)
        )
        return inner + self.log_slope(y)

    def moments(self, f: Points, extra: Points) -> tuple[Points, Points]:
        return self.predict(f, jnp.zeros_like(f), extra)

    def predict(self, mean: Points, variance: Points, extra: Points) -> tuple[Points, Points]:
        total = variance + self.variance.value
        if self.floor is not None and self.cap is not None:
            z = jnp.asarray(_NODES).reshape(-1, *[1] * mean.ndim)
            values = self.within(mean[None] + jnp.sqrt(total)[None] * z)
            centre = jnp.tensordot(_WEIGHTS, values, axes=1)
            return centre, jnp.tensordot(_WEIGHTS, (values - centre[None]) ** 2, axes=1)
        away = jnp.exp((mean if self.cap is None else -mean) + total / 2)
        centre = self.floor + away if self.floor is not None else (self.cap or 0.0) - away
        return centre, away**2 * jnp.expm1(total)

    def tilted(
        self, y: Points, mean: Points, variance: Points, extra: Points, power: float = 1.0
    ) -> Tilted:
        found = self.of_stretched.tilted(
            self.stretched(y), mean, variance, jnp.zeros_like(mean), power
        )
        return found._replace(log_normaliser=found.log_normaliser + power * self.log_slope(y))

    def log_predictive_density(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> Points:
        inner = self.of_stretched.log_predictive_density(
            self.stretched(y), mean, variance, jnp.zeros_like(mean)
        )
        return inner + self.log_slope(y)

    def continued_cdf(self, y: Points, mean: Points, variance: Points, extra: Points) -> Points:
        none = jnp.zeros_like(mean)
        return self.of_stretched.continued_cdf(self.stretched(y), mean, variance, none)

    def predictive_quantile(
        self, level: Points, mean: Points, variance: Points, extra: Points
    ) -> Points:
        none = jnp.zeros_like(mean)
        return self.within(self.of_stretched.predictive_quantile(level, mean, variance, none))

    def bounds(self, extra: Points) -> tuple[Points | float, Points | float]:
        lowest = -jnp.inf if self.floor is None else self.floor
        return lowest, jnp.inf if self.cap is None else self.cap

    def sample(self, key: PRNGKeyArray, f: Points, extra: Points) -> Points:
        noise = jnp.sqrt(self.variance.value) * jax.random.normal(key, f.shape)
        return self.within(f + noise)

    def guess(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.stretched(np.asarray(y, dtype=float))
        return found

    def valid(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        above = np.isfinite(y) if self.floor is None else np.isfinite(y) & (y > self.floor)
        return above if self.cap is None else above & (y < self.cap)

    def highest_log_density(self, y: Points, extra: Points) -> Points:
        inner = self.of_stretched.highest_log_density(y, jnp.zeros_like(y))
        return inner + self.log_slope(y)

    def __repr__(self) -> str:
        return f"Bounded(floor={self.floor}, cap={self.cap}, variance={self.variance!r})"


def _limits(floor: Any, cap: Any) -> tuple[float | None, float | None]:
    """Both as numbers, or None; in order."""
    found = []
    for name, value in (("floor", floor), ("cap", cap)):
        number = None if value is None else as_number(value)
        if value is not None and (number is None or not np.isfinite(number)):
            raise ValueError(f"{name} must be a finite number or None, got {value!r}")
        found.append(None if number is None else float(number))
    low, high = found
    if low is not None and high is not None and low >= high:
        raise ValueError(f"floor must lie below cap; got {low:g} and {high:g}")
    return low, high
