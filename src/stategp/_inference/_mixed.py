"""Inference where observations read mixtures of independent processes.

What rows read of chains is in `_mixed_shape`. With q="joint" there is one chain, of the states of
all processes, which is treated as any other. With q="product" there is a chain for each. Every
chain would then rather have precision C_l² W of g_l, W = −2h, in which the others have no say; the
linear terms depend on the means of all, which move together (`_together`).
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from stategp._data import Expected, PlacedRows
from stategp._inference._bound import Q, States, rounding_of, unless_lost
from stategp._inference._mixed_shape import (
    MixedShape,
    chain_members,
    mixed_geometry,
)
from stategp._inference._natural import MOST_STEPS, TOLERANCE, Settling, begin, settle
from stategp._inference._several import SeveralStrand
from stategp._inference._together import means_together, times_pairs
from stategp._models import MixedGP
from stategp._runtime import on_device
from stategp.chain import (
    PairMarginals,
    Sites,
    Swept,
    expected_log_sites,
    local_log_normaliser,
    sweep,
)
from stategp.parameters import log_prior, with_vector

Rows = Float[Array, " rows"]
Functions = Float[Array, "rows *functions"]  # one number for a row, unless it reads several
Spread = Float[Array, "rows ..."]  # a variance for a row, or a covariance matrix
GroupSites = tuple[Sites, ...]  # of each group, its chains along a first axis


# --- the bound ---------------------------------------------------------------------------------


def sweep_groups(shape: MixedShape, sites: GroupSites, indefinite: bool) -> tuple[Swept, ...]:
    """Every chain of every group."""
    return tuple(
        jax.vmap(lambda a, b: sweep(a, b, indefinite=indefinite))(group.transitions, site)
        for group, site in zip(shape.groups, sites, strict=True)
    )


def mixed_moments(
    shape: MixedShape, marginals: tuple[PairMarginals, ...]
) -> tuple[Functions, Spread]:
    """Mean (without the mean function) and variance of what every row reads."""
    if isinstance(shape.groups[0], SeveralStrand):
        return shape.groups[0].moments(marginals[0])
    mean, variance = jnp.zeros_like(shape.extra), shape.extra
    for group, pairs in zip(shape.groups, marginals, strict=True):
        means, variances = group.moments(pairs)
        mean, variance = mean + means, variance + variances
    return mean, variance


def mixed_wanted(
    shape: MixedShape,
    mean: Functions,
    expected: Expected,
    start: GroupSites,
    total: Float[Array, ""],
) -> GroupSites:
    """The sites that the data would rather have, all chains moving together."""
    precision = -2 * expected.curvature
    first = shape.groups[0]
    if isinstance(first, SeveralStrand):
        return (first.gather(expected.slope + (precision @ mean[..., None])[..., 0], precision),)
    if shape.chains == 1:
        return (first.gather(expected.slope + precision * mean, precision),)
    return means_together(shape.groups, mean, expected.slope, precision, start, total)


def mixed_alone(
    shape: MixedShape, marginals: tuple[PairMarginals, ...], expected: Expected
) -> GroupSites:
    """The sites that the data would rather have of each chain, if the others stayed."""
    precision = -2 * expected.curvature
    first = shape.groups[0]
    if isinstance(first, SeveralStrand):
        mean = first.moments(marginals[0])[0]
        return (first.gather(expected.slope + (precision @ mean[..., None])[..., 0], precision),)
    wanted = []
    for group, pairs in zip(shape.groups, marginals, strict=True):
        sites = group.gather(expected.slope, precision)
        wanted.append(
            Sites(sites.linear + times_pairs(sites.precision, pairs.mean), sites.precision)
        )
    return tuple(wanted)


def mixed_evaluate(
    model: MixedGP,
    rows: PlacedRows,
    shape: MixedShape,
    sites: GroupSites,
    *,
    alone: bool = False,
    target: bool = True,
    indefinite: bool = False,
) -> Q:
    """The bound at prior × sites. NaN where that is not a Gaussian.

    The target is where all chains go together, or, if `alone`, each as if the others stayed.
    `indefinite`: sites may have negative precision whatever the likelihood.
    """
    swept = sweep_groups(shape, sites, indefinite or not model.concave)
    marginals = tuple(one.marginals for one in swept)
    mean, variance = mixed_moments(shape, marginals)
    likelihood = model.likelihood_at(rows.places)
    full_mean = mean + model.offset(rows.user_x, rows.places)
    expected = rows.expected(likelihood, full_mean, variance, clip=model.concave)
    wanted = sites
    if alone:
        wanted = mixed_alone(shape, marginals, expected)
    elif target:
        wanted = mixed_wanted(shape, mean, expected, sites, rows.total)
    parts = [expected.value]
    for one, site in zip(swept, sites, strict=True):
        logs = jax.vmap(expected_log_sites)(site, one.marginals)
        parts += [jnp.sum(one.log_normaliser), -jnp.sum(logs)]
    terms = jnp.stack(parts)
    elbo = jnp.sum(terms)
    rounding = rounding_of(terms, list(zip(sites, marginals, strict=True)))
    searching = alone or not model.likelihood.conjugate
    elbo = unless_lost(elbo, rounding, rows.total, rows.highest(likelihood), searching=searching)
    return Q(sites, marginals, tuple(one.messages for one in swept), elbo, rounding, wanted)


def mixed_gradient(model: MixedGP, rows: PlacedRows, shape: MixedShape, q: Q) -> Float[Array, ""]:
    """The bound at q, as a function of `model` and `shape` with q held fixed.

    `q` must come from values without derivatives (`stop_gradient`).
    """
    mean, variance = mixed_moments(shape, q.marginals)
    mean = mean + model.offset(rows.user_x, rows.places)
    here = jax.lax.stop_gradient((mean, variance))
    likelihood = model.likelihood_at(rows.places)
    expected = jax.lax.stop_gradient(rows.expected(likelihood, *here))
    partial = rows.log_density(likelihood, *here)
    partial += jnp.sum(expected.slope * mean) + jnp.sum(expected.curvature * variance)
    for group, sites, messages in zip(shape.groups, q.sites, q.messages, strict=True):
        local = jax.vmap(local_log_normaliser)(group.transitions, sites, messages)
        partial += jnp.sum(local)
    return q.elbo + partial - jax.lax.stop_gradient(partial)


# --- searches ----------------------------------------------------------------------------------


def no_group_sites(model: MixedGP, states: int) -> GroupSites:
    """Sites that say nothing, for a number of inducing points."""

    def several(members: tuple[int, ...]) -> Sites:
        dims = [model.kernels[i].state_dim for i in members]
        chains, dim = (1, sum(dims)) if model.q == "joint" else (len(dims), dims[0])
        shape = (chains, states + 1, 2 * dim)
        return Sites(*on_device((np.zeros(shape), np.zeros((*shape, 2 * dim)))))

    return tuple(several(members) for members in chain_members(model))


def mixed_first(
    model: MixedGP, rows: PlacedRows, shape: MixedShape, nothing: GroupSites
) -> GroupSites:
    """The sites for f near what y points at; for Gaussian observations these are the optimum."""
    likelihood = model.likelihood_at(rows.places)
    uncertain = likelihood.guess_variance(rows.guess)
    expected = rows.expected(likelihood, rows.guess, uncertain, clip=model.concave)
    centred = rows.guess - model.offset(rows.user_x, rows.places)
    return mixed_wanted(shape, centred, expected, nothing, rows.total)


def _search(
    model: MixedGP, rows: PlacedRows, shape: MixedShape, warm: GroupSites, fresh: Any
) -> Settling:
    """The optimal q, from sites found before unless told to begin afresh."""
    if model.likelihood.conjugate:
        sites = mixed_first(model, rows, shape, warm)
        q = mixed_evaluate(model, rows, shape, sites, target=False)
        return Settling(q, jnp.ones(()), jnp.zeros(()), jnp.ones((), int), jnp.ones((), bool))
    first = mixed_first(model, rows, shape, jax.tree.map(jnp.zeros_like, warm))
    sites = jax.tree.map(lambda a, b: jnp.where(fresh, a, b), first, warm)
    state = begin(model, rows, shape, sites, mixed_evaluate)
    return settle(model, rows, shape, state, MOST_STEPS, TOLERANCE, mixed_evaluate)


@jax.jit
def mixed_objective(
    vector: Float[Array, " parameters"],
    model: MixedGP,
    rows: PlacedRows,
    inducing: States,
    warm: GroupSites,
    fresh: bool | Array,
) -> tuple[Float[Array, ""], Float[Array, " parameters"], Settling]:
    """The collapsed bound (plus the log prior), its gradient, and the q it belongs to.

    q starts from the sites `warm`, or, if `fresh`, from what y points at.
    """

    def objective(vector: Float[Array, " parameters"]) -> tuple[Float[Array, ""], Settling]:
        moved = with_vector(model, vector)
        shape = mixed_geometry(moved, rows, inducing)
        here = jax.lax.stop_gradient((moved, shape))
        settled = jax.lax.stop_gradient(_search(here[0], rows, here[1], warm, fresh))
        return mixed_gradient(moved, rows, shape, settled.q) + log_prior(moved), settled

    (value, settled), gradient = jax.value_and_grad(objective, has_aux=True)(vector)
    return value, gradient, settled


@jax.jit
def mixed_infer(
    model: MixedGP, rows: PlacedRows, inducing: States, warm: GroupSites, fresh: bool | Array
) -> Settling:
    """The optimal q for the hyperparameters as they are, in one go."""
    return _search(model, rows, mixed_geometry(model, rows, inducing), warm, fresh)


@jax.jit
def mixed_start(
    model: MixedGP, rows: PlacedRows, inducing: States, warm: GroupSites | None
) -> Settling:
    """A search for q before its first step: from sites found before, or from what y points at."""
    shape = mixed_geometry(model, rows, inducing)
    if warm is None:
        warm = mixed_first(model, rows, shape, no_group_sites(model, len(inducing)))
    return begin(model, rows, shape, warm, mixed_evaluate)


@jax.jit
def mixed_steps(
    model: MixedGP,
    rows: PlacedRows,
    inducing: States,
    state: Settling,
    steps: int | Int[Array, ""],
    tolerance: float | Float[Array, ""],
) -> Settling:
    """At most so many further steps of q."""
    shape = mixed_geometry(model, rows, inducing)
    return settle(model, rows, shape, state, steps, tolerance, mixed_evaluate)


@jax.jit
def mixed_bound(model: MixedGP, rows: PlacedRows, inducing: States, sites: GroupSites) -> Q:
    """The bound of given sites on all data."""
    shape = mixed_geometry(model, rows, inducing)
    return mixed_evaluate(model, rows, shape, sites, target=False)
