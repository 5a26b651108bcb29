"""A quadratic bound on the logistic function (Jaakkola and Jordan), fitted by natural gradients."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stategp._fitting._methods._natural import Natural
from stategp._models import GP
from stategp.likelihoods import Bernoulli

Points = Float[Array, "*points"]


class Logistic(Natural):
    """A bound on the logistic function in place of its likelihood."""

    name = "vb"
    plain_bound, optimal = False, False
    takes_summaries = takes_rows = False

    def check(self, model: GP, data: Any) -> None:
        likelihood = model.likelihood
        if not (isinstance(likelihood, Bernoulli) and likelihood.link == "logit"):
            raise ValueError(
                "method='vb' is a bound on the logistic function, for Bernoulli(link='logit') "
                f"only, not for {likelihood!r}; use method='natural'"
            )

    def fitted(self, model: GP) -> GP:
        return GP(model.kernels, LogisticBound(), model.means)


class LogisticBound(Bernoulli):
    """Bernoulli with logit link whose expectation is the Jaakkola–Jordan lower bound of it.

    E[log p] ≥ log σ(ξ) + (y − ½) mean − ξ/2, tightest at ξ² = mean² + variance.
    """

    def __init__(self) -> None:
        plain = Bernoulli()
        self.link, self.quadrature = plain.link, plain.quadrature

    def expected_log_density(
        self, y: Points, mean: Points, variance: Points, extra: Points
    ) -> Points:
        return (y - 0.5) * mean - _log_two_cosh(mean**2 + variance)


@jax.custom_jvp
def _log_two_cosh(square: Points) -> Points:
    """log(2 cosh(ξ/2)) as a function of ξ², smooth at zero."""
    root = jnp.sqrt(square)
    return root / 2 + jnp.log1p(jnp.exp(-root))


@_log_two_cosh.defjvp
def _log_two_cosh_jvp(primals: tuple[Points], tangents: tuple[Points]) -> tuple[Points, Points]:
    (square,), (tangent,) = primals, tangents
    small = square < 1e-4
    root = jnp.sqrt(jnp.where(small, 1.0, square))
    series = 1 / 8 - square / 96 + square**2 / 960
    return _log_two_cosh(square), tangent * jnp.where(small, series, jnp.tanh(root / 2) / root / 4)
