"""The collapsed bound as a function of the hyperparameters and of the inducing locations.

Locations are described by the first of them and by the logarithms of the gaps: they keep their
order wherever a search goes. q is a distribution of as many states, wherever these are, so that at
its optimum the gradient in the locations is that with q held fixed, as for hyperparameters.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from stategp._data import Observations, View, pad_observations
from stategp._inference._bound import ChainSites, Guess
from stategp._inference._natural import no_sites, settled_bound
from stategp._inference._starting_values import pseudo_data
from stategp._models import GP, bare
from stategp._runtime import on_device, pad_last
from stategp.parameters import log_prior, with_vector


def as_gaps(locations: np.ndarray, unit: float) -> np.ndarray:
    """The first location and the logarithms of the gaps, in multiples of a unit."""
    return np.concatenate([locations[:1] / unit, np.log(np.diff(locations) / unit)])


def as_locations(gaps: Float[Array, " states"], unit: Any) -> Float[Array, " states"]:
    """The way back."""
    return unit * jnp.cumsum(jnp.concatenate([gaps[:1], jnp.exp(gaps[1:])]))


class Located:
    """Bound plus log prior, and its gradient, for a vector of hyperparameters and gaps."""

    def __init__(self, model: GP, data: Observations, locations: np.ndarray, size: int):
        self.model, self.unit = bare(model, learning=True), float(np.ptp(locations))
        self.unit /= max(len(locations) - 1, 1)
        # Observations one by one: what sums up a stretch would have to be made anew at every step.
        self.view: Any = pad_observations(data, np.asarray(data.x[:1]) - 1.0)
        self.guess = on_device(pad_last(pseudo_data(model, data), len(self.view.y)))
        repeats = np.minimum(np.arange(size), len(locations) - 1)  # of the last, to fill up
        self.repeats = on_device(repeats)
        self.warm: ChainSites = no_sites(model, on_device(locations[repeats]))
        self.began = False

    def __call__(
        self, vector: np.ndarray, gaps: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """NaN where nothing works."""
        value, slopes, sites = _value_and_slopes(
            on_device((vector, gaps)), self.model, self.view, self.unit, self.repeats, self.guess,
            self.warm, self.began,
        )  # fmt: skip
        if np.isfinite(value):
            self.warm, self.began = sites, True
        return float(value), np.asarray(slopes[0]), np.asarray(slopes[1])

    def locations(self, gaps: np.ndarray) -> np.ndarray:
        """Where the states are."""
        return np.asarray(as_locations(on_device(gaps), self.unit))


@jax.jit
def _value_and_slopes(
    place: tuple[Float[Array, " parameters"], Float[Array, " states"]],
    model: GP,
    view: View,
    unit: Float[Array, ""] | float,
    repeats: Int[Array, " padded"],
    guess: Guess,
    warm: ChainSites,
    use_warm: Any,
) -> tuple[Float[Array, ""], tuple[Any, Any], ChainSites]:
    def objective(place: Any) -> tuple[Float[Array, ""], ChainSites]:
        moved, inducing = with_vector(model, place[0]), as_locations(place[1], unit)[repeats]
        bound, state = settled_bound(moved, view, inducing, None, guess, warm, use_warm)
        return bound + log_prior(moved), state.q.sites

    (value, sites), slopes = jax.value_and_grad(objective, has_aux=True)(place)
    return value, slopes, sites
