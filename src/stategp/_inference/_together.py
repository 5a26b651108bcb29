"""Chains that are independent under q, of which every row reads the sum: their means together.

If each chain went where the data want it as if the others stayed, all would overshoot together. So
the means move jointly, to the solution of

    A m = b,    A = prior precisions + Sᵀ w S,    b = Sᵀ(g + w S m_old),    w = −2h,

where S reads the states of all chains in rows, by conjugate gradients; the preconditioner
P = prior precisions + (Sᵀ w S of each chain alone) is a sweep of every chain. Nothing inverts a
prior: m comes with s = P m, which is what the linear parts of sites are.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from stategp.chain import MeanMap, Sites

Rows = Float[Array, " rows"]
Pairs = tuple[Float[Array, "_ intervals _"], ...]  # of each group, its chains along a first axis
_STILL = 1e-15  # nats per observation that conjugate gradients leave to gain
_ITERATIONS = 300


class _Iteration(NamedTuple):
    s: Pairs
    m: Pairs
    r: Pairs  # b − A m
    s_way: Pairs  # where to go, as s and as m
    way: Pairs
    gain: Float[Array, ""]  # about twice what the bound could gain before the iteration
    number: Int[Array, ""]


def means_together(
    groups: tuple[Any, ...],
    mean: Rows,
    slope: Rows,
    precision: Rows,
    start: tuple[Sites, ...],
    total: Float[Array, ""],
) -> tuple[Sites, ...]:
    """The sites of all chains, from derivatives at a mean of the sum of what rows read.

    `groups` can `gather` sites of rows, and tell the `means` of rows.
    """
    weights = jnp.maximum(precision, 0.0)
    nothing = jnp.zeros_like(weights)
    own = [group.gather(nothing, weights) for group in groups]
    maps = [
        jax.vmap(MeanMap.of)(group.transitions, sites)
        for group, sites in zip(groups, own, strict=True)
    ]

    def solve_each(s: Pairs) -> Pairs:
        """P⁻¹ s."""
        return tuple(
            jax.vmap(lambda of, part: of(part))(means_of, part)
            for means_of, part in zip(maps, s, strict=True)
        )

    def image_of(s: Pairs, m: Pairs) -> Pairs:
        """A m, for m = P⁻¹ s: all chains pull, and P has each one's own pull already."""
        reads = (group.means(part) for group, part in zip(groups, m, strict=True))
        pulls = weights * sum(reads, start=nothing)
        return tuple(
            part + group.gather_linear(pulls) - times_pairs(sites.precision, pairs)
            for group, sites, part, pairs in zip(groups, own, s, m, strict=True)
        )

    b = tuple(group.gather_linear(slope + weights * mean) for group in groups)
    s, m = _conjugate_gradients(
        solve_each, image_of, b, tuple(site.linear for site in start), _STILL * total
    )
    sites = []
    for group, site, linear, pairs in zip(groups, own, s, m, strict=True):
        wanted = group.gather(nothing, precision).precision
        more = times_pairs(wanted - site.precision, pairs)
        sites.append(Sites(linear + more, wanted))
    return tuple(sites)


def times_pairs(
    precision: Float[Array, "chains intervals pair pair"],
    pairs: Float[Array, "chains intervals pair"],
) -> Float[Array, "chains intervals pair"]:
    """A matrix times a vector, for every pair of states."""
    return jnp.einsum("cmij,cmj->cmi", precision, pairs)


def _conjugate_gradients(
    solve_each: Any, image_of: Any, b: Pairs, start: Pairs, enough: Float[Array, ""]
) -> tuple[Pairs, Pairs]:
    """s and m = P⁻¹ s with A m = b; the first iteration only finds the residual of `start`."""
    nothing = jax.tree.map(jnp.zeros_like, b)
    begun = _Iteration(nothing, nothing, start, nothing, nothing, jnp.zeros(()), jnp.zeros((), int))

    def unfinished(it: _Iteration) -> Bool[Array, ""]:
        return (it.number < 2) | ((it.gain > enough) & (it.number < _ITERATIONS))

    def iterate(it: _Iteration) -> _Iteration:
        first = it.number == 0
        z = solve_each(it.r)
        gain = _dot(it.r, z)
        turn = jnp.where(it.number > 1, gain / it.gain, 0.0)
        s_way, way = _add(it.r, turn, it.s_way), _add(z, turn, it.way)
        image = image_of(s_way, way)
        norm = _dot(way, image)
        length = jnp.where(first, 1.0, jnp.where(norm > 0, gain / norm, 0.0))
        r = _add(jax.tree.map(lambda a, c: jnp.where(first, a, c), b, it.r), -length, image)
        s, m = _add(it.s, length, s_way), _add(it.m, length, way)
        return _Iteration(s, m, r, s_way, way, gain, it.number + 1)

    end = jax.lax.while_loop(unfinished, iterate, begun)
    return end.s, end.m


def _add(a: Pairs, times: Float[Array, ""], b: Pairs) -> Pairs:
    summed: Pairs = jax.tree.map(lambda x, y: x + times * y, a, b)
    return summed


def _dot(a: Pairs, b: Pairs) -> Float[Array, ""]:
    products = jax.tree.map(lambda x, y: jnp.sum(x * y), a, b)
    return sum(jax.tree.leaves(products), start=jnp.zeros(()))
