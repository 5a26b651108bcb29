"""BFGS for many small problems that advance together.

Every slot climbs a hill of its own: it has a place, an approximation of the inverse Hessian and a
line search, and all slots are evaluated in one call. A slot whose search has ended takes the next
problem. Hyperparameters are few, so the whole matrix is kept, where L-BFGS keeps some differences.
Edges, and what counts as converged, are those of `_lbfgs.py`.
"""

from typing import Any, NamedTuple

import numpy as np

from stategp._inference._result import Outcome

_NEAR = 1e-3  # how close to an edge, in the scale of a coordinate, counts as on it
_RESTARTS = 5
_DECREASE, _CURVATURE = 1e-4, 0.9  # Wolfe's conditions
_ROUNDING = 1e-13  # relative, of the objective per observation: less is no progress
_TRIALS = 25  # evaluations in one line search
_LONGEST = 5.0  # first step of a line search, in the scale of a coordinate
_LONGER = 4.0


class Problem(NamedTuple):
    """Where to start (the best of some places), how far to go, what may move."""

    starts: np.ndarray  # starts × parameters
    low: np.ndarray
    high: np.ndarray
    free: np.ndarray  # which coordinates move
    observations: float


class End(NamedTuple):
    """Where a search ended."""

    outcome: Outcome
    vector: np.ndarray
    value: float
    aside: float  # another number that was told with it
    trace: tuple[float, ...]
    edges: np.ndarray  # −1 or 1 where the place lies on the lower or upper edge
    blind: bool  # whether a place was met where the objective was not finite


class Climbers:
    """Searches side by side, in a fixed number of slots."""

    def __init__(self, slots: int, size: int, *, max_steps: int, flat: float, gtol: float):
        self.max_steps, self.flat, self.gtol = max_steps, flat, gtol
        self.problems: list[Problem | None] = [None] * slots
        self.scouting = np.zeros(slots, dtype=int)  # the start looked at; −1 beyond them
        self.low, self.high, self.free = (np.zeros((slots, size)) for _ in range(3))
        self.count = np.ones(slots)
        self.place, self.slope, self.way, self.trial = (np.zeros((slots, size)) for _ in range(4))
        self.height = np.zeros(slots)
        self.inverse = np.tile(np.eye(size), (slots, 1, 1))
        self.fresh = np.ones(slots, dtype=bool)  # whether the inverse Hessian knows nothing yet
        self.step, self.down = np.ones(slots), np.zeros(slots)
        # What brackets the line search: distance, objective and slope along the way.
        self.near, self.far = np.zeros((slots, 3)), np.zeros((slots, 3))
        self.tried, self.restarts = np.zeros(slots, dtype=int), np.zeros(slots, dtype=int)
        self.best, self.best_slope = np.zeros((slots, size)), np.zeros((slots, size))
        self.best_value, self.aside = np.full(slots, -np.inf), np.zeros(slots)
        self.blind = np.zeros(slots, dtype=bool)
        self.traces: list[list[float]] = [[] for _ in range(slots)]

    def empty(self) -> list[int]:
        """Slots without a problem."""
        return [slot for slot, problem in enumerate(self.problems) if problem is None]

    def put(self, slot: int, problem: Problem) -> None:
        """Begin a search in a slot."""
        self.problems[slot] = problem
        self.low[slot], self.high[slot], self.free[slot] = problem.low, problem.high, problem.free
        self.count[slot] = problem.observations
        self.scouting[slot], self.restarts[slot] = 0, 0
        self.best_value[slot], self.blind[slot] = -np.inf, False
        self.traces[slot] = []
        self.trial[slot] = np.clip(problem.starts[0], problem.low, problem.high)

    def points(self) -> np.ndarray:
        """Where to evaluate next."""
        return np.clip(self.trial, self.low, self.high)

    def told(self, values: np.ndarray, gradients: np.ndarray, asides: np.ndarray) -> dict[int, End]:
        """Go on with what was found there; the searches that ended, by slot, which are empty now.

        What stands in empty slots is ignored. `asides` are kept with the best places.
        """
        inside = self.points()
        gradients = gradients * self.free
        finite = np.isfinite(values) & np.all(np.isfinite(gradients), axis=1)
        busy = np.array([problem is not None for problem in self.problems])
        self.blind |= busy & ~finite
        better = busy & finite & (values > self.best_value)
        self.best_value[better], self.best[better] = values[better], inside[better]
        self.best_slope[better], self.aside[better] = gradients[better], asides[better]
        excess = self.trial - inside
        with np.errstate(invalid="ignore"):
            slope = np.where(excess == 0, -gradients / self.count[:, None], excess)
            height = -values / self.count + np.sum(excess**2, axis=1) / 2
        slope, height = np.where(finite[:, None], slope, 0.0), np.where(finite, height, np.inf)
        ended: dict[int, End] = {}
        for scout in np.flatnonzero(busy & (self.scouting >= 0)).tolist():
            self._scout(scout, ended)
        lines = np.flatnonzero(busy & (self.scouting == -1))
        if len(lines):
            self._search_lines(lines, height[lines], slope[lines], ended)
        self.scouting[self.scouting == -2] = -1  # they search from the next evaluation on
        for slot in ended:
            self.problems[slot] = None
        return ended

    def stop(self, outcome: Outcome) -> dict[int, End]:
        """End all searches that have found something, as they are."""
        busy = [slot for slot, problem in enumerate(self.problems) if problem is not None]
        return {s: self._end(s, outcome) for s in busy if np.isfinite(self.best_value[s])}

    def _scout(self, slot: int, ended: dict[int, End]) -> None:
        """One of the starts has been looked at: the next, or off from the best."""
        problem = self.problems[slot]
        assert problem is not None
        self.scouting[slot] += 1
        if self.scouting[slot] < len(problem.starts):
            start = problem.starts[self.scouting[slot]]
            self.trial[slot] = np.clip(start, problem.low, problem.high)
        elif not np.isfinite(self.best_value[slot]):
            ended[slot] = self._end(slot, Outcome.bad_start)
        else:
            self.scouting[slot] = -2
            self.traces[slot].append(float(self.best_value[slot]))
            self._restart(slot)
            if self._is_flat(slot, self.gtol):
                ended[slot] = self._end(slot, Outcome.converged)

    def _restart(self, slot: int) -> None:
        """Off from the best place, knowing nothing of its surroundings."""
        self.place[slot] = self.best[slot]
        self.slope[slot] = -self.best_slope[slot] / self.count[slot]
        self.height[slot] = -self.best_value[slot] / self.count[slot]
        self.inverse[slot] = np.eye(self.place.shape[1])
        self.fresh[slot] = True
        self._set_out(np.array([slot]))

    def _set_out(self, slots: np.ndarray) -> None:
        """The first trial of a line search."""
        slope = self.slope[slots]
        way = -np.einsum("sij,sj->si", self.inverse[slots], slope)
        down = np.sum(way * slope, axis=1)
        wrong = ~(down < 0)
        way[wrong], down[wrong] = -slope[wrong], -np.sum(slope[wrong] ** 2, axis=1)
        steep = np.max(np.abs(way), axis=1, initial=1e-300)
        longest = np.where(self.fresh[slots], 1.0, _LONGEST)
        self.way[slots], self.down[slots] = way, down
        self.step[slots] = np.minimum(1.0, longest / steep)
        self.near[slots] = np.stack([np.zeros(len(slots)), self.height[slots], down], axis=1)
        self.far[slots] = np.inf
        self.tried[slots] = 0
        self.trial[slots] = self.place[slots] + self.step[slots, None] * way

    def _search_lines(
        self, slots: np.ndarray, height: np.ndarray, slope: np.ndarray, ended: dict[int, End]
    ) -> None:
        step, down = self.step[slots], self.down[slots]
        along = np.sum(slope * self.way[slots], axis=1)
        start = self.height[slots]
        noise = _ROUNDING * np.maximum(np.abs(start), 1.0)
        lower = height <= start + _DECREASE * step * down + noise
        accepted = lower & (along >= _CURVATURE * down)
        self.tried[slots] += 1
        here = np.stack([step, height, along], axis=1)
        self.far[slots[~lower]] = here[~lower]
        self.near[slots[lower & ~accepted]] = here[lower & ~accepted]
        gone = slots[accepted]
        if len(gone):
            self._arrive(gone, height[accepted], slope[accepted], ended)
        going = slots[~accepted]
        if len(going) == 0:
            return
        self.step[going] = _between(self.near[going], self.far[going])
        self.trial[going] = self.place[going] + self.step[going, None] * self.way[going]
        for slot in going[self.tried[going] >= _TRIALS].tolist():
            self._judge(slot, ended)

    def _arrive(
        self, slots: np.ndarray, height: np.ndarray, slope: np.ndarray, ended: dict[int, End]
    ) -> None:
        """A line search has ended: learn from it, and set out again."""
        moved, bent = self.trial[slots] - self.place[slots], slope - self.slope[slots]
        gain = self.height[slots] - height
        self._learn(slots, moved, bent)
        self.place[slots], self.slope[slots], self.height[slots] = self.trial[slots], slope, height
        self._set_out(slots)
        no_gain = gain <= _ROUNDING * np.maximum(np.abs(height), 1.0)
        at_rest = np.max(np.abs(slope), axis=1, initial=0.0) <= self.gtol
        for slot, rests, stands in zip(slots.tolist(), at_rest, no_gain, strict=True):
            self.traces[slot].append(float(self.best_value[slot]))
            if rests or stands or len(self.traces[slot]) > self.max_steps:
                self._judge(slot, ended)

    def _learn(self, slots: np.ndarray, moved: np.ndarray, bent: np.ndarray) -> None:
        """The BFGS update of the inverse Hessian, where the slope grew along the way."""
        curved = np.sum(moved * bent, axis=1)
        square = np.sum(bent**2, axis=1)
        good = curved > 1e-12 * np.sqrt(np.sum(moved**2, axis=1) * square)
        slots, moved, bent = slots[good], moved[good], bent[good]
        curved, square = curved[good], square[good]
        first = self.fresh[slots]
        self.inverse[slots[first]] *= (curved / square)[first][:, None, None]
        self.fresh[slots] = False
        rate = moved / curved[:, None]
        keep = np.eye(moved.shape[1]) - rate[:, :, None] * bent[:, None, :]
        inverse = keep @ self.inverse[slots] @ np.swapaxes(keep, 1, 2)
        self.inverse[slots] = inverse + rate[:, :, None] * moved[:, None, :]

    def _judge(self, slot: int, ended: dict[int, End]) -> None:
        """A search that gets no further has converged, or starts again from its best place."""
        if self._is_flat(slot, self.flat):
            ended[slot] = self._end(slot, Outcome.converged)
        elif len(self.traces[slot]) > self.max_steps:
            ended[slot] = self._end(slot, Outcome.out_of_steps)
        elif self.restarts[slot] + 1 >= _RESTARTS:
            ended[slot] = self._end(slot, Outcome.no_better_step)
        else:
            self.restarts[slot] += 1
            self._restart(slot)

    def _edges(self, slot: int) -> np.ndarray:
        vector = self.best[slot]
        low, high = vector <= self.low[slot] + _NEAR, vector >= self.high[slot] - _NEAR
        return np.where(low, -1, np.where(high, 1, 0)) * (self.free[slot] > 0)

    def _is_flat(self, slot: int, tolerance: float) -> bool:
        """Whether the gradient vanishes, except where an edge holds the search back."""
        gradient = self.best_slope[slot]
        held = self._edges(slot) * gradient > 0
        return bool(np.all(np.abs(gradient[~held]) <= self.count[slot] * tolerance))

    def _end(self, slot: int, outcome: Outcome) -> End:
        trace = tuple(self.traces[slot])
        value, vector = float(self.best_value[slot]), self.best[slot].copy()
        edges = self._edges(slot)
        self.problems[slot] = None
        aside, blind = float(self.aside[slot]), bool(self.blind[slot])
        return End(outcome, vector, value, aside, trace, edges, blind)


def _between(near: np.ndarray, far: np.ndarray) -> np.ndarray:
    """The next step of line searches: farther, or where a cubic between two ends is lowest.

    Both ends are given by distance, objective and slope; a far end at infinity is unknown yet.
    """
    with np.errstate(all="ignore"):
        width = far[:, 0] - near[:, 0]
        mean = near[:, 2] + far[:, 2] - 3 * (far[:, 1] - near[:, 1]) / width
        root = np.sqrt(mean**2 - near[:, 2] * far[:, 2])
        share = 1 - (far[:, 2] + root - mean) / (far[:, 2] - near[:, 2] + 2 * root)
        share = np.where(np.isfinite(share), np.clip(share, 0.1, 0.9), 0.25)
        longer = np.where(near[:, 0] > 0, _LONGER * near[:, 0], 1.0)
        step: Any = np.where(np.isfinite(far[:, 0]), near[:, 0] + share * width, longer)
    return np.asarray(step)
