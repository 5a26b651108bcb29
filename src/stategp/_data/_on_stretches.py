"""Observations that are not held one by one, but known by stretch: sums, or rows on disk."""

import abc
from typing import Any, ClassVar

import jax
import numpy as np
from jaxtyping import Array, Float

from stategp._data._cells import padded_cells
from stategp._data._observations import Observations, relative_inputs
from stategp._data._stretches import Occupied, Stretches
from stategp._data._views import InCells, Origin
from stategp._runtime import pad_last
from stategp.likelihoods import Likelihood

_NEAR = 1e-9  # share of a stretch up to which a location is at its edge


class OnStretches(Observations):
    """Observations that `x`, `y`, `extra` and `weights` only stand for.

    Inference sees them through nodes on every stretch, whose edges inducing points can be at.
    """

    source: ClassVar[str]  # what they came from, in a word

    @abc.abstractmethod
    def occupied(self) -> Occupied:
        """The stretches with observations."""

    @property
    def stretches(self) -> Stretches:
        """All stretches."""
        return self.occupied().stretches

    @property
    def shortest(self) -> float:
        """The shortest lengthscale that they are good for."""
        return self.stretches.shortest

    @property
    def individual(self) -> bool:
        return False

    @abc.abstractmethod
    def check(self, likelihood: Likelihood) -> None:
        """Refuse likelihoods that they are not for."""

    @abc.abstractmethod
    def view(self, likelihood: Likelihood) -> tuple[InCells, np.ndarray]:
        """What inference asks, and what the observations point at."""

    def cell_nodes(self) -> Float[Array, "cells order"]:
        """The nodes of all stretches with observations, padded to one of few sizes."""
        nodes = self.occupied().nodes()
        padded: Array = jax.device_put(pad_last(nodes, padded_cells(len(nodes))))
        return padded

    def edges(self) -> np.ndarray:
        """Where inducing points can be, from the origin."""
        return self.occupied().edges()

    def at_edges(self, inducing: Any) -> np.ndarray:
        """Locations given by the user, from the origin; refused inside a stretch."""
        edges, width = self.edges(), self.stretches.width
        locations = relative_inputs("inducing", inducing, self.origin)
        start, far = edges[0], abs(float(self.origin))
        nearest = np.rint((locations - start) / width)
        close = max(_NEAR * width, 2 * float(np.spacing(far)))
        at_edge = np.abs(locations - start - nearest * width) <= close
        number = self.occupied().number
        inside = np.isin(np.floor((locations - start) / width), number - number[0])
        wrong = inside & ~at_edge
        if wrong.any():
            at = int(np.argmax(wrong))
            below = edges[np.searchsorted(edges, locations[at]) - 1] + float(self.origin)
            raise ValueError(
                f"inducing points must be at the edges of stretches of the {self.source}: inducing"
                f"[{at}] = {np.asarray(inducing)[at]} lies between {below:.15g} and "
                f"{below + width:.15g}; {self._advice()}"
            )
        return np.where(at_edge, nearest * width + start, locations)

    def _advice(self) -> str:
        if self.source == "summary":
            return "take locations from summary.edges, or give a number"
        return f"give multiples of {self.stretches.width:.15g} (a quarter of shortest), or a number"


def from_end_to_end(x: np.ndarray, ends: tuple[Any, Any], origin: Origin) -> np.ndarray:
    """Places in order, the first and the last of them at the ends of the data."""
    first, last = (relative_inputs("x", [end], origin)[0] for end in ends)
    x = np.clip(x, first, last)
    x[0], x[-1] = first, last
    return x
