"""Points on their own: padded to few sizes, taken in blocks, levels checked."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._models import bare
from stategp._runtime import (
    at_once,
    finishing_compilations,
    is_traced,
    on_device,
    pad_last,
    padded_blocks,
    padded_size,
    quick_jit,
)
from stategp.likelihoods import Likelihood

Points = Float[Array, " points"]
Latent = Float[Array, "points *latents"]

BLOCK = 16_384  # points that are predicted together
MANY = 131_072  # points from which on they come in large blocks, which are quicker
_SMALL_BLOCK = 256  # below that: whatever their number, the compiled program is the same


def padded(x: Points) -> Float[Array, " padded"]:
    """Repeat the last point up to one of few sizes (many points: whole blocks)."""
    size = padded_size(len(x)) if len(x) <= BLOCK else BLOCK * padded_blocks(len(x) / BLOCK)
    if is_traced(x):
        return jnp.pad(x, (0, size - len(x)), mode="edge") if len(x) else jnp.zeros(size)
    return on_device(pad_last(np.asarray(x), size) if len(x) else np.zeros(size))


def by_blocks(function: Callable[..., Any], *columns: Any) -> Any:
    """The answers of a compiled function of points, each on its own, as NumPy arrays.

    The points are given to it in blocks of one of two sizes, so that it is compiled at most twice.
    """
    whole = [np.asarray(column) for column in columns]
    points = len(whole[0])
    size = _SMALL_BLOCK if points <= MANY else BLOCK
    if points == 0:
        whole = [np.ones((1, *column.shape[1:])) for column in whole]

    def block(start: int) -> Any:
        return function(*(pad_last(column[start : start + size], size) for column in whole))

    with finishing_compilations(forget=False):
        answers = [at_once(partial(block, start)) for start in range(0, len(whole[0]), size)]
        return jax.tree.map(lambda *blocks: _joined(blocks, points), *answers)


def _joined(blocks: tuple[Array, ...], points: int) -> np.ndarray:
    return np.concatenate([np.asarray(block) for block in blocks])[:points]


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


def per_point(likelihood: Likelihood, method: str, *columns: Any) -> Any:
    """What a method of the likelihood says at every point; each argument has a row per point."""
    if any(map(is_traced, columns)):
        return getattr(likelihood, method)(*columns)
    plain = bare(likelihood)
    return on_device(by_blocks(lambda *block: _of_likelihood(plain, method, *block), *columns))


@quick_jit(rows="columns", static_argnames="method")
def _of_likelihood(likelihood: Likelihood, method: str, *columns: Any) -> Any:
    return getattr(likelihood, method)(*columns)
