"""log p(y) and the collapsed bound of Gaussian observations, from a filter over them.

Where nothing is approximate (a state at every input) the collapsed bound is log p(y), and one
Kalman filter over scalar observations and its adjoint give it without the posterior of the
states: the quick way. It says how much rounding may have cost. The careful way carries roots of
covariances and takes observations one by one, at inducing points or between them. It is for
signals so far above the noise that all other ways lose digits, and for the variances of steep
kernels: with states [left; right] around each interval, and p_n what they say about f(x_n),

    bound = log ∫ p(states) ∏ N(y_n | p_n·states, noise) − ½ Σ precision · residual variance.
"""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from stategp._data import AtInducing, Observations, View, distinct_inputs, pad_observations
from stategp._inference._bound import Q
from stategp._linalg import apply, diagonal, dot
from stategp._models import GP, bare
from stategp._projection import AtStates, project
from stategp._runtime import on_device, pad_inducing, quick_jit
from stategp.chain import (
    PairMarginals,
    Scalars,
    Sites,
    Transitions,
    careful_log_evidence,
    careful_marginals,
    kernel_evidence,
    prior_transitions,
)
from stategp.likelihoods import Gaussian
from stategp.parameters import log_prior, to_vector, with_vector

States = Float[Array, " states"]
Vector = Float[Array, " parameters"]
Scalar = Float[Array, ""]

# Rounding, relative to the bound (or to one nat per observation, if that is more): up to the first
# the quick way is trusted, and up to the second the general one, whose estimate is cruder. Beyond
# the third no number is given.
TRUSTED = 1e-8
_TRUSTED_SWEEP = 1e-9
LARGEST = 1e-6
_SAME_SLOPE = 1e-9  # relative to the bound: two ways that agree on a slope so far are both right
_CLEAREST = 1e26  # signal over noise, beyond which no number is given either
_AGREEING = 1e-5  # relative difference of variances up to which two ways are both right
_ALIKE = 0.01  # the same, up to which the careful one is right and the other has lost digits
_MOST = 500_000  # observations that are taken one by one


def needs_care(model: GP, data: View, q: Q) -> bool:
    """Whether the bound of a sweep may have lost digits that the careful way keeps."""
    if not (isinstance(model.likelihood, Gaussian) and len(model.kernels) == 1):
        return False
    if not np.isfinite(q.elbo):
        return True
    # Sums over many observations leave no direction of the states open, and then rounding is known.
    many = not isinstance(data, Observations)
    lost = q.rounding if many else _open_directions(bare(model), q.sites[0], q.marginals[0])
    limit = TRUSTED if many else _TRUSTED_SWEEP
    return not float(lost) <= limit * max(abs(float(q.elbo)), float(data.total))


@quick_jit(rows="sites")
def _open_directions(model: GP, sites: Sites, pairs: PairMarginals) -> Scalar:
    """What rounding costs where some directions of the states are open and others nailed down.

    Products linear · covariance · linear in which the covariances are rounded as if between those
    of the prior and those of q.
    """
    prior = diagonal(model.kernels[0].covariance_at(jnp.zeros(1)))[:, 0]
    variances = jnp.diagonal(pairs.covariance, axis1=-2, axis2=-1)
    between = jnp.sqrt(jnp.maximum(variances, 0.0) * jnp.tile(prior, 2)[None])
    pulls = jnp.abs(sites.linear) * jnp.sqrt(between)
    return float(np.finfo(float).eps) * jnp.sum(jnp.sum(pulls, axis=-1) ** 2)


def knows_evidence(model: GP, data: View) -> bool:
    """Whether these are Gaussian observations at inducing points, on a device that loops well."""
    gaussian = isinstance(model.likelihood, Gaussian) and len(model.kernels) == 1
    gaussian = gaussian and not model.kernels[0].located
    return gaussian and isinstance(data, AtInducing) and jax.default_backend() == "cpu"


def if_within(
    limit: float, value: Scalar, rounding: Scalar, total: Float[Array, ""] | float
) -> Scalar:
    """The value where rounding is within the limit, else NaN."""
    size = jnp.maximum(jnp.abs(value), total)
    return jnp.where(jax.lax.stop_gradient(rounding <= limit * size), value, jnp.nan)


def evidence(model: GP, data: View, inducing: States, limit: float = TRUSTED) -> Float[Array, ""]:
    """log p(y), the quick way. Observations at the same input act as one, their weighted mean.

    NaN where the signal is so far above the noise that few digits of the latter are left.
    """
    assert isinstance(data, AtInducing)
    (kernel,) = model.kernels
    seen = _seen(model, data)

    def at_states(values: Float[Array, " points"]) -> States:
        return jax.ops.segment_sum(values, data.first, len(inducing), indices_are_sorted=True)

    total = at_states(seen.precision)
    average = at_states(seen.precision * seen.value) / jnp.where(total > 0, total, 1.0)
    log_density, rounding = kernel_evidence(kernel, data.lengths, average, total, which=data.which)
    apart = jnp.sum(seen.precision * (seen.value - average[data.first]) ** 2)
    value = log_density - (apart + seen.scale) / 2
    return if_within(limit, value, rounding + seen.beyond, data.total)


class _Seen(NamedTuple):
    value: Float[Array, " points"]  # y without the mean function
    precision: Float[Array, " points"]
    scale: Scalar  # Σ w log 2π noise
    beyond: Scalar  # infinite where roots of signal over noise have no digits left, else zero


def _seen(model: GP, data: Observations) -> _Seen:
    assert isinstance(model.likelihood, Gaussian)
    weights = jnp.asarray(data.weights)
    noise = model.likelihood.variance.value + jnp.asarray(data.extra)
    value = jnp.asarray(data.y) - model.means[0](data.user_nodes)
    precision, kernel = weights / noise, model.kernels[0]
    at = jnp.asarray(data.nodes) if kernel.located else jnp.zeros(1)
    h = kernel.emission_at(at)
    signal = jnp.max(dot(h, apply(kernel.covariance_at(at), h)))
    beyond = jnp.where(signal * jnp.max(precision) > _CLEAREST, jnp.inf, 0.0)
    scale = jnp.sum(weights * jnp.log(2 * math.pi * noise))
    return _Seen(value, precision, scale, jax.lax.stop_gradient(beyond))


def careful_bound(model: GP, data: Observations, inducing: States) -> Float[Array, ""]:
    """The collapsed bound, the careful way; NaN where even that is not enough."""
    (kernel,) = model.kernels
    seen = _seen(model, data)
    prior = prior_transitions(kernel, inducing)
    residual: Any = jnp.zeros(())
    if isinstance(data, AtInducing):
        h = kernel.emission_at(jnp.asarray(data.nodes))
        rows = jnp.broadcast_to(h.T, (len(data), kernel.state_dim))
        chain, state = Transitions(prior.A[:-1], prior.Q[:-1]), data.state
    else:
        projection = project(kernel, inducing, data.nodes, prior)
        chain, rows, state = _pairs(prior), projection.rows.T, projection.interval
        residual = sum(projection.residual[1:], start=projection.residual[0])
    points = Scalars(rows, seen.value, seen.precision)
    log_density, rounding = careful_log_evidence(chain, points, state)
    value = log_density - (seen.scale + jnp.sum(seen.precision * residual)) / 2
    return if_within(LARGEST, value, rounding + seen.beyond, data.total)


@quick_jit(rows=("data", "inducing"))
def careful_pairs(model: GP, data: Observations, inducing: States) -> PairMarginals:
    """The marginals of q, the careful way."""
    (kernel,) = model.kernels
    prior, seen = prior_transitions(kernel, inducing), _seen(model, data)
    projection = project(kernel, inducing, data.nodes, prior)
    points = Scalars(projection.rows.T, seen.value, seen.precision)
    return PairMarginals(*careful_marginals(_pairs(prior), points, projection.interval))


@quick_jit(rows="swept")
def _sound(model: GP, swept: PairMarginals, careful: PairMarginals) -> PairMarginals:
    """The means of the careful way, and the covariances of the sweep where those are right.

    They are if the variances of f and of every entry of the states agree: a sweep that is right at
    all has more digits of small entries beside large ones.
    """
    variance, careful_variance = _variances(model, swept, careful)
    agree = jnp.all(jnp.abs(variance - careful_variance) <= _AGREEING * careful_variance)
    return PairMarginals(careful.mean, jnp.where(agree, swept.covariance, careful.covariance))


def _variances(model: GP, *ways: PairMarginals) -> tuple[Float[Array, "intervals rows"], ...]:
    """Of every entry of the states and of f there, as each of the ways has them."""
    h, dim = model.kernels[0].emission(), model.kernels[0].state_dim
    f = jnp.zeros((2, 2 * dim)).at[0, :dim].set(h).at[1, dim:].set(h)
    rows = jnp.concatenate([jnp.eye(2 * dim), f])
    return tuple(jnp.einsum("ri,mij,rj->mr", rows, pairs.covariance, rows) for pairs in ways)


def _pairs(prior: Transitions) -> Transitions:
    """The chain of [left; right] of every interval."""
    identity = jnp.broadcast_to(jnp.eye(prior.A.shape[-1]), prior.A.shape)
    nothing = jnp.zeros_like(prior.A)

    def blocks(rows: list[list[Array]]) -> Array:
        return jnp.concatenate([jnp.concatenate(row, axis=2) for row in rows], axis=1)

    return Transitions(
        blocks([[nothing, identity], [nothing, prior.A]]),
        blocks([[nothing, nothing], [nothing, prior.Q]]),
    )


@quick_jit(rows=("data", "inducing"), static_argnames="limit")
def evidence_and_gradient(
    vector: Vector, model: GP, data: View, inducing: States, limit: float = TRUSTED
) -> tuple[Float[Array, ""], Vector]:
    """log p(y) plus the log prior of the hyperparameters, and its gradient in them."""

    def objective(vector: Vector) -> Float[Array, ""]:
        moved = with_vector(model, vector)
        return evidence(moved, data, inducing, limit) + log_prior(moved)

    return jax.value_and_grad(objective)(vector)


class Careful:
    """The bound plus the log prior, and its gradient, as exactly as double precision has them.

    The quick way where that is exact, else the careful one; NaN where neither is. The model, but
    for the vector of what is learned, and the data are those of all calls.
    """

    def __init__(self, model: GP, view: View, data: Observations, inducing: States):
        self.model, self.view, self.data, self.inducing = model, view, data, inducing
        quick = knows_evidence(model, view)
        self.quick = evidence_and_gradient.beside(model, view, inducing) if quick else None

    def __call__(self, vector: Any) -> tuple[float, np.ndarray]:
        if self.quick is not None:
            value, gradient = map(np.asarray, self.quick(vector))
            if np.isfinite(value) and np.all(np.isfinite(gradient)):
                return float(value), gradient
        if len(self.data) > _MOST:
            return math.nan, np.full(len(vector), math.nan)
        points, states = one_by_one(self.data, self.inducing)
        value, gradient = careful_and_gradient(on_device(vector), self.model, points, states)
        return float(value), np.asarray(gradient)


def careful_q(model: GP, view: View, data: Observations, inducing: States, q: Q) -> Q:
    """The same q with the digits that its bound and its marginals may have lost."""
    if not data.individual:  # sums have no other way
        return q
    confirmed = _confirmed(model, view, inducing, q) if needs_care(model, view, q) else q
    if confirmed is not None:
        return _fine(model, data, inducing, confirmed) if _is_steep(model, data) else confirmed
    value, _ = Careful(model, view, data, inducing)(to_vector(model))
    elbo = on_device(np.asarray(value - float(log_prior(model))))
    if not np.isfinite(elbo):
        return q._replace(elbo=elbo)
    points, states = one_by_one(data, inducing)
    pairs = _stretched(careful_pairs(model, points, states), q.marginals[0], np.asarray(inducing))
    return q._replace(elbo=elbo, marginals=(_sound(model, q.marginals[0], pairs),))


def _is_steep(model: GP, data: Observations) -> bool:
    """Whether a sweep, though its bound is right, gives variances with few digits."""
    gaussian = isinstance(model.likelihood, Gaussian) and len(model.kernels) == 1
    return gaussian and model.kernels[0].steep and len(data) <= _MOST


def _fine(model: GP, data: Observations, inducing: States, q: Q) -> Q:
    """q with covariances of the careful way; no bound where a sweep finds others."""
    points, states = one_by_one(data, inducing)
    pairs = _stretched(careful_pairs(model, points, states), q.marginals[0], np.asarray(inducing))
    covariance, agree = _finer(model, q.marginals[0], pairs)
    elbo = q.elbo if agree else on_device(np.asarray(np.nan))
    return q._replace(elbo=elbo, marginals=(PairMarginals(q.marginals[0].mean, covariance),))


@quick_jit(rows="swept")
def _finer(
    model: GP, swept: PairMarginals, careful: PairMarginals
) -> tuple[Float[Array, "intervals pair pair"], Bool[Array, ""]]:
    """The covariances of the careful way, and whether those of a sweep are anything like them."""
    variance, careful_variance = _variances(model, swept, careful)
    agree = jnp.abs(variance - careful_variance) <= _ALIKE * careful_variance
    return careful.covariance, jnp.all(agree)


def _confirmed(model: GP, view: View, inducing: States, q: Q) -> Q | None:
    """q, with the bound of a filter over the observations, if that finds the same; else None.

    The filter is a computation of its own, and the estimate of what rounding may cost is cruder
    than a comparison: it takes every state for open. If the bound of the sweep has lost its digits,
    its marginals may still have theirs: then by Fisher's identity the slope of log p(y) in the
    logarithm of all noise follows from them.
    """
    if not knows_evidence(model, view):
        return None
    value, quick, swept = (float(v) for v in _slopes(bare(model), view, inducing, q.marginals[0]))
    size = max(abs(value), float(view.total))
    if abs(value - float(q.elbo)) <= _TRUSTED_SWEEP * size:
        return q
    same = abs(quick - swept) <= _SAME_SLOPE * size  # not so if one is NaN
    return q._replace(elbo=on_device(np.asarray(value))) if same else None


@quick_jit(rows=("data", "inducing"))
def _slopes(
    model: GP, data: View, inducing: States, pairs: PairMarginals
) -> tuple[Scalar, Scalar, Scalar]:
    """log p(y); its slope in the logarithm of all noise, from the filter and from marginals."""
    assert isinstance(data, AtInducing)
    assert isinstance(model.likelihood, Gaussian)
    noise, known = model.likelihood.variance.value, jnp.asarray(data.extra)

    def louder(by: Scalar) -> Scalar:
        factor = jnp.exp(by)
        moved = eqx.tree_at(lambda tree: tree.likelihood.variance.value, model, factor * noise)
        heard = eqx.tree_at(lambda tree: tree.extra, data, factor * known)
        return evidence(moved, heard, inducing)

    value, quick = jax.value_and_grad(louder)(jnp.zeros(()))
    seen = _seen(model, data)
    mean, variance = AtStates(data.first, model.kernels[0].emission()).marginals(pairs)
    misfit = seen.precision * ((seen.value - mean) ** 2 + variance)
    return value, quick, jnp.sum(misfit - jnp.asarray(data.weights)) / 2


def one_by_one(data: Observations, inducing: Any) -> tuple[Observations, States]:
    """A view with a node for each observation, and inducing points with few to fill up.

    The careful way takes states one after another: those that fill up would cost as much.
    """
    states = pad_inducing(distinct_inputs(np.asarray(inducing)))
    return pad_observations(data, states), on_device(states)


def _stretched(pairs: PairMarginals, like: PairMarginals, inducing: np.ndarray) -> PairMarginals:
    """Marginals of a chain with few states to fill up, as those of one with more of them."""
    counted = len(distinct_inputs(inducing))

    def stretch(few: Array, many: Array) -> np.ndarray:
        whole = np.array(many)
        whole[:counted], whole[-1] = few[:counted], few[-1]
        return whole

    stretched: PairMarginals = on_device(jax.tree.map(stretch, pairs, like))
    return stretched


@quick_jit(rows=("data", "inducing"))
def careful_and_gradient(
    vector: Vector, model: GP, data: Observations, inducing: States
) -> tuple[Float[Array, ""], Vector]:
    """The same for the bound, the careful way."""

    def objective(vector: Vector) -> Float[Array, ""]:
        moved = with_vector(model, vector)
        return careful_bound(moved, data, inducing) + log_prior(moved)

    return jax.value_and_grad(objective)(vector)
