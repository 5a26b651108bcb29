"""Weights of processes in outputs that are a known function of x."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stategp._modules import Module


class Loadings(Module):
    """A function of one x that gives a matrix: a row for each output, a column for each process."""

    function: Callable[[Any], Any] = eqx.field(static=True)
    shape: tuple[int, int] = eqx.field(static=True)
    origin: Float[Array, ""]  # from which x is measured

    given = True  # there is nothing to learn
    learned = False

    @staticmethod
    def of(function: Callable[[Any], Any]) -> "Loadings":
        """Check a user's function."""
        try:
            made = jax.eval_shape(
                lambda x: jnp.asarray(function(x), dtype=float), jax.ShapeDtypeStruct((), float)
            )
        except Exception as error:
            raise ValueError(
                "mixing as a function must take one x and give an array with a row for each "
                f"output and a column for each kernel, by operations of jax.numpy: {error}"
            ) from error
        if made.ndim != 2:
            raise ValueError(
                "mixing as a function must give an array with a row for each output and a column "
                f"for each kernel, got shape {made.shape}"
            )
        return Loadings(function, made.shape, jnp.zeros(()))

    def __call__(self, x: Float[Array, " rows"]) -> Float[Array, "rows functions processes"]:
        """The matrix at each x, measured from the origin."""
        return jax.vmap(lambda x: jnp.asarray(self.function(x), dtype=float))(x + self.origin)

    def seen_from(self, origin: float) -> "Loadings":
        """The same function of x that is measured from an origin."""
        return Loadings(self.function, self.shape, jnp.asarray(origin, dtype=float))

    def __repr__(self) -> str:
        return str(getattr(self.function, "__name__", self.function))
