"""Samples of a kernel's process before any data, along its states."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._data import inputs_as_given, relative_inputs
from stategp._models._loadings import Loadings
from stategp._runtime import as_count, as_key, pad_last, padded_size, refuse_traced
from stategp.chain import sample_prior_states, step_transitions
from stategp.kernels import Kernel

Points = Float[Array, " points"]


def seen_from(model: Any, origin: Any) -> Any:
    """A model for inputs that are measured from an origin, if it matters to its parts where."""
    start, mixing = float(np.asarray(origin)), getattr(model, "mixing", None)
    if isinstance(mixing, Loadings):
        model = eqx.tree_at(lambda m: m.mixing, model, mixing.seen_from(start))
    if not any(kernel.located for kernel in model.kernels):
        return model
    kernels = tuple(kernel.seen_from(start) for kernel in model.kernels)
    return eqx.tree_at(lambda m: m.kernels, model, kernels)


def prior_states(
    kernel: Kernel, key: PRNGKeyArray, x: Points, num_samples: int
) -> Float[Array, "dim samples points"]:
    """Joint samples of the states at points in any order."""
    order = jnp.argsort(x)
    white = jax.random.normal(key, (kernel.state_dim, num_samples, len(x)))
    transitions = step_transitions(kernel, jnp.diff(x[order]), x[order])
    path = sample_prior_states(transitions, white)
    return jnp.zeros_like(path).at[..., order].set(path)  # back from sorted to given order


@functools.partial(jax.jit, static_argnames=("num_samples",))
def _prior_functions(
    model: Any, key: PRNGKeyArray, x: Points, origin: Float[Array, ""], num_samples: int
) -> Float[Array, "samples points latents"]:
    functions = []
    for number, (kernel, mean) in enumerate(zip(model.kernels, model.means, strict=True)):
        states = prior_states(kernel, jax.random.fold_in(key, number), x, num_samples)
        f = jnp.sum(kernel.emission_at(x)[:, None] * states, axis=0)
        functions.append(f + mean(x + origin)[None])
    return jnp.stack(functions, axis=-1)


def sample_prior(
    model: Any, key: Any, x: Any, num_samples: Any
) -> Float[Array, "samples points *latents"]:
    """Joint samples of the functions of a model, mean functions included."""
    refuse_traced("the model", model)
    count, inputs = as_count(num_samples), inputs_as_given("x", x)
    origin = inputs.min().item() if len(inputs) else 0
    relative = relative_inputs("x", inputs, origin)
    if count == 0 or len(inputs) == 0:
        functions = jnp.zeros((count, len(inputs), len(model.kernels)))
    else:
        whole = jnp.asarray(pad_last(relative, padded_size(len(relative))))
        start = jnp.asarray(float(np.asarray(origin)))
        functions = _prior_functions(seen_from(model, origin), as_key(key), whole, start, count)[
            :, : len(inputs)
        ]
    return functions[..., 0] if len(model.kernels) == 1 else functions
