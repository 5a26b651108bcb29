"""What each interval adds to its left state, under q.

The innovation of an interval is r = right − A left: a priori N(0, Q), independent of the left
state. Let the site and all later ones have precision [[·, B], [Bᵀ, C]] on [left; right] and, at
the mean of q, the slope g on the right state. A posteriori

    r | left ~ N(r̄ − V G (left − its mean), V),   V = (Q⁻¹ + C)⁻¹,   G = Bᵀ + C A.

Its mean r̄ is known twice, as Q p with p = g the pull of all that comes later, and as the
difference δ of the mean states. The first keeps its digits where a step is so short that the
states are the same but for rounding, the second where the data are so precise that g is a small
difference of large numbers. V(g + C δ) is the mean of the two that keeps them everywhere, as
g − (C⁻¹ + Q)⁻¹(Q g − δ) does for p. Nothing inverts Q or C.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stategp._linalg import symmetric, tilt
from stategp.chain._sites import PairMarginals, Sites, Transitions


class Innovations(NamedTuple):
    """The innovations of all intervals under q, which lie along the last axis."""

    mean: Float[Array, "dim intervals"]
    pull: Float[Array, "dim dim intervals"]  # r = mean − pull · (left − its mean) + noise
    covariance: Float[Array, "dim dim intervals"]  # of the noise
    carried: Float[Array, "dim dim intervals"]  # A − pull: how the right state follows the left


class _Later(NamedTuple):
    """What later intervals say about the right state of one: slope at its mean, and precision."""

    slope: Float[Array, " dim"]
    precision: Float[Array, "dim dim"]


class _Interval(NamedTuple):
    A: Float[Array, "*intervals dim dim"]
    Q: Float[Array, "*intervals dim dim"]
    slope: Float[Array, "*intervals pair"]  # of the site, at the mean
    precision: Float[Array, "*intervals pair pair"]
    difference: Float[Array, "*intervals dim"]  # of the mean states


def innovations(
    transitions: Transitions, sites: Sites, marginals: PairMarginals, *, indefinite: bool = False
) -> Innovations:
    """The innovations of q ∝ prior × sites, whose marginals are known, from the last to the first.

    `indefinite` allows sites of negative precision; potentials then lose digits where sites are
    many orders of magnitude more precise than the prior.
    """
    dim = transitions.A.shape[-1]
    left = marginals.mean[:, :dim]
    right = jnp.concatenate([left[1:], jnp.zeros((1, dim))])
    both = jnp.concatenate([left, right], axis=1)
    intervals = _Interval(
        transitions.A,
        transitions.Q,
        sites.linear - _apply(sites.precision, both),
        sites.precision,
        right - _apply(transitions.A, left),
    )

    def step(later: _Later, one: _Interval) -> tuple[_Later, tuple[Array, Array, Array]]:
        slope = one.slope[dim:] + later.slope
        precision = one.precision.at[dim:, dim:].add(later.precision)
        C = precision[dim:, dim:]
        V, _ = tilt(one.Q, C)
        if indefinite:
            eliminated = precision - precision[:, dim:] @ V @ precision[dim:]
        else:  # no difference: a square
            noise = jnp.zeros_like(precision).at[dim:, dim:].set(one.Q)
            eliminated, _ = tilt(precision, noise)
        mean = V @ (slope + C @ one.difference)
        pull = V @ (precision[dim:, :dim] + C @ one.A)
        costate = slope - eliminated[dim:, dim:] @ (one.Q @ slope - one.difference)
        through = jnp.concatenate([jnp.eye(dim), one.A])  # what moving the left state moves
        before = _Later(
            one.slope[:dim] + one.A.T @ costate, symmetric(through.T @ eliminated @ through)
        )
        return before, (mean, pull, V)

    nothing = _Later(jnp.zeros(dim), jnp.zeros((dim, dim)))
    _, (mean, pull, covariance) = jax.lax.scan(step, nothing, intervals, reverse=True)
    # Nothing comes before the first state: it is its own innovation, with the marginals it has.
    mean = mean.at[0].set(right[0])
    covariance = covariance.at[0].set(marginals.covariance[1, :dim, :dim])
    along = (mean, pull, covariance, transitions.A - pull)
    return Innovations(*(jnp.moveaxis(leaf, 0, -1) for leaf in along))


def _apply(
    matrices: Float[Array, "intervals rows columns"], vectors: Float[Array, "intervals columns"]
) -> Float[Array, "intervals rows"]:
    return (matrices @ vectors[..., None])[..., 0]
