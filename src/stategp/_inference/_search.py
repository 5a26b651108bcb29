"""The one loop of every search: watched, limited, interrupted at will.

A search knows where it starts, how to take a step and when to stop. `run` takes the steps, keeps
the trace, tells whoever watches, and turns Ctrl-C into an outcome. L-BFGS is a search whose steps
SciPy takes (`_lbfgs.py`); all others are `Stepwise`.
"""

import abc
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np

from stategp._inference._result import FitResult, Outcome
from stategp._runtime import hearing, is_in_step, on_device

Report = Callable[[int, float], None]


class Watch:
    """Keeps the trace of a search and tells whoever watches."""

    def __init__(self, report: Report):
        self.began, self.report = time.perf_counter(), report
        self.trace: list[float] = []
        self.seconds: list[float] = []
        self.step_sizes: list[float] = []
        self.replaced: list[int] = []
        self.past: tuple[float, ...] = ()  # the seconds of steps that are repeated from a file
        self.keep: Callable[[], None] = _nothing  # called where the search could go on from

    def __call__(
        self, value: float, step_size: float = float("nan"), replaced: int | None = None
    ) -> None:
        self.trace.append(value)
        number = len(self.seconds)
        now = time.perf_counter() - self.began
        self.seconds.append(self.past[number] if number < len(self.past) else now)
        self.step_sizes.append(step_size)
        if replaced is not None:
            self.replaced.append(replaced)
        self.report(len(self.trace) - 1, value)

    def forget(self) -> None:
        """The steps so far are taken again, with the times that they took."""
        self.past = tuple(self.seconds)
        self.trace, self.seconds, self.step_sizes, self.replaced = [], [], [], []

    def result(self, outcome: Outcome, remarks: tuple[str, ...] = ()) -> FitResult:
        """What has been recorded."""
        return FitResult(
            outcome,
            max(len(self.trace) - 1, 0),
            tuple(self.trace),
            tuple(self.seconds),
            tuple(self.step_sizes),
            remarks,
            replaced=tuple(self.replaced),
        )


def _nothing() -> None:
    return


Memory = dict[str, Any]  # numbers and lists of arrays, as files hold them


class Search(abc.ABC):
    """A search for the best of something.

    `best` is the best place so far, None before there is one.
    """

    best: Any = None

    @abc.abstractmethod
    def memory(self, *, over: bool) -> Memory:
        """What it takes to go on from here, or, if the search is over, to know how it ended."""

    @abc.abstractmethod
    def recall(self, memory: Memory, watch: Watch, *, over: bool) -> None:
        """The way back; the watch has the trace until then."""

    @abc.abstractmethod
    def climb(self, watch: Watch) -> Outcome:
        """Search to the end, calling `watch` after each step and keeping `best` up to date."""

    def remarks(self) -> tuple[str, ...]:
        """Further remarks about the end of the search."""
        return ()


@runtime_checkable
class Keeps(Protocol):
    """What remembers searches in a file (`_checkpoints.py`)."""

    def enter(self, search: Search, watch: Watch) -> FitResult | None:
        """The search starts, or goes on where it was; the result if it was over."""
        ...

    def leave(self, search: Search, result: FitResult) -> None:
        """The search is over."""
        ...

    def stop(self) -> None:
        """Ctrl-C came before a search had found anything."""
        ...


def run(search: Search, report: Report, keeper: Keeps | None = None) -> FitResult:
    """Search to the end, or until Ctrl-C; what was found is then `search.best`.

    Of several processes that compute together one cannot go on alone: Ctrl-C ends it.
    """
    watch = Watch(report)
    ended = None if keeper is None else keeper.enter(search, watch)
    if ended is not None:
        return ended
    try:
        with hearing():
            outcome = search.climb(watch)
    except KeyboardInterrupt:
        if search.best is None or is_in_step():  # alone there is no way to the end
            if keeper is not None:
                keeper.stop()
            raise
        outcome = Outcome.interrupted
    result = watch.result(outcome, search.remarks())
    if keeper is not None:
        keeper.leave(search, result)
    return result


class Step(NamedTuple):
    """What a step leads to, and what is known about the place it was taken from or arrived at."""

    state: Any  # where the next step starts
    value: Any  # the objective at `known`
    size: Any
    known: Any  # the state that has been evaluated
    replaced: int | None = None  # how many layers of a deep model moved by Gauss–Newton


class At(NamedTuple):
    """Where a search stands between two steps."""

    state: Any
    number: int  # of the next step
    highest: float  # value so far


class Stepwise(Search):
    """A search that goes step by step.

    All states are alike: the same tree, with arrays of the same shapes.
    """

    max_steps: int
    at: At | None = None
    keeps_last = True  # whether the last place is the best; otherwise the highest is

    @abc.abstractmethod
    def start(self) -> Any:
        """Where the first step starts."""

    @abc.abstractmethod
    def step(self, state: Any, number: int) -> Step:
        """One step."""

    @abc.abstractmethod
    def judge(self, state: Any, watch: Watch) -> Outcome | None:
        """How the search ended, if the last step ended it."""

    def exhausted(self, watch: Watch) -> Outcome:
        """What to say when the steps have run out."""
        return Outcome.out_of_steps

    def climb(self, watch: Watch) -> Outcome:
        if self.at is None:
            self.at = At(self.start(), 0, -np.inf)
        while self.at.number < self.max_steps:
            state, number, highest = self.at
            step = self.step(state, number)
            value = float(step.value)
            if not np.isfinite(value):
                if self.best is None:
                    self.best = step.known
                return Outcome.not_finite
            watch(value, float(step.size), step.replaced)
            if self.keeps_last or value >= highest:
                self.best, highest = step.known, value
            self.at = At(step.state, number + 1, highest)
            outcome = self.judge(step.state, watch)
            if outcome is not None:
                return outcome
            watch.keep()
        return self.exhausted(watch)

    def memory(self, *, over: bool) -> Memory:
        if self.at is None or self.best is None:
            return {}
        kept: Memory = {"best": leaves_of(self.best)}
        if not over:
            kept |= {"state": leaves_of(self.at.state)}
            kept |= {"number": self.at.number, "highest": float(self.at.highest)}
        return kept

    def recall(self, memory: Memory, watch: Watch, *, over: bool) -> None:
        if not memory:
            return
        like = self.start()
        self.best = with_leaves(like, memory["best"])
        if not over:
            state = with_leaves(like, memory["state"])
            self.at = At(state, memory["number"], memory["highest"])


def leaves_of(tree: Any) -> list[Any]:
    """The arrays and numbers of a tree, as files hold them."""
    return [
        np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf for leaf in jax.tree.leaves(tree)
    ]


def with_leaves(like: Any, leaves: Any) -> Any:
    """A tree with these leaves, which must fit into one like it."""
    template, structure = jax.tree.flatten(like)
    if [_kind(leaf) for leaf in leaves] != [_kind(leaf) for leaf in template]:
        raise ValueError("what it holds does not fit this search: it belongs to another fit")
    return jax.tree.unflatten(
        structure,
        [
            on_device(leaf) if isinstance(old, jax.Array) else leaf
            for leaf, old in zip(leaves, template, strict=True)
        ],
    )


def _kind(leaf: Any) -> Any:
    return (str(leaf.dtype), leaf.shape) if hasattr(leaf, "dtype") else type(leaf)
