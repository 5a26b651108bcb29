"""L-BFGS, with the reasons it stopped as outcomes."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from stategp._inference._result import Outcome
from stategp._inference._search import Search, Watch

Vector = np.ndarray

_NEAR = 1e-3  # how close to an edge, in the scale of a coordinate, counts as on it
_REMEMBERED = 20  # steps that the optimiser's picture of the curvature is made from
_RESTARTS = 5  # a line search that broke down is often cured by forgetting the past


class Place(NamedTuple):
    """Somewhere, how high it is, and the slope there."""

    vector: Vector
    value: float
    gradient: Vector


class LBFGS(Search):
    """The vector that maximises `function`, within `low` and `high` in every coordinate.

    Converged means that the slope per observation is below `flat` in every coordinate that no edge
    holds back; the search goes on until it is below `gtol`. Steps into places where the function
    is not finite are shortened. Beyond an edge there is a wall that rises quadratically: bounds
    known to the optimiser would make its first step as long as the gradient.
    """

    best: Place | None

    def __init__(
        self,
        function: Callable[[Vector], tuple[float, Vector]],
        start: Vector,
        *,
        observations: int,
        low: Vector,
        high: Vector,
        max_steps: int,
        flat: float = 1e-5,
        gtol: float = 1e-7,
    ):
        self.function, self.observations, self.max_steps = function, observations, max_steps
        self.low, self.high = low, high
        self.start = np.clip(start, low, high)
        self.flat, self.gtol = flat, gtol
        self.best = None

    def climb(self, watch: Watch) -> Outcome:
        from scipy.optimize import minimize  # slow to import

        value, gradient = self.function(self.start)
        self.best = Place(self.start, value, gradient)
        watch(value)
        if not _finite(value, gradient):
            return Outcome.bad_start
        forbidden = -value / self.observations + 1e3 * (1 + abs(value) / self.observations)

        def negative(vector: Vector) -> tuple[float, Vector]:
            inside = np.clip(vector, self.low, self.high)
            excess = vector - inside
            value, gradient = self.function(inside)
            if not _finite(value, gradient):
                return forbidden, np.zeros_like(vector)
            assert self.best is not None
            if value > self.best.value:
                self.best = Place(inside, value, gradient)
            slope = np.where(excess == 0, -gradient / self.observations, excess)
            return -value / self.observations + float(excess @ excess) / 2, slope

        for _ in range(_RESTARTS):
            left = self.max_steps - len(watch.trace) + 1
            minimize(
                negative,
                self.best.vector,
                jac=True,
                method="L-BFGS-B",
                callback=lambda _: watch(self.best.value) if self.best else None,
                options={
                    "maxiter": left,
                    "ftol": 1e-13,
                    "gtol": self.gtol,
                    "maxcor": _REMEMBERED,
                },
            )
            # The optimiser's own word is not enough: it may stop where no step helps any more.
            if self._is_flat(self.best):
                return Outcome.converged
            if len(watch.trace) > self.max_steps:
                return Outcome.out_of_steps
        return Outcome.no_better_step

    def at_edge(self) -> np.ndarray:
        """−1 or 1 for every coordinate in which the best place lies on the lower or upper edge."""
        assert self.best is not None
        vector = self.best.vector
        low, high = vector <= self.low + _NEAR, vector >= self.high - _NEAR
        return np.where(low, -1, np.where(high, 1, 0))

    def _is_flat(self, place: Place) -> bool:
        """Whether the gradient vanishes, except where an edge holds the search back."""
        held = self.at_edge() * place.gradient > 0
        return bool(np.all(np.abs(place.gradient[~held]) < self.observations * self.flat))


def _finite(value: float, gradient: Vector) -> bool:
    return bool(np.isfinite(value) and np.all(np.isfinite(gradient)))
