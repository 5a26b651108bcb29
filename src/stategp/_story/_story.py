"""The content of figures and reports of a posterior, as plain NumPy arrays."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from scipy.special import ndtri

from stategp._posteriors import PATTERN, Marginals, Posterior, marginals_at, summands_of
from stategp._story._account import Account, account
from stategp._story._checks import Checks, check, coverage_name, user_units
from stategp._story._grids import forecast_end, forecast_rows, make_grid
from stategp._story._seasons import Cycle, Plan, cycle_of, plan_season
from stategp._story._thinning import find_gaps
from stategp._story._verdict import Remark, judge
from stategp.means import Periodic

Interval = tuple[np.ndarray, np.ndarray]  # lower and upper bounds


@dataclasses.dataclass(frozen=True)
class Curve:
    """The distribution of a new observation along x."""

    x: np.ndarray
    mean: np.ndarray
    intervals: dict[float, Interval]  # by level

    def __getitem__(self, part: slice) -> "Curve":
        bounds = {
            level: (lower[part], upper[part]) for level, (lower, upper) in self.intervals.items()
        }
        return Curve(self.x[part], self.mean[part], bounds)


@dataclasses.dataclass(frozen=True)
class Band:
    """Mean and bounds of a function."""

    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    @staticmethod
    def of(mean: Any, variance: Any, level: float) -> "Band":
        """That of a normal distribution."""
        mean = np.asarray(mean)
        away = ndtri((1 + level) / 2) * np.sqrt(np.asarray(variance))
        return Band(mean, mean - away, mean + away)

    def __sub__(self, level: float) -> "Band":
        return Band(self.mean - level, self.lower - level, self.upper - level)

    def __getitem__(self, part: slice) -> "Band":
        return Band(self.mean[part], self.lower[part], self.upper[part])


@dataclasses.dataclass(frozen=True)
class Season:
    """A component over one period; over the first and the last where the pattern changes."""

    plan: Plan
    cycles: tuple[Band, ...]  # one for each period of the plan

    @property
    def averages(self) -> list[float]:
        """That of each period."""
        return [float(np.mean(cycle.mean)) for cycle in self.cycles]

    @property
    def drifts(self) -> bool:
        """Whether its level moves by more than the pattern itself: a trend is in it too."""
        swing = max(float(np.ptp(cycle.mean)) for cycle in self.cycles)
        return float(np.ptp(self.averages)) > swing


@dataclasses.dataclass(frozen=True, kw_only=True)
class Story(Account):
    """Everything that figures and reports show. Inputs are numbers, or all of them dates.

    Made by `tell`.
    """

    x_label: str
    y_label: str
    x: np.ndarray  # observations, in order
    y: np.ndarray
    end: Any  # of the data: what lies after it is forecast
    curve: Curve  # on the grid
    function: Band | None  # the expected observation, uncertain as the function is (widest level)
    components: dict[str, Band]  # on the grid, at the widest level
    seasons: dict[str, Season]  # the components that are better seen over one period
    forecast: Curve  # after the end of the data, step by step
    inducing: np.ndarray
    gaps: np.ndarray  # a row for each: from, to
    certificate: str
    certified: bool  # whether the certificate is what was asked for
    checks: Checks
    remarks: tuple[Remark, ...]  # what the checks say
    scores: dict[str, float]
    coverage: dict[float, str]  # which score is the share of observations inside each interval
    modelled: str = "the function"  # what the components add up to

    @property
    def has_dates(self) -> bool:
        """Whether the inputs are dates."""
        return bool(self.x.dtype.kind == "M")

    @property
    def several_components(self) -> dict[str, Band]:
        """The components if there are several; a single one says what the function says."""
        return self.components if len(self.components) > 1 else {}

    @property
    def two_valued(self) -> bool:
        """Whether observations are 0 or 1, so that intervals of new ones say little."""
        seen = np.concatenate([self.y, *self.curve.intervals[self.widest]])
        return bool(np.all((seen == 0) | (seen == 1)))

    @property
    def widest(self) -> float:
        """The level of the widest interval."""
        return max(self.curve.intervals)


def tell(
    posterior: Any,
    *,
    until: Any = None,
    levels: Iterable[Any] = (0.5, 0.95),
    points: Any = None,
    forecast_at: Any = None,
    to_time: Callable[[np.ndarray], np.ndarray] | None = None,
    extras: Mapping[str, Any] | None = None,
    scores: Mapping[str, Any] | None = None,
    unit: str = "",
    title: str | None = None,
    names: tuple[str, str] = ("x", "y"),
    call: str | None = None,
    seed: int = 0,
    distribution: Callable[[np.ndarray], Any] | None = None,
) -> Story:
    """The content of figures and reports of a posterior.

    Arguments:
        posterior: of one input, from `sg.fit` or `sg.condition`.
        until: where the forecast ends, in the units of x; by default there is no forecast.
        levels: probabilities of the intervals.
        points: number of grid points; by default as many as the shortest period and lengthscale
            require, at most 12,000.
        forecast_at: inputs of the forecast table, in the units of x; by default every step of the
            data.
        to_time: function that turns inputs into dates (datetime64), which are then shown.
        extras: other quantities of a new observation, one number each: {"exposure": 2.0}.
        scores: additional scores to show (of held-out data, for example), by name.
        unit: unit of x, for the table of hyperparameters ("days").
        title: title of figures and report; by default "Fit and forecast of" the name of y.
        names: names of x and y.
        call: the call that made the posterior, shown in the report.
        seed: seed of the ranks of discrete observations.
        distribution: the distribution of new observations at inputs, if it is not the posterior's
            alone (models averaged).

    >>> import numpy as np, stategp as sg
    >>> posterior = sg.condition(sg.GP(sg.kernels.Matern32()), np.arange(3), [0.0, 1.0, 0.0])
    >>> tell(posterior, points=50).curve.mean.shape
    (50,)
    """
    if not isinstance(posterior, Posterior):
        raise ValueError(
            f"tell needs the posterior of one input (sg.Posterior), got {type(posterior).__name__}"
        )
    shares = _checked_levels(levels)
    data = posterior.data
    relative = np.asarray(data.x)
    until_relative = forecast_end(until, relative, data.origin)
    grid, notes = make_grid(posterior, relative, until_relative, points)
    rows, more = forecast_rows(relative, until_relative, forecast_at, data.origin)
    extra, about = _grid_extras(posterior, extras)

    def show(relative: np.ndarray, observed: bool = False) -> np.ndarray:
        x = user_units(relative, data.origin, len(relative) if observed else 0)
        return _dates(to_time, x) if to_time is not None else x.astype(float)

    checks, in_sample = check(posterior, shares, seed)
    everywhere = np.concatenate([grid, rows])
    there = marginals_at(posterior, user_units(everywhere, data.origin), **extra)
    shown = there if distribution is None else distribution(user_units(everywhere, data.origin))
    both = _curve(shown, shares, show(everywhere))
    ends = (float(relative[0]), float(relative[-1]))
    plans = _plans(posterior, ends, show if to_time is not None else None, names[0])
    components, seasons = _components(posterior, grid, plans, max(shares))
    certificate = posterior.certificate
    ahead = " and forecast" if len(rows) else ""
    return Story(
        **account(
            posterior,
            title=f"Fit{ahead} of {names[1]}" if title is None else title,
            unit=unit,
            notes=(*about, *notes, *more),
            call=call,
        ),
        x_label=names[0],
        y_label=names[1],
        x=show(relative, observed=True),
        y=np.asarray(data.y),
        end=show(np.array([ends[1]]), observed=True)[0],
        curve=both[: len(grid)],
        function=_function(there[: len(grid)], max(shares)),
        components=components,
        seasons=seasons,
        forecast=both[len(grid) :],
        inducing=show(np.asarray(posterior.relative_inducing)),
        gaps=show(find_gaps(relative).ravel(), observed=True).reshape(-1, 2),
        certificate=str(certificate) if certificate else "",
        certified=certificate is not None and certificate.reached,
        checks=dataclasses.replace(checks, x=show(checks.x, observed=True)),
        remarks=judge(checks, shares, posterior.model.likelihood),
        scores={f"{name} (leave-one-out)": value for name, value in in_sample.items()}
        | {name: float(value) for name, value in (scores or {}).items()},
        coverage={level: f"{coverage_name(level)} (leave-one-out)" for level in shares},
    )


def _checked_levels(levels: Iterable[Any]) -> tuple[float, ...]:
    shares = tuple(sorted({float(level) for level in levels}))
    if not shares or not all(0 < level < 1 for level in shares):
        raise ValueError(f"levels must lie between 0 and 1, such as (0.5, 0.95); got {levels!r}")
    return shares


def _grid_extras(
    posterior: Posterior, extras: Mapping[str, Any] | None
) -> tuple[dict[str, Any], list[str]]:
    """Exposure and the like of a new observation: as given, or the median of the data."""
    likelihood, passed = posterior.model.likelihood, dict(extras or {})
    name = likelihood.extra
    if name is None or name in passed or not likelihood.extra_of_new:
        return passed, []
    values = np.asarray(posterior.data.extra)
    usual = float(np.median(values))
    if np.all(values == usual):
        return {**passed, name: usual}, []
    about = (
        f"Intervals are those of an observation with {name} {usual:.4g}, the median of the data."
    )
    return {**passed, name: usual}, [about.replace("_", " ")]


def _curve(there: Any, levels: tuple[float, ...], shown: np.ndarray) -> Curve:
    mean = np.asarray(there.moments()[0])
    tails = [(1 + sign * level) / 2 for level in levels for sign in (-1, 1)]
    bounds = np.asarray(there.quantiles(tails))
    intervals = {level: (bounds[2 * at], bounds[2 * at + 1]) for at, level in enumerate(levels)}
    return Curve(shown, mean, intervals)


def _function(there: Marginals, level: float) -> Band | None:
    """E[y | f] where f is at its mean or at its bounds; it moves with f in one direction."""
    if there.likelihood.latents > 1:
        return None
    latent = Band.of(there.mean, there.variance, level)
    middle, one, other = (
        np.asarray(there.expected(f)) for f in (latent.mean, latent.lower, latent.upper)
    )
    return Band(middle, np.minimum(one, other), np.maximum(one, other))


def _plans(
    posterior: Posterior,
    ends: tuple[float, float],
    show: Callable[[np.ndarray], np.ndarray] | None,
    x_label: str,
) -> dict[str, Plan]:
    """The components that repeat, by name, and how they are shown."""
    kernels = posterior.model.kernels
    plans = {}
    for number, kernel in enumerate(kernels):
        for name, summand in summands_of(kernel).items():
            plan = plan_season(cycle_of(summand), ends, posterior.data.origin, show, x_label)
            if plan is not None:
                plans[f"{number}.{name}" if len(kernels) > 1 else name] = plan
        mean = posterior.model.means[number]
        if isinstance(mean, Periodic):
            cycle = Cycle(float(mean.period), changes=False)
            plan = plan_season(cycle, ends, posterior.data.origin, show, x_label)
            if plan is not None:
                plans[f"{number}.{PATTERN}" if len(kernels) > 1 else PATTERN] = plan
    return plans


def _components(
    posterior: Posterior, grid: np.ndarray, plans: dict[str, Plan], level: float
) -> tuple[dict[str, Band], dict[str, Season]]:
    """Every component on the grid, and over its period if it has a plan."""
    everywhere = np.concatenate([grid, *[plan.x for plan in plans.values()]])
    moments = posterior.components(user_units(everywhere, posterior.data.origin))
    bands = {name: Band.of(*pair, level) for name, pair in moments.items()}
    seasons, start = {}, len(grid)
    for name, plan in plans.items():
        cycles = []
        for _ in plan.starts:
            cycles.append(bands[name][start : start + len(plan.phase)])
            start += len(plan.phase)
        seasons[name] = Season(plan, tuple(cycles))
    return {name: band[: len(grid)] for name, band in bands.items()}, seasons


def _dates(to_time: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    dates = np.asarray(to_time(x))
    if dates.dtype.kind != "M" or dates.shape != x.shape:
        raise ValueError(
            "to_time must make one datetime64 of every input, got an array of "
            f"{dates.dtype} of shape {dates.shape} for {len(x)} inputs"
        )
    return dates.astype("datetime64[us]")
