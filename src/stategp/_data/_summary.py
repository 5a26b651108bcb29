"""Data as sums over stretches of x: all that a fit needs, whatever the number of observations."""

import functools
import math
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Int

from stategp._arguments import as_number, as_whole, positive_number
from stategp._data._observations import check_columns
from stategp._data._stretches import PER_LENGTHSCALE, PER_PERIOD, Occupied, Stretches
from stategp._data._sums import GaussianSums, Sum, Tallies
from stategp._files import save
from stategp._modules import Module
from stategp.likelihoods import Gaussian, Likelihood, from_name

_HELD = 2**20  # observations that are summed up together
_SPARSE = 4  # stretches to an observation from which on they are looked up


class Summary(Module):
    """Observations as sums over stretches of x, made by `sg.summarise`.

    Sums of parts of the data add up, in any order: `a + b`, `sum(parts)`. They take a few hundred
    bytes for each stretch with observations, whatever their number, and depend on no
    hyperparameter. `sg.fit(model, summary)` and `sg.condition(model, summary)` take one in the
    place of x and y. `save(path)` writes it to a file that `sg.load` reads.

    >>> import numpy as np, stategp as sg
    >>> x = np.linspace(0, 100, 1000)
    >>> parts = [sg.summarise(x[i::2], np.sin(x[i::2]), shortest=1.0) for i in range(2)]
    >>> sum(parts)
    Summary of 1,000 Gaussian observations from 0.0 to 100.0, in 401 stretches of 0.25 (134 kB)
    """

    stretches: Stretches
    likelihood: str  # the class of likelihood that the sums are for
    number: Int[np.ndarray, " stretches"]  # of those with observations, in order
    sums: GaussianSums | Tallies
    rows: int  # observations
    first: int | float | None  # the smallest and the largest x
    last: int | float | None
    noise: float | None  # known for all of them; None if each has its own, and weighs 1/variance
    log_noise: float  # Σ w log of the noise of each that has its own
    weight: float  # Σ w

    @property
    def edges(self) -> np.ndarray:
        """Where stretches with observations begin and end: inducing points can be there."""
        occupied = self.occupied()
        return occupied.edges() + float(occupied.ends()[2])

    def occupied(self) -> Occupied:
        """The stretches with observations."""
        if len(self.number) == 0:
            raise ValueError("the summary is empty: at least one observation is needed")
        return Occupied(self.stretches, self.number, self.whole)

    @property
    def whole(self) -> bool:
        """Whether all inputs were whole numbers."""
        return isinstance(self.first, int) and isinstance(self.last, int)

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        arrays = [self.number, *(v for v in vars(self.sums).values())]
        return sum(array.nbytes for array in arrays)

    def __add__(self, other: Any) -> "Summary":
        if isinstance(other, int) and other == 0:  # where `sum` begins
            return self
        if not isinstance(other, Summary):
            return NotImplemented
        self._check_alike(other)
        number = np.union1d(self.number, other.number)
        a, b = (
            s.sums.spread(np.searchsorted(number, s.number), len(number)) for s in (self, other)
        )
        added = operator.add(a, b)  # both of one kind, as the likelihoods are alike
        ends = [end for s in (self, other) for end in (s.first, s.last) if end is not None]
        return Summary(
            self.stretches,
            self.likelihood,
            number,
            added,
            self.rows + other.rows,
            min(ends, default=None),
            max(ends, default=None),
            self.noise,
            self.log_noise + other.log_noise,
            self.weight + other.weight,
        )

    __radd__ = __add__

    def scaled(self, factor: float) -> "Summary":
        """The same with every observation counting so many times as much.

        >>> import numpy as np, stategp as sg
        >>> june, july = (sg.summarise([m], [1.0], shortest=1.0) for m in (6.0, 7.0))
        >>> (june.scaled(0.5) + july).weight
        1.5
        """
        share = positive_number("factor", factor)
        sums = self.sums.scaled(share)
        log_noise, weight = share * self.log_noise, share * self.weight
        return Summary(
            self.stretches, self.likelihood, self.number, sums, self.rows, self.first, self.last,
            self.noise, log_noise, weight,
        )  # fmt: skip

    def beginning(self, place: int) -> "Summary":
        """Without the stretches before a place among those with observations.

        For those that count nothing: the numbers for all observations stay as they are.
        """
        if place == 0:
            return self
        base, rest = self.stretches.edge(int(self.number[place]), whole=self.whole)
        first = base + (math.ceil(rest) if self.whole else rest)
        return Summary(
            self.stretches, self.likelihood, self.number[place:], self.sums.beginning(place),
            self.rows, first, self.last, self.noise, self.log_noise, self.weight,
        )  # fmt: skip

    def _check_alike(self, other: "Summary") -> None:
        for name, words, advice in [
            ("stretches", "stretches", "make both with the same shortest, period and origin"),
            ("likelihood", "likelihoods", "make both for the same likelihood"),
            ("noise", "known noise", "give both one and the same noise_variance, or one for each"),
        ]:
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise ValueError(
                    f"summaries with different {words} cannot be added ({mine} and {theirs}): "
                    f"{advice}"
                )
        if isinstance(self.sums, Tallies) and isinstance(other.sums, Tallies):
            kinds = len(self.sums.statistics), len(other.sums.statistics)
            if kinds[0] != kinds[1]:
                raise ValueError(f"summaries of {kinds[0]} and {kinds[1]} outcomes cannot be added")

    def save(self, path: Any) -> None:
        """Write the summary to a file of numbers and names, which `sg.load` reads."""
        save(self, path)

    def __repr__(self) -> str:
        kind = f"{self.rows:,} {self.likelihood} observations"
        if self.first is None:
            return f"Summary of {kind}, in stretches of {self.stretches.width:g}"
        size = f"{self.nbytes / 1e6:.1f} MB" if self.nbytes >= 1e6 else f"{self.nbytes // 1000} kB"
        return (
            f"Summary of {kind} from {self.first} to {self.last}, in {len(self.number):,} "
            f"stretches of {self.stretches.width:g} ({size})"
        )


def summable(likelihood: Any) -> Likelihood:
    """By name or as it is; refused unless there are sums that stand for its observations."""
    known = from_name(likelihood) if isinstance(likelihood, str) else likelihood
    if not isinstance(known, Likelihood):
        raise ValueError(f"likelihood must be a name or one of sg.likelihoods, got {likelihood!r}")
    if not has_sums(known):
        raise ValueError(
            f"observations with a {type(known).__name__} likelihood cannot be summed up: there are "
            "sums for Gaussian, Poisson, Bernoulli, Binomial, Exponential, Gamma and Ordinal; fit "
            "others to the observations themselves, or to a stream of them (sg.stream)"
        )
    return known


def has_sums(likelihood: Likelihood) -> bool:
    """Whether there are sums that stand for observations."""
    nothing = np.zeros(0)
    few = likelihood.latents == 1 and likelihood.statistics(nothing, nothing) is not None
    return few or isinstance(likelihood, Gaussian)


def make_stretches(shortest: Any, period: Any, origin: Any) -> Stretches:
    """Stretches for a shortest lengthscale and period."""
    width = positive_number("shortest", shortest) / PER_LENGTHSCALE
    if period is not None:
        width = min(width, positive_number("period", period) / PER_PERIOD)
    whole, number = as_whole(origin), as_number(origin)
    if number is None or not np.isfinite(number):
        raise ValueError(f"origin must be a number, got {origin!r}")
    return Stretches(number if whole is None else whole, width)


def summarise_columns(
    x: Any,
    y: Any,
    stretches: Stretches,
    likelihood: Likelihood,
    extras: Mapping[str, Any],
    weights: Any,
) -> Summary:
    """`summarise` of what has been checked but for the columns."""
    columns = check_columns(x, y, likelihood, extras, weights)
    counted = columns[3] > 0
    if not counted.all():
        columns = [column[counted] for column in columns]
    known: Any = extras.get("noise_variance")
    several = known is not None and np.ndim(known) > 0
    noise = None if several else float(known or 0.0)
    if several and np.any(columns[2] == 0):
        raise ValueError("noise_variance must be positive where each observation has its own")
    parts = (
        _part([column[i : i + _HELD] for column in columns], stretches, likelihood, noise)
        for i in range(0, len(columns[0]), _HELD)
    )
    return total(parts) or _part([v[:0] for v in columns], stretches, likelihood, noise)


def total(parts: Iterable[Summary]) -> Summary | None:
    """The sum of all parts, if there are any."""
    return functools.reduce(lambda a, b: b if a is None else a + b, parts, None)


def _part(
    columns: list[np.ndarray], stretches: Stretches, likelihood: Likelihood, noise: float | None
) -> Summary:
    x, y, extra, weights = columns
    name, weight, log_noise = type(likelihood).__name__, float(np.sum(weights)), 0.0
    number, t = stretches.locate(x) if len(x) else (np.zeros(0, np.int64), np.zeros(0))
    which, occupied = _occupied(number)
    sum_up = sums_over(which, len(occupied))
    sums: GaussianSums | Tallies
    if isinstance(likelihood, Gaussian):
        if noise is None:
            log_noise, weights = float(np.sum(weights * np.log(extra))), weights / extra
        sums = GaussianSums.of(which, t, y, weights, sum_up)
    else:
        statistics = likelihood.statistics(y, extra)
        sums = Tallies.of(t, y, extra, weights, statistics, sum_up)
    first, last = (x.min().item(), x.max().item()) if len(x) else (None, None)
    return Summary(stretches, name, occupied, sums, len(x), first, last, noise, log_noise, weight)


def sums_over(which: np.ndarray, count: int) -> Sum:
    """Sums of columns over the observations of each of so many stretches.

    Where they come in order, as mostly they do, their sums are those of runs, which is quicker.
    """
    if count and np.all(which[1:] >= which[:-1]):
        first = np.searchsorted(which, np.arange(count))
        return lambda column: np.add.reduceat(column, first)
    # Of nothing, sums would be whole numbers.
    return lambda column: np.bincount(which, column, count).astype(float, copy=False)


def _occupied(number: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which of the stretches with observations each observation is in, and their numbers."""
    if len(number) == 0:
        return number, number
    first, last = int(number.min()), int(number.max())
    if last - first > _SPARSE * len(number):
        occupied, which = np.unique(number, return_inverse=True)
        return which, occupied
    seen = np.zeros(last - first + 1, bool)
    seen[number - first] = True
    place = np.cumsum(seen) - 1
    return place[number - first], np.flatnonzero(seen) + first
