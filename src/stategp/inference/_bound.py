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

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

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
from stategp.data import Observations
from stategp.models import GP
from stategp.projection import Projection, project

States = Float[Array, " states"]
Latent = Float[Array, "points *latents"]  # one column per latent function if there are several
ChainSites = tuple[Sites, ...]  # one for each latent function


class Geometry(NamedTuple):
    """The prior of the states, and what they say about f at the observations."""

    transitions: tuple[Transitions, ...]
    projections: tuple[Projection, ...]


class Q(NamedTuple):
    """A posterior approximation, its bound, and the sites that the data would rather have."""

    sites: ChainSites
    marginals: tuple[PairMarginals, ...]
    messages: tuple[Messages | Potentials, ...]
    elbo: Float[Array, ""]
    rounding: Float[Array, ""]  # how far off the bound may be by rounding
    target: ChainSites


class Expected(NamedTuple):
    """Σ E_q[log p(y | f)], and its derivatives in the mean and variance of each f."""

    value: Float[Array, ""]
    slope: Latent
    curvature: Latent


def geometry(model: GP, x: Float[Array, " points"], inducing: States) -> Geometry:
    """Everything that depends on the kernels and on where the points are."""
    transitions = tuple(prior_transitions(kernel, inducing) for kernel in model.kernels)
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


def latent_moments(
    projections: tuple[Projection, ...], marginals: tuple[PairMarginals, ...]
) -> tuple[Latent, Latent]:
    """Mean (without the mean function) and variance of every latent function."""
    moments = [p.marginals(q) for p, q in zip(projections, marginals, strict=True)]
    return stack([mean for mean, _ in moments]), stack([variance for _, variance in moments])


def expected_log_likelihood(
    model: GP, data: Observations, mean: Latent, variance: Latent
) -> Expected:
    """One pass over the data. Derivatives go forward: no array per quadrature node is kept."""

    def terms(mean: Latent, variance: Latent) -> Float[Array, " points"]:
        values = model.likelihood.expected_log_density(data.y, mean, variance, data.extra)
        return data.weights * values

    slopes, curvatures = [], []
    for tangent in _directions(mean):
        _, slope = jax.jvp(lambda m: terms(m, variance), (mean,), (tangent,))
        _, curvature = jax.jvp(lambda v: terms(mean, v), (variance,), (tangent,))
        slopes.append(slope)
        curvatures.append(curvature)
    return Expected(jnp.sum(terms(mean, variance)), stack(slopes), stack(curvatures))


def _directions(latent: Latent) -> list[Latent]:
    if latent.ndim == 1:
        return [jnp.ones_like(latent)]
    return [jnp.zeros_like(latent).at[:, i].set(1.0) for i in range(latent.shape[1])]


def gather_sites(
    model: GP,
    shape: Geometry,
    mean: Latent,
    slope: Latent,
    precision: Latent,
    *,
    project: bool = False,
) -> ChainSites:
    """Sites from each observation's slope and precision at its latent mean.

    `project` makes negative precisions zero, which moves q's covariance but not its mean.
    """
    if project or model.likelihood.log_concave:  # log-concave ones are negative by rounding only
        precision = jnp.maximum(precision, 0.0)
    linear = slope + precision * mean
    return tuple(
        projection.gather(own_linear, own_precision, len(transitions.A))
        for projection, transitions, own_linear, own_precision in zip(
            shape.projections, shape.transitions, columns(linear), columns(precision), strict=True
        )
    )


def starting_sites(model: GP, data: Observations, shape: Geometry, guess: Latent) -> ChainSites:
    """The sites for f near `guess`; for Gaussian observations these are the optimum."""
    found = expected_log_likelihood(model, data, guess, model.likelihood.guess_variance(guess))
    mean = guess - prior_mean(model, data.user_x)
    return gather_sites(model, shape, mean, found.slope, -2 * found.curvature)


def evaluate(
    model: GP,
    data: Observations,
    shape: Geometry,
    sites: ChainSites,
    *,
    project: bool = False,
    indefinite: bool = False,
) -> Q:
    """The bound at prior × sites. NaN where that is not a Gaussian.

    `project`: in minibatches, where sites are always those of a batch and never negative.
    `indefinite`: sites may be negative though the likelihood is log-concave.
    """
    indefinite = indefinite or not (project or model.likelihood.log_concave)
    swept = [
        sweep(prior, site, indefinite=indefinite)
        for prior, site in zip(shape.transitions, sites, strict=True)
    ]
    marginals = tuple(one.marginals for one in swept)
    mean, variance = latent_moments(shape.projections, marginals)
    full_mean = mean + prior_mean(model, data.user_x)
    if model.likelihood.conjugate and not project:  # the sites do not depend on q
        fit, target = fit_term(model, data, full_mean, variance), sites
    else:
        found = expected_log_likelihood(model, data, full_mean, variance)
        target = gather_sites(
            model, shape, mean, found.slope, -2 * found.curvature, project=project
        )
        fit = found.value
    parts = [fit]
    for one, site in zip(swept, sites, strict=True):
        parts += [one.log_normaliser, -expected_log_sites(site, one.marginals)]
    terms = jnp.stack(parts)
    elbo, rounding = jnp.sum(terms), 2e-15 * jnp.sum(jnp.abs(terms))
    # A bound above what the data could ever have was lost to rounding (signal above 10¹⁵ times
    # the noise), and NaN says so.
    highest = jnp.sum(data.weights * model.likelihood.highest_log_density(data.y, data.extra))
    elbo = jnp.where(elbo > highest + 1.0, jnp.nan, elbo)
    return Q(sites, marginals, tuple(one.messages for one in swept), elbo, rounding, target)


def fit_term(model: GP, data: Observations, mean: Latent, variance: Latent) -> Float[Array, ""]:
    """Σ E_q[log p(y | f)], to be differentiated once in reverse."""
    if model.likelihood.conjugate:
        values = model.likelihood.expected_log_density(data.y, mean, variance, data.extra)
        return jnp.sum(data.weights * values)
    # The derivatives in the moments are known elementwise; what is left is the likelihood's own.
    still = jax.lax.stop_gradient((mean, variance))
    found = jax.lax.stop_gradient(expected_log_likelihood(model, data, *still))
    values = model.likelihood.expected_log_density(data.y, *still, data.extra)
    moved = jnp.sum(found.slope * (mean - still[0])) + jnp.sum(
        found.curvature * (variance - still[1])
    )
    return jnp.sum(data.weights * values) + moved


def with_gradient(model: GP, data: Observations, shape: Geometry, q: Q) -> Float[Array, ""]:
    """The bound at q, as a function of `model` and `shape` with q held fixed.

    `q` must come from values without derivatives (`stop_gradient`).
    """
    mean, variance = latent_moments(shape.projections, q.marginals)
    partial = fit_term(model, data, mean + prior_mean(model, data.user_x), variance)
    for prior, sites, messages in zip(shape.transitions, q.sites, q.messages, strict=True):
        partial += local_log_normaliser(prior, sites, messages)
    return q.elbo + partial - jax.lax.stop_gradient(partial)
