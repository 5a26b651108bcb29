"""From prior × sites to pair marginals and log Z: a Kalman filter and smoother over intervals.

On a CPU the compiled kernels of `_native/sweep.hpp` do this. What follows is the same for other
devices, and for derivatives of the sweep itself. Both passes are recursions along the chain
(`_recursion` runs them as fast as the device allows). Everything else is the same small computation
for each interval, side by side. Inside, intervals lie along the last axis of every array.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from stategp import _native
from stategp._linalg import (
    apply,
    dot,
    identity,
    outer,
    psd_cholesky,
    psd_solve,
    symmetric,
    tilt,
    times,
    transpose,
)
from stategp.chain._information import (
    Potentials,
    compiled_local,
    local_from_potentials,
    sample_indefinite,
    sweep_indefinite,
)
from stategp.chain._recursion import How, blocks, over_blocks, recurse
from stategp.chain._sites import (
    Elements,
    PairMarginals,
    Sites,
    Transitions,
    absorb,
    expected_log_sites,
)


class _Gaussians(NamedTuple):
    """A batch of Gaussians, or one of them."""

    mean: Float[Array, "dim *intervals"]
    covariance: Float[Array, "dim _ *intervals"]


class _Backward(NamedTuple):
    """left | right, data up to the interval ~ N(gain right + offset, covariance)."""

    gain: Float[Array, "dim dim *intervals"]
    offset: Float[Array, "dim *intervals"]
    covariance: Float[Array, "dim dim *intervals"]


class Messages(NamedTuple):
    """What reaches each interval from both sides: enough to know how log Z depends on it.

    `before` is the left state given all earlier sites. The later sites act on the right state
    through the derivatives of log Z in its predicted mean (`pull`) and covariance (`stretch`).
    """

    before_mean: Float[Array, "*intervals dim"]
    before_covariance: Float[Array, "*intervals dim dim"]
    pull: Float[Array, "*intervals dim"]
    stretch: Float[Array, "*intervals dim dim"]


class Swept(NamedTuple):
    """The result of a sweep."""

    marginals: PairMarginals
    log_normaliser: Float[Array, ""]  # log Z = log ∫ p(u) ∏ site(u) du
    messages: Messages | Potentials


def sweep(
    transitions: Transitions, sites: Sites, *, how: How | None = None, indefinite: bool = False
) -> Swept:
    """Pair marginals of q ∝ prior × sites, and its normaliser, in O(M d³).

    `how` is "sequential", "lanes" or "parallel" in the number of states; by default the fastest for
    the device. `indefinite` allows sites of negative precision; the result is NaN if q is not a
    Gaussian.
    """
    if indefinite:
        return Swept(*sweep_indefinite(transitions, sites))
    if how is None and _native.in_use(transitions.A, sites.linear):
        return _compiled_sweep(transitions, sites)
    return _traced_sweep(transitions, sites, how)


def _traced_sweep(transitions: Transitions, sites: Sites, how: How | None) -> Swept:
    start = _nothing(transitions.A.shape[-1])
    to_blocks, from_blocks = blocks(*transitions.A.shape[:2])

    def go_right(left: _Gaussians, inputs: tuple[Transitions, Sites]) -> tuple[_Gaussians, Any]:
        elements = _kept(absorb(*inputs))
        before = _filter(elements, left, how)
        updated, log_scales = _kept(_update(before, elements))
        predicted = _kept(_predict(updated, elements))
        backward = _kept(_reverse(updated, predicted, elements))
        end = jax.tree.map(lambda leaf: leaf[..., -1], predicted)
        return end, (before, predicted, backward, jnp.sum(log_scales))

    def go_left(right: _Gaussians, inputs: tuple[_Gaussians, _Backward]) -> tuple[_Gaussians, Any]:
        predicted, backward = inputs
        rights = _smooth(backward, right, how)
        first = jax.tree.map(lambda leaf: leaf[..., 0], (rights, backward))
        return _smooth_one(*first), (*_later_sites(predicted, rights), _pairs(backward, rights))

    _, (before, predicted, backward, log_scales) = over_blocks(
        go_right, start, to_blocks((transitions, sites))
    )
    _, (*later, pairs) = over_blocks(go_left, start, (predicted, backward), reverse=True)
    messages = (from_blocks(jnp.moveaxis(part, -1, 1)) for part in (*before, *later))
    return Swept(from_blocks(pairs), jnp.sum(log_scales), Messages(*messages))


@jax.custom_jvp
def _compiled_sweep(transitions: Transitions, sites: Sites) -> Swept:
    intervals, dim, _ = transitions.A.shape
    mean, covariance, log_normaliser, *before = _native.call(
        "sweep",
        [
            (intervals, 2 * dim),
            (intervals, 2 * dim, 2 * dim),
            (),
            (intervals, dim),
            (intervals, dim, dim),
        ],
        transitions.A, transitions.Q, sites.linear, sites.precision,
    )  # fmt: skip
    later = _native.call(
        "later_sites", [(intervals, dim), (intervals, dim, dim)], *before, mean, covariance
    )
    return Swept(PairMarginals(mean, covariance), log_normaliser, Messages(*before, *later))


@_compiled_sweep.defjvp
def _compiled_sweep_jvp(primals: Any, tangents: Any) -> Any:
    return jax.jvp(partial(_traced_sweep, how=None), primals, tangents)


def _kept(computed: Any) -> Any:
    """Computed once, and not again wherever it is read."""
    return jax.lax.optimization_barrier(computed)


def log_normaliser(
    transitions: Transitions, sites: Sites, *, how: How | None = None
) -> Float[Array, ""]:
    """log Z alone: the forward half of a sweep."""
    elements = absorb(transitions, sites)
    before = _filter(elements, _nothing(len(elements.b)), how)
    return jnp.sum(_update(before, elements)[1])


def local_log_normaliser(
    transitions: Transitions, sites: Sites, messages: Messages | Potentials
) -> Float[Array, ""]:
    """A function with the same derivatives as log Z, interval by interval, for fixed messages.

    Differentiating it costs no pass over the chain. Its value means nothing.
    """
    if isinstance(messages, Potentials):
        return local_from_potentials(transitions, sites, messages)
    if _native.in_use(transitions.A, sites.linear):
        return compiled_local(transitions, sites, jax.lax.stop_gradient(messages))
    return _traced_local(transitions, sites, messages)


def _traced_local(transitions: Transitions, sites: Sites, messages: Messages) -> Float[Array, ""]:
    @jax.checkpoint
    def one_block(
        total: Float[Array, ""], inputs: tuple[Transitions, Sites, Messages]
    ) -> tuple[Float[Array, ""], None]:
        prior, site, near = inputs
        near = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), near)
        elements = absorb(prior, site)
        before = _Gaussians(near.before_mean, near.before_covariance)
        updated, log_scales = _update(before, elements)
        right = _predict(updated, elements)
        later = jnp.sum(near.pull * right.mean) + jnp.sum(near.stretch * right.covariance)
        return total + jnp.sum(log_scales) + later, None

    to_blocks, _ = blocks(*transitions.A.shape[:2])
    inputs = to_blocks((transitions, sites, messages))
    return over_blocks(one_block, jnp.zeros(()), inputs)[0]


def kl_to_prior(sites: Sites, posterior: Swept) -> Float[Array, ""]:
    """KL(q‖p) = Σ E_q[log site] − log Z."""
    return expected_log_sites(sites, posterior.marginals) - posterior.log_normaliser


# --- forward -----------------------------------------------------------------------------------


def _nothing(dim: int) -> _Gaussians:
    """The state beyond an end of the chain."""
    return _Gaussians(jnp.zeros(dim), jnp.zeros((dim, dim)))


def _filter(elements: Elements, start: _Gaussians, how: How | None) -> _Gaussians:
    """The left state of every interval, given the sites of all earlier intervals."""

    def step(left: _Gaussians, element: Elements) -> _Gaussians:
        return _predict(_update(left, element)[0], element)

    return recurse(step, _combine, elements, start, how=how)


def _update(left: _Gaussians, element: Elements) -> tuple[_Gaussians, Float[Array, "*intervals"]]:
    """Absorb an interval's potential on its left state; what that adds to log Z."""
    covariance, log_det = tilt(left.covariance, element.J)
    pull = element.eta - apply(element.J, left.mean)
    moved = apply(covariance, pull)
    exponent = dot(element.eta + pull, left.mean) + dot(pull, moved) - log_det
    return _Gaussians(left.mean + moved, covariance), element.log_scale + exponent / 2


def _predict(updated: _Gaussians, element: Elements) -> _Gaussians:
    covariance = times(times(element.A, updated.covariance), transpose(element.A)) + element.C
    return _Gaussians(apply(element.A, updated.mean) + element.b, symmetric(covariance))


def _combine(first: Elements, second: Elements) -> Elements:
    """Two neighbouring intervals as one, the state between them integrated out."""
    between, _ = tilt(first.C, second.J)
    keep = identity(between) - times(between, second.J)  # (I + C₁J₂)⁻¹
    pull = second.eta - apply(second.J, first.b)
    kept = times(keep, first.A)
    return Elements(
        A=times(second.A, kept),
        b=apply(second.A, first.b + apply(between, pull)) + second.b,
        C=symmetric(times(times(second.A, between), transpose(second.A)) + second.C),
        eta=apply(transpose(kept), pull) + first.eta,
        J=symmetric(times(transpose(first.A), times(second.J, kept)) + first.J),
        log_scale=first.log_scale,  # not used: log Z is summed afterwards
    )


# --- backward ----------------------------------------------------------------------------------


def _reverse(updated: _Gaussians, predicted: _Gaussians, element: Elements) -> _Backward:
    ahead = times(element.A, updated.covariance)
    gain = transpose(_divide(predicted.covariance, ahead))
    keep = identity(gain) - times(gain, element.A)
    left = times(times(keep, updated.covariance), transpose(keep))
    covariance = left + times(times(gain, element.C), transpose(gain))
    return _Backward(gain, updated.mean - apply(gain, predicted.mean), symmetric(covariance))


def _divide(
    covariance: Float[Array, "dim dim *intervals"], rhs: Float[Array, "dim columns *intervals"]
) -> Float[Array, "dim columns *intervals"]:
    root = jax.lax.stop_gradient(psd_cholesky(covariance))
    return psd_solve(covariance, root, rhs)


def _later_sites(
    predicted: _Gaussians, right: _Gaussians
) -> tuple[Float[Array, "dim intervals"], Float[Array, "dim dim intervals"]]:
    """∂ log Z in the predicted moments (m, P) of the right state, from its smoothed ones (m*, P*).

    r = P⁻¹(m* − m) and ½(r rᵀ − P⁻¹(P − P*)P⁻¹).
    """
    shift = (right.mean - predicted.mean)[:, None]
    shrink = predicted.covariance - right.covariance
    divided = _divide(predicted.covariance, jnp.concatenate([shift, shrink], axis=1))
    pull = divided[:, 0]
    curvature = _divide(predicted.covariance, transpose(divided[:, 1:]))
    return pull, symmetric(outer(pull, pull) - curvature) / 2


def _smooth(backward: _Backward, start: _Gaussians, how: How | None) -> _Gaussians:
    """The right state of every interval, given all sites."""
    return recurse(_smooth_one, _compose, backward, start, reverse=True, how=how)


def _smooth_one(right: _Gaussians, conditional: _Backward) -> _Gaussians:
    """From the right state of an interval to its left state."""
    carried = times(times(conditional.gain, right.covariance), transpose(conditional.gain))
    return _Gaussians(
        apply(conditional.gain, right.mean) + conditional.offset,
        symmetric(carried) + conditional.covariance,
    )


def _compose(later: _Backward, earlier: _Backward) -> _Backward:
    """First from far right to the middle, then from the middle to the left."""
    carried = times(times(earlier.gain, later.covariance), transpose(earlier.gain))
    return _Backward(
        times(earlier.gain, later.gain),
        apply(earlier.gain, later.offset) + earlier.offset,
        symmetric(carried) + earlier.covariance,
    )


def _pairs(backward: _Backward, right: _Gaussians) -> PairMarginals:
    """Joint moments of (left, right) from left | right and the marginal of right."""
    cross = times(backward.gain, right.covariance)
    left = symmetric(times(cross, transpose(backward.gain))) + backward.covariance
    mean = apply(backward.gain, right.mean) + backward.offset
    top = jnp.concatenate([left, cross], axis=1)
    bottom = jnp.concatenate([transpose(cross), right.covariance], axis=1)
    return PairMarginals(
        jnp.concatenate([mean, right.mean]).T,
        jnp.moveaxis(jnp.concatenate([top, bottom]), -1, 0),
    )


# --- means alone -------------------------------------------------------------------------------


class MeanMap(NamedTuple):
    """How the means of a chain depend on the linear part of its sites, for given precisions."""

    carry: Float[Array, "dim dim intervals"]
    A: Float[Array, "dim dim intervals"]
    C: Float[Array, "dim dim intervals"]
    pull: Float[Array, "dim dim intervals"]  # on the right state, from moving the left one
    updated: Float[Array, "dim dim intervals"]  # covariance of the left state, its site absorbed
    keep: Float[Array, "dim dim intervals"]
    gain: Float[Array, "dim dim intervals"]

    @staticmethod
    def of(transitions: Transitions, sites: Sites) -> "MeanMap":
        """What does not change when only the linear part of the sites does."""
        elements = _kept(absorb(transitions, sites))
        dim = len(elements.b)
        updated, _ = _update(_filter(elements, _nothing(dim), None), elements)
        gain = _reverse(updated, _predict(updated, elements), elements).gain
        keep = identity(gain) - times(updated.covariance, elements.J)
        carry, precision = (jnp.moveaxis(leaf, 0, -1) for leaf in (transitions.A, sites.precision))
        pull = transpose(precision[:dim, dim:]) + times(precision[dim:, dim:], carry)
        return MeanMap(carry, elements.A, elements.C, pull, updated.covariance, keep, gain)

    def __call__(self, linear: Float[Array, "intervals pair"]) -> Float[Array, "intervals pair"]:
        """The means of all pairs."""
        dim = len(self.A)
        left, right = linear.T[:dim], linear.T[dim:]
        moved = apply(self.C, right)
        back = apply(transpose(self.carry), right) - apply(transpose(self.pull), moved)
        pulled = apply(self.updated, left + back)
        forward = Affine(times(self.A, self.keep), (apply(self.A, pulled) + moved)[:, None])
        before = follow(forward, jnp.zeros((dim, 1)))[:, 0]
        updated = apply(self.keep, before) + pulled
        predicted = apply(self.A, updated) + moved
        offset = updated - apply(self.gain, predicted)
        rights = follow(Affine(self.gain, offset[:, None]), jnp.zeros((dim, 1)), reverse=True)
        lefts = apply(self.gain, rights[:, 0]) + offset
        return jnp.concatenate([lefts, rights[:, 0]]).T


# --- samples -----------------------------------------------------------------------------------


class Affine(NamedTuple):
    """next = matrix · state + offset, for several samples of the state at once."""

    matrix: Float[Array, "dim dim *intervals"]
    offset: Float[Array, "dim samples *intervals"]


def follow(
    maps: Affine, start: Float[Array, "dim samples"], *, reverse: bool = False
) -> Float[Array, "dim samples intervals"]:
    """The states that a chain of affine maps passes through, the one before each map."""

    if _native.in_use(maps.matrix, maps.offset, start):
        return _compiled_follow(maps, start, reverse)
    return _traced_follow(maps, start, reverse)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def _compiled_follow(maps: Affine, start: Array, reverse: bool) -> Array:
    matrix, offset = (jnp.moveaxis(leaf, -1, 0) for leaf in maps)
    (states,) = _native.call("follow", [offset.shape], matrix, offset, start, reverse=reverse)
    return jnp.moveaxis(states, 0, -1)


@_compiled_follow.defjvp
def _compiled_follow_jvp(reverse: bool, primals: Any, tangents: Any) -> Any:
    return jax.jvp(partial(_traced_follow, reverse=reverse), primals, tangents)


def _traced_follow(maps: Affine, start: Array, reverse: bool) -> Array:
    def step(state: Float[Array, "..."], one: Affine) -> Float[Array, "..."]:
        return times(one.matrix, state) + one.offset

    def combine(first: Affine, second: Affine) -> Affine:
        moved = times(second.matrix, first.offset) + second.offset
        return Affine(times(second.matrix, first.matrix), moved)

    return recurse(step, combine, maps, start, reverse=reverse)


def sample_prior_states(
    steps: Transitions, white: Float[Array, "dim samples steps"]
) -> Float[Array, "dim samples steps"]:
    """Joint samples of the states that steps from nothing lead to, from white noise."""
    if _native.in_use(steps.A, white):
        return _compiled_prior_samples(steps, white)
    return _traced_prior_samples(steps, white)


@jax.custom_jvp
def _compiled_prior_samples(steps: Transitions, white: Array) -> Array:
    noise = jnp.transpose(white, (2, 1, 0))
    (states,) = _native.call("prior_samples", [noise.shape], steps.A, steps.Q, noise)
    return jnp.transpose(states, (2, 1, 0))


@_compiled_prior_samples.defjvp
def _compiled_prior_samples_jvp(primals: Any, tangents: Any) -> Any:
    return jax.jvp(_traced_prior_samples, primals, tangents)


def _traced_prior_samples(steps: Transitions, white: Array) -> Array:
    A, Q = (jnp.moveaxis(leaf, 0, -1) for leaf in (steps.A, steps.Q))
    noise = times(psd_cholesky(Q), white)
    before = _traced_follow(Affine(A, noise), jnp.zeros(noise.shape[:2]), reverse=False)
    return times(A, before) + noise


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
    intervals, dim, _ = transitions.A.shape
    white = jax.random.normal(key, (dim, num_samples, intervals))
    if _native.in_use(transitions.A, sites.linear):
        return _compiled_samples(transitions, sites, jnp.transpose(white, (2, 1, 0)))
    return _traced_samples(transitions, sites, white)


@jax.custom_jvp
def _compiled_samples(transitions: Transitions, sites: Sites, white: Array) -> Array:
    intervals, num_samples, dim = white.shape
    arrays = jax.tree.leaves((transitions, sites, white))
    return _native.call("samples", [(num_samples, intervals - 1, dim)], *arrays)[0]


@_compiled_samples.defjvp
def _compiled_samples_jvp(primals: Any, tangents: Any) -> Any:
    def traced(transitions: Transitions, sites: Sites, white: Array) -> Array:
        return _traced_samples(transitions, sites, jnp.transpose(white, (2, 1, 0)))

    return jax.jvp(traced, primals, tangents)


def _traced_samples(transitions: Transitions, sites: Sites, white: Array) -> Array:
    elements = absorb(transitions, sites)
    updated, _ = _update(_filter(elements, _nothing(len(elements.b)), None), elements)
    backward = _reverse(updated, _predict(updated, elements), elements)
    noise = times(psd_cholesky(backward.covariance), white)
    maps = Affine(backward.gain, backward.offset[:, None] + noise)
    rights = _traced_follow(maps, jnp.zeros(white.shape[:2]), reverse=True)
    return jnp.transpose(rights[..., :-1], (1, 2, 0))  # the last interval has no right end
