"""What is asked of random numbers: a key, and how many samples."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from stategp._arguments import whole_number
from stategp._runtime._tracing import on_device


def as_key(key: Any) -> PRNGKeyArray:
    """A JAX random key, from a key (of either kind) or a whole number."""
    if isinstance(key, int | np.integer):
        return _key_of(int(key))
    if not isinstance(key, jax.Array):
        raise ValueError(f"key must be a JAX random key or a whole number, got {key!r}")
    return key if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else jax.random.wrap_key_data(key)


def _key_of(seed: int) -> PRNGKeyArray:
    """That of `jax.random.key`, which would compile two programs for it."""
    if jax.config.values["jax_default_prng_impl"] != "threefry2x32" or not abs(seed) < 2**62:
        return jax.random.key(seed)
    halves = np.array([seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF], dtype=np.uint32)
    return jax.random.wrap_key_data(on_device(halves))


def as_count(num_samples: Any) -> int:
    """How many samples: a whole number, none if it is negative."""
    return max(whole_number("num_samples", num_samples), 0)
