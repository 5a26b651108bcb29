"""Gaussian observations of which some are known only within limits.

Besides y, an observation has a number that says where its value is: zero for y itself, w for
somewhere between y and y + w, ∞ for above y, −∞ for below.

The expected logarithm of such a probability bends on the scale of the noise, which may be far
narrower or far wider than the distribution of f: Gauss's rule in panels that end where it bends.
"""

import math
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Array, PRNGKeyArray

from stategp.likelihoods._base import Likelihood, Points
from stategp.likelihoods._gaussian import Gaussian
from stategp.likelihoods._normal import log_cdf, log_mass
from stategp.likelihoods._quadrature import Tilted, derivatives, is_wide, tilted
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
    extra_of_new: ClassVar[bool] = False
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

    def expected_slopes(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> tuple[Points, Points, Points]:
        exact = self.of_values.expected_slopes(y, mean, variance, jnp.zeros_like(y))
        noise = jnp.broadcast_to(self.variance.value, y.shape)
        hidden = _averages(y, extra, mean, variance, noise)[:3]
        value, slope, bend = (
            jnp.where(extra == 0, a, b) for a, b in zip(exact, hidden, strict=True)
        )
        return value, slope, bend

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

    def edges(self, y: np.ndarray, extra: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return y + np.maximum(extra, 0.0), y + np.minimum(extra, 0.0)

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
            f"lower, upper and y must be numbers, one for each observation or one for all: {error}"
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


class _Averages(NamedTuple):
    """E[log P(the value lies within its limits)] and its derivatives."""

    value: Points
    slope: Points  # in the mean of f
    bend: Points  # in the variance of f
    move: Points  # in that of the noise


def _averages(y: Points, extra: Points, mean: Points, variance: Points, noise: Points) -> _Averages:
    between = jnp.isfinite(extra) & (extra != 0)
    sign = jnp.where(extra > 0, 1.0, -1.0)
    scale = jnp.sqrt(noise)

    def one_sided(f: Points) -> tuple[Points, Points, Points]:
        x = sign * (f - y) / scale
        value = log_cdf(x)
        pull = jnp.exp(_log_normal(x) - value)
        return value, sign * pull / scale, -pull * x / (2 * noise)

    width = jnp.where(between, jnp.abs(extra), 1.0)
    start = jnp.where(extra < 0, y - width, y)

    def two_sided(f: Points) -> tuple[Points, Points, Points]:
        a, b = (start - f) / scale, (start + width - f) / scale
        value = log_mass(a, width / scale)
        left, right = jnp.exp(_log_normal(a) - value), jnp.exp(_log_normal(b) - value)
        return value, (left - right) / scale, (a * left - b * right) / (2 * noise)

    beyond = _over_panels(one_sided, [y], mean, variance, scale)
    inside = jax.lax.cond(
        jnp.any(between),
        lambda: _over_panels(two_sided, [start, start + width], mean, variance, scale),
        lambda: beyond,
    )
    value, slope, tilt, move = (
        jnp.where(between, a, b) for a, b in zip(inside, beyond, strict=True)
    )
    hidden = jnp.where(extra == 0, jnp.inf, extra)
    still = derivatives(lambda f: _log_probability(y, hidden, f, noise), mean)[2] / 2
    wide = is_wide(mean, variance)
    bend = jnp.where(wide, tilt / (2 * jnp.sqrt(jnp.where(wide, variance, 1.0))), still)
    return _Averages(value, slope, jnp.minimum(bend, 0.0), move)


def _over_panels(
    function: Any, limits: list[Points], mean: Points, variance: Points, scale: Points
) -> tuple[Points, Points, Points, Points]:
    """E[value], E[slope], E[slope · z] and E[the third] of a function of f = mean + √variance z."""
    deviation = jnp.sqrt(variance)
    ends = jnp.stack([end + side * _BEND * scale for end in limits for side in (-1, 0, 1)])
    inner = (ends - mean[None]) / jnp.maximum(deviation, 1e-150)[None]
    fixed = jnp.broadcast_to(_EDGES.reshape(-1, *[1] * mean.ndim), (len(_EDGES), *mean.shape))
    edges = jnp.sort(jnp.concatenate([jnp.clip(inner, -_REACH, _REACH), fixed]), axis=0)
    middles, halves = (edges[1:] + edges[:-1]) / 2, (edges[1:] - edges[:-1]) / 2

    def term(sums: Any, node: tuple[Array, Array, Array]) -> tuple[Any, None]:
        panel, place, weight = node
        z = middles[panel] + halves[panel] * place
        mass = weight * halves[panel] * jnp.exp(-(z**2) / 2)
        value, slope, third = function(mean + deviation * z)
        parts = (1.0, value, slope, slope * z, third)
        return tuple(s + mass * part for s, part in zip(sums, parts, strict=True)), None

    count = len(middles)
    numbers: Any = (
        np.repeat(np.arange(count), len(_NODES)), np.tile(_NODES, count), np.tile(_WEIGHTS, count)
    )  # fmt: skip
    (total, *sums), _ = jax.lax.scan(term, (jnp.zeros_like(mean),) * 5, numbers)
    value, slope, tilt, third = (part / total for part in sums)
    return value, slope, tilt, third


def _log_normal(x: Points) -> Points:
    return -(x**2 + math.log(2 * math.pi)) / 2


@jax.custom_jvp
def _expected(y: Points, extra: Points, mean: Points, variance: Points, noise: Points) -> Points:
    """E[log P(the value lies within its limits)], to be differentiated once in the last three."""
    return _averages(y, extra, mean, variance, noise).value


@_expected.defjvp
def _move(primals: Any, tangents: Any) -> tuple[Points, Points]:
    value, slope, bend, move = _averages(*primals)
    return value, slope * tangents[2] + bend * tangents[3] + move * tangents[4]


def _squares_below(t: Points) -> Points:
    """∫ Φ(u)² du up to t, zero for t = −∞."""
    somewhere = jnp.where(t > -jnp.inf, t, 0.0)
    density = jnp.exp(-(somewhere**2) / 2) / math.sqrt(2 * math.pi)
    chance = ndtr(somewhere)
    area = somewhere * chance**2 + 2 * chance * density
    area -= ndtr(math.sqrt(2) * somewhere) / math.sqrt(math.pi)
    return jnp.where(t > -jnp.inf, jnp.maximum(area, 0.0), 0.0)
