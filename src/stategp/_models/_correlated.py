"""Rows of outputs whose noise is correlated: each given those before it at the same time.

With noise of covariance R, y_p given y_b of the outputs b before it and all f is Gaussian with mean
f_p + c·(y_b − f_b) and variance R_pp − c·R_bp, where c = R_bb⁻¹ R_bp. A row so reads the mixture
f_p − c·f_b, with noise of its own.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stategp._data import Together
from stategp._linalg import psd_cholesky, psd_solve

Rows = Float[Array, " rows"]


class Conditioned(NamedTuple):
    """What rows owe to the others at their times."""

    shares: Float[Array, "rows outputs"]  # c, zero for outputs that were not seen before
    noise: Rows  # the variance that is left


def conditioned(R: Float[Array, "outputs outputs"], rows: Together) -> Conditioned:
    """For every row, from the covariance of the noise."""

    def one(output: Array, seen: Array, extra: Array) -> tuple[Array, Array]:
        both = seen[:, None] & seen[None]
        block = jnp.where(both, R + jnp.diag(extra), jnp.eye(len(R)))
        towards = jnp.where(seen, R[output], 0.0)
        return block, towards

    blocks, towards = jax.vmap(one)(rows.output, rows.seen, rows.extra)
    blocks = jnp.moveaxis(blocks, 0, -1)
    right = towards.T[:, None]
    shares = psd_solve(blocks, psd_cholesky(blocks), right)[:, 0].T
    noise = jnp.diagonal(R)[rows.output] - jnp.sum(shares * towards, axis=1)
    return Conditioned(shares, noise)
