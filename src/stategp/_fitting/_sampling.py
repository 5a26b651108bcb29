"""A bridge to samplers: the posterior of the hyperparameters as a JAX function.

stategp has no sampler of its own; BlackJAX, NumPyro and others take such a function as it is.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._data import View, observe, pad_observations, place_inducing
from stategp._fitting._task import check_noise
from stategp._inference import collapsed_bound, pseudo_data, starting_model
from stategp._models import GP
from stategp._runtime import pad_last, refuse_traced
from stategp.parameters import all_parameters, to_vector, with_vector

Vector = Float[Array, " parameters"]


class LogPosterior(eqx.Module):
    """log p(hyperparameters | y) up to a constant, with q integrated out.

    A function of one vector without constraints (logarithms of the positive hyperparameters),
    differentiable by JAX once (the gradient holds q fixed, so second derivatives would be wrong);
    `start` is such a vector and `model_at` turns one into a model.
    """

    model: GP
    data: View
    inducing: Float[Array, " states"]
    guess: Float[Array, "points *latents"]

    @property
    def start(self) -> Vector:
        """The hyperparameters of the model, as a vector."""
        return to_vector(self.model)

    def __call__(self, vector: Vector) -> Float[Array, ""]:
        """The bound, plus the log priors, plus the log Jacobian of the logarithms."""
        return _log_density(self, vector)

    def model_at(self, vector: Vector) -> GP:
        """The model with these hyperparameters."""
        return with_vector(self.model, vector)

    @property
    def _logarithmic(self) -> Any:
        flags = [
            jnp.full(p.value.size, p.constraint == "positive")
            for p in all_parameters(self.model)
            if p.learned
        ]
        return jnp.concatenate(flags) if flags else jnp.zeros(0, dtype=bool)


@jax.jit
def _log_density(target: LogPosterior, vector: Vector) -> Float[Array, ""]:
    bound = collapsed_bound(vector, target.model, target.data, target.inducing, target.guess)
    return bound + jnp.sum(jnp.where(target._logarithmic, vector, 0.0))


def log_posterior(
    model: GP | Any, x: Any, y: Any, *, inducing: Any = "data", weights: Any = None, **extras: Any
) -> LogPosterior:
    """The posterior of the hyperparameters, for a sampler.

    Arguments as for `condition` (`inducing="auto"` excepted). Hyperparameters that were not given
    start from values taken from the data. Give priors to all that are learned: without one, a
    positive hyperparameter has the improper density of one over all positive numbers.

    >>> import jax, numpy as np, stategp as sg
    >>> density = sg.log_posterior(sg.GP(sg.kernels.Matern32()), np.arange(9), np.sin(np.arange(9)))
    >>> value, gradient = jax.value_and_grad(density)(density.start)
    >>> gradient.shape
    (3,)
    """
    if not isinstance(model, GP):
        raise ValueError(f"model must be an sg.GP, got {type(model).__name__}: {model!r}")
    refuse_traced("the model", model)
    data = observe(x, y, model.likelihood, extras=extras, weights=weights)
    locations = jnp.asarray(place_inducing(inducing, data))
    started = starting_model(model, data)
    check_noise(started, data.extra)
    view = pad_observations(data, np.asarray(locations))
    guess = jnp.asarray(pad_last(pseudo_data(model, data), len(view)))
    return LogPosterior(started, view, locations, guess)
