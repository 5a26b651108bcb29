"""Observations with several inputs, as an additive model sees them.

Every input takes some distinct values, its nodes. What is known about f_i at its nodes is one
number for each; all inputs one after another make one flat vector. An observation reads one entry
for each of its inputs (`spread`), and what it says goes back to the same entries (`collect`).
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from stategp._data._observations import (
    Observations,
    inputs_as_given,
    observe,
    place_inducing,
    relative_inputs,
)
from stategp._data._views import Expected, Origin
from stategp._modules import Module
from stategp._runtime import pad_last, padded_size, refuse_traced
from stategp.likelihoods import Likelihood

_FEWEST_ROWS = 64  # as many as an input has nodes, at least; fewer would not be quicker

Rows = Float[Array, " rows"]
Flat = Float[Array, " nodes"]


@dataclasses.dataclass(frozen=True)
class Inputs:
    """One input: its distinct values measured from an origin, and which of them each row has."""

    nodes: np.ndarray
    index: np.ndarray
    origin: Origin


class Table(Module):
    """Observations in rows: `index[i]` says which node of input i each of them has."""

    index: tuple[Int[Array, " rows"], ...]
    first: tuple[int, ...] = eqx.field(static=True)  # where the nodes of each input begin
    y: Rows
    extra: Rows
    weights: Rows

    @property
    def total(self) -> Float[Array, ""]:
        """How many observations there are, counted by their weights."""
        return jnp.sum(self.weights)

    def spread(self, flat: Flat) -> Rows:
        """Σ_i of what input i of each row reads."""
        total = jnp.zeros(self.y.shape)
        for index, begin in zip(self.index, self.first[:-1], strict=True):
            total = total + flat[index + begin]
        return total

    def collect(self, rows: Rows) -> Flat:
        """The transpose of `spread`."""
        sums = [
            jax.ops.segment_sum(rows, index, num_segments=end - begin)
            for index, begin, end in zip(self.index, self.first[:-1], self.first[1:], strict=True)
        ]
        return jnp.concatenate(sums)

    def expected(
        self, likelihood: Likelihood, mean: Rows, variance: Rows, *, clip: bool = False
    ) -> Expected:
        """Σ E[log p(y | f)], and its derivatives in the mean and variance of f, row by row."""
        value, slope, curvature = likelihood.expected_slopes(self.y, mean, variance, self.extra)
        if clip:
            curvature = jnp.minimum(curvature, 0.0)
        weighted = self.weights * slope, self.weights * curvature
        return Expected(jnp.sum(self.weights * value), *weighted)

    def log_density(self, likelihood: Likelihood, mean: Rows, variance: Rows) -> Float[Array, ""]:
        """Σ E[log p(y | f)]."""
        values = likelihood.expected_log_density(self.y, mean, variance, self.extra)
        return jnp.sum(self.weights * values)

    def highest(self, likelihood: Likelihood) -> Float[Array, ""]:
        """The log density of all observations that no f can exceed."""
        return jnp.sum(self.weights * likelihood.highest_log_density(self.y, self.extra))

    def take(self, at: Int[Array, " batch"], count: int) -> "Table":
        """Some of the first `count` rows, weighted so that they stand for all."""
        share = count / len(at)
        return Table(
            tuple(index[at] for index in self.index),
            self.first,
            self.y[at],
            self.extra[at],
            share * self.weights[at],
        )


class Observed(NamedTuple):
    """What the user gave, checked, row by row."""

    inputs: tuple[Inputs, ...]
    y: np.ndarray
    extra: np.ndarray
    weights: np.ndarray

    def __len__(self) -> int:
        return len(self.y)

    def table(self, order: tuple[int, ...], sizes: tuple[int, ...]) -> Table:
        """The inputs in another order, each padded to a number of nodes; rows to one of few."""
        size = padded_size(max(len(self), _FEWEST_ROWS))
        index = tuple(
            jnp.asarray(pad_last(self.inputs[i].index, size).astype(np.int32)) for i in order
        )
        y, extra = (jnp.asarray(pad_last(np.asarray(v), size)) for v in (self.y, self.extra))
        weights = jnp.asarray(np.pad(np.asarray(self.weights), (0, size - len(self))))
        first = tuple(int(v) for v in np.cumsum([0, *sizes]))
        return Table(index, first, y, extra, weights)

    def as_series(self, number: int, most: int = 100_000) -> Observations:
        """One input on its own, in order: some of the rows."""
        inputs = self.inputs[number]
        rows = np.random.default_rng(0).permutation(len(self))[:most]
        rows = rows[np.argsort(inputs.index[rows], kind="stable")]
        y, extra, weights = (np.asarray(v)[rows] for v in (self.y, self.extra, self.weights))
        columns: Any = (inputs.nodes[inputs.index[rows]], y, extra, weights, inputs.origin)
        return Observations(*columns)


def observe_table(
    names: tuple[str, ...],
    x: Any,
    y: Any,
    likelihood: Likelihood,
    *,
    extras: Mapping[str, Any] | None = None,
    weights: Any = None,
) -> Observed:
    """Check what the user gave; drop the rows whose y is NaN.

    An input with a single value is allowed: it has one node, and an effect that nothing is known
    about beyond the mean.
    """
    columns = as_columns("x", names, x)
    numbers = np.arange(len(columns[0]))
    # The rows are numbered and go through the checks of a single series; its x says who stayed.
    kept = observe(numbers, y, likelihood, extras=extras, weights=weights)
    rows = np.asarray(kept.x).astype(int) + int(kept.origin)
    inputs = []
    for name, column in zip(names, columns, strict=True):
        seen = column[rows]
        origin = seen.min().item()
        relative = relative_inputs(name, seen, origin)
        nodes, index = np.unique(relative, return_inverse=True)
        inputs.append(Inputs(nodes, index, origin))
    return Observed(tuple(inputs), *(np.asarray(v) for v in (kept.y, kept.extra, kept.weights)))


def as_columns(what: str, names: tuple[str, ...], x: Any) -> list[np.ndarray]:
    """The columns of an array, a dictionary or a data frame, in the order of the names."""
    refuse_traced(what, x)
    known = column_names(x)
    if known is not None:
        for name in names:
            if name not in known:
                raise ValueError(
                    f"{what} has no column {name!r}; it has {', '.join(map(repr, known))}"
                )
        values = [x[name] for name in names]
    else:
        array = np.asarray(x)
        if array.ndim == 1 and len(names) == 1:
            array = array[:, None]
        if array.ndim != 2 or array.shape[1] != len(names):
            raise ValueError(
                f"{what} must have one column for each of {len(names)} kernels "
                f"({', '.join(names)}), got shape {array.shape}"
            )
        values = list(array.T)
    columns = [
        inputs_as_given(f"column {n!r} of {what}", v) for n, v in zip(names, values, strict=True)
    ]
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        raise ValueError(f"the columns of {what} have different lengths: {sorted(lengths)}")
    return columns


def column_names(x: Any) -> list[Any] | None:
    """The names of the columns of a dictionary or a data frame; None if they have no names."""
    if isinstance(x, Mapping):
        return list(x)
    for attribute in ("column_names", "columns"):  # of pyarrow, whose columns are the data; others
        if hasattr(x, attribute):
            return list(getattr(x, attribute))
    return None


def place_all(inducing: Any, observed: Observed, names: tuple[str, ...]) -> list[np.ndarray]:
    """Inducing locations for every input, from one rule for all or one for each."""
    if isinstance(inducing, Mapping):
        unknown = [name for name in inducing if name not in names]
        if unknown:
            raise ValueError(f"inducing names {unknown[0]!r}, not one of {', '.join(names)}")
        rules = [inducing.get(name, "auto") for name in names]
    elif isinstance(inducing, list | tuple):
        rules = list(inducing)
        if len(rules) != len(names):
            raise ValueError(
                f"inducing must have one entry for each of {len(names)} inputs, got {len(rules)}"
            )
    else:
        rules = [inducing] * len(names)
    for rule in rules:
        if np.ndim(rule) == 0 and not isinstance(rule, str | int | np.integer):
            raise ValueError(
                "inducing of an additive model must be a number, locations, 'data' (every distinct "
                f"value) or 'auto' ({DEFAULT}, or every distinct value if there are fewer), for "
                f"all inputs or for each; got {rule!r}"
            )
    return [
        place_inducing(
            DEFAULT if isinstance(rule, str) and rule == "auto" else rule, _nodes(inputs)
        )
        for rule, inputs in zip(rules, observed.inputs, strict=True)
    ]


DEFAULT = 64  # inducing points of an input, unless it has fewer distinct values


def _nodes(inputs: Inputs) -> Observations:
    columns: Any = (inputs.nodes, *[np.zeros(len(inputs.nodes))] * 3, inputs.origin)
    return Observations(*columns)
