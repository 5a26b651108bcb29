"""The evidence of scalar observations, one at each state: a Kalman filter and its adjoint.

On a CPU this is a compiled kernel (`_blocks`), which also knows blocks, closed forms, steps of
equal length and steady states; elsewhere its twin in JAX (`_filter`).
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from stategp import _native
from stategp.chain._blocks import compiled_evidence, given_steps, kernel_steps
from stategp.chain._filter import filtered_evidence
from stategp.chain._sites import Transitions, step_transitions
from stategp.kernels import Kernel

Evidence = tuple[Float[Array, ""], Float[Array, ""]]


def log_evidence(
    steps: Transitions,
    emission: Float[Array, " dim"],
    value: Float[Array, " states"],
    precision: Float[Array, " states"],
    *,
    which: Int[Array | np.ndarray, " states"] | None = None,
    blocks: tuple[int, ...] = (),
    steady: bool = True,
) -> Evidence:
    """log ∫ p(s) ∏ exp(−½ precision (value − h·s)²) ds, and its possible rounding error.

    Step n leads to state n, the first from nothing; if `which` is given, step `which[n]` does.
    `blocks` are the sizes of independent parts of the state, outside of which A and Q are zero.
    `steady` allows the compiled kernel to stop updating covariances that stand still to rounding.
    An observation of precision 0 is ignored, and its derivatives mean nothing. For deterministic
    kernels the variance of f falls to that of the noise, but the covariances it is computed from
    keep rounding errors on the scale of the signal: use `careful_log_evidence` for those.
    """
    states = len(value)
    if which is None:
        which, steps = np.arange(states), Transitions(steps.A[:states], steps.Q[:states])
    if _native.in_use(steps.A, emission, value, precision):
        packed, layout = given_steps(steps, emission, blocks or (len(emission),))
        return _compiled(packed, value, precision, which, layout, steady)
    return filtered_evidence(
        Transitions(steps.A[which], steps.Q[which]), emission, value, precision
    )


def kernel_evidence(
    kernel: Kernel,
    lengths: Float[Array, " steps"],
    value: Float[Array, " states"],
    precision: Float[Array, " states"],
    *,
    which: Int[Array | np.ndarray, " states"],
    steady: bool = True,
) -> Evidence:
    """The same for the states of a kernel, from the lengths of the steps between them.

    State n is reached by a step of length `lengths[which[n] - 1]`, or from nothing if `which[n]` is
    zero. Matrices of steps are formed only where there is no closed form of them.
    """
    if _native.in_use(lengths, value, precision):
        steps, layout = kernel_steps(kernel, lengths)
        return _compiled(steps, value, precision, which, layout, steady)
    return log_evidence(
        step_transitions(kernel, lengths), kernel.emission(), value, precision, which=which
    )


def _compiled(steps: Any, value: Any, precision: Any, which: Any, layout: Any, steady: bool) -> Any:
    return compiled_evidence(steps, value, precision, jnp.asarray(which, jnp.int32), layout, steady)
