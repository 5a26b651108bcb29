"""The default forecaster: candidate models are fitted, and weighed by how likely they make y."""

import dataclasses
import math
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from stategp._data import Observations
from stategp._fitting import condition, fit
from stategp._forecasting._averages import Average, Part
from stategp._forecasting._candidates import Candidate, Outline, candidates
from stategp._models import GP
from stategp._posteriors import Posterior
from stategp.likelihoods import Gaussian, LogNormal
from stategp.parameters import Parameter

_LATEST = 400  # observations that teach hyperparameters: they are most like those to come
_MOST_LATEST = 1200
_CYCLES = 4  # of the longest season that these hold, if that is within the limits
_MOST_STEPS = 60
_FLAT = 5e-4  # slope per observation at which a search may end
LEARNING: dict[str, Any] = {"max_steps": _MOST_STEPS, "tolerance": _FLAT, "inducing": "data"}
_NEGLIGIBLE = 0.01  # a weight
_KEPT = 0.25  # weight of the scale that is less likely
_ESTIMATED = 3.0  # relative growth of variances over a distance as long as the data


class Choice(NamedTuple):
    """A fitted model, with its share in forecasts."""

    weight: float
    posterior: Posterior
    trend: str  # in words
    log: bool
    spent: float  # how many numbers its mean function took from the data

    def widening(self, x: np.ndarray) -> np.ndarray:
        """What variances at x are multiplied by, for what was estimated and then taken as known.

        A regression with k numbers on n observations leaves errors of (n − k)/n of their variance
        and adds k/n of it. Errors of trends grow with the distance from the data, relative to
        their length.
        """
        return widening(self.posterior.data, self.spent, x - self.posterior.data.origin)


def widening(data: Observations, spent: float, x: np.ndarray) -> np.ndarray:
    """The same for x measured from the origin of the data."""
    seen = np.asarray(data.x)
    count, low, high = float(np.sum(data.weights)), float(seen.min()), float(seen.max())
    beyond = np.maximum(np.maximum(low - x, x - high), 0.0)
    spent = min(spent, count / 2)
    known: np.ndarray = 1 + _ESTIMATED * beyond / max(high - low, 1e-300)
    return known * (count + spent) / (count - spent)


class Contest:
    """The models that are compared for one series, and the data each of them is fitted to."""

    def __init__(self, x: np.ndarray, y: np.ndarray, *, dates: bool, weights: np.ndarray | None):
        self.x, self.y, self.weights = x, y, weights
        seen = np.flatnonzero(np.isfinite(y))
        self.seen = seen[np.argsort(x[seen], kind="stable")]
        outline = Outline.of(x[self.seen], y[self.seen], dates)
        longest = max((season.steps for season in outline.seasons), default=0.0)
        count = int(np.clip(_CYCLES * longest, _LATEST, _MOST_LATEST))
        self.scales = [list(scale) for scale in candidates(x[self.seen], y[self.seen], outline)]
        self.whole = len(self.seen) <= 1.25 * count  # whether hyperparameters are learned from all
        self.everything = np.arange(len(x))
        self.latest = self.everything if self.whole else self.seen[-count:]

    def part(self, candidate: Candidate, rows: np.ndarray) -> dict[str, Any]:
        """Some of the data, as a model sees them."""
        return {
            "x": self.x[rows],
            "y": np.log(self.y[rows]) if candidate.log else self.y[rows],
            "weights": None if self.weights is None else self.weights[rows],
        }

    def evidence(self, candidate: Candidate, log_likelihood: float) -> float:
        """How likely a model makes y, from how likely it makes what it was fitted to."""
        if not math.isfinite(log_likelihood):
            return -math.inf
        if not candidate.log:
            return log_likelihood
        counted = self.seen if self.whole else self.latest
        counts = 1.0 if self.weights is None else self.weights[counted]
        return log_likelihood - float(np.sum(counts * np.log(self.y[counted])))


def weigh(evidences: list[list[float]], best: int) -> list[tuple[float, int, int]]:
    """The weights of models that matter, the largest first, with the numbers of scale and model.

    Within each scale, models have weights by how likely they make the data. Between the two that
    would decide too much: which errors grow with the level is one thing, how large the next ones
    are another. So the other scale keeps a share.
    """
    share = 1.0
    if len(evidences) == 2:
        ahead = evidences[best][0] - evidences[1 - best][0]
        share = 1 - _KEPT - (1 - 2 * _KEPT) / (1 + math.exp(min(ahead, 700.0)))
    found = []
    for scale, evidence in enumerate(evidences):
        shares = np.exp(np.array(evidence) - max(evidence))
        shares = _KEPT / len(shares) * 2 + (1 - 2 * _KEPT) * shares / shares.sum()
        shares *= (share if scale == best else 1 - share) / shares.sum()
        found += [(float(weight), scale, number) for number, weight in enumerate(shares)]
    kept = [each for each in found if each[0] > _NEGLIGIBLE]
    total = sum(weight for weight, _, _ in kept)
    ordered = sorted(kept, key=lambda each: -each[0])
    return [(weight / total, scale, number) for weight, scale, number in ordered]


def choose(
    x: np.ndarray, y: np.ndarray, *, dates: bool, weights: np.ndarray | None
) -> tuple[Choice, ...]:
    """The models that matter, the one with the largest weight first.

    Of y and of log y the first kind of trend is fitted, of the one that makes the data likelier the
    others too.
    """
    contest = Contest(x, y, dates=dates, weights=weights)
    fitted = [[_learn(contest, scale[0])] for scale in contest.scales]
    best = int(np.argmax([models[0].elbo for models in fitted]))
    fitted[best] += [_learn(contest, other) for other in contest.scales[best][1:]]
    evidences = [[posterior.elbo for posterior in models] for models in fitted]
    return tuple(
        Choice(weight, fitted[scale][number], model.trend, model.log, model.spent)
        for weight, scale, number in weigh(evidences, best)
        for model in [contest.scales[scale][number]]
    )


def _learn(contest: Contest, candidate: Candidate) -> Posterior:
    """Hyperparameters from the latest observations, the posterior from all."""
    learned: Posterior = fit(
        candidate.model, **contest.part(candidate, contest.latest), **LEARNING, progress=False
    )
    evidence = contest.evidence(candidate, learned.elbo)
    if not contest.whole:
        whole = condition(
            learned.model, **contest.part(candidate, contest.everything),
            inducing="data", progress=False,
        )  # fmt: skip
        learned = dataclasses.replace(whole, fit_result=learned.fit_result)
    return as_chosen(learned, log=candidate.log, evidence=evidence)


def as_chosen(posterior: Posterior, *, log: bool, evidence: float) -> Posterior:
    """The posterior of y, from that of y or of log y; its bound is in the units of y."""
    if log:
        posterior = _of_exponentials(posterior)
    return eqx.tree_at(lambda tree: tree.elbo, posterior, evidence)


def _of_exponentials(posterior: Posterior) -> Posterior:
    """The posterior of y, from that of log y."""
    model = posterior.model
    noise = LogNormal(variance=_noise(posterior))
    changed: Posterior = eqx.tree_at(
        lambda tree: (tree.model, tree.data.y),
        posterior,
        (GP(model.kernel, noise, model.mean), np.exp(np.asarray(posterior.data.y))),
    )
    return changed


def _noise(posterior: Posterior) -> Parameter:
    """The variance of noise, in y or in log y."""
    likelihood = posterior.model.likelihood
    assert isinstance(likelihood, Gaussian | LogNormal)
    return likelihood.variance


def averaged(choices: tuple[Choice, ...], x: np.ndarray, *, noise: bool = True) -> Average:
    """The distribution of new observations at x, or of the function, in the units of y."""
    parts = []
    for choice in choices:
        mean, variance = (np.asarray(v) for v in choice.posterior.predict_f(x))
        if noise:
            variance = variance + float(_noise(choice.posterior))
        deviation = np.sqrt(np.maximum(variance, 0.0) * choice.widening(x))
        parts.append(Part(choice.weight, choice.log, mean, deviation))
    return Average(tuple(parts))


def refuse_extras(extras: dict[str, Any]) -> None:
    """Models that were chosen read nothing beside the target."""
    for name in extras:
        raise ValueError(
            f"{name} has no meaning for a forecaster that chose its models: it is for likelihoods "
            "that read it, and a kernel that is given"
        )


def draw(choices: tuple[Choice, ...], seed: int, x: np.ndarray, num_samples: int) -> np.ndarray:
    """Joint samples of new observations, from each model as often as its weight says."""
    weights = [choice.weight for choice in choices]
    counts = np.random.default_rng(seed).multinomial(num_samples, weights)
    return np.concatenate(
        [
            np.asarray(choice.posterior.sample_y(seed + number, x, int(count)))
            for number, (choice, count) in enumerate(zip(choices, counts, strict=True))
        ]
    )


def explain(choices: tuple[Choice, ...], kernel: str) -> str:
    """What was chosen, and why, in words."""
    if not choices:
        return f"the kernel was given, or is the default for long series: {kernel}"
    lines = []
    for choice in choices:
        scale = "log y" if choice.log else "y"
        lines.append(f"{100 * choice.weight:.0f} %  {scale}: {choice.trend}")
    lead = "weights of the models whose quantiles are averaged:"
    return "\n".join([lead, *(f"  {line}" for line in lines), f"kernel of the first: {kernel}"])
