"""A trial of `benchmarks.forecast_trials`: intervals as wide as errors after earlier origins say.

A model with the hyperparameters that it learned goes through the latest observations as a Kalman
filter does. At each of them it forecasts the next ones. How large their errors are, in units of
what it expects, step by step ahead, is what its variances are multiplied by after the data. The
forecaster does not do this: on series that it was not chosen on it did not help.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float

from stategp._forecasting._choosing import Choice
from stategp._forecasting._filtering import emission_of
from stategp._forecasting._learning import Learned, Series, noise_of
from stategp._forecasting._regression_posterior import RegressionPosterior
from stategp._models import bare
from stategp._runtime import on_device
from stategp.chain import step_transitions
from stategp.kernels import Kernel

STEPS = (1, 2, 3, 4, 6, 8, 12, 18, 24, 36, 48)  # ahead, at which errors are compared
_ORIGINS = 80  # at most; and no more than half of the observations
_LONGEST = 330  # observations that the filter goes through
_EXPECTED = 20.0  # independent errors that what a model expects counts as, beside them
_LARGEST = 4.0  # scores beyond which an error counts no more
_REGULAR = 1e-3  # of a step, by which times may differ from a grid
_TOGETHER = 256  # models that are filtered side by side


@dataclasses.dataclass(frozen=True)
class Recalibrated:
    """A choice with intervals as wide as errors after earlier origins say."""

    choice: Choice
    ahead: tuple[float, ...]  # as `recalibrations` has it

    def __getattr__(self, name: str) -> Any:
        return getattr(self.choice, name)

    def widening(self, x: np.ndarray) -> np.ndarray:
        """What variances at x are multiplied by."""
        usual, data = self.choice.widening(x), self.choice.posterior.data
        if not self.ahead:
            return usual
        seen = np.unique(np.asarray(data.x))
        beyond = x - data.origin - seen[-1]
        steps = np.maximum(beyond, 0.0) / float(np.median(np.diff(seen)))
        return np.where(beyond > 0, usual * np.exp(np.interp(steps, STEPS, self.ahead)), usual)


class Track(NamedTuple):
    """A model, and observations on a grid of times for it to forecast."""

    kernel: Kernel
    noise: float
    step: float
    values: np.ndarray  # without the mean and effects
    weights: np.ndarray  # none where nothing was observed
    counted: np.ndarray  # whether an error there counts: not if it is that of an outlier


def tracked(learned: Learned, series: Series) -> Track | None:
    """What a model is to forecast from origins within the data, if observations are normal."""
    if not series.beside.normal:
        return None
    posterior, candidate = learned.posterior, learned.candidate
    left = candidate.scale.forward(series.taken(candidate.scale)) - candidate.fitted
    if isinstance(posterior, RegressionPosterior):
        left = left - posterior.design.matrix(series.x) @ np.asarray(posterior.effect_mean)
    return track_of(
        posterior.model.kernels[0], float(noise_of(posterior)), series.outline.step,
        series.x, left, series.counts * series.shares, ~series.doubted,
    )  # fmt: skip


def track_of(
    kernel: Kernel, noise: float, step: float, x: np.ndarray, values: np.ndarray,
    weights: np.ndarray, counted: np.ndarray,
) -> Track | None:  # fmt: skip
    """The latest observations on a grid; None if times are not on one."""
    place = (x - x[-1]) / step
    latest = place > -_LONGEST + 0.5
    places = np.round(place[latest]).astype(int)
    if np.any(np.abs(place[latest] - places) > _REGULAR) or np.any(np.diff(places) < 1):
        return None
    length = 1 - int(places[0])
    columns = []
    for column in (values, weights, counted):
        there = np.zeros(length, column.dtype)
        there[places - 1] = column[latest]  # the last one is at the end
        columns.append(there)
    return Track(kernel, noise, step, *columns)


def recalibrations(tracks: Sequence[Track | None]) -> list[tuple[float, ...]]:
    """Logarithms of what variances are multiplied by, at each of `STEPS`; nothing for no track."""
    found: list[tuple[float, ...]] = [()] * len(tracks)
    groups: dict[int, list[int]] = {}
    for number, track in enumerate(tracks):
        if track is not None and np.count_nonzero(track.weights) > 2:
            groups.setdefault(track.kernel.state_dim, []).append(number)
    for numbers in groups.values():
        for start in range(0, len(numbers), _TOGETHER):
            some = numbers[start : start + _TOGETHER]
            for number, scores in zip(some, scores_of([tracks[n] for n in some]), strict=True):
                found[number] = _calibrated(scores)
    return found


def scores_of(tracks: Sequence[Any]) -> list[np.ndarray]:
    """Errors in standard deviations, a row for each origin, a column for each of `STEPS`.

    NaN where nothing was observed. The kernels have states of the same length.
    """
    length = max(len(track.values) for track in tracks)

    def padded(name: str) -> np.ndarray:
        columns = [getattr(track, name).astype(float) for track in tracks]
        return np.stack([np.pad(c, (length - len(c), 0)) for c in columns])

    values, weights, counted = padded("values"), padded("weights"), padded("counted") > 0
    A, Q, start = (np.stack(part) for part in zip(*map(_transitions_of, tracks), strict=True))
    h = np.stack([emission_of(track.kernel) for track in tracks])
    noise = np.array([track.noise for track in tracks])
    origins = [min(_ORIGINS, int(np.count_nonzero(track.weights)) // 2) for track in tracks]
    first = length - 1 - max(origins)
    states = _filtered((A, Q, start, h, noise), values, weights, first)
    scores = _scored((A, Q, h, noise), states, values, counted & (weights > 0), first)
    return [scores[len(scores) - count :, which] for which, count in enumerate(origins)]


def _transitions_of(track: Track) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    A, Q, start = _transitions(bare(track.kernel), on_device(np.array([track.step])))
    return np.asarray(A), np.asarray(Q), np.asarray(start)


@jax.jit
def _transitions(kernel: Kernel, step: Float[Array, " one"]) -> Any:
    chain = step_transitions(kernel, step)
    return chain.A[1], chain.Q[1], chain.Q[0]


def _filtered(
    chain: Any, values: np.ndarray, weights: np.ndarray, first: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the states from `first` on, given what was observed up to each."""
    A, Q, start, h, noise = chain
    mean, covariance, begun = np.zeros_like(h), start, np.zeros(len(h), dtype=bool)
    means, covariances = [], []
    for at in range(values.shape[1] - 1):
        # Nothing is known of a series before it begins.
        covariance = np.where(
            begun[:, None, None], A @ covariance @ np.swapaxes(A, 1, 2) + Q, start
        )
        mean = np.einsum("bij,bj->bi", A, mean)
        weight = weights[:, at]
        begun = begun | (weight > 0)
        shared = np.einsum("bij,bj->bi", covariance, h)
        seen = weight / (noise + weight * np.sum(shared * h, axis=1))
        error = values[:, at] - np.sum(mean * h, axis=1)
        mean = mean + (seen * error)[:, None] * shared
        covariance = covariance - seen[:, None, None] * shared[:, :, None] * shared[:, None, :]
        if at >= first:
            means.append(mean)
            covariances.append(covariance)
    return np.stack(means), np.stack(covariances)


def _scored(
    chain: Any, states: Any, values: np.ndarray, counted: np.ndarray, first: int
) -> np.ndarray:
    """Errors of forecasts from each state on: origins, series, steps ahead."""
    A, Q, h, noise = chain
    means, covariances = states
    origins, length = len(means), values.shape[1]
    reading, added = h, np.zeros(len(h))  # of a state some steps before; what came in since
    scores = np.full((origins, len(h), len(STEPS)), np.nan)
    for ahead in range(1, min(max(STEPS), length - 1 - first) + 1):
        added = added + np.einsum("bi,bij,bj->b", reading, Q, reading)
        reading = np.einsum("bi,bij->bj", reading, A)
        if ahead not in STEPS:
            continue
        count = min(origins, length - first - ahead)
        target = slice(first + ahead, first + ahead + count)
        mean = np.einsum("bi,obi->ob", reading, means[:count])
        spread = np.einsum("bi,obij,bj->ob", reading, covariances[:count], reading)
        error = (values[:, target].T - mean) / np.sqrt(np.maximum(spread, 0.0) + added + noise)
        column = np.where(counted[:, target].T, error, np.nan)
        scores[:count, :, STEPS.index(ahead)] = column
    return scores


def _calibrated(scores: np.ndarray) -> tuple[float, ...]:
    """Logarithms of mean squares, together with what the model expects of them.

    Errors some steps ahead overlap: only about one in √steps is news. Neighbouring steps are
    averaged.
    """
    there = np.isfinite(scores)
    squares = np.where(there, np.minimum(np.nan_to_num(scores) ** 2, _LARGEST**2), 0.0)
    news = 1 / np.sqrt(np.array(STEPS))
    counts = there.sum(axis=0) * news
    logs = np.log((squares.sum(axis=0) * news + _EXPECTED) / (counts + _EXPECTED))
    near = np.convolve(np.pad(logs, 1, mode="edge"), np.ones(3) / 3, mode="valid")
    return tuple(near.tolist())
