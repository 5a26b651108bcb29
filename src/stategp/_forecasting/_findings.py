"""What the default models found, in sentences: trend, seasons, spread, outliers, changes.

Amounts come with intervals that contain the truth with 95 % probability, if the model is right.
"""

from typing import NamedTuple

import numpy as np

from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._candidates import Season
from stategp._forecasting._changes import Change
from stategp._forecasting._choosing import Choice
from stategp._forecasting._design import SLOPES
from stategp._forecasting._filtering import emission_of
from stategp._forecasting._learning import Series, noise_of
from stategp._forecasting._regression_posterior import RegressionPosterior
from stategp._forecasting._scales import Scale
from stategp._forecasting._steps import local_times, shown_time
from stategp._posteriors import PATTERN, Posterior, summands_of
from stategp.means import Periodic

_TREND = "trend"
_OVER = {"year": 365.25, "month": 365.25 / 12, "week": 7.0, "day": 1.0, "hour": 1 / 24}
_LEVEL = 0.05  # of the spread of the data, below which a trend counts as level
_FAR = 12  # steps ahead at which the width of intervals is told
_NAMED = 5  # dates that are written out
_WIDTH = 1.96  # standard deviations
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip


class _Parts(NamedTuple):
    """What the first model says of each observation."""

    x: np.ndarray
    values: dict[str, np.ndarray]
    posterior: Posterior
    scale: Scale
    last: float  # observation

    def size(self, amount: float, *, sign: str = "+") -> str:
        """An amount of y, from the last observation on; of a logarithm as a percentage."""
        scale = self.scale
        if scale.log and scale.cap is None:
            moved, unit = 100 * np.expm1(min(amount, 300.0)), " %"
        elif scale.log:
            at = scale.forward(np.array([self.last]))
            moved, unit = float((scale.backward(at + amount) - self.last)[0]), ""
        else:
            moved, unit = amount, ""
        return f"{moved if sign else abs(moved):{sign}.3g}{unit}"

    def between(self, amount: float, deviation: float) -> str:
        """Where an amount lies."""
        away = _WIDTH * deviation
        low, high = self.size(amount - away), self.size(amount + away)
        return f"between {low} and {high}"


def findings(choices: tuple[Choice, ...], series: Series, axis: TimeAxis) -> list[str]:
    """One sentence for each thing that was found."""
    first = choices[0]
    parts = _Parts(
        *parts_at_data(first.posterior), first.posterior, first.scale, float(series.cleaned[-1])
    )
    told = [_trend(parts, axis, float(np.std(first.scale.forward(series.cleaned))))]
    told += _bends(parts, axis)
    pattern = series.outline.pattern
    for season in series.outline.seasons:
        within = pattern is not None and season.period < pattern.period  # what changes of it
        name = PATTERN if season == pattern else season.name
        if name in parts.values and not within:
            told.append(_season(season, name, parts, axis))
    if series.beside.likelihood is not None:
        return [*told, "these amounts are of f, before the link"]
    about = parts.size(float(np.sqrt(float(noise_of(first.posterior)))), sign="")
    told.append(f"noise: single observations lie about {about} from all that (standard deviation)")
    return told


def parts_at_data(posterior: Posterior) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Times, and the mean of every component there, from the states at all observations."""
    (kernel,), (pairs,), data = posterior.model.kernels, posterior.marginals, posterior.data
    x = np.asarray(posterior.relative_inducing) + float(data.origin)
    emission = emission_of(kernel)
    read = np.asarray(pairs.mean)[:-1, len(emission) :] * emission
    values, start = {}, 0
    for name, part in summands_of(kernel).items():
        values[name] = read[:, start : start + part.state_dim].sum(axis=1)
        start += part.state_dim
    mean = posterior.model.means[0]
    if isinstance(mean, Periodic):
        cosines, sines = np.asarray(mean.cosines.value), np.asarray(mean.sines.value)
        turns = np.remainder(x / float(mean.period.value), 1.0)
        angles = 2 * np.pi * np.outer(turns, np.arange(1, len(cosines) + 1))
        values[PATTERN] = np.cos(angles) @ cosines + np.sin(angles) @ sines
    return x, values


def _reading(posterior: Posterior, names: tuple[str, ...]) -> np.ndarray:
    """What some components read of a state."""
    (kernel,) = posterior.model.kernels
    emission, start = emission_of(kernel), 0
    read = np.zeros_like(emission)
    for name, part in summands_of(kernel).items():
        own = slice(start, start + part.state_dim)
        read[own] = emission[own] if name in names else 0.0
        start = own.stop
    return read


def deviation_of_change(
    posterior: Posterior, names: tuple[str, ...], first: int, last: int
) -> float:
    """Of the sum of some components, and of changes of slope, from one state to a later one.

    Cov(u_first, u_last) is the product of Cov(u_k−1, u_k) Cov(u_k)⁻¹ between the two.
    """
    read, covariance = _reading(posterior, names), np.asarray(posterior.marginals[0].covariance)
    dim = len(read)
    apart = float(read @ covariance[first, dim:, dim:] @ read)
    together = covariance[last, dim:, dim:] @ read
    variance = apart + float(read @ together)
    steps = covariance[first + 1 : last + 1]
    inverses = np.linalg.pinv(steps[:, dim:, dim:], rcond=1e-13, hermitian=True)
    for step, inverse in zip(steps[::-1], inverses[::-1], strict=True):
        together = step[:dim, dim:] @ (inverse @ together)
    variance -= 2 * float(read @ together)
    if isinstance(posterior, RegressionPosterior):
        grown = _growth(posterior)
        moved = grown[:, last] - grown[:, first]
        moved -= (posterior.responses[:, last] - posterior.responses[:, first]) @ read
        variance += float(moved @ posterior.effect_covariance @ moved)
    return float(np.sqrt(max(variance, 0.0)))


def _growth(posterior: RegressionPosterior) -> np.ndarray:
    """The columns of changes of slope, a row for each coefficient: what each adds at the states."""
    x = np.asarray(posterior.relative_inducing) + float(posterior.data.origin)
    slopes = np.array([column.group == SLOPES for column in posterior.design.columns], dtype=bool)
    return np.where(slopes, posterior.design.matrix(x), 0.0).T


def _deviations(posterior: Posterior, name: str, states: np.ndarray) -> np.ndarray:
    """Of a component, at some states."""
    read, covariance = _reading(posterior, (name,)), np.asarray(posterior.marginals[0].covariance)
    dim = len(read)
    variances = np.einsum("sij,i,j->s", covariance[states, dim:, dim:], read, read)
    if isinstance(posterior, RegressionPosterior):
        moved = posterior.responses[:, states] @ read
        variances = variances + np.einsum("is,ij,js->s", moved, posterior.effect_covariance, moved)
    return np.asarray(np.sqrt(np.maximum(variances, 0.0)))


def intervals_in_words(choice: Choice, last: float, step: float, count: int) -> str:
    """How wide intervals are, in what the first model says by itself, and why."""
    far = max(1, min(_FAR, count // 4))
    wide = np.sqrt(choice.widening(last + step * np.array([1.0, far])))
    shares = [f"{100 * abs(w - 1):.0f} % {'wider' if w >= 1 else 'narrower'}" for w in wide]
    return (
        f"intervals: {shares[0]} one step ahead and {shares[1]} {far} steps ahead than the first "
        "model alone would have them, for what was estimated and by the latest errors"
    )


def outliers_in_words(times: np.ndarray, axis: TimeAxis) -> str:
    """Which observations have little weight, and what to do if they should not."""
    one = len(times) == 1
    return (
        f"outliers: {len(times)} observation{' looks like one' if one else 's look like that'} and "
        f"ha{'s' if one else 've'} little weight ({_dates(times, axis)}); "
        "Forecaster(robust=False) takes the data as they are"
    )


def changes_in_words(found: list[Change], series: Series, axis: TimeAxis) -> str:
    """When the level changed suddenly, and by how much."""
    largest = sorted(sorted(found, key=lambda change: -abs(change.size))[:_NAMED])
    at = [f"{shown_time(series.x[c.row], axis)} ({c.size:+.3g})" for c in largest]
    more = f" and {len(found) - len(largest)} more" if len(found) > len(largest) else ""
    return f"sudden changes of level: {', '.join(at)}{more}"


def _trend(parts: _Parts, axis: TimeAxis, deviation: float) -> str:
    trend = parts.values[_TREND]
    if isinstance(parts.posterior, RegressionPosterior):
        trend = trend + parts.posterior.effect_mean @ _growth(parts.posterior)
    x, (name, length) = parts.x, _lately(parts.x, axis)
    before = float(np.interp(x[-1] - length, x, trend))
    moved = float(trend[-1]) - before
    over = f"over the last {name}" if name else "over all of the data"
    first = int(np.argmin(np.abs(x - (x[-1] - length))))
    spread = deviation_of_change(parts.posterior, (_TREND,), first, len(x) - 1)
    between = parts.between(moved, spread)
    if abs(moved) < _LEVEL * deviation:
        return f"trend: about level {over} ({between})"
    sure = between if abs(moved) > _WIDTH * spread else f"not sure: {between}"
    how = "rises" if moved > 0 else "falls"
    return f"trend: {how} by {parts.size(moved, sign='')} {over} ({sure})"


def _lately(x: np.ndarray, axis: TimeAxis) -> tuple[str, float]:
    """The longest usual stretch of time that the data have one and a half of; or all of it."""
    span = float(np.ptp(x))
    fitting = [(name, length) for name, length in _OVER.items() if span >= 1.5 * length]
    return fitting[0] if axis.dates and fitting else ("", span)


def _bends(parts: _Parts, axis: TimeAxis) -> list[str]:
    """By how much slopes changed at the dates given, where the data show it."""
    posterior = parts.posterior
    if not isinstance(posterior, RegressionPosterior) or not posterior.design.bends:
        return []
    design, last = posterior.design, float(parts.x[-1])
    name, length = _lately(parts.x, axis)
    shown = []
    for number, time in enumerate(design.bends, len(design.columns) - len(design.bends)):
        if time >= last:
            continue
        scaled = length / design.unit
        amount = scaled * float(posterior.effect_mean[number])
        deviation = scaled * float(np.sqrt(posterior.effect_covariance[number, number]))
        between = parts.between(amount, deviation)
        shown.append(f"{shown_time(time, axis)} by {parts.size(amount)} ({between})")
    over = f"in a {name}" if name else f"in {length:.4g} units of time"
    return [f"changes of slope, {over}: {', '.join(shown)}"] if shown else []


def _season(season: Season, component: str, parts: _Parts, axis: TimeAxis) -> str:
    x, period, values = parts.x, season.period, parts.values[component]
    last = np.flatnonzero(x > x[-1] - period * (1 - 1e-9))
    low, high = last[np.argmin(values[last])], last[np.argmax(values[last])]
    name = f"{season.name} season" if axis.dates else f"season of {period:.4g}"
    ends = [
        f"{parts.size(float(values[row]))}{_when(float(x[row]), x, period, axis)}"
        for row in (low, high)
    ]
    sure = ""
    if component != PATTERN:  # which a regression found
        away = _WIDTH * float(
            np.max(_deviations(parts.posterior, component, np.array([low, high])))
        )
        sure = f" (each ± {parts.size(away, sign='')})"
    return f"{name}: from {ends[0]} to {ends[1]}{sure}"


def _when(at: float, x: np.ndarray, period: float, axis: TimeAxis) -> str:
    """Where in its season a time lies, as people say it."""
    if not axis.dates:
        return ""
    (moment,) = local_times(np.array([at]), axis)
    if period == 1.0:
        return f" at {moment:%H:%M}"
    if period == 7.0:
        day, fine = _WEEKDAYS[moment.weekday()], float(np.median(np.diff(x))) < 0.99
        return f" on {day}s at {moment:%H:%M}" if fine else f" on {day}s"
    return f" in {_MONTHS[moment.month - 1]}"


def _dates(times: np.ndarray, axis: TimeAxis) -> str:
    shown = [shown_time(time, axis) for time in times[:_NAMED]]
    return ", ".join([*shown, *(["…"] if len(times) > _NAMED else [])])
