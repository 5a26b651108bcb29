"""Second derivatives from differences of first ones, a small matrix for every observation.

An objective of the mean and variance of f, or of the mean alone, has a Hessian approximated by B.
Where its slopes moved by r as its place moved by s, B becomes the symmetric matrix next to it that
explains that, B + w wᵀ/wᵀs with w = r − B s (the symmetric rank-one formula). The formula that
others take, BFGS, keeps B negative definite, which the Hessian in both is not: it does not settle.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from stategp._fitting._methods._slopes import Slopes

Several = Float[Array, "points coordinates"]

_SHORTEST = 1e-5  # relative length of s below which differences of slopes have lost too many digits
_LEAST = 1e-3  # cosine of the angle between w and s below which the formula divides by too little


class Memory(NamedTuple):
    """Where slopes were seen last."""

    place: Several
    slopes: Several
    hessian: Float[Array, "points coordinates coordinates"]


def first_memory(slopes: Slopes, precision: Float[Array, " points"]) -> Memory:
    """Before any differences: the curvature of the sites that the search starts from."""
    place, first = _coordinates(slopes)
    return Memory(place, first, -precision[:, None, None] * jnp.eye(place.shape[1])[None])


def remember(memory: Memory, slopes: Slopes) -> Memory:
    """With the latest slopes."""
    place, first = _coordinates(slopes)
    s, r, B = place - memory.place, first - memory.slopes, memory.hessian
    left = r - jnp.einsum("nij,nj->ni", B, s)
    along = jnp.sum(s * left, axis=1)
    length, size = jnp.sum(s**2, axis=1), jnp.sum(place**2, axis=1)
    far = length > _SHORTEST**2 * (1 + size)
    told = far & (along**2 > _LEAST**2 * length * jnp.sum(left**2, axis=1))
    change = left[:, :, None] * left[:, None, :] / jnp.where(told, along, 1.0)[:, None, None]
    B = jnp.where(told[:, None, None], B + change, B)
    return Memory(place, first, B)


def _coordinates(slopes: Slopes) -> tuple[Several, Several]:
    if slopes.in_variance is None:
        return slopes.mean[:, None], slopes.first[:, None]
    place = jnp.stack([slopes.mean, slopes.variance], axis=1)
    return place, jnp.stack([slopes.first, slopes.in_variance], axis=1)
