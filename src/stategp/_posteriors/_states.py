"""From a chain of states to states at new points: moments, derivatives, joint samples."""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from stategp._linalg import apply, psd_cholesky, times, transpose
from stategp._posteriors._pointwise import BLOCK, over_blocks
from stategp._posteriors._prediction import Chain, summands_of
from stategp._state_projection import Rows, StateProjection, project_states
from stategp.chain import (
    Affine,
    Innovations,
    PairMarginals,
    Sites,
    Transitions,
    follow,
    innovations,
    prior_transitions,
)
from stategp.kernels import Kernel
from stategp.means import Mean

Points = Float[Array, " points"]
States = Float[Array, " states"]

_ENTRIES = 2**21  # of the matrices of a block of points


class Strand(NamedTuple):
    """The chain of one latent function."""

    kernel: Kernel
    inducing: States
    sites: Sites
    marginals: PairMarginals

    @staticmethod
    def of(chain: Chain, number: int) -> "Strand":
        """That of a function, by its number."""
        kernel, sites = chain.model.kernels[number], chain.sites[number]
        return Strand(kernel, chain.inducing, sites, chain.marginals[number])


class Swept(NamedTuple):
    """A strand with what all of its intervals say."""

    strand: Strand
    transitions: Transitions
    innovations: Innovations

    @staticmethod
    def of(strand: Strand, indefinite: bool) -> "Swept":
        """One pass over the chain; `indefinite` if sites may be negative."""
        transitions = prior_transitions(strand.kernel, strand.inducing)
        q_innovations = innovations(
            transitions, strand.sites, strand.marginals, indefinite=indefinite
        )
        return Swept(strand, transitions, q_innovations)

    def project(self, x: Points, rows: Rows) -> StateProjection:
        """What the states around x say about rows of the state there."""
        strand = self.strand
        return project_states(strand.kernel, strand.inducing, x, self.transitions, rows)


class Conditional(NamedTuple):
    """R s(x) given the state on its left under q: N(mean + slope · (left − its mean), …)."""

    mean: Float[Array, "rows points"]
    slope: Float[Array, "rows dim points"]
    left: Float[Array, "dim dim points"]  # the covariance of the left state

    @staticmethod
    def of(swept: Swept, at: StateProjection) -> "Conditional":
        """What q says of the innovations, put into the conditionals."""
        interval, marginals = at.interval, swept.strand.marginals
        dim = swept.transitions.A.shape[-1]
        mean = apply(at.carried, marginals.mean[:, :dim].T[:, interval])
        mean = mean + apply(at.gain, swept.innovations.mean[:, interval])
        slope = at.carried - times(at.gain, swept.innovations.pull[..., interval])
        left = jnp.moveaxis(marginals.covariance[:, :dim, :dim], 0, -1)[..., interval]
        return Conditional(mean, slope, left)


Moments = tuple[Float[Array, "points rows"], Float[Array, "points rows rows"]]


@functools.partial(jax.jit, static_argnames=("indefinite",))
def row_moments(strand: Strand, x: Points, rows: Rows, indefinite: bool) -> Moments:
    """Mean and covariance of R s(x), in blocks, so that memory beyond the answer stays bounded."""
    swept = Swept.of(strand, indefinite)
    roots = psd_cholesky(swept.innovations.covariance)

    def block(x: Points) -> Moments:
        at = swept.project(x, rows)
        conditional = Conditional.of(swept, at)
        spread = times(at.gain, roots[..., at.interval])
        covariance = times(times(conditional.slope, conditional.left), transpose(conditional.slope))
        covariance = covariance + at.residual + times(spread, transpose(spread))
        return conditional.mean.T, jnp.moveaxis((covariance + transpose(covariance)) / 2, -1, 0)

    mean, covariance = over_blocks(block, x, block_size(math.prod(rows.shape)))
    return mean, covariance


def block_size(entries: int) -> int:
    """How many points to look at together, with so many numbers for each: a power of two."""
    return 2 ** max(0, min(BLOCK, _ENTRIES // entries).bit_length() - 1)


@functools.partial(jax.jit, static_argnames=("order",))
def mean_derivative(mean: Mean, x: Points, order: int) -> Points:
    """The derivative of a mean function, which is taken point by point."""

    def differentiate(function: Any) -> Any:
        return lambda x: jax.jvp(function, (x,), (jnp.ones_like(x),))[1]

    function: Any = mean
    for _ in range(order):
        function = differentiate(function)
    return function(x)


@functools.partial(jax.jit, static_argnames=("num_samples", "indefinite"))
def sample_rows(
    strand: Strand, key: PRNGKeyArray, x: Points, rows: Rows, num_samples: int, indefinite: bool
) -> Float[Array, "samples points rows"]:
    """Joint samples of R s(x): of the states and innovations under q, and of the bridges."""
    swept = Swept.of(strand, indefinite)
    at = swept.project(x, rows)
    conditional = Conditional.of(swept, at)
    chain_key, bridge_key = jax.random.split(key)
    q_innovations = swept.innovations
    dim, intervals = q_innovations.mean.shape
    white = jax.random.normal(chain_key, (dim, num_samples, intervals))
    noise = times(psd_cholesky(q_innovations.covariance), white)
    # States on the left of every interval, measured from their means.
    lefts = follow(Affine(q_innovations.carried, noise), jnp.zeros(noise.shape[:2]))
    inside, across = _prior_innovations(strand, bridge_key, x, num_samples)
    bridge = times(rows[..., None], inside) - times(at.gain, across[..., at.interval])
    moved = times(conditional.slope, lefts[..., at.interval])
    moved = moved + times(at.gain, noise[..., at.interval])
    return jnp.transpose(conditional.mean[:, None] + moved + bridge, (1, 2, 0))


def _prior_innovations(
    strand: Strand, key: PRNGKeyArray, x: Points, num_samples: int
) -> tuple[Float[Array, "dim samples points"], Float[Array, "dim samples intervals"]]:
    """Joint prior samples of what x, and the right end of each interval, have beyond its left."""
    inducing, states = strand.inducing, len(strand.inducing)
    everywhere = jnp.concatenate([inducing, x])
    order = jnp.argsort(everywhere, stable=True)  # an inducing point before the x that are on it
    transitions = prior_transitions(strand.kernel, everywhere[order])
    A, Q = (jnp.moveaxis(leaf[:-1], 0, -1) for leaf in (transitions.A, transitions.Q))
    anew = jnp.concatenate([jnp.ones(1, dtype=bool), order[:-1] < states])  # from an inducing point
    A = jnp.where(anew[None, None], 0.0, A)
    white = jax.random.normal(key, (len(A), num_samples, len(everywhere)))
    noise = times(psd_cholesky(Q), white)
    path = times(A, follow(Affine(A, noise), jnp.zeros(noise.shape[:2]))) + noise
    path = jnp.zeros_like(path).at[..., order].set(path)  # back from sorted to given order
    nothing = jnp.zeros((*path.shape[:2], 1))  # right of the last state
    return path[..., states:], jnp.concatenate([path[..., :states], nothing], axis=-1)


class Part(NamedTuple):
    """A summand of a kernel: which latent function it belongs to, and which part of its state."""

    number: int
    kernel: Kernel
    first: int

    def rows(self, wanted: Float[Array, "rows summand"], dim: int) -> Rows:
        """Rows of the summand's own state as rows of the whole one."""
        after = dim - self.first - self.kernel.state_dim
        return jnp.pad(wanted, ((0, 0), (self.first, after)))


def parts_of(kernels: tuple[Kernel, ...], component: Any) -> list[Part]:
    """The latent functions, whole, or the one component of that name."""
    if component is None:
        return [Part(number, kernel, 0) for number, kernel in enumerate(kernels)]
    parts: dict[str, Part] = {}
    for number, kernel in enumerate(kernels):
        first = 0
        for name, summand in summands_of(kernel).items():
            parts[f"{number}.{name}" if len(kernels) > 1 else name] = Part(number, summand, first)
            first += summand.state_dim
    if not (isinstance(component, str) and component in parts):
        raise ValueError(f"component must be one of {', '.join(parts)}; got {component!r}")
    return [parts[component]]


def check_orders(order: Any) -> tuple[int, ...]:
    """Orders of derivatives: one, or several."""
    orders = (order,) if np.ndim(order) == 0 else tuple(order)
    for one in orders:
        if isinstance(one, bool) or not isinstance(one, int | np.integer) or one < 0:
            raise ValueError(
                "order must be a whole number of at least 0, or several such as (0, 1); got "
                f"{order!r}"
            )
    if not orders:
        raise ValueError("order is empty: at least one derivative has to be asked for")
    return tuple(int(one) for one in orders)
