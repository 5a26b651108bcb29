"""A Gauss–Markov chain as prior times sites, and the form in which it is swept.

The chain has M states u_1 … u_M. Interval m = 0 … M lies between u_m and u_{m+1}; the first has
nothing on its left and the last nothing on its right (a state that is always zero stands there),
so that observations outside the range of the states have a place like all others. Each interval
carries a site exp(ηᵀv − ½vᵀΛv) on its pair v = [left; right], and

    q(u) ∝ p(u) ∏_m site_m(v_m).

Nothing here inverts the process noise Q, which may be tiny or zero.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from stategp.chain._block_tridiagonal import BlockTridiagonal, reverse_subset_inverse
from stategp.chain._linalg import symmetric, tilt
from stategp.chain._parameterisations import MeanCholesky
from stategp.kernels import Kernel


class Transitions(eqx.Module):
    """The prior of a chain: right | left ~ N(A left, Q), interval by interval."""

    A: Float[Array, "*intervals dim dim"]
    Q: Float[Array, "*intervals dim dim"]


class Sites(eqx.Module):
    """What the data adds to the prior's natural parameters: one Gaussian factor per interval."""

    linear: Float[Array, "intervals pair"]
    precision: Float[Array, "intervals pair pair"]

    @staticmethod
    def zeros(intervals: int, dim: int) -> "Sites":
        """Sites that say nothing: q is the prior."""
        return Sites(jnp.zeros((intervals, 2 * dim)), jnp.zeros((intervals, 2 * dim, 2 * dim)))

    def mix(self, other: "Sites", step: float | Float[Array, ""]) -> "Sites":
        """(1 − step) self + step other: a natural-gradient step."""
        mixed: Sites = jax.tree.map(lambda a, b: (1 - step) * a + step * b, self, other)
        return mixed


class PairMarginals(eqx.Module):
    """Mean and covariance of the two states around each interval."""

    mean: Float[Array, "*intervals pair"]
    covariance: Float[Array, "*intervals pair pair"]

    @staticmethod
    def of(xi: MeanCholesky) -> "PairMarginals":
        """The pairs of a chain given by its mean and the factor of its precision."""
        band = xi.covariance_band()
        means = jnp.pad(xi.mean, ((1, 1), (0, 0)))
        own, cross = (
            jnp.pad(part, ((1, 1), (0, 0), (0, 0))) for part in (band.diagonal, band.lower)
        )
        top = jnp.concatenate([own[:-1], cross.mT], axis=2)
        bottom = jnp.concatenate([cross, own[1:]], axis=2)
        return PairMarginals(
            jnp.concatenate([means[:-1], means[1:]], axis=1),
            jnp.concatenate([top, bottom], axis=1),
        )

    def to_mean_cholesky(self) -> MeanCholesky:
        """The same distribution as mean and factor of the precision (where that exists)."""
        dim = self.mean.shape[-1] // 2
        own = self.covariance[:-1, dim:, dim:]  # every state is the right end of one interval
        with_previous = self.covariance[1:-1, dim:, :dim]
        band = BlockTridiagonal(own, with_previous)
        return MeanCholesky(self.mean[:-1, dim:], reverse_subset_inverse(band))


class Elements(eqx.Module):
    """An interval after its site is absorbed.

    right | left ~ N(A left + b, C), a potential exp(eta·left − ½ left·J left), and a log scale:
    the elements of the parallel Kalman filter (Särkkä & García-Fernández, 2021).
    """

    A: Float[Array, "*intervals dim dim"]
    b: Float[Array, "*intervals dim"]
    C: Float[Array, "*intervals dim dim"]
    eta: Float[Array, "*intervals dim"]
    J: Float[Array, "*intervals dim dim"]
    log_scale: Float[Array, "*intervals"]


def prior_transitions(kernel: Kernel, inducing: Float[Array, " states"]) -> Transitions:
    """The prior of the states at ordered locations, with the empty intervals at both ends."""
    steps = jnp.diff(inducing)
    A, Q = jax.vmap(lambda dt: (kernel.transition(dt), kernel.process_noise(dt)))(steps)
    nothing = jnp.zeros((1, kernel.state_dim, kernel.state_dim))
    start = kernel.stationary_covariance()[None]
    return Transitions(jnp.concatenate([nothing, A, nothing]), jnp.concatenate([start, Q, nothing]))


def absorb(transitions: Transitions, sites: Sites) -> Elements:
    """Prior times site of every interval, written as elements."""
    return jax.vmap(_absorb_one)(transitions.A, transitions.Q, sites.linear, sites.precision)


def _absorb_one(
    A: Float[Array, "dim dim"],
    Q: Float[Array, "dim dim"],
    linear: Float[Array, " pair"],
    precision: Float[Array, "pair pair"],
) -> Elements:
    dim = len(A)
    left, right = linear[:dim], linear[dim:]
    a, b, c = precision[:dim, :dim], precision[:dim, dim:], precision[dim:, dim:]
    C, log_det = tilt(Q, c)
    G = b.T + c @ A  # the pull on `right` that moving `left` gives
    carried = b @ A
    J = symmetric(a + carried + carried.T + A.T @ c @ A - G.T @ C @ G)
    return Elements(
        A=A - C @ G,
        b=C @ right,
        C=C,
        eta=left + A.T @ right - G.T @ (C @ right),
        J=J,
        log_scale=(right @ C @ right - log_det) / 2,
    )


def expected_log_sites(sites: Sites, marginals: PairMarginals) -> Float[Array, ""]:
    """Σ_m E_q[log site_m]."""
    mean = marginals.mean
    second = marginals.covariance + mean[:, :, None] * mean[:, None, :]
    return jnp.sum(sites.linear * mean) - jnp.sum(sites.precision * second) / 2
