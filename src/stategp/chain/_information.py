"""The sweep for sites that may be indefinite.

A likelihood that is not log-concave (Student-t) gives some sites negative precision. Prior times
the sites seen so far, what the filter of `_sweep` passes on, may then be no Gaussian even though
q is one. Here potentials are passed from the right end instead: integrating a state out given its
left neighbour is block elimination in q's precision, which works exactly when q is a Gaussian.

The price: where sites are many orders of magnitude more precise than the prior, potentials lose
digits (about rounding × their ratio), which the filter keeps.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from stategp import _native
from stategp._linalg import psd_cholesky, symmetric
from stategp.chain._sites import Elements, PairMarginals, Sites, Transitions, absorb_one


class Potentials(NamedTuple):
    """What an interval's surroundings say: the left state's moments, later sites on the right."""

    mean: Float[Array, "intervals dim"]
    covariance: Float[Array, "intervals dim dim"]
    eta: Float[Array, "*intervals dim"]
    J: Float[Array, "*intervals dim dim"]


def eliminate(
    transitions: Transitions, sites: Sites
) -> tuple[Elements, Float[Array, "intervals dim"], Float[Array, "intervals dim dim"]]:
    """right | left under q for every interval, and the potentials of all later sites."""
    dim = transitions.A.shape[-1]

    def step(
        later: tuple[Float[Array, " dim"], Float[Array, "dim dim"]],
        interval: tuple[Transitions, Sites],
    ) -> tuple[tuple[Float[Array, " dim"], Float[Array, "dim dim"]], tuple[Elements, Array, Array]]:
        element = _with_later(*interval, *later)
        return (element.eta, element.J), (element, *later)

    nothing = (jnp.zeros(dim), jnp.zeros((dim, dim)))
    return jax.lax.scan(step, nothing, (transitions, sites), reverse=True)[1]


def _with_later(
    transition: Transitions, site: Sites, eta: Float[Array, " dim"], J: Float[Array, "dim dim"]
) -> Elements:
    """One interval, with what all later ones say about its right state."""
    dim = len(eta)
    linear = site.linear.at[dim:].add(eta)
    precision = site.precision.at[dim:, dim:].add(J)
    return absorb_one(transition.A, transition.Q, linear, precision)


def sweep_indefinite(
    transitions: Transitions, sites: Sites
) -> tuple[PairMarginals, Float[Array, ""], Potentials]:
    """Pair marginals, log Z and messages as `sweep`; NaN if prior × sites is not a Gaussian."""
    if _native.in_use(transitions.A, sites.linear):
        return _compiled_sweep(transitions, sites)
    return _traced_sweep(transitions, sites)


@jax.custom_jvp
def _compiled_sweep(transitions: Transitions, sites: Sites) -> Any:
    intervals, dim, _ = transitions.A.shape
    vector, matrix = (intervals, dim), (intervals, dim, dim)
    mean, covariance, log_normaliser, *around = _native.call(
        "sweep_indefinite",
        [(intervals, 2 * dim), (intervals, 2 * dim, 2 * dim), (), vector, matrix, vector, matrix],
        *jax.tree.leaves((transitions, sites)),
    )
    return PairMarginals(mean, covariance), log_normaliser, Potentials(*around)


@_compiled_sweep.defjvp
def _compiled_sweep_jvp(primals: Any, tangents: Any) -> Any:
    return jax.jvp(_traced_sweep, primals, tangents)


def _traced_sweep(transitions: Transitions, sites: Sites) -> Any:
    elements, eta, J = eliminate(transitions, sites)
    dim = eta.shape[-1]

    def step(
        left: tuple[Float[Array, " dim"], Float[Array, "dim dim"]], element: Elements
    ) -> tuple[
        tuple[Float[Array, " dim"], Float[Array, "dim dim"]],
        tuple[Float[Array, " dim"], Float[Array, "dim dim"], PairMarginals],
    ]:
        mean, covariance = left
        cross = element.A @ covariance
        right_mean = element.A @ mean + element.b
        right = symmetric(cross @ element.A.T) + element.C
        pair = PairMarginals(
            jnp.concatenate([mean, right_mean]), jnp.block([[covariance, cross.T], [cross, right]])
        )
        return (right_mean, right), (mean, covariance, pair)

    nothing = (jnp.zeros(dim), jnp.zeros((dim, dim)))
    _, (mean, covariance, pairs) = jax.lax.scan(step, nothing, elements)
    return pairs, jnp.sum(elements.log_scale), Potentials(mean, covariance, eta, J)


def local_from_potentials(
    transitions: Transitions, sites: Sites, around: Potentials
) -> Float[Array, ""]:
    """Same derivatives as log Z, interval by interval: E over the left state of each potential."""
    if _native.in_use(transitions.A, sites.linear):
        return compiled_local(transitions, sites, jax.lax.stop_gradient(around))
    return _traced_local(transitions, sites, around)


def _traced_local(transitions: Transitions, sites: Sites, around: Potentials) -> Float[Array, ""]:

    def one(transition: Transitions, site: Sites, near: Potentials) -> Float[Array, ""]:
        element = _with_later(transition, site, near.eta, near.J)
        second = near.covariance + near.mean[:, None] * near.mean[None, :]
        return element.eta @ near.mean - jnp.sum(element.J * second) / 2 + element.log_scale

    return jnp.sum(jax.vmap(one)(transitions, sites, around))


@jax.custom_jvp
def compiled_local(transitions: Transitions, sites: Sites, messages: Any) -> Any:
    """A function with the derivatives of log Z for fixed messages of either kind of sweep."""
    return jnp.zeros(())


@partial(compiled_local.defjvp, symbolic_zeros=True)
def _compiled_local_jvp(primals: Any, tangents: Any) -> Any:
    transitions, sites, messages = primals
    moved = jax.tree.leaves(tangents[:2], is_leaf=_is_zero)
    intervals, dim, _ = transitions.A.shape
    # The derivatives in the sites are computed only where somebody asks for them.
    rows = intervals * (not all(_is_zero(leaf) for leaf in moved[2:]))
    slopes = _native.call(
        "local_gradient",
        [(intervals, dim, dim)] * 2 + [(rows, 2 * dim), (rows, 2 * dim, 2 * dim)],
        *jax.tree.leaves((transitions, sites, messages)),
        potentials=isinstance(messages, Potentials),
    )
    changes = [
        jnp.sum(slope * tangent)
        for slope, tangent in zip(slopes, moved, strict=True)
        if not _is_zero(tangent)
    ]
    return jnp.zeros(()), sum(changes, start=jnp.zeros(()))


def _is_zero(tangent: Any) -> bool:
    return isinstance(tangent, jax.custom_derivatives.SymbolicZero)


def sample_indefinite(
    transitions: Transitions, sites: Sites, key: PRNGKeyArray, num_samples: int
) -> Float[Array, "samples states dim"]:
    """Joint samples of the states, drawn from the first to the last."""
    elements, _, _ = eliminate(transitions, sites)
    intervals, dim = elements.b.shape
    roots = jax.vmap(psd_cholesky)(elements.C)
    noise = jax.random.normal(key, (intervals, dim, num_samples))

    def draw(
        left: Float[Array, "dim samples"],
        step: tuple[Elements, Float[Array, "dim dim"], Float[Array, "dim samples"]],
    ) -> tuple[Float[Array, "dim samples"], Float[Array, "dim samples"]]:
        element, root, white = step
        right = element.A @ left + element.b[:, None] + root @ white
        return right, right

    _, rights = jax.lax.scan(draw, jnp.zeros((dim, num_samples)), (elements, roots, noise))
    return jnp.moveaxis(rights[:-1], -1, 0)  # the right end of the last interval is no state
