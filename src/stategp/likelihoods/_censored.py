"""Gaussian observations of which some are known only within limits.

Besides y, an observation has a number that says where its value is: zero for y itself, w for
somewhere between y and y + w, ∞ for above y, −∞ for below.

The expected logarithm of such a probability bends on the scale of the noise, which may be far
narrower or far wider than the distribution of f: Gauss's rule in panels that end where it bends.
"""

import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Array, Float, PRNGKeyArray

from stategp.likelihoods._base import Likelihood, Points
from stategp.likelihoods._gaussian import Gaussian
from stategp.likelihoods._normal import log_cdf, log_mass
from stategp.likelihoods._quadrature import Sums, Tilted, derivatives, tilted
from stategp.parameters import Parameter, Value, positive

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_REACH, _BEND = 8.5, 7.0  # standard deviations of f, and of the noise around a limit
_EDGES = np.array([-_REACH, -3.0, 3.0, _REACH])  # so that every panel is short beside N(f)


class Censored(Likelihood):
    """y = f(x) + noise of the given variance, where some y are known only within limits.

    The argument `censored` of `condition` and `fit` says which, with a number for each observation:
    0 (the default) for y itself, `np.inf` for a value above y, `-np.inf` for one below (a detection
    limit), and a width w for one between y and y + w. `sg.likelihoods.within` makes it from lower
    and upper limits. Predictions are of the value itself, not of what an instrument would show.

    >>> import numpy as np, stategp as sg
    >>> model = sg.GP(sg.kernels.Matern32(lengthscale=2.0), "censored")
    >>> below = np.array([0.0, -np.inf, 0.0])  # the second is below the limit 0.5
    >>> posterior = sg.condition(model, np.arange(3), [0.7, 0.5, 0.9], censored=below)
    """

    extra: ClassVar[str | None] = "censored"
    log_concave: ClassVar[bool] = True
    support: ClassVar[str] = "be finite, with a number or ±∞ as `censored`,"

    variance: Parameter

    def __init__(self, *, variance: Value = None):
        self.variance = positive("variance", variance, default=1.0, role="noise")

    @property
    def of_values(self) -> Gaussian:
        """How a value depends on f if it is observed."""
        return Gaussian(variance=self.variance)

    def log_density(self, y: Points, f: Points, extra: Points) -> Points:
        exact = self.of_values.log_density(y, f, jnp.zeros_like(y))
        hidden = _log_probability(y, extra, f, self.variance.value)
        return jnp.where(extra == 0, exact, hidden)

    def expected_log_density(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> Points:
        exact = self.of_values.expected_log_density(y, mean, variance, jnp.zeros_like(y))
        noise = jnp.broadcast_to(self.variance.value, y.shape)
        return jnp.where(extra == 0, exact, _expected(y, extra, mean, variance, noise))

    def moments(self, f: Points, extra: Points) -> tuple[Points, Points]:
        return self.of_values.moments(f, jnp.zeros_like(extra))

    def predict(self, mean: Points, variance: Points, extra: Points) -> tuple[Points, Points]:
        return self.of_values.predict(mean, variance, jnp.zeros_like(extra))

    def tilted(
        self, y: Points, mean: Points, variance: Points, extra: Points, power: float = 1.0
    ) -> Tilted:
        exact = self.of_values.tilted(y, mean, variance, jnp.zeros_like(y), power)
        hidden_extra = jnp.where(extra == 0, jnp.inf, extra)

        def factor(f: Points) -> Points:
            return power * _log_probability(y, hidden_extra, f, self.variance.value)

        hidden = tilted(factor, mean, variance, self.quadrature_order)
        chosen = (jnp.where(extra == 0, a, b) for a, b in zip(exact, hidden, strict=True))
        return Tilted(*chosen)

    def log_predictive_density(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> Points:
        exact = self.of_values.log_predictive_density(y, mean, variance, jnp.zeros_like(y))
        hidden = _log_probability(y, extra, mean, variance + self.variance.value)
        return jnp.where(extra == 0, exact, hidden)

    def continued_cdf(self, y: Points, mean: Points, variance: Points, extra: Points) -> Points:
        return self.of_values.continued_cdf(y, mean, variance, jnp.zeros_like(extra))

    def predictive_quantile(
        self, level: Points, mean: Points, variance: Points, extra: Points
    ) -> Points:
        return self.of_values.predictive_quantile(level, mean, variance, jnp.zeros_like(extra))

    def crps(self, y: Points, mean: Points, variance: Points, extra: Points) -> Points:
        """That of `Gaussian`; the part of the integral between the limits of y is left out."""
        lower, upper = _limits(y, extra)
        deviation = jnp.sqrt(jnp.maximum(variance + self.variance.value, 1e-300))
        left, right = (lower - mean) / deviation, (mean - upper) / deviation
        return deviation * (_squares_below(left) + _squares_below(right))

    def sample(self, key: PRNGKeyArray, f: Points, extra: Points) -> Points:
        return self.of_values.sample(key, f, jnp.zeros_like(extra))

    def guess(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return y + np.where(np.isfinite(extra), extra, 0.0) / 2

    def valid(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return np.isfinite(y) & ~np.isnan(extra)

    def highest_log_density(self, y: Points, extra: Points) -> Points:
        exact = self.of_values.highest_log_density(y, jnp.zeros_like(y))
        return jnp.where(extra == 0, exact, 0.0)


def within(lower: Any, upper: Any, y: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """The y and `censored` of values between limits, as `fit` and `condition` take them.

    An infinite or missing limit (NaN) is none; equal limits are the value itself. Where `y` is
    given and is a number, it is the value, and its limits do not matter. Where nothing is known y
    is NaN: a missing observation.

    >>> import numpy as np, stategp as sg
    >>> y, censored = sg.likelihoods.within([-np.inf, 1.0, 2.0], [0.5, 3.0, 2.0])
    >>> print(y, censored)
    [0.5 1.  2. ] [-inf   2.   0.]
    """
    parts = {"lower": lower, "upper": upper, "y": np.nan if y is None else y}
    try:
        columns = [np.asarray(part, dtype=float) for part in parts.values()]
        low, high, known = np.broadcast_arrays(*columns)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "lower, upper and y must be numbers, one for each observation or one for all: "
            f"{error}"
        ) from None
    low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    wrong = np.isnan(known) & ((low > high) | (low == np.inf) | (high == -np.inf))
    if np.any(wrong):
        first = int(np.argmax(wrong))
        raise ValueError(
            "a lower limit must not lie above the upper one, nor be ∞; "
            f"observation {first} has {low.flat[first]:g} and {high.flat[first]:g}"
        )
    from_below = np.isfinite(low)
    value = np.where(from_below, low, np.where(np.isfinite(high), high, np.nan))
    with np.errstate(invalid="ignore"):  # ∞ − ∞ where nothing is known
        width = np.where(from_below, high - low, np.where(np.isfinite(high), -np.inf, 0.0))
    exact = ~np.isnan(known)
    return np.where(exact, known, value), np.where(exact, 0.0, width)


def _limits(y: Points, extra: Points) -> tuple[Points, Points]:
    return y + jnp.minimum(extra, 0.0), y + jnp.maximum(extra, 0.0)


def _log_probability(y: Points, extra: Points, f: Points, variance: Any) -> Points:
    """log P(the value lies within its limits), for a value ~ N(f, variance)."""
    deviation = jnp.sqrt(variance)
    endless = jnp.isinf(extra)
    sign = jnp.where(extra > 0, 1.0, -1.0)
    one_sided = log_cdf(sign * (f - y) / deviation)
    width = jnp.where(endless | (extra == 0), 1.0, jnp.abs(extra))
    start = jnp.where(extra < 0, y - width, y)
    return jnp.where(endless, one_sided, log_mass((start - f) / deviation, width / deviation))


def _panels(
    y: Points, extra: Points, mean: Points, variance: Points, noise: Points
) -> tuple[Float[Array, "_ *points"], Float[Array, "_ *points"]]:
    """Middles and half widths, in standard deviations of f, of panels along a new first axis."""
    deviation = jnp.maximum(jnp.sqrt(variance), 1e-150)
    bend = _BEND * jnp.sqrt(noise)
    lower, upper = _limits(y, extra)
    ends = jnp.stack([lower - bend, lower + bend, upper - bend, upper + bend])
    ends = jnp.where(jnp.isfinite(ends), ends, y[None])  # no limit there
    inner = jnp.clip((ends - mean[None]) / deviation[None], -_REACH, _REACH)
    fixed = jnp.broadcast_to(_EDGES.reshape(-1, *[1] * y.ndim), (len(_EDGES), *y.shape))
    edges = jnp.sort(jnp.concatenate([inner, fixed]), axis=0)
    return (edges[1:] + edges[:-1]) / 2, (edges[1:] - edges[:-1]) / 2


def _averages(
    y: Points, extra: Points, mean: Points, variance: Points, noise: Points
) -> tuple[Sums, Points]:
    """E[log P], with its derivatives in the mean and variance of f, and in that of the noise."""
    hidden = jnp.where(extra == 0, jnp.inf, extra)  # what is observed is not asked for here
    middles, halves = _panels(y, hidden, mean, variance, noise)
    deviation = jnp.sqrt(variance)

    def term(sums: Any, node: tuple[Array, Array, Array]) -> tuple[Any, None]:
        panel, place, weight = node
        z = middles[panel] + halves[panel] * place
        mass = weight * halves[panel] * jnp.exp(-(z**2) / 2)
        f = mean + deviation * z
        found = derivatives(lambda f: _log_probability(y, hidden, f, noise), f)
        move = jax.jvp(
            lambda n: _log_probability(y, hidden, f, n), (noise,), (jnp.ones_like(noise),)
        )[1]
        return tuple(s + mass * v for s, v in zip(sums, (1.0, *found, move), strict=True)), None

    count = len(middles)
    numbers: Any = (
        np.repeat(np.arange(count), len(_NODES)), np.tile(_NODES, count), np.tile(_WEIGHTS, count)
    )  # fmt: skip
    nothing = jnp.zeros_like(mean)
    (total, value, slope, bend, move), _ = jax.lax.scan(term, (nothing,) * 5, numbers)
    bend = jnp.minimum(bend, 0.0)  # rounding far from the limits
    return (value / total, slope / total, bend / total / 2), move / total


@jax.custom_jvp
def _expected(y: Points, extra: Points, mean: Points, variance: Points, noise: Points) -> Points:
    """E[log P(the value lies within its limits)], to be differentiated once in the last three."""
    return _averages(y, extra, mean, variance, noise)[0][0]


@_expected.defjvp
def _move(primals: Any, tangents: Any) -> tuple[Points, Points]:
    (value, slope, bend), in_noise = _averages(*primals)
    return value, slope * tangents[2] + bend * tangents[3] + in_noise * tangents[4]


def _squares_below(t: Points) -> Points:
    """∫ Φ(u)² du up to t, zero for t = −∞."""
    somewhere = jnp.where(t > -jnp.inf, t, 0.0)
    density = jnp.exp(-(somewhere**2) / 2) / math.sqrt(2 * math.pi)
    chance = ndtr(somewhere)
    area = somewhere * chance**2 + 2 * chance * density
    area -= ndtr(math.sqrt(2) * somewhere) / math.sqrt(math.pi)
    return jnp.where(t > -jnp.inf, jnp.maximum(area, 0.0), 0.0)
