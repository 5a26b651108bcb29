"""The default forecaster: candidate models are fitted, and weighed by how likely they make y."""

import sys
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from stategp._fitting import condition, fit
from stategp._forecasting._candidates import Candidate, Outline, candidates
from stategp._forecasting._mixtures import Mixture, Part
from stategp._models import GP
from stategp._posteriors import Posterior
from stategp.likelihoods import Gaussian, LogNormal
from stategp.parameters import Parameter

_LEARNED_FROM = 1000  # of the latest observations: more teach hyperparameters little
_MOST_STEPS = 60
_FLAT = 1e-4  # slope per observation at which a search may end
_NEGLIGIBLE = 0.01  # a weight
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
    x: np.ndarray, y: np.ndarray, *, dates: bool, weights: np.ndarray | None, progress: object
) -> tuple[Choice, ...]:
    """The models that matter, the one with the largest weight first.

    A weight is the probability that a model gives to the data at its best hyperparameters, relative
    to that of all candidates.
    """
    seen = np.flatnonzero(np.isfinite(y))
    seen = seen[np.argsort(x[seen], kind="stable")]
    outline = Outline.of(x[seen], y[seen], dates)
    fitted = []
    for candidate in candidates(x[seen], y[seen], outline):
        posterior = _learn(candidate, x, y, seen, weights)
        fitted.append((posterior.elbo, posterior, candidate))
        if progress not in (None, False) or (progress is None and sys.stderr.isatty()):
            scale = "log y" if candidate.log else "y"
            print(f"{scale}: {candidate.trend}: {posterior.elbo:.1f} nats", file=sys.stderr)
    evidence = np.array([nats for nats, _, _ in fitted])
    evidence = np.where(np.isfinite(evidence), evidence, -np.inf)
    shares = np.exp(evidence - evidence.max())
    shares = np.where(shares < _NEGLIGIBLE * shares.sum(), 0.0, shares)
    order = [place for place in np.argsort(-shares) if shares[place] > 0]
    return tuple(
        Choice(
            float(shares[place] / shares.sum()),
            fitted[place][1],
            fitted[place][2].trend,
            fitted[place][2].log,
            fitted[place][2].spent,
        )
        for place in order
    )


def _learn(
    candidate: Candidate,
    x: np.ndarray,
    y: np.ndarray,
    seen: np.ndarray,
    weights: np.ndarray | None,
) -> Posterior:
    """Hyperparameters from the latest observations, the posterior from all."""
    values = np.log(y) if candidate.log else y
    model = GP(candidate.kernel, candidate.likelihood, candidate.mean)
    latest = seen[-_LEARNED_FROM:] if len(seen) > 1.25 * _LEARNED_FROM else np.arange(len(x))

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
        counted = seen[-_LEARNED_FROM:] if len(latest) < len(x) else seen
        counts = 1.0 if weights is None else weights[counted]
        evidence = evidence - float(np.sum(counts * values[counted]))
    if len(latest) < len(x):
        learned = condition(learned.model, **part(np.arange(len(x))))
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


def mixture(choices: tuple[Choice, ...], x: np.ndarray, *, noise: bool = True) -> Mixture:
    """The distribution of new observations at x, or of the function, in the units of y."""
    parts = []
    for choice in choices:
        mean, variance = (np.asarray(v) for v in choice.posterior.predict_f(x))
        if noise:
            variance = variance + float(_noise(choice.posterior))
        deviation = np.sqrt(np.maximum(variance, 0.0) * choice.widening(x))
        parts.append(Part(choice.weight, choice.log, mean, deviation))
    return Mixture(tuple(parts))


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
    lead = "weights of the models, by how likely they make the data:"
    return "\n".join([lead, *(f"  {line}" for line in lines), f"kernel of the first: {kernel}"])
