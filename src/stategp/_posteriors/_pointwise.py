"""Points on their own: padded to few sizes, taken in blocks, levels checked."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._runtime import pad_last, padded_blocks, padded_size
from stategp.likelihoods import Likelihood

Points = Float[Array, " points"]
Latent = Float[Array, "points *latents"]

BLOCK = 16_384  # points that are predicted together


def padded(x: Points) -> Float[Array, " padded"]:
    """Repeat the last point up to one of few sizes (many points: whole blocks)."""
    size = padded_size(len(x)) if len(x) <= BLOCK else BLOCK * padded_blocks(len(x) / BLOCK)
    return jnp.pad(x, (0, size - len(x)), mode="edge") if len(x) else jnp.zeros(size)


def over_blocks(function: Callable[[Any], Any], columns: Any, size: int = BLOCK) -> Any:
    """A function of points, in blocks, so that memory beyond the answer stays bounded."""
    points = len(jax.tree.leaves(columns)[0])
    if points <= size:
        return function(columns)

    def cut(column: Any) -> Any:
        padding = [(0, -points % size)] + [(0, 0)] * (column.ndim - 1)
        return jnp.pad(column, padding, mode="edge").reshape(-1, size, *column.shape[1:])

    blocks = jax.lax.map(function, jax.tree.map(cut, columns))
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:points], blocks)


def check_levels(levels: Any) -> np.ndarray:
    """Probabilities, each strictly between 0 and 1."""
    try:
        wanted = np.atleast_1d(np.asarray(levels, dtype=float))
    except (TypeError, ValueError):
        wanted = np.empty((0, 0))
    if wanted.ndim != 1 or len(wanted) == 0 or not np.all((wanted > 0) & (wanted < 1)):
        raise ValueError(
            "levels must be probabilities strictly between 0 and 1, such as (0.025, 0.5, 0.975), "
            f"got {levels!r}"
        )
    return wanted


def per_point(
    likelihood: Likelihood, method: str, first: Any, mean: Latent, variance: Latent, extra: Points
) -> Points:
    """A method of the likelihood at every point, padded to few sizes and in blocks."""
    columns = [np.asarray(column) for column in (first, mean, variance, extra)]
    if len(columns[0]) == 0:
        return jnp.zeros(0)
    size = len(padded(jnp.zeros(len(columns[0]))))
    whole = [jnp.asarray(pad_last(column, size)) for column in columns]
    return _in_blocks(likelihood, method, *whole)[: len(columns[0])]


@jax.jit(static_argnames=("method",))
def _in_blocks(
    likelihood: Likelihood,
    method: str,
    first: Points,
    mean: Latent,
    variance: Latent,
    extra: Points,
) -> Points:
    columns = (first, mean, variance, extra)
    if len(first) <= BLOCK:
        return getattr(likelihood, method)(*columns)
    blocks = [column.reshape(-1, BLOCK, *column.shape[1:]) for column in columns]
    return jax.lax.map(lambda block: getattr(likelihood, method)(*block), blocks).reshape(-1)
