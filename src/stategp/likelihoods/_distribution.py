"""The distribution of a new observation: quantiles and CRPS from a distribution function.

Both look at y through a coordinate in which the distribution is roughly a normal: y itself, log y,
log(1 + y) or logit y, measured from a typical value in units of a typical size, and through
sinh, so that a few steps reach far into any tail. Whole numbers are treated as if there were
numbers between them, and put right at the end.
"""

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr, ndtri
from jaxtyping import Array, Bool, Float

from stategp.likelihoods._laws import REACH, Function, Values

if TYPE_CHECKING:
    from stategp.likelihoods._base import Latent, Likelihood, Points

_LARGEST = 300.0  # logarithm of y
_FARTHEST = 16.0  # sinh of it is 4e6 typical sizes
_TOLERANCE = 1e-10  # of a level
_SECANTS = 10  # steps after which bisection helps along
_MOST_STEPS = 100  # a few are enough unless the distribution function has steps
_EDGE_STEPS = 12  # bisections of the part of N(f) over which y's distribution changes
_GAUSS = np.polynomial.legendre.leggauss(64)
_SCAN = np.linspace(-8.0, 8.0, 33)  # where CRPS looks for the part that matters
_ACCURACY = 1e-8  # of a distribution function
_NEGLIGIBLE = 1e-7  # of the largest integrand
_PANELS = 16  # on each side of y
_FEW = 8.0  # whole numbers in a panel that are summed as such


class Coordinate(NamedTuple):
    """y = shape of (centre + size · sinh(z))."""

    kind: str  # "real", "log", "log1p" or "logit"
    centre: Values
    size: Values

    def value(self, z: Values) -> Values:
        at = self.centre + self.size * jnp.sinh(z)
        if self.kind == "real":
            return at
        if self.kind == "logit":
            return jax.nn.sigmoid(at)
        at = jnp.clip(at, -_LARGEST, _LARGEST)
        return jnp.exp(at) if self.kind == "log" else jnp.expm1(at)

    def slope(self, z: Values) -> Values:
        """The derivative of `value`."""
        y = self.value(z)
        inner = {"real": jnp.ones_like(y), "log": y, "log1p": 1 + y, "logit": y * (1 - y)}
        return inner[self.kind] * self.size * jnp.cosh(z)

    def of(self, y: Values) -> Values:
        """The z of a value."""
        if self.kind == "logit":
            y = jnp.log(y) - jnp.log1p(-y)
        elif self.kind != "real":
            y = jnp.log(y) if self.kind == "log" else jnp.log1p(y)
        return jnp.arcsinh((y - self.centre) / self.size)


def average(cdf: Function, mean: Values, variance: Values) -> Values:
    """E[cdf(f)] for f ~ N(mean, variance) and a function that rises or falls, however suddenly.

    The normal is cut where the function begins to change and where it has ended.
    """
    deviation = jnp.sqrt(variance)

    def at(t: Values) -> Values:
        return cdf(mean + deviation * t)

    left, right = jnp.full_like(mean, -REACH), jnp.full_like(mean, REACH)
    first, last = at(left), at(right)

    def edge(near: Values, far: Values, value: Values) -> Values:
        """How far from `near` on the function keeps its value."""

        def bisect(_: Array | int, ends: tuple[Values, Values]) -> tuple[Values, Values]:
            near, far = ends
            middle = (near + far) / 2
            same = jnp.abs(at(middle) - value) < 1e-9
            return jnp.where(same, middle, near), jnp.where(same, far, middle)

        return jax.lax.fori_loop(0, _EDGE_STEPS, bisect, (near, far))[0]

    start = edge(left, right, first)
    end = jnp.maximum(edge(right, left, last), start)

    def term(total: Values, node: Float[Array, " 2"]) -> tuple[Values, None]:
        t = (start + end) / 2 + (end - start) / 2 * node[0]
        density = jnp.exp(-(t**2) / 2) / np.sqrt(2 * np.pi)
        return total + node[1] * (end - start) / 2 * density * at(t), None

    table = jnp.asarray(np.stack(_GAUSS, axis=1))
    inside = jax.lax.scan(term, jnp.zeros_like(mean), table)[0]
    return first * ndtr(start) + inside + last * ndtr(-end)


def quantile(
    likelihood: "Likelihood", level: "Points", mean: "Latent", variance: "Latent", extra: "Points"
) -> "Points":
    """The smallest y with P(Y ≤ y) ≥ level."""

    def below(y: Values) -> Values:
        return likelihood.predictive_cdf(y, mean, variance, extra)

    if likelihood.outcomes is not None:
        passed = jax.lax.map(below, _first(likelihood.outcomes - 1, level)) < level[None]
        return jnp.sum(passed, axis=0).astype(float)

    coordinate = likelihood.coordinate(mean, variance, extra)
    lowest, highest = likelihood.bounds(extra)
    # Between whole numbers the last but one is as far as the distribution function goes.
    highest = highest - 1.0 if likelihood.discrete else highest

    def value(z: Values) -> Values:
        return jnp.clip(coordinate.value(z), lowest, highest)

    def smooth(z: Values) -> Values:
        return likelihood.continued_cdf(value(z), mean, variance, extra)

    y = value(_solve(smooth, level, value if likelihood.discrete else None))
    if not likelihood.discrete:
        return y
    candidates = jnp.stack([jnp.ceil(y) - 1, jnp.ceil(y)])
    reached = jax.lax.map(below, candidates) >= level[None]
    best = jnp.where(reached[1], candidates[1], jnp.ceil(y) + 1)
    return jnp.where(reached[0], candidates[0], best)


def _first(count: int, like: Values) -> Float[Array, "count *points"]:
    """The numbers 0, 1, …, each for every point."""
    numbers = jnp.arange(float(count)).reshape(count, *[1] * like.ndim)
    return jnp.broadcast_to(numbers, (count, *like.shape))


class _Bracket(NamedTuple):
    step: Array
    lower: Values
    upper: Values
    z: Values
    score: Values  # at z, of its probability
    slope: Values  # of the score in sinh z
    done: Bool[Array, "*points"]


def _solve(cdf: Function, level: Values, whole: Function | None) -> Values:
    """The z at which an increasing function reaches the level.

    Secant steps in sinh z for the normal score of the probability, nearly a straight line; a
    bisection whenever they leave the bracket, and every other time if they take long.
    """
    target = ndtri(level)

    def score(probability: Values) -> Values:
        return ndtri(jnp.clip(probability, 1e-300, 1 - 1e-16))

    def proceed(state: _Bracket) -> Bool[Array, ""]:
        return (state.step < _MOST_STEPS) & ~jnp.all(state.done)

    def improve(state: _Bracket) -> _Bracket:
        guess = jnp.arcsinh(jnp.sinh(state.z) + (target - state.score) / state.slope)
        inside = (
            (guess > state.lower)
            & (guess < state.upper)
            & ((state.step < _SECANTS) | (state.step % 2 == 0))
        )
        return look(state, jnp.where(inside, guess, (state.lower + state.upper) / 2))

    def look(state: _Bracket, z: Values) -> _Bracket:
        probability = cdf(z)
        reached = probability >= level
        lower, upper = jnp.where(reached, state.lower, z), jnp.where(reached, z, state.upper)
        new = score(probability)
        slope = (new - state.score) / (jnp.sinh(z) - jnp.sinh(state.z))
        slope = jnp.where(jnp.isfinite(slope) & (slope > 0), slope, 1.0)
        there = jnp.abs(probability - level) <= _TOLERANCE * level * (1 - level)
        upper = jnp.where(there, z, upper)
        narrow = upper - lower <= 1e-14 * (1 + jnp.abs(z))
        if whole is not None:
            narrow |= whole(upper) - whole(lower) < 0.25
        moved = _Bracket(state.step + 1, lower, upper, z, new, slope, there | narrow)
        # What is found stays.
        rest = jax.tree.map(lambda new, old: jnp.where(state.done, old, new), moved[1:], state[1:])
        return _Bracket(moved.step, *rest)

    # From here the first guess is that of a normal distribution, target = sinh z.
    far, zeros = jnp.full_like(level, _FARTHEST), jnp.zeros_like(level)
    never = jnp.zeros(level.shape, dtype=bool)
    nothing = _Bracket(jnp.zeros((), dtype=int), -far, far, zeros, zeros, zeros + 1, never)
    return jax.lax.while_loop(proceed, improve, nothing).upper


def crps(
    likelihood: "Likelihood", y: "Points", mean: "Latent", variance: "Latent", extra: "Points"
) -> "Points":
    """∫ (P(Y ≤ u) − [u ≥ y])² du."""

    def below(u: Values) -> Values:
        return likelihood.predictive_cdf(u, mean, variance, extra)

    if likelihood.outcomes is not None:
        levels = _first(likelihood.outcomes - 1, y)
        return jnp.sum((jax.lax.map(below, levels) - (levels >= y[None])) ** 2, axis=0)

    coordinate = likelihood.coordinate(mean, variance, extra)
    lowest, highest = likelihood.bounds(extra)

    def value(z: Values) -> Values:
        return jnp.clip(coordinate.value(z), lowest, highest)

    left, right = _extent(coordinate, lambda z: below(value(z)), y)
    if likelihood.discrete:
        left = jnp.maximum(left, coordinate.of(jnp.zeros_like(y) + lowest))
        right = jnp.minimum(right, coordinate.of(jnp.zeros_like(y) + highest))

    def side(total: Values, ends: tuple[Values, Values, Array]) -> tuple[Values, None]:
        """The integral of a square between two z, one of them that of y."""
        start, end, over = ends

        def square(u: Values) -> Values:  # of the probability below y, of its complement above
            inside = jnp.clip(u, lowest, highest)
            probability = likelihood.continued_cdf(inside, mean, variance, extra)
            return jnp.where(over, 1 - probability, probability) ** 2

        def panel(total: Values, number: Array) -> tuple[Values, None]:
            first = start + (end - start) * number / _PANELS
            second = start + (end - start) * (number + 1) / _PANELS
            lower, upper = value(first), value(second)
            if likelihood.discrete:  # the whole numbers from lower to upper − 1
                lower, upper = jnp.round(lower), jnp.round(upper)
                first = coordinate.of(lower - 0.5)
                second = coordinate.of(jnp.maximum(upper - 0.5, lower - 0.5))
            width = upper - lower
            # Gauss's rule with two nodes: in z, or exact for cubics over few whole numbers.
            middle, half = (first + second) / 2, (second - first) / np.sqrt(12)
            slopes = [coordinate.slope(middle - half), coordinate.slope(middle + half)]
            nodes = [value(middle - half), value(middle + half)]
            both = slopes[0] + slopes[1]
            shares = [jnp.where(both > 0, s / jnp.where(both > 0, both, 1.0), 0.5) for s in slopes]
            if likelihood.discrete:
                spread = jnp.sqrt(jnp.maximum(width**2 - 1, 0.0) / 12)
                centre, few = (lower + upper - 1) / 2, width <= _FEW
                ends = [centre - spread, centre + spread]
                nodes = [jnp.where(few, e, n) for e, n in zip(ends, nodes, strict=True)]
                shares = [jnp.where(few, 0.5, share) for share in shares]
            squares = jax.lax.map(square, jnp.stack(nodes))
            part = width * (shares[0] * squares[0] + shares[1] * squares[1])
            return total + jnp.where(width > 0, part, 0.0), None

        return jax.lax.scan(panel, total, jnp.arange(float(_PANELS)))[0], None

    at = coordinate.of(y)
    starts = jnp.stack([jnp.minimum(left, at), at])
    ends = jnp.stack([at, jnp.maximum(right, at)])
    score, _ = jax.lax.scan(side, jnp.zeros_like(y), (starts, ends, jnp.array([False, True])))
    return jnp.where(jnp.isnan(y), jnp.nan, score)


def _extent(coordinate: Coordinate, cdf: Function, like: Values) -> tuple[Values, Values]:
    """Between which z the squares of P and 1 − P matter to an integral over y."""
    grid = jnp.broadcast_to(_SCAN.reshape(-1, *[1] * like.ndim), (len(_SCAN), *like.shape))
    probabilities, slopes = jax.lax.map(lambda z: (cdf(z), coordinate.slope(z)), grid)
    # What is below the accuracy of probabilities would be blown up by the slopes far out.
    below = jnp.where(probabilities > _ACCURACY, probabilities, 0.0) ** 2 * slopes
    above = jnp.where(1 - probabilities > _ACCURACY, 1 - probabilities, 0.0) ** 2 * slopes
    largest = jnp.max(jnp.sqrt(below) * jnp.sqrt(above), axis=0)[None]
    step = _SCAN[1] - _SCAN[0]
    left = jnp.min(jnp.where(below > _NEGLIGIBLE * largest, grid, _SCAN[-1]), axis=0) - step
    right = jnp.max(jnp.where(above > _NEGLIGIBLE * largest, grid, _SCAN[0]), axis=0) + step
    return left, right
