"""The bound, what it wants q to be, and its gradient in the hyperparameters.

A model has one chain of states for each latent function, independent under q. One pass over the
data gives E_q[log p(y | f)] and its derivatives (g, h) in the mean and variance of every f. The
natural gradient of the bound points from the sites to

    precision = −2h,   linear = g + precision · mean,

summed over the observations of each interval. At the optimal q, and wherever q is held fixed, the
bound depends on the hyperparameters only through

    Σ_n E_q[log p(y_n | f_n)]  (the conditionals p(f_n | u) and the likelihood)
    + E_q[log p(u)]            (the prior of the states; same derivatives as log Z at fixed sites),

so that no derivative goes through the sweep.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from stategp._data import Expected, View, learns
from stategp._models import GP
from stategp._projection import AtStates, Combinations, Projection, project
from stategp.chain import (
    Messages,
    PairMarginals,
    Potentials,
    Sites,
    Transitions,
    expected_log_sites,
    local_log_normaliser,
    prior_transitions,
    sweep,
)

States = Float[Array, " states"]
Latent = Float[Array, "points *latents"]  # one column per latent function if there are several
Guess = Float[Array, "..."]  # what each observation points at, laid out as the data are
ChainSites = tuple[Sites, ...]  # one for each latent function

_EPS = float(np.finfo(float).eps)

# Rounding, relative to the bound or to one nat per observation, beyond which no number is given.
# The second is for bounds that steer a search for q: on its way from a poor start it passes places
# with fewer digits, and a stricter limit would end it there.
_LARGEST = 1e-6
_LARGEST_IN_SEARCH = 1e-4


class Geometry(NamedTuple):
    """The prior of the states, and what they say about f at the observations."""

    transitions: tuple[Transitions, ...]
    projections: tuple[Any, ...]  # `Projection`, or `AtStates`


class Q(NamedTuple):
    """A posterior approximation, its bound, and the sites that the data would rather have."""

    sites: tuple[Any, ...]  # those of each chain, or of another model
    marginals: tuple[PairMarginals, ...]
    messages: tuple[Messages | Potentials, ...]
    elbo: Float[Array, ""]
    rounding: Float[Array, ""]  # how far off the bound may be by rounding
    target: tuple[Any, ...]
    expected: Expected | None = None  # what the data say at q


def geometry(
    model: GP,
    x: Float[Array | np.ndarray, "*points"] | Combinations,
    inducing: States,
    numbers: Int[Array, " points"] | None = None,
) -> Geometry:
    """Everything that depends on the kernels and on where the points are.

    `numbers`, if every point is an inducing point: which one.
    """
    x = x if isinstance(x, Combinations) else jnp.asarray(x)
    transitions = tuple(prior_transitions(kernel, inducing) for kernel in model.kernels)
    if numbers is not None and not any(kernel.located for kernel in model.kernels):
        at = tuple(AtStates(numbers, kernel.emission()) for kernel in model.kernels)
        return Geometry(transitions, at)
    projections = tuple(
        project(kernel, inducing, x, prior)
        for kernel, prior in zip(model.kernels, transitions, strict=True)
    )
    return Geometry(transitions, projections)


def stack(columns: list[Float[Array, " points"]]) -> Latent:
    """Latent functions side by side; a single one stays one-dimensional."""
    return columns[0] if len(columns) == 1 else jnp.stack(columns, axis=-1)


def columns(latent: Latent) -> list[Float[Array, " points"]]:
    """The inverse of `stack`."""
    return [latent] if latent.ndim == 1 else [latent[:, i] for i in range(latent.shape[1])]


def prior_mean(model: GP, user_x: Float[Array, " points"]) -> Latent:
    """The mean functions at the user's inputs."""
    return stack([mean(user_x) for mean in model.means])


def shift(model: GP, data: View) -> Latent:
    """The mean functions where the view of the data wants f."""
    return stack([data.at_nodes(mean) for mean in model.means])


def latent_moments(
    projections: tuple[Projection | AtStates, ...], marginals: tuple[PairMarginals, ...]
) -> tuple[Latent, Latent]:
    """Mean (without the mean function) and variance of every latent function."""
    moments = [p.marginals(q) for p, q in zip(projections, marginals, strict=True)]
    return stack([mean for mean, _ in moments]), stack([variance for _, variance in moments])


def gather_sites(shape: Geometry, linear: Latent, precision: Latent) -> ChainSites:
    """Sites from a linear term and a precision of f at each node."""
    return tuple(
        projection.gather(linear_here, precision_here, len(transitions.A))
        for projection, transitions, linear_here, precision_here in zip(
            shape.projections, shape.transitions, columns(linear), columns(precision), strict=True
        )
    )


def wanted_sites(shape: Geometry, mean: Latent, expected: Expected) -> ChainSites:
    """The sites that the data would rather have, at the latent mean without the mean function."""
    precision = -2 * expected.curvature
    return gather_sites(shape, expected.slope + precision * mean, precision)


def starting_sites(model: GP, data: View, shape: Geometry, guess: Guess) -> ChainSites:
    """The sites for f near `guess`; for Gaussian observations these are the optimum."""
    start = data.start(model.likelihood, guess, shift(model, data))
    return gather_sites(shape, *start)


def evaluate(
    model: GP,
    data: View,
    shape: Geometry,
    sites: ChainSites,
    *,
    project: bool = False,
    indefinite: bool = False,
    learn: bool = False,
) -> Q:
    """The bound at prior × sites. NaN where that is not a Gaussian.

    `project`: in minibatches, where sites are always those of a batch and never negative.
    `indefinite`: sites may be negative though the likelihood is log-concave.
    `learn`: a gradient in the hyperparameters is to follow.
    """
    indefinite = indefinite or not (project or model.likelihood.log_concave)
    swept = [
        sweep(prior, site, indefinite=indefinite)
        for prior, site in zip(shape.transitions, sites, strict=True)
    ]
    marginals = tuple(one.marginals for one in swept)
    mean, variance = latent_moments(shape.projections, marginals)
    # Log-concave ones have negative precisions by rounding only.
    clip = project or model.likelihood.log_concave
    full_mean = mean + shift(model, data)
    look = data.expected_and_parameters if learn and learns(model.likelihood) else data.expected
    expected = look(model.likelihood, full_mean, variance, clip=clip)
    conjugate = model.likelihood.conjugate and not project  # then the sites do not depend on q
    target = sites if conjugate else wanted_sites(shape, mean, expected)
    parts = [expected.value]
    for one, site in zip(swept, sites, strict=True):
        parts += [one.log_normaliser, -expected_log_sites(site, one.marginals)]
    terms = jnp.stack(parts)
    elbo = jnp.sum(terms)
    rounding = rounding_of(terms, list(zip(sites, marginals, strict=True)))
    highest = data.highest(model.likelihood)
    elbo = unless_lost(elbo, rounding, data.total, highest, searching=not conjugate)
    messages = tuple(one.messages for one in swept)
    return Q(sites, marginals, messages, elbo, rounding, target, expected)


def rounding_of(
    terms: Float[Array, " terms"], chains: list[tuple[Sites, PairMarginals]]
) -> Float[Array, ""]:
    """How far off the sum of these terms may be.

    The terms are rounded, and log Z is made of products linear · covariance · linear in which the
    covariances are rounded as their diagonals are.
    """
    lost = 8 * jnp.sum(jnp.abs(terms))
    for site, pairs in chains:
        variances = jnp.diagonal(pairs.covariance, axis1=-2, axis2=-1)
        pulls = jnp.abs(site.linear) * jnp.sqrt(jnp.maximum(variances, 0.0))
        lost += jnp.sum(jnp.sum(pulls, axis=-1) ** 2)
    return _EPS * lost


def unless_lost(
    elbo: Float[Array, ""],
    rounding: Float[Array, ""],
    total: Float[Array, ""],
    highest: Float[Array, ""] | float = np.inf,
    *,
    searching: bool = False,
) -> Float[Array, ""]:
    """The bound, or NaN where rounding may have cost too much of it.

    A bound above the highest that the data could ever have was lost to rounding in any case.
    """
    limit = _LARGEST_IN_SEARCH if searching else _LARGEST
    lost = rounding > limit * jnp.maximum(jnp.abs(elbo), total)
    return jnp.where(lost | (elbo > highest + 1.0), jnp.nan, elbo)


def with_gradient(model: GP, data: View, shape: Geometry, q: Q) -> Float[Array, ""]:
    """The bound at q, as a function of `model` and `shape` with q held fixed.

    `q` must come from values without derivatives (`stop_gradient`).
    """
    mean, variance = latent_moments(shape.projections, q.marginals)
    full_mean = mean + shift(model, data)
    partial = data.fit(model.likelihood, full_mean, variance, q.expected)
    for prior, sites, messages in zip(shape.transitions, q.sites, q.messages, strict=True):
        partial += local_log_normaliser(prior, sites, messages)
    return q.elbo + partial - jax.lax.stop_gradient(partial)
