"""L-BFGS, with the reasons it stopped as outcomes."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from stategp._inference._result import Outcome
from stategp._inference._search import Memory, Search, Watch
from stategp._runtime import one_blas_thread

Vector = np.ndarray

_NEAR = 1e-3  # how close to an edge, in the scale of a coordinate, counts as on it
_REMEMBERED = 20  # steps that the optimiser's picture of the curvature is made from, at least
_FOR_EACH = 2  # of them for each coordinate, where there are more
_MOST_REMEMBERED = 60
_KEPT = 2**23  # numbers of evaluations that are kept, so that they can be repeated
_RESTARTS = 5  # a line search that broke down is often cured by forgetting the past


class Place(NamedTuple):
    """Somewhere, how high it is, and the slope there."""

    vector: Vector
    value: float
    gradient: Vector


@runtime_checkable
class Carries(Protocol):
    """A function that starts each evaluation from what the last one found."""

    def carried(self) -> list[Any]:
        """What the last evaluation found, as arrays."""
        ...

    def carry(self, found: list[Any]) -> None:
        """Go on from there."""
        ...


class _Evaluations:
    """A function, and what it said so far: what a file remembers is not computed again.

    SciPy's state cannot be kept, but given the same answers it asks the same questions.
    """

    def __init__(self, function: Callable[[Vector], tuple[float, Vector]], carries: Carries | None):
        self.function, self.carries = function, carries
        self.places: list[Place] | None = []  # None: too many to keep
        self.known: list[Place] = []  # from a file
        self.found: list[Any] = []  # carried when the file was written
        self.keep: Callable[[], None] = lambda: None

    def __call__(self, vector: Vector) -> tuple[float, Vector]:
        number = -1 if self.places is None else len(self.places)
        if 0 <= number < len(self.known):
            place = self.known[number]
            if np.array_equal(place.vector, vector):
                if number == 0:  # computed all the same: it prepares those to come
                    self.function(vector)
                if number == len(self.known) - 1 and self.carries is not None:
                    self.carries.carry(self.found)
                self._add(place)
                return place.value, place.gradient
            self.known = []  # another version of SciPy asks other questions
        value, gradient = self.function(vector)
        self._add(Place(vector.copy(), value, gradient))
        self.keep()
        return value, gradient

    def memory(self) -> tuple[list[Place] | None, list[Any]]:
        """All that has been said, here or in the file, and what is carried."""
        if self.places is not None and len(self.places) < len(self.known):
            return self.known, self.found
        return self.places, [] if self.carries is None else self.carries.carried()

    def _add(self, place: Place) -> None:
        if self.places is None:
            return
        self.places.append(place)
        if 2 * len(self.places) * len(place.vector) > _KEPT:
            self.places = None


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
        carries: Carries | None = None,
    ):
        self.function = _Evaluations(function, carries)
        self.observations, self.max_steps = observations, max_steps
        self.low, self.high = low, high
        self.start = np.clip(start, low, high)
        self.flat, self.gtol = flat, gtol
        self.best = None

    def climb(self, watch: Watch) -> Outcome:
        from scipy.optimize import minimize  # slow to import

        value, gradient = self.function(self.start)
        self.best = Place(self.start, value, gradient)
        if not watch.trace:  # else the search goes on
            watch(value)
        self.function.keep = watch.keep
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

        remembered = max(_REMEMBERED, min(_FOR_EACH * len(self.start), _MOST_REMEMBERED))
        for _ in range(_RESTARTS):
            left = self.max_steps - len(watch.trace) + 1
            with one_blas_thread():
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
                        "maxcor": remembered,
                    },
                )
            # The optimiser's own word is not enough: it may stop where no step helps any more.
            if self._is_flat(self.best):
                return Outcome.converged
            if len(watch.trace) > self.max_steps:
                return Outcome.out_of_steps
        return Outcome.no_better_step

    def memory(self, *, over: bool) -> Memory:
        if self.best is None:
            return {}
        places, carried = self.function.memory()
        kept: Memory = {"best": list(self.best), "carried": carried}
        if not over and places is not None:
            kept["places"] = [np.array(column) for column in zip(*places, strict=True)]
        return kept

    def recall(self, memory: Memory, watch: Watch, *, over: bool) -> None:
        if not memory:
            return
        best = Place(*memory["best"])
        if best.vector.shape != self.start.shape:
            raise ValueError("what it holds does not fit this search: it belongs to another fit")
        carries = self.function.carries
        if over:
            self.best = best
            if carries is not None:
                carries.carry(memory["carried"])
        elif "places" in memory:
            columns = zip(*memory["places"], strict=True)
            self.function.known = [Place(v, float(value), g) for v, value, g in columns]
            self.function.found = memory["carried"]
            watch.forget()
        else:
            self.start = best.vector
            if carries is not None:
                carries.carry(memory["carried"])

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
