"""What JAX can trace and what it cannot.

Checking data, choosing sizes and watching a search need numbers, and inside `jax.jit`, `jax.vmap`
or `jax.grad` there are none yet. The functions that need them say so here, all in the same words.
"""

from collections.abc import Callable
from typing import Any

import jax


def refuse_traced(name: str, *values: Any) -> None:
    """Raise if anything among the leaves of the values is being traced by JAX."""
    if any(is_traced(value) for value in values):
        raise TypeError(
            f"{name} is being traced by JAX (inside jax.jit, jax.vmap, jax.grad or the like), but "
            "this function needs actual numbers to check its data, and cannot be traced. Call it "
            "outside, and let JAX trace one of these: sg.log_posterior(model, x, y) as a function "
            "of the hyperparameters, kernel(x1, x2), the methods of likelihoods, sg.chain, or "
            "predict_f, predict_state and predict_derivative of a posterior as functions of x_new"
        )


def is_traced(values: Any) -> bool:
    """Whether anything among the leaves of the values is being traced by JAX."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def at_once(compute: Callable[[], Any]) -> Any:
    """What a compiled function of numbers says, also where JAX is tracing something else."""
    answer = compute()
    if is_traced(answer):  # it has become a part of what is traced
        with jax.ensure_compile_time_eval():
            return compute()
    return answer


def on_device(values: Any) -> Any:
    """NumPy arrays as JAX has them: numbers also where JAX is tracing something else.

    No program is compiled for it, as `jnp.asarray` does for every shape.
    """
    with jax.ensure_compile_time_eval():
        return jax.device_put(values)
