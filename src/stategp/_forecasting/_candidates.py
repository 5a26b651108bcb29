"""The models that the default forecaster compares: trends, seasons, short-term deviations, scales.

All starting values and priors are in units of the time step of the data and of the typical size of
a change over one step, so that they mean the same for every series.
"""

import dataclasses
from typing import Literal, NamedTuple

import numpy as np

from stategp._data import distinct_inputs
from stategp._forecasting._defaults import FEWEST_CYCLES, SEASONS, SHARE, share_of_noise
from stategp._forecasting._patterns import exact_pattern
from stategp._forecasting._scales import Scale
from stategp._inference import strongest_period
from stategp._models import GP
from stategp.kernels import (
    Cosine,
    DampedTrend,
    IntegratedWiener,
    Kernel,
    Linear,
    Matern12,
    Matern32,
    Sum,
    Wiener,
)
from stategp.likelihoods import Gaussian, Likelihood
from stategp.means import Constant, Mean
from stategp.parameters import Parameter, all_parameters, fixed, map_parameters, parameter
from stategp.priors import LogNormal

Pace = Literal["hours", "days", "months"]

_CLOCK = ("daily", "weekly")  # these follow the clock and repeat more exactly than years do
_LONG = 20  # steps in a season from which on not all harmonics get states of their own
_MOST_HARMONICS = 84  # of an exact pattern: an hour, if it is a week's
_FULL, _FEW = 6, 3  # harmonics of short and of long seasons that have states
_WIDE = 4.0  # the same for other likelihoods than the Gaussian, in that of f and of a change
_VAGUE = 1e5  # variance of a level before data are seen, in squares of a change
_BEYOND = 100.0  # the same in the variance of the values, if that is more


class Season(NamedTuple):
    """A period, in the units of x and in steps of the data."""

    name: str
    period: float
    steps: float

    @property
    def long(self) -> bool:
        return self.steps >= _LONG


@dataclasses.dataclass(frozen=True)
class Outline:
    """What the times show: the step of the data, and the seasons that it has room for."""

    step: float
    span: float
    seasons: tuple[Season, ...]

    @staticmethod
    def of(x: np.ndarray, y: np.ndarray, dates: bool) -> "Outline":
        """Two periods or more, and four observations in each or nearly (quarters of a year)."""
        distinct = distinct_inputs(np.sort(x))
        span, step = float(distinct[-1] - distinct[0]), float(np.median(np.diff(distinct)))
        if dates:
            named = SEASONS
        else:
            order = np.argsort(x, kind="stable")
            period, share = strongest_period(x[order], y[order], FEWEST_CYCLES)
            named = {"season": period} if share > max(SHARE, share_of_noise(len(x))) else {}
        return Outline(
            step,
            span,
            tuple(
                Season(name, period, period / step)
                for name, period in named.items()
                if span >= 2 * period and step <= period / 3.9
            ),
        )

    @property
    def pattern(self) -> Season | None:
        """The longest season that follows the clock, if it is long."""
        clock = [season for season in self.seasons if season.name in _CLOCK and season.long]
        return max(clock, key=lambda season: season.period, default=None)

    @property
    def pace(self) -> Pace:
        """What trends depend on: "hours", of which a day or a week is a long season, "days" and
        weeks, or "months", and whatever has no season or a short one.
        """
        if self.pattern is not None:
            return "hours"
        clock = any(season.long or season.name in _CLOCK for season in self.seasons)
        return "days" if clock else "months"


class Candidate(NamedTuple):
    """A model of y, or of y on another scale."""

    trend: str  # in words
    scale: Scale
    kernel: Kernel
    likelihood: Likelihood
    mean: Mean
    fitted: np.ndarray  # the mean at the observations
    spent: float  # how many numbers it took from the data
    pace: Pace

    @property
    def everywhere(self) -> bool:
        """Whether it is fitted on both scales, also where it is not the first kind of trend."""
        return self.pace == "months"

    @property
    def model(self) -> GP:
        return GP(self.kernel, self.likelihood, self.mean)

    def starting_at(self, learned: GP) -> "Candidate":
        """The same with hyperparameters that start where a model of its kind has learned them."""
        values = iter(all_parameters((learned.kernels, learned.likelihood)))

        def start(parameter: Parameter) -> Parameter:
            found = next(values)
            return dataclasses.replace(parameter, value=found.value) if found.learned else parameter

        kernel, likelihood = map_parameters(start, (self.kernel, self.likelihood))
        return self._replace(kernel=kernel, likelihood=likelihood)


def candidates(
    x: np.ndarray,
    outline: Outline,
    scales: list[tuple[Scale, np.ndarray]],
    likelihood: Likelihood | None = None,
) -> list[list[Candidate]]:
    """The models to compare on each scale, for values there in order of x.

    Unless a likelihood is given, the values are normal.
    """
    found = []
    for scale, values in scales:
        usual = float(np.median(values))
        mean: Mean = Constant(fixed(usual))
        fitted = np.full_like(values, usual)
        spent, season = 0.0, outline.pattern
        if season is not None:
            most = min(int(np.ceil(season.steps / 2)) - 1, _MOST_HARMONICS)
            mean, fitted, spent = exact_pattern(x, values, season.period, most)
        change = typical_change(values - fitted, outline)
        drift = usual_slope(x, values - fitted)
        noise = Gaussian(variance=_near(0.3 * change**2, 1.5))
        about = (noise if likelihood is None else likelihood, mean, fitted, spent, outline.pace)
        seasons = _seasons(outline, change)
        spread = float(np.var(values))
        if likelihood is None:
            vague = max(_VAGUE * change**2, _BEYOND * spread)
        else:  # nothing but zeros would leave a level that is vaguer at minus infinity
            vague = _WIDE * (spread + change**2)
        found.append(
            [
                Candidate(trend, scale, Sum(**parts, **seasons), *about)
                for trend, parts in _trends(outline, change, drift, vague).items()
            ]
        )
    return found


def known_changes(count: int, outline: Outline) -> int:
    """How many changes tell how large one is, once those of the seasons are told from them."""
    steps = (round(season.steps) for season in outline.seasons)
    spent = sum(length for length in steps if count - 1 >= 2 * length)
    return max(count - 1 - spent, 1)


def typical_change(values: np.ndarray, outline: Outline) -> float:
    """How much a series changes from one observation to the next, apart from its seasons."""
    changes = np.diff(values)
    if len(changes) == 0:
        return 1.0
    for season in outline.seasons:
        length = round(season.steps)
        if len(changes) >= 2 * length:
            phase = np.arange(len(changes)) % length
            usual = np.array([np.median(changes[phase == place]) for place in range(length)])
            changes = changes - usual[phase]
    robust = 1.4826 * float(np.median(np.abs(changes - np.median(changes))))
    least = 1e-6 * float(np.max(np.abs(values)))
    return max(robust, 0.3 * float(np.std(changes)), least) or 1.0


def usual_slope(x: np.ndarray, values: np.ndarray) -> float:
    """How much a series rises for each unit of x, from its first quarter to its last one."""
    count = max(len(x) // 4, 1)
    rise = np.median(values[-count:]) - np.median(values[:count])
    between = np.median(x[-count:]) - np.median(x[:count])
    return float(rise / between) if between > 0 else 0.0


def _trends(
    outline: Outline, change: float, drift: float, vague: float
) -> dict[str, dict[str, Kernel]]:
    """Trends and short-term deviations, by what they are in words.

    `drift` is the slope over all observations, and `vague` the variance that a level has before
    data are seen.
    """
    step, start = outline.step, _exactly(vague)
    # Of two vague levels only the sum would be known, to few digits: beside a line this is enough.
    wide = _exactly(min(10 * (outline.span / step + 1) * change**2, vague))
    steepness = (change / outline.step) ** 2  # square of one typical change per step

    def level(start: Parameter = wide) -> Kernel:
        return Wiener(diffusivity=_near(0.1 * change**2 / step, 2.0), start=start)

    def steep(slope: float) -> Parameter:
        """Of slopes that are either as large as that or, where little else happens, as the usual
        one: beside small changes a steady rise is not to be taken for chance.
        """
        return _exactly(slope**2 * steepness + drift**2)

    def line(slope: float) -> Kernel:
        return Linear(slope=steep(slope), start=start)

    def bending(slope: float, bends: float, spread: float) -> Kernel:
        return IntegratedWiener(
            diffusivity=_near(bends * steepness / step, spread), start=start, slope=steep(slope)
        )

    def damped(steps: float, size: float, start: Parameter) -> Kernel:
        """Slopes that are forgotten over some steps."""
        rate = 1 / (steps * step)
        return DampedTrend(
            diffusivity=_near(2 * rate * size * steepness, 2.0),
            damping=_near(rate, 0.7),
            start=start,
        )

    def short() -> Kernel:
        return Matern12(variance=_near(0.5 * change**2, 1.5), lengthscale=_near(3.0 * step, 1.0))

    # What cannot be told apart is one component: of a line and a level, the data show the sum.
    if outline.pace == "hours":
        smooth = Matern32(variance=_near(0.5 * change**2, 1.5), lengthscale=_near(3 * step, 1.0))
        return {
            "a slope that changes, and rough deviations": {
                "trend": bending(0.4, 1e-4, 3.0), "short": short(),
            },
            "a level that changes, and smooth deviations": {"trend": level(start), "short": smooth},
        }  # fmt: skip
    if outline.pace == "months":
        far = 10 * outline.span  # over which slopes are forgotten
        rate = np.sqrt(3) / far
        wandering = Matern32(
            variance=_near(1e-4 * steepness / step / (4 * rate**3), 3.0), lengthscale=fixed(far)
        )
        return {
            "a level that changes, and a slope that comes and goes": {
                "trend": Sum(bends=damped(12.0, 0.02, start), level=level())
            },
            "a level and a slope that change": {
                "trend": Sum(line=line(0.05), bends=wandering, level=level())
            },
            "a level that changes, and a slope": {"trend": Sum(line=line(0.15), level=level())},
            "a level that changes, and deviations": {"trend": level(start), "short": short()},
        }
    return {
        "a slope that comes and goes, and deviations": {
            "trend": Sum(line=line(0.05), bends=damped(26.0, 0.01, wide), level=level()),
            "short": short(),
        },
        "a level that changes, a slope, and deviations": {
            "trend": Sum(line=line(0.05), level=level()), "short": short(),
        },
    }  # fmt: skip


def _seasons(outline: Outline, change: float) -> dict[str, Kernel]:
    """What of the seasons changes with time: waves that are forgotten over many cycles."""
    found: dict[str, Kernel] = {}
    for season in outline.seasons:
        if outline.pattern is not None and season.long and season.name in _CLOCK:
            if season.name != "daily":
                continue
            forgotten, size = _near(20 * season.period, 1.5), 1.0
        else:
            forgotten, size = fixed((8 if season.long else 40) * season.period), 4.0
        count = _FEW if season.long else min(_FULL, int(season.steps / 2 + 0.1))
        if season.long and len(outline.seasons) > 1 and outline.pattern is None:
            count = _FEW - 1  # of a year of days, beside all harmonics of the week
        waves = {
            f"wave{j}": Cosine(
                variance=_near(size / j * change**2, 1.5), period=fixed(season.period / j)
            )
            * Matern12(variance=fixed(1.0), lengthscale=forgotten)
            for j in range(1, count + 1)
        }
        found[season.name] = Sum(**waves)
    return found


def _exactly(value: float) -> Parameter:
    """A parameter that is not learned."""
    return fixed(_written(value))


def _near(value: float, spread: float) -> Parameter:
    """A parameter that is learned, expected near a value; the spread is that of its logarithm."""
    median = _written(value)
    return parameter(median, prior=LogNormal(median=median, spread=spread))


def _written(value: float) -> float:
    """With as many digits as people would write."""
    return float(f"{value:.4g}")
