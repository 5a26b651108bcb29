"""Optax on hyperparameters, and the data in minibatches.

Optimisers see the bound per observation, and every hyperparameter in its own scale.
"""

import functools
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from stategp._inference._limits import Limits


class Moving(NamedTuple):
    """Hyperparameters (each in its own scale), what the optimiser remembers, and q."""

    scaled: Float[Array, " parameters"]
    memory: Any
    sites: Any  # of every chain, or those of another model
    spare: Any = None  # sites without negative precisions, if the likelihood makes such


@functools.lru_cache(maxsize=16)
def checked(optimiser: Any) -> Any:
    """The optimiser, if gradients and values are all it needs."""
    extended = optax.with_extra_args_support(optimiser)
    nothing = jnp.zeros(1)
    try:
        extended.update(nothing, extended.init(nothing), nothing, value=jnp.zeros(()), grad=nothing)
    except TypeError as error:
        raise ValueError(
            f"this Optax optimiser needs more than values and gradients ({error}); for L-BFGS pass "
            "optimiser='lbfgs'"
        ) from None
    return extended


def move(
    optimiser: Any, state: Any, value: Array, gradient: Array, limits: Limits | None = None
) -> tuple[Array, Any]:
    """One step upwards, and back to the nearest place within the limits; Optax goes down."""
    updates, memory = optimiser.update(
        -gradient, state.memory, state.scaled, value=-value, grad=-gradient
    )
    scaled = optax.apply_updates(state.scaled, updates)
    return scaled if limits is None else jnp.clip(scaled, *limits), memory


class Batches:
    """Minibatches of equal size: the data in random order, reshuffled when it runs out."""

    def __init__(self, count: int, size: int, seed: int):
        self.random, self.size = np.random.default_rng(seed), size
        self.order, self.position = self.random.permutation(count), 0

    def next(self) -> np.ndarray:
        if self.position + self.size > len(self.order):
            self.order, self.position = self.random.permutation(self.order), 0
        chosen = self.order[self.position : self.position + self.size]
        self.position += self.size
        return np.sort(chosen)
