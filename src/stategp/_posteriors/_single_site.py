"""The site of one observation, where everything before it is a normal distribution of f."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stategp.likelihoods import Likelihood

_SITE_STEPS = 100
_STILL = 1e-20  # square of what a step may move f, in deviations, when its site is found
_SHORTEST = 1e-4


def variational_site(
    likelihood: Likelihood,
    y: Float[Array, ""],
    mean: Float[Array, " latents"],
    variance: Float[Array, " latents"],
    extra: Float[Array, ""],
) -> tuple[Array, Array]:
    """The site of one observation at the optimum of E_q[log p(y | f)] − KL(q‖before).

    Natural-gradient steps as those of a chain, halved where they would lower the bound. Returned
    are the pull, which is the gradient of the log site at the mean before, and the precision.
    """

    def evaluate(pull: Array, precision: Array) -> tuple[Array, Array, Array]:
        """The bound, and the pull and precision that it points at."""
        grown = 1 + precision * variance
        shift, after = variance * pull / grown, variance / grown
        several = likelihood.latents > 1
        shape = (1, -1) if several else (-1,)
        value, slope, curvature = likelihood.expected_slopes(
            y[None], (mean + shift).reshape(shape), after.reshape(shape), extra[None]
        )
        slope, curvature = slope.reshape(-1), curvature.reshape(-1)
        wanted = -2 * curvature
        if likelihood.log_concave:
            wanted = jnp.maximum(wanted, 0.0)
        # ½ Σ (1/grown − 1 + log grown + shift²/variance), with shift² / variance without 0/0
        distance = jnp.sum(1 / grown - 1 + jnp.log(grown) + shift * pull / grown) / 2
        fine = jnp.all(grown > 0) & jnp.isfinite(value[0])
        return jnp.where(fine, value[0] - distance, -jnp.inf), slope + wanted * shift, wanted

    def unfinished(state: Any) -> Array:
        return ~state[-1] & (state[-2] < _SITE_STEPS)

    def step(state: Any) -> Any:
        pull, precision, bound, target, size, number, _ = state
        new = pull + size * (target[0] - pull), precision + size * (target[1] - precision)
        found = evaluate(*new)
        slack = jnp.where(jnp.isfinite(bound), 1e-13 * (1 + jnp.abs(bound)), 0.0)
        better = jnp.isfinite(found[0]) & (found[0] >= bound - slack)
        grown = 1 + precision * variance
        shift = variance * (target[0] - pull) / grown
        stretch = variance * (target[1] - precision) / grown
        still = jnp.max(shift**2 * grown / jnp.maximum(variance, 1e-300) + stretch**2) < _STILL
        kept = jax.tree.map(
            lambda a, b: jnp.where(better, a, b),
            (*new, found[0], (found[1], found[2])),
            (pull, precision, bound, target),
        )
        size = jnp.where(better, jnp.minimum(1.0, 2 * size), size / 2)
        return *kept, size, number + 1, (better & still) | (size < _SHORTEST)

    nothing = jnp.zeros_like(mean)
    bound, pull, precision = evaluate(nothing, nothing)
    start = nothing, nothing, bound, (pull, precision), jnp.ones(()), 0, jnp.zeros((), bool)
    pull, precision, *_ = jax.lax.while_loop(unfinished, step, start)
    return pull, precision
