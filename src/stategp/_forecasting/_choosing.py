"""The default forecaster: candidate models are fitted, and weighed by how well they forecast."""

import math
from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from stategp._data import Observations
from stategp._forecasting._averages import Average, Part, average_of, kept_positive
from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._candidates import Candidate
from stategp._forecasting._changes import surprise, with_changes
from stategp._forecasting._foresight import missed_by
from stategp._forecasting._learning import Learned, Series, learn, noise_of
from stategp._forecasting._scales import Scale
from stategp._posteriors import Posterior

_TURNS = 3  # in which outliers are found
_MEMORY = 40.0  # observations after which an error counts a third as much for the latest spread
_EXPECTED = 10.0  # observations that what a model expects counts as, beside them
_LARGEST = 4.0  # scores beyond which an error counts no more
_NEGLIGIBLE = 0.01  # a weight
_KEPT = 1 / 3  # weight of the scale that is less likely
_COUNTED = 1 / 20  # of the logarithm of how likely models of a scale make the data
_SHARPNESS = 8.0  # weights fall with that power of the errors of forecasts
_ESTIMATED = 3.0  # relative growth of variances over a distance as long as the data


class Choice(NamedTuple):
    """A fitted model, with its share in forecasts."""

    weight: float
    posterior: Posterior
    trend: str  # in words
    log: bool
    spent: float  # how many numbers its mean function took from the data
    floor: float | None = None
    cap: float | None = None
    lately: float = 1.0  # the variance of the latest errors, in units of what the model expects

    @property
    def scale(self) -> Scale:
        """On which y is normal."""
        return Scale(self.log, self.floor, self.cap)

    def widening(self, x: np.ndarray) -> np.ndarray:
        """What variances at x are multiplied by, for what was estimated and then taken as known.

        A regression with k numbers on n observations leaves errors of (n − k)/n of their variance
        and adds k/n of it. Errors of trends grow with the distance from the data, relative to
        their length. Soon after the data errors are as large as they were lately.
        """
        data = self.posterior.data
        return widening(data, self.spent, self.lately, x - data.origin)


def widening(data: Observations, spent: float, lately: float, x: np.ndarray) -> np.ndarray:
    """The same for x measured from the origin of the data."""
    seen = np.asarray(data.x)
    count, low, high = float(np.sum(data.weights)), float(seen.min()), float(seen.max())
    beyond = np.maximum(np.maximum(low - x, x - high), 0.0)
    spent = min(spent, count / 2)
    known: np.ndarray = 1 + _ESTIMATED * beyond / max(high - low, 1e-300)
    return known * _after(seen, lately, x - high) * (count + spent) / (count - spent)


def _after(seen: np.ndarray, lately: float, beyond: np.ndarray) -> np.ndarray:
    """The variance of the latest errors, which tells less the further one looks ahead."""
    between = np.diff(np.unique(seen))
    steps = np.maximum(beyond, 0.0) / (float(np.median(between)) if len(between) else 1.0)
    variance = 1 + (lately - 1) * np.exp(-steps / _MEMORY)
    return np.where(beyond > 0, variance, 1.0)


class Standing(NamedTuple):
    """What speaks for a model."""

    evidence: float
    missed: float = math.nan  # by how much its forecasts would have missed the latest observations


def standing(candidate: Candidate, evidence: float, missed: Callable[[], float]) -> Standing:
    """For days and weeks errors of forecasts count, for others how likely models make the data."""
    if candidate.pace == "days":
        return Standing(evidence, missed=missed())
    return Standing(evidence)


def weigh(standings: list[list[Standing]], best: int) -> list[tuple[float, int, int]]:
    """The weights of models that matter, with the numbers of scale and model.

    They follow from how much forecasts would have missed the latest observations, if that is known
    of all models. The scale with more weight comes first, and within it the largest.
    """
    misses = [one.missed for some in standings for one in some]
    if np.all(np.isfinite(misses)) and min(misses) > 0:
        weights = [[(one.missed / min(misses)) ** -_SHARPNESS for one in s] for s in standings]
    else:
        weights = [list(some) for some in _by_evidence(standings, best)]
    sums = [sum(some) for some in weights]
    kept = [
        (float(weight) / sum(sums), scale, number)
        for scale, some in enumerate(weights)
        for number, weight in enumerate(some)
        if weight > _NEGLIGIBLE * sum(sums)
    ]
    left, heavier = sum(weight for weight, _, _ in kept), int(np.argmax(sums))
    ordered = sorted(kept, key=lambda each: (each[1] != heavier, -each[0]))
    return [(weight / left, scale, number) for weight, scale, number in ordered]


def _by_evidence(standings: list[list[Standing]], best: int) -> list[np.ndarray]:
    """Models have weights by a low power of how likely they make the data.

    More would decide too much, also between the scales: which errors grow with the level is one
    thing, how large the next ones are another. So the other scale keeps a share.
    """
    share = 1.0
    if len(standings) == 2:
        ahead = standings[best][0].evidence - standings[1 - best][0].evidence
        share = 1 - _KEPT - (1 - 2 * _KEPT) / (1 + math.exp(min(ahead, 700.0)))
    found = []
    for scale, some in enumerate(standings):
        evidence = np.array([one.evidence for one in some])
        weights = np.exp(_COUNTED * (evidence - evidence.max()))
        found.append(weights * ((share if scale == best else 1 - share) / weights.sum()))
    return found


def choose(
    series: Series, axis: TimeAxis, *, robust: bool = True, options: Any = MappingProxyType({})
) -> tuple[tuple[Choice, ...], Series]:
    """The models that matter, those of the scale with more weight first, and the series as seen.

    Of y and of log y the first kind of trend is fitted, of the one that makes the data likelier
    (for months of both) the others too. Where the likelier of the first two finds outliers, all is
    repeated with little weight on them. Where the level changes suddenly, models that know of it
    are tried. Options are those of every search for hyperparameters.
    """

    def search(candidate: Candidate, series: Series, before: Learned | None = None) -> Learned:
        if before is not None and math.isfinite(before.evidence):
            candidate = candidate.starting_at(before.posterior.model)
        return learn(candidate, series, **options)

    def again(scale: Scale) -> Learned | None:
        """What the first model on a scale has learned of the series as it was seen before."""
        firsts = [models[0] for models in fitted]
        return next((one for one in firsts if one.candidate.scale == scale), None)

    fitted: list[list[Learned]] = []
    for turn in range(_TURNS):
        scales = series.candidates()
        fitted = [[search(scale[0], series, again(scale[0].scale))] for scale in scales]
        best = int(np.argmax([models[0].evidence for models in fitted]))
        likelier = fitted[best][0]
        doubting = series.surprised(likelier.expected, likelier.scores) if robust else series
        if doubting is series or turn + 1 == _TURNS:
            break
        series = doubting
    changed = with_changes(series, axis)
    if changed is not series:
        changing = changed.candidates()
        knowing = search(changing[best][0], changed, likelier)
        if knowing.evidence - surprise(changed) > likelier.evidence:
            series, scales = changed, changing
            fitted = [
                [knowing if at == best else search(scale[0], series, again(scale[0].scale))]
                for at, scale in enumerate(scales)
            ]
    for number, some in enumerate(scales):
        if number == best or some[0].everywhere:
            fitted[number] += [search(other, series) for other in some[1:]]
    chosen = []
    standings = [
        [standing(one.candidate, one.evidence, partial(missed_by, one, series)) for one in some]
        for some in fitted
    ]
    for weight, number, place in weigh(standings, best):
        model = fitted[number][place]
        about, scale = model.candidate, model.candidate.scale
        chosen.append(
            Choice(
                weight, model.posterior, about.trend, scale.log, about.spent,
                scale.floor, scale.cap, lately(model.scores[~series.doubted]),
            )
        )  # fmt: skip
    return tuple(chosen), series


def lately(scores: np.ndarray) -> float:
    """The mean square of scores, of the latest more than of others; 1 if there are none."""
    weights = np.exp(-np.arange(len(scores))[::-1] / _MEMORY)
    squares = np.minimum(scores**2, _LARGEST**2)
    return float((np.sum(weights * squares) + _EXPECTED) / (np.sum(weights) + _EXPECTED))


def averaged(choices: tuple[Choice, ...], x: np.ndarray, *, noise: bool = True) -> Average:
    """The distribution of new observations at x, or of the function, in the units of y."""
    parts = []
    for choice in choices:
        mean, variance = (np.asarray(v) for v in choice.posterior.predict_f(x))
        if noise:
            variance = variance + float(noise_of(choice.posterior))
        learned = np.sqrt(np.maximum(variance, 0.0))
        wide = learned * np.sqrt(choice.widening(x))
        parts.append(Part(choice.weight, choice.log, mean, wide, choice.floor, choice.cap, learned))
    return average_of(parts)


def refuse_extras(extras: dict[str, Any]) -> None:
    """Models that were chosen read nothing beside the target."""
    for name in extras:
        raise ValueError(
            f"{name} has no meaning for a forecaster that chose its models: it is for likelihoods "
            "that read it, and a kernel that is given"
        )


def draw(choices: tuple[Choice, ...], seed: int, x: np.ndarray, num_samples: int) -> np.ndarray:
    """Joint samples of new observations, from each model as often as its weight says."""
    random = np.random.default_rng(seed)
    counts = random.multinomial(num_samples, [choice.weight for choice in choices])
    drawn = []
    scales = kept_positive([choice.scale for choice in choices])
    for number, (choice, count, scale) in enumerate(zip(choices, counts, scales, strict=True)):
        posterior = choice.posterior
        centre = np.asarray(posterior.predict_f(x)[0])
        functions = np.asarray(posterior.sample_f(seed + number, x, int(count)))
        noise = math.sqrt(float(noise_of(posterior))) * random.standard_normal(functions.shape)
        away = (functions - centre + noise) * np.sqrt(choice.widening(x))
        drawn.append(scale.backward(centre + away))
    return np.concatenate(drawn)
