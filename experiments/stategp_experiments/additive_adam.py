"""Adam on everything: an additive model's hyperparameters and q, in minibatches.

The paper's first scheme. q of each component is its mean and the block-bidiagonal Cholesky factor
of its precision, as in the paper; the diagonal of the factor is kept as logarithms or, for
comparison, as it is. q starts as the prior, at states on the same grid for every input: all
components are computed side by side. The library learns additive models by natural gradients only;
this is here to be compared with.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import stategp as sg
from stategp._data import Observed, Table, observe_table
from stategp._inference import (
    Batches,
    Group,
    additive_geometry,
    additive_scales,
    level,
    logarithmic,
    node_moments,
    prior_chain,
    starting_additive,
)
from stategp._runtime._shapes import pad_last
from stategp.chain import MeanCholesky, PairMarginals, kl_divergence
from stategp.parameters import to_vector, with_vector

INDUCING = 61  # days of the week and of the month lie on this grid


class Everything(NamedTuple):
    """Hyperparameters (each in its own scale) and q of all components, stacked."""

    scaled: jax.Array
    xi: MeanCholesky


class Search(NamedTuple):
    """What does not change during a search."""

    model: sg.AdditiveGP
    table: Table
    group: Group
    scales: jax.Array
    rows: int
    logarithms: bool

    def hyperparameters(self, everything: Everything) -> sg.AdditiveGP:
        return with_vector(self.model, everything.scaled * self.scales)

    def chains(self, everything: Everything) -> MeanCholesky:
        return _logarithmic(everything.xi, to_log=False) if self.logarithms else everything.xi


def _logarithmic(xi: MeanCholesky, to_log: bool) -> MeanCholesky:
    return jax.vmap(lambda one: logarithmic(one, to_log))(xi)


def begin(
    model: sg.AdditiveGP, x: np.ndarray, y: np.ndarray, *, logarithms: bool = True
) -> tuple[Search, Everything]:
    """The search for these data, and where it starts."""
    observed = observe_table(model.names, x, y, model.likelihood)
    model = starting_additive(model, observed)
    group, table = _lay_out(observed)
    scales = jnp.asarray(additive_scales(model, observed))
    search = Search(model, table, group, scales, len(observed), logarithms)
    xi = jax.jit(_prior)(model, group)
    xi = _logarithmic(xi, to_log=True) if logarithms else xi
    return search, Everything(jnp.asarray(to_vector(model)) / scales, xi)


def _prior(model: sg.AdditiveGP, group: Group) -> MeanCholesky:
    return jax.vmap(prior_chain)(additive_geometry(model, (group,)).transitions[0])


def _lay_out(observed: Observed) -> tuple[Group, Table]:
    inputs = observed.inputs
    size = _power_of_two(max(len(own.nodes) for own in inputs))
    nodes = np.stack([pad_last(own.nodes, size) for own in inputs])
    places = np.stack([np.linspace(0, own.nodes[-1], INDUCING) for own in inputs])
    members = tuple(range(len(inputs)))
    group = Group(members, jnp.asarray(nodes), jnp.asarray(places))
    return group, observed.table(members, (size,) * len(members))


def _power_of_two(count: int) -> int:
    """A size that splits of the same data share, so that nothing compiles twice."""
    return 1 << (count - 1).bit_length()


def bound(everything: Everything, search: Search, batch: Table):
    """The bound; of all rows, or the estimate by a minibatch."""
    model, xi = search.hyperparameters(everything), search.chains(everything)
    shape = additive_geometry(model, (search.group,))
    mean, variance = node_moments(shape, (jax.vmap(PairMarginals.of)(xi),))
    rows = level(model) + batch.spread(mean), batch.spread(variance)
    distance = jnp.sum(jax.vmap(kl_divergence)(xi, jax.vmap(prior_chain)(shape.transitions[0])))
    return batch.log_density(model.likelihood, *rows) - distance


def learn(
    search: Search,
    everything: Everything,
    *,
    steps: int,
    batch_size: int = 10_000,
    rate: float = 0.01,
    seed: int = 0,
    watch: Callable[[int, Everything], None] = lambda *_: None,
) -> Everything:
    """Adam, a step for every minibatch; `watch` is shown each."""
    memory = optax.adam(rate).init(everything)
    batches = Batches(search.rows, min(batch_size, search.rows), seed)
    fixed = search.rows, search.logarithms
    for number in range(steps):
        at = jnp.asarray(batches.at(number))
        everything, memory = _step(everything, memory, search[:4], fixed, rate, at)
        watch(number, everything)
    return everything


@functools.partial(jax.jit, static_argnums=3)
def _step(everything: Everything, memory, arrays, fixed, rate, at):
    search = Search(*arrays, *fixed)
    batch = search.table.take(at, search.rows)
    gradient = jax.grad(bound)(everything, search, batch)
    down = jax.tree.map(lambda leaf: -leaf / search.rows, gradient)
    updates, memory = optax.adam(rate).update(down, memory, everything)
    return optax.apply_updates(everything, updates), memory


def predict(search: Search, everything: Everything, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of f at the rows of x, by the distinct values of each input."""
    model = search.hyperparameters(everything)
    distinct = [np.unique(column, return_inverse=True) for column in x.T]
    size = _power_of_two(max(len(values) for values, _ in distinct))
    nodes = jnp.asarray(np.stack([pad_last(values, size) for values, _ in distinct]))
    group = Group(search.group.members, nodes, search.group.inducing)
    moments = _moments(model, group, search.chains(everything))
    mean, variance = (np.asarray(v).reshape(nodes.shape) for v in moments)
    rows = [index for _, index in distinct]
    total = sum(own[index] for own, index in zip(mean, rows, strict=True)) + float(level(model))
    return total, sum(own[index] for own, index in zip(variance, rows, strict=True))


@jax.jit
def _moments(model: sg.AdditiveGP, group: Group, xi: MeanCholesky):
    return node_moments(additive_geometry(model, (group,)), (jax.vmap(PairMarginals.of)(xi),))
