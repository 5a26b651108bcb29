"""How often f can be differentiated, and its derivatives as combinations of the state.

Of ds = F s dx + dβ, f = H s, the derivative of H s is H F s as long as H takes no noise in, that
is while H D = 0 with D the spectral density of dβ. So dᵏf/dxᵏ = H Fᵏ s wherever H Fʲ D = 0 for
all j < k; the first j for which it is not is the number of derivatives that f has. By Cayley and
Hamilton, d zeros in a row are followed by zeros only: f is then smooth without end.
"""

import math
from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._runtime import at_once

if TYPE_CHECKING:
    from stategp.kernels._base import Kernel

# Where the equation is written in other coordinates than f and its derivatives, zeros come out as
# rounding: that many units of it, of the sum of the magnitudes of all terms.
_ROUNDING = 1e3 * np.finfo(float).eps


def smoothness(kernel: "Kernel") -> int | float:
    """The number of mean-square derivatives, the least of the kernel's blocks; may be infinite."""
    from stategp.kernels._compose import group_blocks

    noise = at_once(lambda: [_noise_taken_in(group) for group in group_blocks(kernel)])
    return min(
        _first_noise(*block)
        for group in noise
        for block in zip(*map(np.asarray, group), strict=True)
    )


def _first_noise(taken: np.ndarray, largest: np.ndarray) -> int | float:
    """The first order at which noise comes in, beyond what rounding explains."""
    noisy = np.any(np.abs(taken) > _ROUNDING * largest, axis=-1)
    return int(np.argmax(noisy)) if noisy.any() else math.inf


@jax.jit
@jax.vmap
def _noise_taken_in(
    block: "Kernel",
) -> tuple[Float[Array, "orders dim"], Float[Array, "orders dim"]]:
    """H Fʲ D for j = 0 … d−1, and the same with all magnitudes added up."""
    H, F, D = block.emission(), block.feedback(), block.diffusion()
    rate = jnp.max(jnp.abs(F))
    F = F / jnp.where(rate > 0, rate, 1.0)  # powers of a fast rate would overflow

    def orders(H: Array, F: Array, D: Array) -> Array:
        _, rows = jax.lax.scan(lambda row, _: (row @ F, row @ D), H, length=len(H))
        return rows

    return orders(H, F, D), orders(jnp.abs(H), jnp.abs(F), jnp.abs(D))


@partial(jax.jit, static_argnames="order")
def derivative_rows(kernel: "Kernel", order: int) -> Float[Array, "orders dim"]:
    """H, H F, …, H Fᵏ."""
    F, rows = kernel.feedback(), [kernel.emission()]
    for _ in range(order):
        rows.append(rows[-1] @ F)
    return jnp.stack(rows)
