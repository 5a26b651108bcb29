"""Mixtures of processes: the priors of their chains, and what rows read of them.

Given the two states around x, process l says N(w_l · pair_l, r_l) about g_l(x), so that a row with
coefficients C reads N(Σ_l C_l w_l · pair_l, Σ_l C_l² r_l + e): weights and a residual as those of a
single process have. With q="joint" the states of all processes are stacked into one; with
q="product" there is a chain for each. Chains with states of one size are computed side by side,
along a first axis.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from stategp._data import PlacedRows
from stategp._inference._bound import States
from stategp._inference._separable import Separable, one_kernel, shared_prior, shared_reads
from stategp._inference._several import SeveralStrand
from stategp._models import MixedGP
from stategp._projection import Projection, project
from stategp.chain import PairMarginals, Sites, Transitions, prior_transitions
from stategp.kernels import Kernel

Rows = Float[Array, " rows"]
_AT_ONCE = 2**24  # numbers in matrices of rows that are held at a time


class Strands(NamedTuple):
    """Chains with states of one size: their priors, and what rows read of their pairs of states."""

    transitions: Transitions  # along a first axis
    interval: Int[Array, " cells"]  # of each row, or of runs of rows that share one
    weights: Float[Array, "chains pair cells *order"]
    residual: Float[Array, "chains rows"]

    def _blocks(
        self, weights: Float[Array, "pair cells *order"], *columns: Rows
    ) -> tuple[Array, ...]:
        """Intervals, weights and columns of rows, so few at a time that a matrix for each fits."""
        pair, cells = weights.shape[:2]
        count = 1
        while cells % (2 * count) == 0 and cells // count * pair**2 > _AT_ONCE:
            count *= 2
        spread = weights.reshape(pair, count, cells // count, *weights.shape[2:])
        interval, *others = (column.reshape(count, -1) for column in (self.interval, *columns))
        return interval, jnp.moveaxis(spread, 1, 0), *others

    def moments(self, pairs: PairMarginals) -> tuple[Rows, Rows]:
        """Mean and variance of what rows read of all chains."""

        def one(weights: Array, residual: Array, pair: PairMarginals) -> tuple[Array, Array]:
            def block(part: tuple[Array, Array, Array]) -> tuple[Array, Array]:
                own = part[2].reshape(part[1].shape[1:])
                return Projection(part[0], part[1], (own,)).marginals(pair)

            parts = self._blocks(weights, residual)
            if len(parts[0]) == 1:
                return block(_only(parts))
            mean, variance = jax.lax.map(jax.checkpoint(block), parts)
            return mean.reshape(-1), variance.reshape(-1)

        mean, variance = jax.vmap(one)(self.weights, self.residual, pairs)
        return jnp.sum(mean, axis=0), jnp.sum(variance, axis=0)

    def means(self, pairs: Float[Array, "chains intervals pair"]) -> Rows:
        """What rows read of all chains, from the means of their states."""

        def one(weights: Array, pair: Array) -> Array:
            return Projection(self.interval, weights, ()).means(pair)

        return jnp.sum(jax.vmap(one)(self.weights, pairs), axis=0)

    def gather(self, linear: Rows, precision: Rows) -> Sites:
        """The sites of every chain that sum factors exp(linear·f − ½ precision·f²) of all rows."""
        intervals = self.transitions.A.shape[1]

        def one(weights: Array) -> Sites:
            def block(part: tuple[Array, ...]) -> Sites:
                return Projection(part[0], part[1], ()).gather(part[2], part[3], intervals)

            def add(total: Sites, part: tuple[Array, ...]) -> tuple[Sites, None]:
                return jax.tree.map(jnp.add, total, block(part)), None

            parts = self._blocks(weights, linear, precision)
            if len(parts[0]) == 1:
                return block(_only(parts))
            pair = len(weights)
            nothing = Sites(jnp.zeros((intervals, pair)), jnp.zeros((intervals, pair, pair)))
            sites: Sites = jax.lax.scan(add, nothing, parts)[0]
            return sites

        return jax.vmap(one)(self.weights)

    def gather_linear(self, linear: Rows) -> Float[Array, "chains intervals pair"]:
        """The linear part of `gather`."""

        def one(weights: Array) -> Array:
            projection = Projection(self.interval, weights, ())
            return projection.gather_linear(linear, self.transitions.A.shape[1])

        return jax.vmap(one)(self.weights)


def _only(parts: tuple[Array, ...]) -> Any:
    return tuple(part[0] for part in parts)


class MixedShape(NamedTuple):
    """The priors of all chains, what rows read of them, and what rows have on their own."""

    groups: tuple[Strands | Separable | SeveralStrand, ...]
    extra: Rows

    @property
    def chains(self) -> int:
        """How many there are."""
        return sum(len(group.transitions.A) for group in self.groups)


def mixed_geometry(model: MixedGP, rows: PlacedRows, inducing: States) -> MixedShape:
    """Everything that depends on the kernels, on where the rows are, and on what they read."""
    return mixed_shape(model, rows.x, rows.places, inducing)


def mixed_shape(model: MixedGP, x: Rows, places: Any, inducing: States) -> MixedShape:
    """The same for rows that need not have been observed."""
    if one_kernel(model):
        if getattr(places, "grid", False):
            shared: Any = Separable.of(model, x, places, inducing)
        else:
            shared = Strands(*shared_reads(model, x, places, inducing))
        return MixedShape((shared,), model.extra_variance(x, places))

    def both(kernel: Kernel) -> tuple[Transitions, Projection]:
        prior = prior_transitions(kernel, inducing)
        return prior, project(kernel, inducing, x, prior)

    answers = _for_each(model, both)
    priors, projections = [prior for prior, _ in answers], [there for _, there in answers]
    interval = projections[0].interval
    if model.functions > 1:
        strand = SeveralStrand.of(_stacked(priors), projections, model.mixtures(x, places))
        return MixedShape((strand,), jnp.zeros_like(x))
    coefficients = model.coefficients(x, places)
    each = []
    for number, projection in enumerate(projections):
        own = coefficients[:, number]
        residual = sum(projection.residual[1:], start=projection.residual[0])
        each.append((own[None] * projection.rows, own**2 * residual))
    groups = []
    for members, prior in zip(chain_members(model), _grouped(model, priors), strict=True):
        if model.q == "joint":
            weights = _stacked_weights([each[i][0] for i in members])[None]
            residual = sum((each[i][1] for i in members[1:]), start=each[members[0]][1])[None]
        else:
            weights = jnp.stack([each[i][0] for i in members])
            residual = jnp.stack([each[i][1] for i in members])
        groups.append(Strands(prior, interval, weights, residual))
    return MixedShape(tuple(groups), model.extra_variance(x, places))


def processes_strand(model: MixedGP, x: Rows, inducing: States) -> SeveralStrand:
    """What rows read that read every process, of the one chain of a joint q."""

    def both(kernel: Kernel) -> tuple[Transitions, Projection]:
        prior = prior_transitions(kernel, inducing)
        return prior, project(kernel, inducing, x, prior)

    answers = _for_each(model, both)
    return SeveralStrand.of(_stacked([prior for prior, _ in answers]), [p for _, p in answers])


def chain_members(model: MixedGP) -> tuple[tuple[int, ...], ...]:
    """The processes of every group: stacked into one chain, or each a chain of its own."""
    if model.q == "joint":
        return (tuple(range(len(model.kernels))),)
    alike: dict[int, list[int]] = {}
    for number, kernel in enumerate(model.kernels):
        alike.setdefault(kernel.state_dim, []).append(number)
    return tuple(tuple(members) for members in alike.values())


def mixed_priors(model: MixedGP, inducing: States) -> tuple[Transitions, ...]:
    """The priors of all chains, group by group."""
    if one_kernel(model):
        return (shared_prior(model, prior_transitions(model.kernels[0], inducing)),)
    return _grouped(model, _for_each(model, lambda kernel: prior_transitions(kernel, inducing)))


def _for_each(model: MixedGP, function: Callable[[Kernel], Any]) -> list[Any]:
    """A function of every kernel; processes with the very same object share the answer."""
    known: dict[int, Any] = {}
    kernels = model.kernels
    for kernel in kernels:
        if id(kernel) not in known:
            known[id(kernel)] = function(kernel)
    return [known[id(kernel)] for kernel in kernels]


def _grouped(model: MixedGP, priors: list[Transitions]) -> tuple[Transitions, ...]:
    """The priors of processes as those of chains."""
    if model.q == "joint":
        return (_stacked(priors),)
    return tuple(
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *(priors[i] for i in members))
        for members in chain_members(model)
    )


def _stacked(priors: list[Transitions]) -> Transitions:
    """Block-diagonal matrices, with a first axis of one chain."""

    def diagonal(blocks: list[Array]) -> Array:
        dims = [block.shape[-1] for block in blocks]
        total, start = jnp.zeros((1, len(blocks[0]), sum(dims), sum(dims))), 0
        for block, dim in zip(blocks, dims, strict=True):
            end = start + dim
            total = total.at[0, :, start:end, start:end].set(block)
            start = end
        return total

    return Transitions(diagonal([p.A for p in priors]), diagonal([p.Q for p in priors]))


def _stacked_weights(weights: list[Float[Array, "_ rows"]]) -> Float[Array, "pair rows"]:
    """The left states of all processes, then the right ones."""
    halves = [jnp.split(w, 2) for w in weights]
    return jnp.concatenate([left for left, _ in halves] + [right for _, right in halves])
