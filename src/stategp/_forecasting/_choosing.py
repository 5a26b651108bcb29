"""The default forecaster: candidate models are fitted, and weighed by how likely they make y."""

import dataclasses
import math
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

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
        data = self.posterior.data
        seen = np.asarray(data.x)
        count, low, high = float(np.sum(data.weights)), float(seen.min()), float(seen.max())
        beyond = np.maximum(np.maximum(low - x + data.origin, x - data.origin - high), 0.0)
        spent = min(self.spent, count / 2)
        known: np.ndarray = 1 + _ESTIMATED * beyond / max(high - low, 1e-300)
        return known * (count + spent) / (count - spent)


def choose(
    x: np.ndarray, y: np.ndarray, *, dates: bool, weights: np.ndarray | None
) -> tuple[Choice, ...]:
    """The models that matter, the one with the largest weight first.

    Of y and of log y the first kind of trend is fitted, of the one that makes the data likelier the
    others too. Within each, models have weights by how likely they make the data. Between the two
    that would decide too much: which errors grow with the level is one thing, how large the next
    ones are another. So the other scale keeps a share.
    """
    seen = np.flatnonzero(np.isfinite(y))
    seen = seen[np.argsort(x[seen], kind="stable")]
    outline = Outline.of(x[seen], y[seen], dates)
    longest = max((season.steps for season in outline.seasons), default=0.0)
    count = int(np.clip(_CYCLES * longest, _LATEST, _MOST_LATEST))
    scales = [list(scale) for scale in candidates(x[seen], y[seen], outline)]
    fitted = [[_learn(scale[0], x, y, seen, count, weights)] for scale in scales]
    best = int(np.argmax([_evidence(models[0]) for models in fitted]))
    fitted[best] += [_learn(other, x, y, seen, count, weights) for other in scales[best][1:]]
    share = 1.0
    if len(fitted) == 2:
        ahead = _evidence(fitted[best][0]) - _evidence(fitted[1 - best][0])
        share = 1 - _KEPT - (1 - 2 * _KEPT) / (1 + math.exp(min(ahead, 700.0)))
    found = []
    for number, models in enumerate(fitted):
        evidence = np.array([_evidence(posterior) for posterior in models])
        shares = np.exp(evidence - evidence.max())
        shares = _KEPT / len(shares) * 2 + (1 - 2 * _KEPT) * shares / shares.sum()
        shares *= (share if number == best else 1 - share) / shares.sum()
        for weight, posterior, model in zip(shares, models, scales[number], strict=False):
            found.append(Choice(float(weight), posterior, model.trend, model.log, model.spent))
    kept = [choice for choice in found if choice.weight > _NEGLIGIBLE]
    total = sum(choice.weight for choice in kept)
    ordered = sorted(kept, key=lambda choice: -choice.weight)
    return tuple(choice._replace(weight=choice.weight / total) for choice in ordered)


def _evidence(posterior: Posterior) -> float:
    return posterior.elbo if math.isfinite(posterior.elbo) else -math.inf


def _learn(
    candidate: Candidate,
    x: np.ndarray,
    y: np.ndarray,
    seen: np.ndarray,
    count: int,
    weights: np.ndarray | None,
) -> Posterior:
    """Hyperparameters from the latest observations, the posterior from all."""
    values = np.log(y) if candidate.log else y
    model = GP(candidate.kernel, candidate.likelihood, candidate.mean)
    everything = np.arange(len(x))
    latest = everything if len(seen) <= 1.25 * count else seen[-count:]

    def part(rows: np.ndarray) -> dict[str, Any]:
        return {
            "x": x[rows],
            "y": values[rows],
            "weights": None if weights is None else weights[rows],
            "inducing": "data",
            "progress": False,
        }

    learned: Posterior = fit(model, **part(latest), max_steps=_MOST_STEPS, tolerance=_FLAT)
    evidence = learned.elbo
    if candidate.log:
        counted = seen if latest is everything else latest
        counts = 1.0 if weights is None else weights[counted]
        evidence = evidence - float(np.sum(counts * values[counted]))
    if latest is not everything:
        whole = condition(learned.model, **part(everything))
        learned = dataclasses.replace(whole, fit_result=learned.fit_result)
    if candidate.log:
        learned = _of_exponentials(learned)
    return eqx.tree_at(lambda posterior: posterior.elbo, learned, evidence)


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
