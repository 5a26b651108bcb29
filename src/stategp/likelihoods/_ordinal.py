"""Ordered levels: grades, ratings."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._arguments import whole_number
from stategp.likelihoods._base import (
    QUADRATURE,
    Likelihood,
    Points,
    check_link,
    check_quadrature,
)
from stategp.likelihoods._laws import link_plus_normal
from stategp.likelihoods._links import LINKS, log_cdf
from stategp.likelihoods._normal import log1mexp
from stategp.parameters import Parameter, Value, declare, fixed, positive


class Ordinal(Likelihood):
    """Ordered levels 0, 1, …, levels − 1: the interval between cut-points that holds f(x) + noise.

    The noise is standard logistic, or standard normal with link="probit". The levels − 1 increasing
    cut-points are learned, as the first of them and the gaps between them, unless given as
    ``sg.fixed([...])``.

    >>> import stategp as sg
    >>> sg.likelihoods.Ordinal(levels=3, cutpoints=[-1.0, 1.0])
    Ordinal(levels=3, link='logit', first=-1, gaps=[2])
    """

    log_concave: ClassVar[bool] = True
    support: ClassVar[str] = "be a level 0, 1, 2, … below `levels`"

    discrete: ClassVar[bool] = True

    levels: int = eqx.field(static=True)
    link: str = eqx.field(static=True)
    first: Parameter
    gaps: Parameter
    quadrature: int = eqx.field(static=True)

    def __init__(
        self,
        levels: Any,
        *,
        link: Any = "logit",
        cutpoints: Value = None,
        quadrature: Any = QUADRATURE,
    ):
        self.levels = whole_number("levels", levels, least=2)
        self.link = check_link(link, LINKS)
        self.quadrature = check_quadrature(quadrature)
        default = np.arange(self.levels - 1) - (self.levels - 2) / 2
        first: Value = None
        gaps: Value = None
        if cutpoints is not None:
            first, gaps = _first_and_gaps(cutpoints, self.levels)
        self.first = declare("first", first, default=default[0], constraint="real", role="shape")
        self.gaps = positive("gaps", gaps, default=np.diff(default), role="shape", ndim=1)

    @property
    def cutpoints(self) -> Float[Array, " cutpoints"]:
        """Where one level ends and the next begins."""
        return self.first.value + jnp.concatenate([jnp.zeros(1), jnp.cumsum(self.gaps.value)])

    def log_density(self, y: Points, f: Points, extra: Points) -> Points:
        level = y.astype(int)
        cuts = self.cutpoints
        last = self.levels - 2
        lower = cuts[jnp.clip(level - 1, 0, last)] - f
        upper = cuts[jnp.clip(level, 0, last)] - f
        bottom, top = level == 0, level == self.levels - 1
        if self.link == "logit":  # σ(b) − σ(a) = σ(b) σ(−a) (1 − exp(a − b))
            gap = jnp.append(self.gaps.value, 1.0)[jnp.clip(level - 1, 0, last)]
            below = jnp.where(top, 0.0, log_cdf("logit", upper))
            above = jnp.where(bottom, 0.0, log_cdf("logit", -lower))
            return below + above + jnp.where(bottom | top, 0.0, log1mexp(gap))
        flip = top | (~bottom & (lower + upper > 0))  # so that the tail to be taken is the left one
        a, b = jnp.where(flip, -upper, lower), jnp.where(flip, -lower, upper)
        log_b = log_cdf("probit", b)
        two_sided = ~(bottom | top)
        ratio = jnp.where(two_sided, log_b - log_cdf("probit", jnp.where(two_sided, a, 0.0)), 1.0)
        return log_b + jnp.where(two_sided, log1mexp(ratio), 0.0)

    def probabilities(self, f: Points) -> Float[Array, "..."]:
        """The probability of each level, along a new last axis."""
        levels = [jnp.full_like(f, level) for level in range(self.levels)]
        logs = [self.log_density(level, f, jnp.zeros_like(f)) for level in levels]
        return jnp.exp(jnp.stack(logs, axis=-1))

    def moments(self, f: Points, extra: Points) -> tuple[Points, Points]:
        probabilities = self.probabilities(f)
        levels = jnp.broadcast_to(jnp.arange(float(self.levels)), probabilities.shape)
        centre = jnp.sum(levels * probabilities, axis=-1)
        return centre, jnp.sum((levels - centre[..., None]) ** 2 * probabilities, axis=-1)

    def continued_cdf(self, y: Points, mean: Points, variance: Points, extra: Points) -> Points:
        level = jnp.clip(y.astype(int), 0, self.levels - 2)
        return link_plus_normal(self.link, self.cutpoints[level] - mean, variance)

    def bounds(self, extra: Points) -> tuple[Points | float, Points | float]:
        return 0.0, self.levels - 1.0

    @property
    def outcomes(self) -> int | None:
        return self.levels

    def sample(self, key: PRNGKeyArray, f: Points, extra: Points) -> Points:
        draw = jax.random.logistic if self.link == "logit" else jax.random.normal
        at = f + draw(key, f.shape)
        return jnp.searchsorted(self.cutpoints, at).astype(float)

    def guess(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        cuts = np.asarray(self.cutpoints)
        middles = np.concatenate([[cuts[0] - 1], (cuts[1:] + cuts[:-1]) / 2, [cuts[-1] + 1]])
        return middles[y.astype(int)]

    def valid(self, y: np.ndarray, extra: np.ndarray) -> np.ndarray:
        return np.isin(y, np.arange(self.levels))

    def highest_log_density(self, y: Points, extra: Points) -> Points:
        return jnp.zeros_like(y)  # a probability


def _first_and_gaps(cutpoints: Value, levels: int) -> tuple[Value, Value]:
    """The two parameters that a list of cut-points (or a fixed one) stands for."""
    held = isinstance(cutpoints, Parameter) and not cutpoints.learned
    if isinstance(cutpoints, Parameter):
        if cutpoints.prior is not None or not cutpoints.given:
            raise ValueError("cutpoints must be numbers, or sg.fixed of them, without a prior")
        cutpoints = cutpoints.value
    try:
        cuts = np.asarray(cutpoints, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"cutpoints must be a list of numbers, got {cutpoints!r}") from None
    increasing = cuts.ndim == 1 and np.all(np.isfinite(cuts)) and np.all(np.diff(cuts) > 0)
    if cuts.shape != (levels - 1,) or not increasing:
        raise ValueError(
            f"cutpoints must be {levels - 1} increasing numbers for {levels} levels, "
            f"got {cutpoints}"
        )
    wrap = fixed if held else (lambda value: value)
    return wrap(cuts[0]), wrap(np.diff(cuts))
