"""A field at any place given the field at some anchors: f(s) = C(s) v + rest, with v white."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from stategp.spatial._kernels import Kernel
from stategp.spatial._metrics import Places

# The share of its variance that an anchor must add to what the others say. Anchors below are
# left out: the model without them is as good a bound, and what they would have carried (at most
# this share) goes to the rest. Smaller pivots would leave derivatives with few digits.
_LEAST = 1e-10


class Anchors(NamedTuple):
    """Inducing places, and the factor that makes the field there white: u = factor v."""

    places: Places
    factor: Float[Array, "anchors anchors"]  # unit rows in place of the anchors that are left out
    kept: Bool[Array, " anchors"]

    @staticmethod
    def of(kernel: Kernel, places: Places) -> "Anchors":
        """Factorise the correlation of the places, without jitter."""
        correlation = kernel(places, places)
        kept = _carrying(jax.lax.stop_gradient(correlation))
        both = kept[:, None] & kept[None]
        reduced = jnp.where(both, correlation, jnp.eye(len(places)))
        return Anchors(places, jnp.linalg.cholesky(reduced), kept)

    def coefficients(
        self, kernel: Kernel, places: Places
    ) -> tuple[Float[Array, "n anchors"], Float[Array, " n"]]:
        """C(s) for each place, and the share of the variance that is left to the rest."""
        cross = jnp.where(self.kept[:, None], kernel(self.places, places), 0.0)
        rows = jax.scipy.linalg.solve_triangular(self.factor, cross, lower=True).T
        return rows, jnp.maximum(1 - jnp.sum(rows**2, axis=1), 0.0)


def _carrying(correlation: Float[Array, "anchors anchors"]) -> Bool[Array, " anchors"]:
    """Which anchors add something to the others: Cholesky with pivots, the largest first."""
    nothing = jnp.zeros(len(correlation), bool)

    def eliminate(state: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
        rest, kept = state
        left = jnp.where(kept, 0.0, jnp.diagonal(rest))
        number = jnp.argmax(left)
        usable = left[number] > _LEAST
        column = rest[:, number] * jnp.where(usable, 1 / jnp.where(usable, left[number], 1.0), 0.0)
        return (rest - column[:, None] * rest[number][None], kept.at[number].set(usable)), None

    return jax.lax.scan(eliminate, (correlation, nothing), length=len(correlation))[0][1]
