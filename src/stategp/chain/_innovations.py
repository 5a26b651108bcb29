"""What each interval adds to its left state, under q.

The innovation of an interval is r = right − A left: a priori N(0, Q), independent of the left
state. With G = Bᵀ + C A the pull of the site and of all later ones on it (their precision on
[left; right] being [[·, B], [Bᵀ, C]], their linear part e on the right), a posteriori

    r | left ~ N(V(e − G left), V),   V = (Q⁻¹ + C)⁻¹.

V has the grading of Q, so r is known to its own last digits at any step, where the difference of
two nearly equal states is not.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from stategp.chain._information import eliminate
from stategp.chain._sites import PairMarginals, Sites, Transitions


class Innovations(NamedTuple):
    """The innovations of all intervals under q, which lie along the last axis."""

    mean: Float[Array, "dim intervals"]
    pull: Float[Array, "dim dim intervals"]  # r = mean − pull · (left − its mean) + noise
    covariance: Float[Array, "dim dim intervals"]  # of the noise
    carried: Float[Array, "dim dim intervals"]  # A − pull: how the right state follows the left


def innovations(transitions: Transitions, sites: Sites, marginals: PairMarginals) -> Innovations:
    """The innovations of q ∝ prior × sites, whose marginals are known. Sites may be indefinite."""
    elements, later_linear, later_precision = eliminate(transitions, sites)
    dim = later_linear.shape[-1]
    C = sites.precision[:, dim:, dim:] + later_precision
    G = sites.precision[:, :dim, dim:].mT + C @ transitions.A
    residual = sites.linear[:, dim:] + later_linear - _apply(G, marginals.mean[:, :dim])
    pull = elements.C @ G
    # Nothing comes before the first state: it is its own innovation, with the marginals it has.
    mean = _apply(elements.C, residual).at[0].set(marginals.mean[0, dim:])
    covariance = elements.C.at[0].set(marginals.covariance[0, dim:, dim:])
    along = (mean, pull, covariance, transitions.A - pull)
    return Innovations(*(jnp.moveaxis(leaf, 0, -1) for leaf in along))


def _apply(
    matrices: Float[Array, "intervals dim dim"], vectors: Float[Array, "intervals dim"]
) -> Float[Array, "intervals dim"]:
    return (matrices @ vectors[..., None])[..., 0]
