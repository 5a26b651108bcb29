"""The paper's parameterisation of q: ξ = (mean, Cholesky factor of the precision of the states).

It needs the precision of the prior, which loses its digits when inducing points lie much closer
together than the lengthscale.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stategp.chain import (
    BlockBidiagonal,
    BlockTridiagonal,
    MeanCholesky,
    Sites,
    Transitions,
    psd_cholesky,
    psd_solve,
)


def prior_precision(transitions: Transitions) -> BlockTridiagonal:
    """The precision of the prior of the states."""
    A, Q = transitions.A, transitions.Q[:-1]

    def inverse(covariance: Float[Array, "dim dim"]) -> Float[Array, "dim dim"]:
        root = jax.lax.stop_gradient(psd_cholesky(covariance))
        return psd_solve(covariance, root, jnp.eye(len(covariance)))

    inverses = jax.vmap(inverse)(Q)
    carried = inverses[1:] @ A[1:-1]
    diagonal = inverses.at[:-1].add(A[1:-1].mT @ carried)
    return BlockTridiagonal(diagonal, -carried)


def prior_chain(transitions: Transitions) -> MeanCholesky:
    states, dim = transitions.A.shape[0] - 1, transitions.A.shape[-1]
    return MeanCholesky(jnp.zeros((states, dim)), prior_precision(transitions).cholesky())


def logarithmic(xi: MeanCholesky, to_log: bool) -> MeanCholesky:
    """ξ with the diagonal of its factor as logarithms, or back."""
    factor = xi.precision_cholesky
    eye = jnp.eye(factor.diagonal.shape[-1], dtype=bool)
    lower = jnp.tril(factor.diagonal)
    inside = jnp.where(eye, lower, 1.0 if to_log else 0.0)
    changed = jnp.log(inside) if to_log else jnp.exp(inside)
    return MeanCholesky(xi.mean, BlockBidiagonal(jnp.where(eye, changed, lower), factor.lower))


def difference(xi: MeanCholesky, transitions: Transitions) -> Sites:
    """What q's natural parameters have beyond the prior's; every state's own part goes right."""
    precision = xi.precision_cholesky.gram()
    linear = precision @ xi.mean
    band = precision - prior_precision(transitions)
    sites = Sites.zeros(len(transitions.A), linear.shape[1])
    dim = linear.shape[1]
    alone = sites.precision.at[1:, :dim, :dim].set(band.diagonal)
    across = alone.at[1:-1, dim:, :dim].set(band.lower).at[1:-1, :dim, dim:].set(band.lower.mT)
    return Sites(sites.linear.at[1:, :dim].set(linear), across)
