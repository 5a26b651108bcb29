"""From prior × sites to pair marginals and log Z: a Kalman filter and smoother over intervals.

Both passes are prefix computations, done one after another (`parallel=False`) or all at once by
an associative scan (`parallel=True`, for devices with many cores). Everything else is the same
small computation for each interval, side by side.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from stategp.chain._information import (
    Potentials,
    local_from_potentials,
    sample_indefinite,
    sweep_indefinite,
)
from stategp.chain._linalg import psd_cholesky, psd_solve, symmetric, tilt
from stategp.chain._sites import (
    Elements,
    PairMarginals,
    Sites,
    Transitions,
    absorb,
    expected_log_sites,
)


class _Gaussians(NamedTuple):
    """A batch of Gaussians, or one of them inside a scan."""

    mean: Float[Array, "*intervals dim"]
    covariance: Float[Array, "*intervals dim dim"]


class _Backward(NamedTuple):
    """left | right, data up to the interval ~ N(gain right + offset, covariance)."""

    gain: Float[Array, "*intervals dim dim"]
    offset: Float[Array, "*intervals dim"]
    covariance: Float[Array, "*intervals dim dim"]


class Messages(NamedTuple):
    """What reaches each interval from both sides: enough to know how log Z depends on it.

    `before` is the left state given all earlier sites. The later sites act on the right state
    through the derivatives of log Z in its predicted mean (`pull`) and covariance (`stretch`).
    """

    before: _Gaussians
    pull: Float[Array, "intervals dim"]
    stretch: Float[Array, "intervals dim dim"]


class Swept(NamedTuple):
    """What a sweep finds."""

    marginals: PairMarginals
    log_normaliser: Float[Array, ""]  # log Z = log ∫ p(u) ∏ site(u) du
    messages: Messages | Potentials


def sweep(
    transitions: Transitions, sites: Sites, *, parallel: bool = False, indefinite: bool = False
) -> Swept:
    """Pair marginals of q ∝ prior × sites, and its normaliser, in O(M d³).

    `indefinite` allows sites of negative precision, as long as q is a Gaussian; else NaN.
    """
    if indefinite:
        return Swept(*sweep_indefinite(transitions, sites))
    elements = absorb(transitions, sites)
    before = _filter(elements, parallel)
    updated, log_normaliser = _update(before, elements)
    backward = _reverse(updated, elements)
    right = _smooth(backward, parallel)
    pull, stretch = jax.vmap(_later_sites)(updated, elements, right)
    return Swept(_pairs(backward, right), log_normaliser, Messages(before, pull, stretch))


def log_normaliser(
    transitions: Transitions, sites: Sites, *, parallel: bool = False
) -> Float[Array, ""]:
    """log Z alone: the forward half of a sweep."""
    elements = absorb(transitions, sites)
    return _update(_filter(elements, parallel), elements)[1]


def local_log_normaliser(
    transitions: Transitions, sites: Sites, messages: Messages | Potentials
) -> Float[Array, ""]:
    """A function with the same derivatives as log Z, interval by interval, when messages are fixed.

    Differentiating it costs no pass over the chain. Its value means nothing.
    """
    if isinstance(messages, Potentials):
        return local_from_potentials(transitions, sites, messages)

    def one(element: Elements, message: Messages) -> Float[Array, ""]:
        updated, log_scale = _update_one(message.before, element)
        right = _predict_one(updated, element)
        return log_scale + message.pull @ right.mean + jnp.sum(message.stretch * right.covariance)

    return jnp.sum(jax.vmap(one)(absorb(transitions, sites), messages))


def kl_to_prior(sites: Sites, posterior: Swept) -> Float[Array, ""]:
    """KL(q‖p) = Σ E_q[log site] − log Z."""
    return expected_log_sites(sites, posterior.marginals) - posterior.log_normaliser


def sample_states(
    transitions: Transitions,
    sites: Sites,
    key: PRNGKeyArray,
    num_samples: int,
    *,
    indefinite: bool = False,
) -> Float[Array, "samples states dim"]:
    """Joint samples of the states, drawn from the last to the first."""
    if indefinite:
        return sample_indefinite(transitions, sites, key, num_samples)
    elements = absorb(transitions, sites)
    updated, _ = _update(_filter(elements, parallel=False), elements)
    backward = _reverse(updated, elements)
    intervals, dim = backward.offset.shape
    roots = jax.vmap(psd_cholesky)(backward.covariance)
    noise = jax.random.normal(key, (intervals, dim, num_samples))

    def draw(
        right: Float[Array, "dim samples"],
        step: tuple[_Backward, Float[Array, "dim dim"], Float[Array, "dim samples"]],
    ) -> tuple[Float[Array, "dim samples"], Float[Array, "dim samples"]]:
        conditional, root, white = step
        left = conditional.gain @ right + conditional.offset[:, None] + root @ white
        return left, left

    nothing = jnp.zeros((dim, num_samples))
    _, lefts = jax.lax.scan(draw, nothing, (backward, roots, noise), reverse=True)
    return jnp.moveaxis(lefts[1:], -1, 0)  # the left end of the first interval is no state


# --- forward -----------------------------------------------------------------------------------


def _filter(elements: Elements, parallel: bool) -> _Gaussians:
    """The left state of every interval, given the sites of all earlier intervals."""
    dim = elements.b.shape[-1]
    nothing = _Gaussians(jnp.zeros(dim), jnp.zeros((dim, dim)))
    if parallel:
        totals = jax.lax.associative_scan(jax.vmap(_combine), elements)
        return _Gaussians(
            jnp.concatenate([nothing.mean[None], totals.b[:-1]]),
            jnp.concatenate([nothing.covariance[None], totals.C[:-1]]),
        )

    def step(left: _Gaussians, element: Elements) -> tuple[_Gaussians, _Gaussians]:
        updated, _ = _update_one(left, element)
        return _predict_one(updated, element), left

    return jax.lax.scan(step, nothing, elements)[1]


def _update(before: _Gaussians, elements: Elements) -> tuple[_Gaussians, Float[Array, ""]]:
    """Absorb each interval's potential on its left state; sum what that adds to log Z."""
    updated, log_scales = jax.vmap(_update_one)(before, elements)
    return updated, jnp.sum(log_scales)


def _update_one(left: _Gaussians, element: Elements) -> tuple[_Gaussians, Float[Array, ""]]:
    covariance, log_det = tilt(left.covariance, element.J)
    pull = element.eta - element.J @ left.mean
    mean = left.mean + covariance @ pull
    exponent = (element.eta + pull) @ left.mean + pull @ covariance @ pull - log_det
    return _Gaussians(mean, covariance), element.log_scale + exponent / 2


def _predict_one(updated: _Gaussians, element: Elements) -> _Gaussians:
    covariance = element.A @ updated.covariance @ element.A.T + element.C
    return _Gaussians(element.A @ updated.mean + element.b, symmetric(covariance))


def _combine(first: Elements, second: Elements) -> Elements:
    """Two neighbouring intervals as one, the state between them integrated out."""
    between, _ = tilt(first.C, second.J)
    keep = jnp.eye(len(between)) - between @ second.J  # (I + C₁J₂)⁻¹
    pull = second.eta - second.J @ first.b
    return Elements(
        A=second.A @ keep @ first.A,
        b=second.A @ (first.b + between @ pull) + second.b,
        C=symmetric(second.A @ between @ second.A.T + second.C),
        eta=first.A.T @ (keep.T @ pull) + first.eta,
        J=symmetric(first.A.T @ (second.J @ keep) @ first.A + first.J),
        log_scale=first.log_scale,  # not used: log Z is summed afterwards
    )


# --- backward ----------------------------------------------------------------------------------


def _reverse(updated: _Gaussians, elements: Elements) -> _Backward:
    return jax.vmap(_reverse_one)(updated, elements)


def _reverse_one(updated: _Gaussians, element: Elements) -> _Backward:
    predicted = _predict_one(updated, element)
    gain = _divide(predicted.covariance, element.A @ updated.covariance).T
    keep = jnp.eye(len(gain)) - gain @ element.A
    covariance = keep @ updated.covariance @ keep.T + gain @ element.C @ gain.T
    return _Backward(gain, updated.mean - gain @ predicted.mean, symmetric(covariance))


def _divide(
    covariance: Float[Array, "dim dim"], rhs: Float[Array, "dim columns"]
) -> Float[Array, "dim columns"]:
    root = jax.lax.stop_gradient(psd_cholesky(covariance))
    return psd_solve(covariance, root, rhs)


def _later_sites(
    updated: _Gaussians, element: Elements, right: _Gaussians
) -> tuple[Float[Array, " dim"], Float[Array, "dim dim"]]:
    """∂ log Z in the predicted moments (m, P) of the right state, from its smoothed ones (m*, P*).

    r = P⁻¹(m* − m) and ½(r rᵀ − P⁻¹(P − P*)P⁻¹).
    """
    predicted = _predict_one(updated, element)
    shift = (right.mean - predicted.mean)[:, None]
    shrink = predicted.covariance - right.covariance
    divided = _divide(predicted.covariance, jnp.concatenate([shift, shrink], axis=1))
    pull = divided[:, 0]
    curvature = _divide(predicted.covariance, divided[:, 1:].T)
    return pull, symmetric(pull[:, None] * pull[None, :] - curvature) / 2


def _smooth(backward: _Backward, parallel: bool) -> _Gaussians:
    """The right state of every interval, given all sites."""
    dim = backward.offset.shape[-1]
    nothing = _Gaussians(jnp.zeros(dim), jnp.zeros((dim, dim)))
    if parallel:
        totals = jax.lax.associative_scan(jax.vmap(_compose), backward, reverse=True)
        return _Gaussians(
            jnp.concatenate([totals.offset[1:], nothing.mean[None]]),
            jnp.concatenate([totals.covariance[1:], nothing.covariance[None]]),
        )

    def step(right: _Gaussians, conditional: _Backward) -> tuple[_Gaussians, _Gaussians]:
        return _Gaussians(
            conditional.gain @ right.mean + conditional.offset,
            symmetric(conditional.gain @ right.covariance @ conditional.gain.T)
            + conditional.covariance,
        ), right

    return jax.lax.scan(step, nothing, backward, reverse=True)[1]


def _compose(later: _Backward, earlier: _Backward) -> _Backward:
    """First from far right to the middle, then from the middle to the left."""
    carried = earlier.gain @ later.covariance @ earlier.gain.T
    return _Backward(
        earlier.gain @ later.gain,
        earlier.gain @ later.offset + earlier.offset,
        symmetric(carried) + earlier.covariance,
    )


def _pairs(backward: _Backward, right: _Gaussians) -> PairMarginals:
    """Joint moments of (left, right) from left | right and the marginal of right."""

    def pair(conditional: _Backward, right: _Gaussians) -> PairMarginals:
        cross = conditional.gain @ right.covariance
        left = symmetric(cross @ conditional.gain.T) + conditional.covariance
        mean = conditional.gain @ right.mean + conditional.offset
        return PairMarginals(
            jnp.concatenate([mean, right.mean]),
            jnp.block([[left, cross], [cross.T, right.covariance]]),
        )

    return jax.vmap(pair)(backward, right)
