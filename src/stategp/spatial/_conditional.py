"""A field at any place given the field at some anchors: f(s) = C(s) v + rest, with v white."""

from typing import Any, NamedTuple

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
    """Inducing places, and the factor that makes the field there white: u = modes factor v."""

    places: Places
    factor: Float[Array, "anchors anchors"]  # unit rows in place of the anchors that are left out
    kept: Bool[Array, " anchors"]
    modes: Float[Array, "anchors anchors"] | None  # an orthogonal matrix; None: the identity

    @staticmethod
    def of(kernel: Kernel, places: Places, modes: Any = None) -> "Anchors":
        """Factorise the correlation of the places, without jitter."""
        kept, reduced = _reduced(kernel, places)
        if modes is not None:
            reduced = modes.T @ reduced @ modes
        return Anchors(places, jnp.linalg.cholesky(reduced), kept, modes)

    def coefficients(
        self, kernel: Kernel, places: Places
    ) -> tuple[Float[Array, "n anchors"], Float[Array, " n"]]:
        """C(s) for each place, and the share of the variance that is left to the rest."""
        cross = jnp.where(self.kept[:, None], kernel(self.places, places), 0.0)
        if self.modes is not None:
            cross = self.modes.T @ cross
        rows = jax.scipy.linalg.solve_triangular(self.factor, cross, lower=True).T
        return rows, jnp.maximum(1 - jnp.sum(rows**2, axis=1), 0.0)


@jax.jit
def principal_modes(kernel: Kernel, places: Places) -> Float[Array, "anchors anchors"]:
    """Patterns of the field at the places that are independent, from the strongest on."""
    return jnp.linalg.eigh(_reduced(kernel, places)[1])[1][:, ::-1]


def _reduced(kernel: Kernel, places: Places) -> tuple[Any, Float[Array, "anchors anchors"]]:
    """Which anchors are kept, and their correlation; the others are on their own."""
    correlation = kernel(places, places)
    kept = _carrying(jax.lax.stop_gradient(correlation))
    both = kept[:, None] & kept[None]
    return kept, jnp.where(both, correlation, jnp.eye(len(places)))


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
