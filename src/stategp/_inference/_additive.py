"""Inference for additive models: one chain for each input, independent under q.

The sites of a component are kept at its nodes, the distinct values of its input: an optimal q_i has
no others. One pass over the rows gives E_q[log p(y | f)] and its derivatives (g, h) in the mean and
variance of f in each row. Every component on its own would rather have precision W_i = −2 Σ h and
linear term Σ g + W_i mean_i at its nodes. If all moved there at once they would overshoot together,
and one after the other they crawl where inputs are correlated. So the means move jointly, to the
solution of

    A m = b,    A = prior precisions + Sᵀ w S,    b = Sᵀ(g + w S m_old),    w = −2h,

where S spreads nodes over rows, by conjugate gradients; the preconditioner P = prior precisions + W
is a sweep of every chain. Nothing inverts a prior: a vector m comes with s = P m, whose values at
the nodes are all that is needed of it, and A m = s − W m + Sᵀ w S m. For Gaussian observations the
solution is the optimum; for others it is a step, which is shortened until the bound rises.

Components whose kernels have the same structure and whose sizes are alike are computed side by
side.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from stategp._data import Expected, Observed, Table
from stategp._inference._bound import Q, rounding_of, unless_lost
from stategp._inference._natural import (
    MOST_STEPS,
    TOLERANCE,
    Evaluate,
    Settling,
    begin,
    settle,
)
from stategp._models import AdditiveGP
from stategp._modules import Module
from stategp._projection import Projection, project
from stategp._runtime import pad_last, padded_size
from stategp.chain import (
    MeanMap,
    PairMarginals,
    Sites,
    Swept,
    Transitions,
    expected_log_sites,
    local_log_normaliser,
    prior_transitions,
    sweep,
)
from stategp.kernels import Kernel
from stategp.parameters import log_prior, with_vector

Flat = Float[Array, " nodes"]
_STILL = 1e-15  # nats per observation that conjugate gradients leave to gain
_ITERATIONS = 300


class Group(Module):
    """Components that are computed side by side."""

    members: tuple[int, ...] = eqx.field(static=True)
    nodes: Float[Array, "members own_nodes"]
    inducing: Float[Array, "members states"]


Layout = tuple[Group, ...]


def lay_out(
    model: AdditiveGP, observed: Observed, inducing: list[np.ndarray], *, pads: bool = True
) -> tuple[Layout, Table]:
    """Which components go together, and the data in the order of the groups.

    If `pads`, the last inducing point of a component is repeated to one of few sizes.
    """
    alike: dict[Any, list[int]] = {}
    for i, kernel in enumerate(model.kernels):
        structure = jax.tree.structure(kernel), tuple(np.shape(v) for v in jax.tree.leaves(kernel))
        states = len(inducing[i])
        sizes = _size(len(observed.inputs[i].nodes)), _size(states) if pads else states
        alike.setdefault((structure, sizes), []).append(i)
    groups, order, node_counts = [], [], []
    for (_, (nodes, states)), members in alike.items():
        padded_nodes = np.stack([pad_last(observed.inputs[i].nodes, nodes) for i in members])
        places = np.stack([pad_last(inducing[i], states) for i in members])
        groups.append(Group(tuple(members), jnp.asarray(padded_nodes), jnp.asarray(places)))
        order += members
        node_counts += [nodes] * len(members)
    return tuple(groups), observed.table(tuple(order), tuple(node_counts))


def _size(count: int) -> int:
    """Few sizes, so that components share programs: 64, 512, 4096, then as for other arrays."""
    return next((size for size in (64, 512, 4096) if count <= size), padded_size(count))


class NodeSites(Module):
    """A factor exp(linear·f − ½ precision·f²) at every node of every component."""

    linear: Flat
    precision: Flat

    def mix(self, other: "NodeSites", step: float | Float[Array, ""]) -> "NodeSites":
        """(1 − step) self + step other: a natural-gradient step."""
        mixed: NodeSites = jax.tree.map(lambda a, b: (1 - step) * a + step * b, self, other)
        return mixed


AnySites = NodeSites | tuple[Sites, ...]  # at the nodes, or on pairs of states group by group


def may_be_negative(model: AdditiveGP, sites: AnySites) -> bool:
    """Whether precisions of the sites may be: those of ξ are whatever q has beyond the prior."""
    return not (isinstance(sites, NodeSites) and model.likelihood.log_concave)


class Shape(NamedTuple):
    """The priors of the chains and what their states say at the nodes, group by group."""

    transitions: tuple[Transitions, ...]
    projections: tuple[Projection, ...]


def additive_geometry(model: AdditiveGP, layout: Layout) -> Shape:
    """Everything that depends on the kernels and on where nodes and states are."""
    transitions, projections = [], []
    for group in layout:
        kernels = stacked([model.kernels[i] for i in group.members])
        prior = jax.vmap(prior_transitions)(kernels, group.inducing)
        transitions.append(prior)
        projections.append(jax.vmap(project)(kernels, group.inducing, group.nodes, prior))
    return Shape(tuple(transitions), tuple(projections))


def stacked(kernels: list[Kernel]) -> Kernel:
    """Kernels of the same structure as one, along a new first axis of their parameters."""
    together: Kernel = jax.tree.map(lambda *leaves: jnp.stack(leaves), *kernels)
    return together


# --- the chains --------------------------------------------------------------------------------


def _groups(layout: Layout, flat: Flat) -> list[Array]:
    """A flat vector, cut into the groups."""
    cut, start = [], 0
    for group in layout:
        end = start + group.nodes.size
        cut.append(flat[start:end].reshape(group.nodes.shape))
        start = end
    return cut


def flatten(parts: list[Array]) -> Flat:
    return jnp.concatenate([part.reshape(-1) for part in parts])


def chain_sites(layout: Layout, shape: Shape, sites: AnySites) -> tuple[Sites, ...]:
    """Sites on pairs of states, from those at the nodes where they are such."""
    if not isinstance(sites, NodeSites):
        return sites
    linear, precision = (_groups(layout, v) for v in (sites.linear, sites.precision))
    return tuple(
        jax.vmap(lambda p, a, b, n=group.inducing.shape[1] + 1: p.gather(a, b, n))(p, a, b)
        for group, p, a, b in zip(layout, shape.projections, linear, precision, strict=True)
    )


def sweep_all(shape: Shape, sites: tuple[Sites, ...], indefinite: bool) -> tuple[Swept, ...]:
    return tuple(
        jax.vmap(lambda a, b: sweep(a, b, indefinite=indefinite))(prior, site)
        for prior, site in zip(shape.transitions, sites, strict=True)
    )


def node_moments(shape: Shape, marginals: tuple[PairMarginals, ...]) -> tuple[Flat, Flat]:
    """Mean and variance of every component at its nodes."""
    moments = [
        jax.vmap(lambda p, q: p.marginals(q))(p, q)
        for p, q in zip(shape.projections, marginals, strict=True)
    ]
    return flatten([mean for mean, _ in moments]), flatten([variance for _, variance in moments])


# --- the joint step ----------------------------------------------------------------------------


class System(NamedTuple):
    """A = prior precisions + Sᵀ w S and its preconditioner P = prior precisions + W."""

    layout: Layout
    shape: Shape
    table: Table
    weights: Float[Array, " rows"]  # w, never negative
    precision: Flat  # W = the diagonal of Sᵀ w S
    maps: tuple[MeanMap, ...]  # P⁻¹ of each chain

    @staticmethod
    def of(layout: Layout, shape: Shape, table: Table, weights: Float[Array, " rows"]) -> "System":
        precision = table.collect(weights)
        sites = chain_sites(layout, shape, NodeSites(jnp.zeros_like(precision), precision))
        maps = tuple(
            jax.vmap(MeanMap.of)(prior, site)
            for prior, site in zip(shape.transitions, sites, strict=True)
        )
        return System(layout, shape, table, weights, precision, maps)

    def pair_means(self, s: Flat) -> list[Array]:
        """P⁻¹ s, at the states."""
        return [
            jax.vmap(lambda p, f, v, n=group.inducing.shape[1] + 1: f(p.gather_linear(v, n)))(
                projection, means_of, part
            )
            for group, projection, means_of, part in zip(
                self.layout, self.shape.projections, self.maps, _groups(self.layout, s), strict=True
            )
        ]

    def at_nodes(self, pairs: list[Array]) -> Flat:
        """f at the nodes, from the means of pairs of states."""
        return flatten(
            [
                jax.vmap(lambda p, v: p.means(v))(projection, pair)
                for projection, pair in zip(self.shape.projections, pairs, strict=True)
            ]
        )

    def apply(self, s: Flat, m: Flat) -> Flat:
        """A m, for m = P⁻¹ s."""
        return s - self.precision * m + self.table.collect(self.weights * self.table.spread(m))

    def solve(self, b: Flat, start: Flat, enough: Float[Array, ""]) -> tuple[Flat, Flat]:
        """s and m = P⁻¹ s with A m = b, by conjugate gradients from a first s.

        The first iteration only finds the m and the residual of that s.
        """
        nothing = jnp.zeros_like(b)
        begun = _Iteration(
            nothing, nothing, start, nothing, nothing, jnp.zeros(()), jnp.zeros((), int)
        )

        def unfinished(it: _Iteration) -> Bool[Array, ""]:
            return (it.number < 2) | ((it.gain > enough) & (it.number < _ITERATIONS))

        def iterate(it: _Iteration) -> _Iteration:
            first = it.number == 0
            z = self.at_nodes(self.pair_means(it.r))
            gain = jnp.vdot(it.r, z)
            turn = jnp.where(it.number > 1, gain / it.gain, 0.0)
            s_way, way = it.r + turn * it.s_way, z + turn * it.way
            image = self.apply(s_way, way)
            norm = jnp.vdot(way, image)
            length = jnp.where(first, 1.0, jnp.where(norm > 0, gain / norm, 0.0))
            r = jnp.where(first, b, it.r) - length * image
            s, m = it.s + length * s_way, it.m + length * way
            return _Iteration(s, m, r, s_way, way, gain, it.number + 1)

        end = jax.lax.while_loop(unfinished, iterate, begun)
        return end.s, end.m


class _Iteration(NamedTuple):
    s: Flat
    m: Flat
    r: Flat  # b − A m
    s_way: Flat  # where to go, as s and as m
    way: Flat
    gain: Float[Array, ""]  # about twice what the bound could gain before the iteration
    number: Int[Array, ""]


def joint_sites(
    model: AdditiveGP,
    table: Table,
    layout: Layout,
    shape: Shape,
    mean: Flat,
    expected: Expected,
    start: Flat,
) -> NodeSites:
    """Where the data would rather have all components, moved together."""
    weights = jnp.maximum(-2 * expected.curvature, 0.0)
    system = System.of(layout, shape, table, weights)
    b = table.collect(expected.slope + weights * table.spread(mean))
    s, m = system.solve(b, start, _STILL * table.total)
    if model.likelihood.log_concave:
        return NodeSites(s, system.precision)
    precision = table.collect(-2 * expected.curvature)
    return NodeSites(s + (precision - system.precision) * m, precision)


def sites_alone(table: Table, mean: Flat, expected: Expected) -> NodeSites:
    """Where the data would rather have each component, if the others stayed."""
    precision = table.collect(-2 * expected.curvature)
    return NodeSites(table.collect(expected.slope) + precision * mean, precision)


# --- the bound ---------------------------------------------------------------------------------


def level(model: AdditiveGP) -> Float[Array, ""]:
    """The mean of f."""
    return model.mean(jnp.zeros(1))[0]


def additive_evaluate(
    model: AdditiveGP,
    table: Table,
    layout: Layout,
    shape: Shape,
    sites: AnySites,
    *,
    alone: bool = False,
    target: bool = True,
) -> Q:
    """The bound at prior × sites. NaN where that is not a Gaussian.

    The target is where all components go jointly, or, if `alone`, each as if the others stayed; it
    starts from sites at the nodes.
    """
    group_sites = chain_sites(layout, shape, sites)
    swept = sweep_all(shape, group_sites, may_be_negative(model, sites))
    marginals = tuple(one.marginals for one in swept)
    mean, variance = node_moments(shape, marginals)
    full_mean = level(model) + table.spread(mean)
    clip = model.likelihood.log_concave
    data_terms = table.expected(model.likelihood, full_mean, table.spread(variance), clip=clip)
    wanted = sites
    if alone:
        wanted = sites_alone(table, mean, data_terms)
    elif target and isinstance(sites, NodeSites):
        wanted = joint_sites(model, table, layout, shape, mean, data_terms, sites.linear)
    parts = [data_terms.value]
    for one, site in zip(swept, group_sites, strict=True):
        expected = jax.vmap(expected_log_sites)(site, one.marginals)
        parts += [jnp.sum(one.log_normaliser), -jnp.sum(expected)]
    terms = jnp.stack(parts)
    elbo = jnp.sum(terms)
    rounding = rounding_of(terms, list(zip(group_sites, marginals, strict=True)))
    highest = table.highest(model.likelihood)
    searching = alone or not model.likelihood.conjugate
    elbo = unless_lost(elbo, rounding, table.total, highest, searching=searching)
    messages = tuple(one.messages for one in swept)
    return Q((sites,), marginals, messages, elbo, rounding, (wanted,))


def additive_gradient(
    model: AdditiveGP, table: Table, layout: Layout, shape: Shape, q: Q
) -> Float[Array, ""]:
    """The bound at q, as a function of `model` and `shape` with q held fixed."""
    mean, variance = node_moments(shape, q.marginals)
    mean_here, variance_here, level_here = jax.lax.stop_gradient((mean, variance, level(model)))
    rows = level_here + table.spread(mean_here), table.spread(variance_here)
    expected = jax.lax.stop_gradient(table.expected(model.likelihood, *rows))
    partial = table.log_density(model.likelihood, *rows)
    partial += level(model) * jnp.sum(expected.slope)
    partial += jnp.sum(table.collect(expected.slope) * mean)
    partial += jnp.sum(table.collect(expected.curvature) * variance)
    sites = chain_sites(layout, jax.lax.stop_gradient(shape), q.sites[0])
    for prior, site, messages in zip(shape.transitions, sites, q.messages, strict=True):
        partial += jnp.sum(jax.vmap(local_log_normaliser)(prior, site, messages))
    return q.elbo + partial - jax.lax.stop_gradient(partial)


def _search(
    model: AdditiveGP,
    table: Table,
    layout: Layout,
    shape: Shape,
    warm: NodeSites,
    steps: int | Int[Array, ""] = MOST_STEPS,
    tolerance: float | Float[Array, ""] = TOLERANCE,
) -> Settling:
    """The optimal q, from sites found before."""
    if model.likelihood.conjugate:
        nothing = jnp.zeros(warm.linear.shape)
        rows = jnp.full(table.y.shape, level(model)), jnp.zeros(table.y.shape)
        expected = table.expected(model.likelihood, *rows)
        sites = joint_sites(model, table, layout, shape, nothing, expected, warm.linear)
        q = additive_evaluate(model, table, layout, shape, sites, target=False)
        return Settling(q, jnp.ones(()), jnp.zeros(()), jnp.ones((), int), jnp.ones((), bool))

    evaluate = _evaluator(layout)
    state = begin(model, table, shape, (warm,), evaluate)
    return settle(model, table, shape, state, steps, tolerance, evaluate)


def _evaluator(layout: Layout) -> Evaluate:
    """The bound as `settle` asks for it."""

    def evaluate(model: Any, table: Any, shape: Any, sites: Any) -> Q:
        return additive_evaluate(model, table, layout, shape, sites[0])

    return evaluate


@jax.jit
def additive_objective(
    vector: Float[Array, " parameters"],
    model: AdditiveGP,
    table: Table,
    layout: Layout,
    warm: NodeSites,
) -> tuple[Float[Array, ""], Float[Array, " parameters"], Settling]:
    """The collapsed bound (plus the log prior), its gradient, and the q it belongs to."""

    def objective(vector: Float[Array, " parameters"]) -> tuple[Float[Array, ""], Settling]:
        moved = with_vector(model, vector)
        shape = additive_geometry(moved, layout)
        model_here, shape_here = jax.lax.stop_gradient((moved, shape))
        settled = jax.lax.stop_gradient(_search(model_here, table, layout, shape_here, warm))
        return additive_gradient(moved, table, layout, shape, settled.q) + log_prior(moved), settled

    (value, settled), gradient = jax.value_and_grad(objective, has_aux=True)(vector)
    return value, gradient, settled


@jax.jit
def additive_infer(
    model: AdditiveGP,
    table: Table,
    layout: Layout,
    warm: NodeSites,
    steps: int | Int[Array, ""],
    tolerance: float | Float[Array, ""],
) -> Settling:
    """The optimal q for the hyperparameters as they are."""
    shape = additive_geometry(model, layout)
    return _search(model, table, layout, shape, warm, steps, tolerance)


@jax.jit
def additive_start(model: AdditiveGP, table: Table, layout: Layout, warm: NodeSites) -> Settling:
    """A search for q before its first step."""
    shape = additive_geometry(model, layout)
    return begin(model, table, shape, (warm,), _evaluator(layout))


@jax.jit
def additive_steps(
    model: AdditiveGP,
    table: Table,
    layout: Layout,
    state: Settling,
    steps: int | Int[Array, ""],
    tolerance: float | Float[Array, ""],
) -> Settling:
    """At most so many further steps of q."""
    shape = additive_geometry(model, layout)
    return settle(model, table, shape, state, steps, tolerance, _evaluator(layout))


@jax.jit
def additive_bound(model: AdditiveGP, table: Table, layout: Layout, sites: AnySites) -> Q:
    """The bound of given sites, which are those of minibatches or of gradients."""
    shape = additive_geometry(model, layout)
    return additive_evaluate(model, table, layout, shape, sites, target=False)


def no_node_sites(table: Table) -> NodeSites:
    """Sites that say nothing."""
    nothing = jnp.zeros(table.first[-1])
    return NodeSites(nothing, nothing)
