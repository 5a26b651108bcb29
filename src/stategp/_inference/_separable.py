"""Processes that share one kernel: priors and what rows read, without a loop over processes.

The states of L processes, one after another, have transitions I ⊗ A, and a row with coefficients C
reads C ⊗ w of a pair of states, where A and w are those of a single process. If rows are all pairs
of some times and places, w belongs to the times and C to the places: the states are first turned
into the processes at every time, and these into rows, by products of large matrices.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from stategp._models import MixedGP
from stategp._projection import project
from stategp.chain import PairMarginals, Sites, Transitions, prior_transitions

Rows = Float[Array, " rows"]
_AT_ONCE = 2**24  # numbers in products of coefficients that are held at a time


def one_kernel(model: MixedGP) -> bool:
    """Whether all processes have the very same kernel, and rows read one mixture of them."""
    kernels = model.kernels
    return model.functions == 1 and all(kernel is kernels[0] for kernel in kernels)


def shared_prior(model: MixedGP, prior: Transitions) -> Transitions:
    """The priors of all chains, from that of one process."""
    count = len(model.kernels)
    if model.q == "product":
        both = (jnp.broadcast_to(v[None], (count, *v.shape)) for v in (prior.A, prior.Q))
        return Transitions(*both)

    def repeated(matrix: Float[Array, "intervals dim dim"]) -> Float[Array, "1 intervals all all"]:
        intervals, dim = len(matrix), matrix.shape[-1]
        whole = jnp.eye(count)[None, :, None, :, None] * matrix[:, None, :, None]
        return whole.reshape(1, intervals, count * dim, count * dim)

    return Transitions(repeated(prior.A), repeated(prior.Q))


class Reads(NamedTuple):
    """What rows read of the states, as `Strands` has it."""

    transitions: Transitions
    interval: Int[Array, " cells"]
    weights: Float[Array, "chains pair *rows"]
    residual: Float[Array, "chains rows"]


def shared_reads(model: MixedGP, x: Rows, places: Any, inducing: Float[Array, " states"]) -> Reads:
    """The same as for kernels one by one.

    If the places have a `width`, each run of so many rows lies in one interval, and makes a cell.
    """
    kernel = model.kernels[0]
    prior = prior_transitions(kernel, inducing)
    projection = project(kernel, inducing, x, prior)
    own = model.coefficients(x, places).T
    residual = sum(projection.residual[1:], start=projection.residual[0])
    each = own[:, None] * projection.rows[None]  # process, pair, row
    if model.q == "joint":
        halves = jnp.split(each, 2, axis=1)
        weights = jnp.concatenate([half.reshape(1, -1, len(x)) for half in halves], axis=1)
        left = jnp.sum(own**2, axis=0, keepdims=True) * residual[None]
    else:
        weights, left = each, own**2 * residual[None]
    width = getattr(places, "width", 1)
    interval = projection.interval
    if width > 1:
        weights, interval = weights.reshape(*weights.shape[:2], -1, width), interval[::width]
    return Reads(shared_prior(model, prior), interval, weights, left)


class Separable(NamedTuple):
    """What rows on a grid read: the processes at every time, mixed in the same way at all times."""

    transitions: Transitions  # along a first axis: one chain of all processes, or one for each
    interval: Int[Array, " times"]
    weights: Float[Array, "times 2 dim"]  # of one process
    residual: Float[Array, " times"]
    coefficients: Float[Array, "places processes"]

    @staticmethod
    def of(model: MixedGP, x: Rows, places: Any, inducing: Float[Array, " states"]) -> "Separable":
        """For rows in order of time, each time with all places."""
        kernel = model.kernels[0]
        prior = prior_transitions(kernel, inducing)
        coefficients = model.coefficients(x, places)
        times = x.reshape(-1, len(coefficients))[:, 0]
        projection = project(kernel, inducing, times, prior)
        weights = projection.rows.T.reshape(len(times), 2, -1)
        residual = sum(projection.residual[1:], start=projection.residual[0])
        chains = shared_prior(model, prior)
        return Separable(chains, projection.interval, weights, residual, coefficients)

    @property
    def _joint(self) -> bool:
        return len(self.transitions.A) == 1

    def moments(self, pairs: PairMarginals) -> tuple[Rows, Rows]:
        """Mean and variance of what rows read of all chains."""
        count = self.coefficients.shape[1]
        if not self._joint:
            w = self.weights.reshape(len(self.weights), -1)
            square = w[:, :, None] * w[:, None]
            spread = jnp.sum(pairs.covariance[:, self.interval] * square[None], axis=(2, 3)).T
            variance = (spread + self.residual[:, None]) @ (self.coefficients**2).T
            return self.means(pairs.mean), variance.reshape(-1)
        spread = self._covariances(pairs.covariance[0])
        spread = spread + self.residual[:, None, None] * jnp.eye(count)[None]
        flat = spread.reshape(len(spread), -1)
        parts = jax.lax.map(lambda part: flat @ _squares(part).T, self._blocks(self.coefficients))
        return self.means(pairs.mean), jnp.moveaxis(parts, 0, 1).reshape(-1)

    def _covariances(
        self, pairs: Float[Array, "intervals pair pair"]
    ) -> Float[Array, "times processes processes"]:
        """Of the processes at every time, from those of the states of the one chain."""
        times, _, dim = self.weights.shape
        whole = pairs[self.interval].reshape(times, 2, -1, dim, pairs.shape[-1])
        sides = [(side, i) for side in range(2) for i in range(dim)]
        # Sums of slices, which are read once and as they lie in memory.
        half = sum(
            (self.weights[:, a, i, None, None] * whole[:, a, :, i] for a, i in sides),
            start=jnp.zeros(()),
        )
        rest = half.reshape(*half.shape[:2], 2, -1, dim)
        return sum(
            (self.weights[:, a, i, None, None] * rest[:, :, a, :, i] for a, i in sides),
            start=jnp.zeros(()),
        )

    def means(self, pairs: Float[Array, "chains intervals pair"]) -> Rows:
        """What rows read of all chains, from the means of their states."""
        count = self.coefficients.shape[1]
        here = pairs[:, self.interval]
        if self._joint:
            each = here[0].reshape(len(self.interval), 2, count, -1)
            processes = jnp.sum(each * self.weights[:, :, None], axis=(1, 3))
        else:
            processes = jnp.sum(here * self.weights.reshape(1, *here.shape[1:]), axis=2).T
        return (processes @ self.coefficients.T).reshape(-1)

    def gather(self, linear: Rows, precision: Rows) -> Sites:
        """The sites of every chain that sum factors exp(linear·f − ½ precision·f²) of all rows."""
        by_time = precision.reshape(len(self.interval), -1)
        dim = 2 * self.weights.shape[2]
        w = self.weights.reshape(-1, dim)
        squares = (w[:, :, None] * w[:, None]).reshape(-1, dim**2)
        intervals, count = self.transitions.A.shape[1], self.coefficients.shape[1]
        if not self._joint:
            each = by_time @ self.coefficients**2
            sums = self._by_interval(each[:, :, None] * squares[:, None])
            sums = jnp.moveaxis(sums, 1, 0).reshape(count, intervals, dim, dim)
            return Sites(self.gather_linear(linear), sums)

        def add(total: Array, part: tuple[Array, Array]) -> tuple[Array, None]:
            return total + part[1].T @ _squares(part[0]), None

        parts = self._blocks(self.coefficients), self._blocks(by_time.T)
        nothing = jnp.zeros((len(by_time), count**2))
        each = jax.lax.scan(add, nothing, parts)[0]
        sums = jax.lax.map(lambda square: self._by_interval(square[:, None] * each), squares.T)
        sums = sums.reshape(2, dim // 2, 2, dim // 2, intervals, count, count)
        whole = jnp.transpose(sums, (4, 0, 5, 1, 2, 6, 3))
        return Sites(
            self.gather_linear(linear), whole.reshape(1, intervals, dim * count, dim * count)
        )

    def gather_linear(self, linear: Rows) -> Float[Array, "chains intervals pair"]:
        """The linear part of `gather`."""
        each = linear.reshape(len(self.interval), -1) @ self.coefficients
        if self._joint:
            sums = self._by_interval(each[:, None, :, None] * self.weights[:, :, None])
            return sums.reshape(1, len(sums), -1)
        weights = self.weights.reshape(len(self.weights), 1, -1)
        return jnp.moveaxis(self._by_interval(each[:, :, None] * weights), 1, 0)

    def _by_interval(self, by_time: Float[Array, "times ..."]) -> Float[Array, "intervals ..."]:
        return jax.ops.segment_sum(by_time, self.interval, self.transitions.A.shape[1])

    def _blocks(self, by_place: Float[Array, "places _"]) -> Float[Array, "blocks _ _"]:
        """So few places at a time that products of their coefficients fit."""
        places, count = self.coefficients.shape
        blocks = 1
        while places % (2 * blocks) == 0 and places // blocks * count**2 > _AT_ONCE:
            blocks *= 2
        return by_place.reshape(blocks, places // blocks, -1)


def _squares(coefficients: Float[Array, "places processes"]) -> Float[Array, "places both"]:
    """C Cᵀ of every place, in one row."""
    square = coefficients[:, :, None] * coefficients[:, None]
    return square.reshape(len(coefficients), -1)
