"""Optax on hyperparameters, and the data in minibatches.

Optimisers see the bound per observation, and every hyperparameter in its own scale.
"""

import functools
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
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
    import optax  # slow to import

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
    import optax  # slow to import

    updates, memory = optimiser.update(
        -gradient, state.memory, state.scaled, value=-value, grad=-gradient
    )
    scaled = optax.apply_updates(state.scaled, updates)
    return scaled if limits is None else jnp.clip(scaled, *limits), memory


class Batches:
    """Minibatches of equal size: the data in random order, reshuffled when it runs out."""

    def __init__(self, count: int, size: int, seed: int):
        self.count, self.size, self.seed = count, size, seed
        self._begin()

    def _begin(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.order, self.turn = self.random.permutation(self.count), 0

    def at(self, number: int) -> np.ndarray:
        """The batch of a step, whichever step was asked for before."""
        turn, place = divmod(number, self.count // self.size)
        if turn < self.turn:
            self._begin()
        while self.turn < turn:
            self.order, self.turn = self.random.permutation(self.order), self.turn + 1
        return np.sort(self.order[place * self.size : (place + 1) * self.size])
