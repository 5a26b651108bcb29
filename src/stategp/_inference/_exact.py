"""log p(y) and its gradient where nothing is approximate: Gaussian noise, a state at every input.

The collapsed bound with inducing points at the data is the same number. Here it comes from one
Kalman filter over scalar observations and its adjoint, without the posterior of the states.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stategp._data import AtInducing, View
from stategp._models import GP
from stategp.chain import log_evidence, prior_transitions
from stategp.likelihoods import Gaussian
from stategp.parameters import log_prior, with_vector

States = Float[Array, " states"]
Vector = Float[Array, " parameters"]

_CLEAREST = 1e13  # signal over noise beyond which the general way is left to judge


def knows_evidence(model: GP, data: View) -> bool:
    """Whether these are Gaussian observations at inducing points, on a device that loops well."""
    gaussian = isinstance(model.likelihood, Gaussian) and len(model.kernels) == 1
    return gaussian and isinstance(data, AtInducing) and jax.default_backend() == "cpu"


def evidence(model: GP, data: View, inducing: States) -> Float[Array, ""]:
    """log p(y). Observations at the same input act as one, their weighted mean.

    NaN where the signal is so far above the noise that few digits of the latter are left.
    """
    assert isinstance(data, AtInducing)
    assert isinstance(model.likelihood, Gaussian)
    (kernel,), (mean,) = model.kernels, model.means
    weights = jnp.asarray(data.weights)
    noise = model.likelihood.variance.value + jnp.asarray(data.extra)
    precision = weights / noise
    residual = jnp.asarray(data.y) - mean(data.user_nodes)

    def at_states(values: Float[Array, " points"]) -> States:
        return jax.ops.segment_sum(values, data.state, len(inducing), indices_are_sorted=True)

    total = at_states(precision)
    average = at_states(precision * residual) / jnp.where(total > 0, total, 1.0)
    emission = kernel.emission()
    found = log_evidence(prior_transitions(kernel, inducing), emission, average, total)
    apart = jnp.sum(precision * (residual - average[data.state]) ** 2)
    scale = jnp.sum(weights * jnp.log(2 * math.pi * noise))
    signal = emission @ kernel.stationary_covariance() @ emission
    clear = jax.lax.stop_gradient(signal * jnp.max(total)) > _CLEAREST
    return jnp.where(clear, jnp.nan, found - (apart + scale) / 2)


@jax.jit
def evidence_and_gradient(
    vector: Vector, model: GP, data: View, inducing: States
) -> tuple[Float[Array, ""], Vector]:
    """log p(y) plus the log prior of the hyperparameters, and its gradient in them."""

    def objective(vector: Vector) -> Float[Array, ""]:
        moved = with_vector(model, vector)
        return evidence(moved, data, inducing) + log_prior(moved)

    return jax.value_and_grad(objective)(vector)
