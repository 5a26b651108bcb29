"""The sweep for sites that may be indefinite.

A likelihood that is not log-concave (Student-t) gives some sites negative precision. Prior times
the sites seen so far, what the filter of `_sweep` passes on, may then be no Gaussian even though
q is one. Here potentials are passed from the right end instead: integrating a state out given its
left neighbour is block elimination in q's precision, which works exactly when q is a Gaussian.

The price: where sites are many orders of magnitude more precise than the prior, potentials lose
digits (about rounding × their ratio), which the filter keeps.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

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

    def one(transition: Transitions, site: Sites, near: Potentials) -> Float[Array, ""]:
        element = _with_later(transition, site, near.eta, near.J)
        second = near.covariance + near.mean[:, None] * near.mean[None, :]
        return element.eta @ near.mean - jnp.sum(element.J * second) / 2 + element.log_scale

    return jnp.sum(jax.vmap(one)(transitions, sites, around))


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
