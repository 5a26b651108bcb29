"""A bridge to samplers: the posterior of the hyperparameters as a JAX function.

stategp has no sampler of its own; BlackJAX, NumPyro and others take such a function as it is.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._data import View, observe, pad_observations, place_inducing
from stategp._fitting._task import check_noise
from stategp._inference import collapsed_bound, pseudo_data, starting_model
from stategp._models import GP, seen_from
from stategp._modules import Module
from stategp._runtime import pad_last, refuse_traced
from stategp.parameters import all_parameters, to_vector, with_vector

Vector = Float[Array, " parameters"]
UserVector = Float[Array | np.ndarray, " parameters"]


class _Target(Module):
    """All that a log posterior is computed from."""

    model: GP
    data: View
    inducing: Float[Array, " states"]
    guess: Float[Array, "points *latents"]


class LogPosterior:
    """log p(hyperparameters | y) up to a constant, with q integrated out.

    A function of one unconstrained vector (logarithms of the positive hyperparameters) for
    `jax.jit`, `jax.vmap`, `jax.grad` and samplers; `start` is such a vector and `model_at` turns
    one into a model. JAX can differentiate it twice if the observations are Gaussian, else once;
    `hessian` gives the second derivatives in either case.
    """

    def __init__(self, target: _Target):
        self._target = target

    @property
    def model(self) -> GP:
        """The model, with the hyperparameters of `start`."""
        return self._target.model

    @property
    def start(self) -> Vector:
        """The hyperparameters of the model, as a vector."""
        return to_vector(self.model)

    def __call__(self, vector: UserVector) -> Float[Array, ""]:
        """The bound, plus the log priors, plus the log Jacobian of the logarithms."""
        return _log_density(self._target, jnp.asarray(vector))

    def model_at(self, vector: UserVector) -> GP:
        """The model with these hyperparameters."""
        return with_vector(self.model, jnp.asarray(vector))

    def hessian(self, vector: UserVector) -> Float[Array, "parameters parameters"]:
        """Second derivatives at a vector, from differences of the gradient (about seven digits).

        At the maximum, minus its inverse is the Laplace approximation of the covariance.

        >>> import numpy as np, stategp as sg
        >>> model = sg.GP(sg.kernels.Matern12(lengthscale=1.0), sg.likelihoods.Poisson())
        >>> density = sg.log_posterior(model, np.arange(5), [1, 0, 2, 1, 3])
        >>> density.hessian(density.start).shape
        (2, 2)
        """
        centre = jnp.asarray(vector, dtype=float)
        rows = [_curvature(self._target, centre, way) for way in jnp.eye(len(centre))]
        matrix = jnp.stack(rows) if rows else jnp.zeros((0, 0))
        return (matrix + matrix.T) / 2


_STEP = 2e-3  # in units of the vector, mostly logarithms; the error is of the fourth order


def _curvature(target: _Target, centre: Vector, way: Vector) -> Vector:
    """The derivative of the gradient along one direction."""
    near, far = (
        _gradient(target, centre + step * way) - _gradient(target, centre - step * way)
        for step in (_STEP, 2 * _STEP)
    )
    return (8 * near - far) / (12 * _STEP)


@jax.jit
def _log_density(target: _Target, vector: Vector) -> Float[Array, ""]:
    bound = collapsed_bound(vector, target.model, target.data, target.inducing, target.guess)
    flags = [
        jnp.full(p.value.size, p.constraint == "positive")
        for p in all_parameters(target.model)
        if p.learned
    ]
    logarithmic = jnp.concatenate(flags) if flags else jnp.zeros(0, dtype=bool)
    return bound + jnp.sum(jnp.where(logarithmic, vector, 0.0))


_gradient = jax.jit(jax.grad(_log_density, argnums=1))


def log_posterior(
    model: GP | Any, x: Any, y: Any, *, inducing: Any = "data", weights: Any = None, **extras: Any
) -> LogPosterior:
    """The log posterior density of the hyperparameters, for a sampler.

    Arguments are those of `condition` (except `inducing="auto"`). Hyperparameters without a value
    get starting values from the data. Give a prior to every hyperparameter that is learned: without
    one, a positive hyperparameter has an improper prior whose density is one on all positive
    numbers.

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
    started = starting_model(seen_from(model, data.origin), data)
    check_noise(started, data.extra)
    view = pad_observations(data, np.asarray(locations))
    guess = jnp.asarray(pad_last(pseudo_data(model, data), len(view)))
    return LogPosterior(_Target(started, view, locations, guess))
