"""What q of an additive model says about effects: their averages, and their joint variances."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._data import Table
from stategp._inference._additive import (
    AnySites,
    Flat,
    Layout,
    NodeSites,
    System,
    additive_geometry,
    chain_sites,
    flatten,
    level,
    may_be_negative,
    node_moments,
    stacked,
    sweep_all,
)
from stategp._models import AdditiveGP
from stategp._projection import project
from stategp.chain import PairMarginals, Sites


class Averages(NamedTuple):
    """The average of each component over the data."""

    mean: Float[Array, " components"]  # in the order of the groups
    variance: Float[Array, " components"]
    covariances: tuple[PairMarginals, ...]  # with the states, in place of their means
    sites: tuple[Sites, ...]  # those of q, on pairs of states


@jax.jit
def averages(model: AdditiveGP, table: Table, layout: Layout, sites: AnySites) -> Averages:
    """What q knows of the average of each component over the data."""
    shape = additive_geometry(model, layout)
    share = table.collect(table.weights) / table.total
    indefinite = may_be_negative(model, sites)
    own = chain_sites(layout, shape, sites)
    shared_out = chain_sites(layout, shape, NodeSites(share, jnp.zeros_like(share)))

    def swept_with(linear: tuple[Array, ...]) -> tuple[tuple[PairMarginals, ...], Flat]:
        parts = zip(own, linear, strict=True)
        group_sites = tuple(Sites(part, site.precision) for site, part in parts)
        marginals = tuple(one.marginals for one in sweep_all(shape, group_sites, indefinite))
        return marginals, node_moments(shape, marginals)[0]

    # A linear term moves the mean by what it has in common with everything.
    both = zip(own, shared_out, strict=True)
    linear = tuple(jnp.stack([site.linear, other.linear]) for site, other in both)
    marginals, (mean, shared) = jax.vmap(swept_with)(linear)
    covariances = jax.tree.map(lambda leaf: leaf[1], marginals)
    ends = zip(table.first[:-1], table.first[1:], strict=True)
    sums = [(jnp.vdot(share[a:b], mean[a:b]), jnp.vdot(share[a:b], shared[a:b])) for a, b in ends]
    means, variances = (jnp.stack(part) for part in zip(*sums, strict=True))
    return Averages(means, variances, covariances, own)


@functools.partial(jax.jit, static_argnames="centred")
def joint_corrections(
    model: AdditiveGP,
    table: Table,
    layout: Layout,
    sites: AnySites,
    x: Float[Array, "components points"],
    seen: Float[Array, " components"],
    *,
    centred: bool,
) -> Float[Array, " points"]:
    """What the joint posterior adds to the variance of Σ seen_i f_i(x_i) under q.

    That variance is eᵀ A⁻¹ e, where e reads f at x (if `centred`, less its average over the data);
    eᵀ P⁻¹ e is what q says. With m = P⁻¹ e the rest is eᵀ A⁻¹ (W m − Sᵀ w S m), whose right-hand
    side lives at the nodes. For Gaussian observations this is exact, for others it is the linear
    response of the mean.
    """
    shape = additive_geometry(model, layout)
    group_sites = chain_sites(layout, shape, sites)
    swept = sweep_all(shape, group_sites, may_be_negative(model, sites))
    mean, variance = node_moments(shape, tuple(one.marginals for one in swept))
    rows = level(model) + table.spread(mean), table.spread(variance)
    weights = jnp.maximum(-2 * table.expected(model.likelihood, *rows).curvature, 0.0)
    system = System.of(layout, shape, table, weights)
    looks = []
    for group, prior in zip(layout, shape.transitions, strict=True):
        kernels = stacked([model.kernels[i] for i in group.members])
        places = x[np.asarray(group.members)]
        looks.append(jax.vmap(project)(kernels, group.inducing, places, prior))

    share = jnp.zeros_like(mean)
    if centred:
        share = table.collect(table.weights) / table.total
        share *= flatten(
            [jnp.ones_like(g.nodes) * seen[np.asarray(g.members)][:, None] for g in layout]
        )
    average = system.pair_means(share)

    def read(pairs: list[Array], point: Float[Array, " points"]) -> Float[Array, ""]:
        total = -jnp.vdot(share, system.at_nodes(pairs))
        for group, look, means in zip(layout, looks, pairs, strict=True):
            at = jax.vmap(lambda p, v: p.means(v))(look, means) @ point
            total += jnp.vdot(seen[np.asarray(group.members)], at)
        return total

    def correct(point: Float[Array, " points"]) -> Float[Array, ""]:
        response = []
        for group, look, means_of in zip(layout, looks, system.maps, strict=True):
            linear = seen[np.asarray(group.members)][:, None] * point[None]
            intervals = group.inducing.shape[1] + 1
            pulls = jax.vmap(lambda p, v, n=intervals: p.gather_linear(v, n))(look, linear)
            response.append(jax.vmap(lambda f, v: f(v))(means_of, pulls))
        response = [a - b for a, b in zip(response, average, strict=True)]
        m = system.at_nodes(response)
        b = system.precision * m - table.collect(weights * table.spread(m))
        s, _ = system.solve(b, jnp.zeros_like(b), 1e-12 * read(response, point))
        return read(system.pair_means(s), point)

    return jax.vmap(correct)(jnp.eye(x.shape[1]))
