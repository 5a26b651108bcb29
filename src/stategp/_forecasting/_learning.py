"""A candidate of the default forecaster, learned, and the outliers that it sees."""

import dataclasses
import math
import warnings
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from stategp._data import Observations
from stategp._fitting import NotConvergedWarning, condition, fit
from stategp._forecasting._beside import NOTHING, Beside
from stategp._forecasting._candidates import Candidate, Outline, candidates, known_changes
from stategp._forecasting._filtering import emission_of
from stategp._forecasting._lessons import Lessons
from stategp._forecasting._outliers import Surprises, gross, unexpected
from stategp._forecasting._regression import condition_with_effects, fit_with_effects
from stategp._forecasting._regression_posterior import RegressionPosterior
from stategp._forecasting._scales import Scale, moved_inside, scales_of
from stategp._forecasting._tilting import level, upright
from stategp._models import GP
from stategp._posteriors import Posterior
from stategp.likelihoods import Bounded, Gaussian, LogNormal
from stategp.parameters import Parameter

_LATEST = 400  # observations that teach hyperparameters: they are most like those to come
_MOST_LATEST = 1200
_CYCLES = 4  # of the longest season that these hold, if that is within the limits
_FARTHEST = 1e6  # standard deviations, beyond which outliers lose no more weight
_MOST_STEPS = 60
_FLAT = 5e-4  # slope per observation at which a search may end
LEARNING: dict[str, Any] = {"max_steps": _MOST_STEPS, "tolerance": _FLAT, "inducing": "data"}


@dataclasses.dataclass(frozen=True)
class Series:
    """Observations in order of time, and what is known of them before any model."""

    x: np.ndarray
    y: np.ndarray
    counts: np.ndarray  # the weights that the user gave, or 1
    outline: Outline
    cleaned: np.ndarray  # y, with something usual in the place of outliers
    shares: np.ndarray  # of its weight that an observation keeps: 1, and little for outliers
    floor: float | None = None  # the limits that the user gave
    cap: float | None = None
    beside: Beside = NOTHING
    lessons: Lessons | None = None  # of other series

    @staticmethod
    def of(
        x: np.ndarray,
        y: np.ndarray,
        counts: np.ndarray | None,
        limits: tuple[float | None, float | None] = (None, None),
        beside: Beside = NOTHING,
        *,
        dates: bool,
        robust: bool,
    ) -> "Series":
        """Those that are not missing. Gross outliers have little weight already."""
        seen = np.flatnonzero(np.isfinite(y))
        seen = seen[np.argsort(x[seen], kind="stable")]
        x, y, ones = x[seen], moved_inside(y[seen], *limits), np.ones(len(seen))
        beside = beside.of(seen)
        f = beside.pointed_at(y)
        effects = beside.rough_effects(x, f)
        outline = Outline.of(x, f - effects, dates)
        given = ones if counts is None else counts[seen]
        series = Series(x, y, given, outline, f, ones, *limits, beside)
        if not (robust and beside.normal):
            return series
        found = gross(x, y - effects, outline)
        series = series.doubting(found._replace(expected=found.expected + effects))
        if series.doubted.any() and not dates:  # a period was sought
            outline = Outline.of(x, series.cleaned - effects, dates)
        return dataclasses.replace(series, outline=outline)

    def doubting(self, found: Surprises) -> "Series":
        """The same with these outliers, and no others.

        At a distance of z standard deviations they keep 1/z² of their weight: the further they are
        away, the less they pull.
        """
        far = np.clip(np.abs(found.scores), 1.0, _FARTHEST)
        return dataclasses.replace(
            self,
            cleaned=np.where(found.outliers, found.expected, self.y),
            shares=np.where(found.outliers, 1 / far**2, 1.0),
        )

    @property
    def doubted(self) -> np.ndarray:
        """Which observations are outliers."""
        return np.asarray(self.shares < 1)

    def candidates(self) -> list[list[Candidate]]:
        """The models to compare, on each scale."""
        usual = scales_of(self.cleaned, self.floor, self.cap) if self.beside.normal else (Scale(),)
        values = [scale.forward(self.cleaned) for scale in usual]
        without = [f - self.beside.rough_effects(self.x, f) for f in values]
        scales = list(zip(usual, without, strict=True))
        found = candidates(self.x, self.outline, scales, self.beside.likelihood)
        if self.lessons is None:
            return found
        changes = known_changes(len(self.y), self.outline)
        return [[self.lessons.given_to(one, changes) for one in some] for some in found]

    def surprised(self, expected: np.ndarray, scores: np.ndarray) -> "Series":
        """The same with the outliers that a model finds; itself, if it has these already."""
        if not self.beside.normal:
            return self
        effects = self.beside.rough_effects(self.x, self.cleaned)
        found = unexpected(self.x, self.y - effects, expected - effects, scores, self.outline)
        if np.array_equal(found.outliers, self.doubted):
            return self
        return self.doubting(found._replace(expected=expected))

    # --- as a candidate sees them -------------------------------------------------------------

    @property
    def latest(self) -> np.ndarray:
        """The rows that teach hyperparameters."""
        longest = max((season.steps for season in self.outline.seasons), default=0.0)
        count = int(np.clip(_CYCLES * longest, _LATEST, _MOST_LATEST))
        rows = np.arange(len(self.y))
        return rows if len(rows) <= 1.25 * count else rows[-count:]

    def taken(self, scale: Scale) -> np.ndarray:
        """y, with something usual in the place of outliers that have no value on a scale."""
        return np.where(scale.takes(self.y), self.y, self.cleaned)

    def part(self, candidate: Candidate, rows: np.ndarray) -> dict[str, Any]:
        """Some of the observations, as arguments of a fit."""
        weights = self.counts * self.shares
        return {
            "x": self.x[rows],
            "y": candidate.scale.forward(self.taken(candidate.scale))[rows],
            "weights": None if np.all(weights == 1) else weights[rows],
            **{name: column[rows] for name, column in self.beside.extras.items()},
        }

    def evidence(self, candidate: Candidate, log_likelihood: float) -> float:
        """How likely a model makes y, from how likely it makes what it was fitted to."""
        if not math.isfinite(log_likelihood):
            return -math.inf
        rows, scale = self.latest, candidate.scale
        if not scale.log:
            return log_likelihood
        slopes = scale.log_slopes(self.taken(scale)[rows])
        return log_likelihood + float(np.sum((self.counts * self.shares)[rows] * slopes))


class Learned(NamedTuple):
    """A candidate with its posterior, and how likely it makes y."""

    candidate: Candidate
    posterior: Posterior
    evidence: float
    expected: np.ndarray  # the median of each observation, given all the others
    scores: np.ndarray  # how far it lies from that, in standard deviations


def learn(candidate: Candidate, series: Series, **options: Any) -> Learned:
    """Hyperparameters from the latest observations, the posterior from all.

    Options are those of the search for hyperparameters.
    """
    latest, scale, design = series.latest, candidate.scale, series.beside.design
    alone: Any = _fit_level if series.beside.normal else fit
    search: Any = alone if design is None else partial(fit_with_effects, design)
    with warnings.catch_warnings():
        if not options:
            # A candidate needs no optimum to be compared; its fit_result says how its search ended.
            warnings.simplefilter("ignore", NotConvergedWarning)
        learned: Posterior = search(
            candidate.model,
            **series.part(candidate, latest),
            **(LEARNING | options),
            progress=False,
        )
    evidence = series.evidence(candidate, learned.elbo)
    if len(latest) < len(series.y):
        everything = series.part(candidate, np.arange(len(series.y)))
        look: Any = condition if design is None else partial(condition_with_effects, design)
        whole = look(learned.model, **everything, inducing="data", progress=False)
        learned = dataclasses.replace(whole, fit_result=learned.fit_result)
    expected, scores = series.cleaned, np.ones(len(series.y))
    if series.beside.normal:
        seen = _at_observations(learned, candidate.fitted)
        expected, scores = left_out(*seen, learned.data, noise_of(learned))
        expected = scale.backward(expected)
        scores = np.where(scale.takes(series.y), scores, np.inf)
    if scale.log:
        learned = in_units_of_y(learned, scale, series.taken(scale))
    learned = eqx.tree_at(lambda posterior: posterior.elbo, learned, evidence)
    return Learned(candidate, learned, evidence, expected, scores)


def _fit_level(model: GP, x: np.ndarray, y: np.ndarray, **options: Any) -> Posterior:
    """As `fit`, with the programs that models with effects need, too."""
    found = fit(level(model), x, y, **options)
    return eqx.tree_at(lambda posterior: posterior.model, found, upright(found.model))


def _at_observations(posterior: Posterior, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of f there, where the states are known; `mean` is the mean function."""
    data, (pairs,) = posterior.data, posterior.marginals
    emission = emission_of(posterior.model.kernels[0])
    inducing = np.asarray(posterior.relative_inducing)
    state = np.searchsorted(inducing, np.asarray(data.x))
    dim = len(emission)  # a state is on the right of its interval
    f = (np.asarray(pairs.mean)[:-1, dim:] @ emission)[state]
    covariance = np.asarray(pairs.covariance)[:-1, dim:, dim:]
    variance = np.einsum("mij,i,j->m", covariance, emission, emission)[state]
    if isinstance(posterior, RegressionPosterior):
        added, more = posterior.effects_at_states(inducing, emission)
        f, variance = f + added[state], variance + more[state]
    return mean + f, variance


def left_out(
    f: np.ndarray, variance: np.ndarray, data: Observations, noise: Any
) -> tuple[np.ndarray, np.ndarray]:
    """What is expected of each observation given all others, and its distance from that.

    As `Posterior.leave_one_out`, from the mean and variance of f at the observations.
    """
    spread, noise = np.maximum(variance, 0.0), float(noise)
    precision = np.asarray(data.weights) / noise
    left = np.maximum(1 - precision * spread, 1e-12)  # of the precision, without the observation
    away = np.asarray(data.y) - f
    without = f - precision * away * spread / left
    deviation = np.sqrt(np.maximum(spread / left + noise, 1e-300))
    return without, np.nan_to_num((np.asarray(data.y) - without) / deviation, nan=1.0)


def in_units_of_y(posterior: Posterior, scale: Scale, y: np.ndarray) -> Posterior:
    """The posterior of y, from that of y on another scale; y as it was, to the last digit."""
    model = posterior.model
    noise = scale.likelihood(noise_of(posterior))
    changed: Posterior = eqx.tree_at(
        lambda tree: (tree.model, tree.data.y),
        posterior,
        (GP(model.kernel, noise, model.mean), y),
    )
    return changed


def noise_of(posterior: Posterior) -> Parameter:
    """The variance of noise, in y or on another scale."""
    likelihood = posterior.model.likelihood
    assert isinstance(likelihood, Gaussian | LogNormal | Bounded)
    return likelihood.variance
