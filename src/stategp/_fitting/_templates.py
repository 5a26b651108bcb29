"""Models as numbers: what differs between series that share a compiled program."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np

from stategp._data import Observations
from stategp._fitting._hyperparameters import REACH, REAL_REACH
from stategp._inference import Openings, smallest_noise, starting_model
from stategp._models import GP, bare
from stategp._runtime import on_device
from stategp.parameters import Parameter, all_parameters, map_parameters, with_value

Values = list[np.ndarray]  # of all parameters of a model, in the order of its fields


class Template:
    """A model whose parameters have other values in every series.

    `given` is the model of the user, `model` the same with everything open set from one series. The
    leaves of its pytree, and which of them are parameters, are what a batch is made of.
    """

    def __init__(self, given: GP, model: GP):
        self.given, self.model = given, model
        flat = bare(model, learning=True)
        leaves, self.structure = jax.tree.flatten(flat)
        self.leaves = [np.asarray(leaf) for leaf in leaves]
        shapes = tuple((leaf.shape, leaf.dtype.name) for leaf in self.leaves)
        self.kind: Any = (self.structure, shapes)  # equal for those that can share a batch
        self.dim = model.kernels[0].state_dim
        self.parameters = [(p.constraint == "positive", p.learned) for p in all_parameters(model)]
        self._positions = _positions(flat)
        self._openings = Openings(given, model)
        learned = [p for p in all_parameters(model) if p.learned]
        self.roles = [p.role for p in learned for _ in range(_size(p))]
        noise = {id(p) for p in all_parameters(model.likelihood)}
        self._noise = np.array([id(p) in noise for p in learned for _ in range(_size(p))], bool)
        variance = getattr(model.likelihood, "variance", None)
        same = [p is variance for p in all_parameters(model)]
        self._variance = same.index(True) if any(same) else -1
        reach = [REACH if p.constraint == "positive" else REAL_REACH for p in learned]
        self.reach = np.repeat(reach, [_size(p) for p in learned]) if learned else np.zeros(0)

    @staticmethod
    def of(given: GP, data: Observations) -> "Template":
        """What everything open is set from is one of the series; which one does not matter."""
        return Template(given, starting_model(given, data))

    @property
    def values(self) -> Values:
        """Those of the model itself."""
        return self.values_in(self.leaves)

    def values_in(self, leaves: Sequence[np.ndarray]) -> Values:
        """The values of all parameters, from the leaves of a model."""
        return [leaves[position] for position in self._positions]

    def starts(
        self, leaves: Sequence[np.ndarray], data: Observations, stretches: Sequence[float]
    ) -> list[Values]:
        """What `fit` would start from, for each factor of the lengthscales.

        The leaves are those of a model with the structure of the one that was given.
        """
        return self._openings.values(self.values_in(leaves), data, stretches)

    def scales(self, data: Observations) -> np.ndarray:
        """The natural size of a step in each coordinate of the vector."""
        return self._openings.scales(data)

    def quietest(self, y: np.ndarray) -> float:
        """The smallest noise that y can show; 0 if that is nothing to go by."""
        return smallest_noise(self.model, y).get("noise", 0.0) if self._noise.any() else 0.0

    def lowest(self, vector: np.ndarray, quietest: float) -> np.ndarray:
        """Below which no search goes."""
        if quietest == 0:
            return np.full(len(vector), -np.inf)
        return np.where(self._noise, np.minimum(math.log(quietest), vector), -np.inf)

    def vector(self, values: Values) -> np.ndarray:
        """The learned ones, unconstrained, as `to_vector` has them."""
        pairs = zip(self.parameters, values, strict=True)
        return _joined(
            (np.log(value) if positive else value).ravel()
            for (positive, learned), value in pairs
            if learned
        )

    def at(self, values: Values, vector: np.ndarray) -> Values:
        """The values with other learned ones."""
        moved, position = [], 0
        for (positive, learned), value in zip(self.parameters, values, strict=True):
            if learned:
                raw = vector[position : position + value.size].reshape(value.shape)
                position += value.size
                value = np.exp(raw) if positive else raw
            moved.append(np.asarray(value))
        return moved

    def numbers(self, values: Values, like: Sequence[np.ndarray] | None = None) -> list[np.ndarray]:
        """The leaves of the bare model that has these values, and else those of another."""
        leaves = list(self.leaves if like is None else like)
        for position, value in zip(self._positions, values, strict=True):
            leaves[position] = np.asarray(value, dtype=float)
        return leaves

    def shaped(self, flat: np.ndarray) -> Values:
        """The values of all parameters, from all their numbers in a row."""
        found, position = [], 0
        for value in self.values:
            found.append(flat[position : position + value.size].reshape(value.shape))
            position += value.size
        return found

    def log_normals(self, leaves: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Medians and spreads of the learned parameters: single numbers with log-normal priors."""
        medians, spreads = (
            np.array([float(leaves[place + field]) for place in self._log_normals])
            for field in (0, 1)
        )
        return medians, spreads

    def with_log_normals(
        self, leaves: Sequence[np.ndarray], medians: np.ndarray, spreads: np.ndarray
    ) -> list[np.ndarray]:
        """The leaves of a model with other such priors."""
        changed = list(leaves)
        for place, median, spread in zip(self._log_normals, medians, spreads, strict=True):
            changed[place], changed[place + 1] = np.asarray(median), np.asarray(spread)
        return changed

    @property
    def _log_normals(self) -> list[int]:
        """Where their medians are among the leaves; the spread comes next."""
        learned = [known for _, known in self.parameters]
        return [p + 1 for p, known in zip(self._positions, learned, strict=True) if known]

    def noise(self, values: Values) -> float:
        """The variance of Gaussian noise."""
        return float(values[self._variance])

    def with_values(self, values: Values) -> GP:
        """The model that has these values."""
        left = iter(values)
        return map_parameters(lambda old: with_value(old, on_device(next(left))), self.model)


def _positions(model: GP) -> list[int]:
    """Where the values of all parameters are among the leaves of a model."""
    nodes = jax.tree.leaves(model, is_leaf=lambda node: isinstance(node, Parameter))
    found, position = [], 0
    for node in nodes:
        if isinstance(node, Parameter):
            found.append(position)  # the value comes first
        position += len(jax.tree.leaves(node))
    return found


def _size(parameter: Parameter) -> int:
    return math.prod(parameter.value.shape)


def _joined(parts: Iterable[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0), *parts])
