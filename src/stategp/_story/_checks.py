"""Does the model fit what it was fitted to? Ranks, residuals, calibration, scores.

Every observation is compared with what all the others predict for it. F(y) is then uniform if the
model is right, and its normal score Φ⁻¹(F(y)) is standard normal: a residual that means the same
for any likelihood. Where F has a step (counts), F(y) is drawn uniformly from the step.
"""

import dataclasses
from typing import Any

import numpy as np
from scipy.special import ndtri

from stategp._posteriors import Marginals, Posterior
from stategp._runtime import on_device

_MOST = 16_384  # observations looked at; one block of predictions
_RUNS = 16  # of neighbouring observations, for the autocorrelation


@dataclasses.dataclass(frozen=True)
class Checks:
    """Observations compared with their predictive distributions."""

    x: np.ndarray  # of those looked at, in order
    ranks: np.ndarray  # F(y), uniform if the model is right
    residuals: np.ndarray  # normal scores of the ranks
    autocorrelation: np.ndarray  # of the residuals, at lags 1, 2, …, in order of x
    pairs: int  # neighbours that the autocorrelation at lag 1 rests on
    nominal: np.ndarray  # of central intervals
    actual: np.ndarray  # the share of observations inside
    about: str  # what they rest on, in words


def choose_evenly(count: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Which observations to look at, and runs of neighbours among them.

    Few: all of them, in one run. Many: half evenly spread, half in runs of neighbours.
    """
    if count <= _MOST:
        every = np.arange(count)
        return every, [every]
    half = _MOST // 2
    spread = np.linspace(0, count - 1, half).astype(np.int64)
    length = half // _RUNS
    starts = np.linspace(0, count - length, _RUNS).astype(np.int64)
    return spread, [start + np.arange(length) for start in starts]


def check(
    posterior: Posterior, levels: tuple[float, ...], seed: int
) -> tuple[Checks, dict[str, float]]:
    """What observations look like (x measured from the origin), and their mean scores."""
    data = single_observations(posterior)
    spread, runs = choose_evenly(len(data))
    together = spread if runs[0] is spread else np.concatenate([spread, *runs])
    relative, y = np.asarray(data.x)[together], np.asarray(data.y)[together]
    x = user_units(relative, data.origin, len(together))
    alone = posterior.leave_one_out(x, y, **extras_at(posterior, together))
    extra = on_device(np.asarray(data.extra)[together])
    predicted = Marginals(posterior.model.likelihood, *alone, extra)

    upper = np.asarray(predicted.cdf(y))
    lower = np.asarray(predicted.cdf(y, strict=True))
    chance = np.random.default_rng(seed).uniform(size=len(y))
    ranks = lower + chance * np.maximum(upper - lower, 0.0)
    residuals = ndtri(np.clip(ranks, 1e-12, 1 - 1e-12))

    even = slice(0, len(spread))
    nominal = np.linspace(0.0, 1.0, 51)
    distance = np.abs(2 * ranks[even] - 1)
    actual = np.searchsorted(np.sort(distance), nominal, side="right") / max(len(distance), 1)
    after = residuals[even] if runs[0] is spread else residuals[len(spread) :]
    correlation, pairs = _autocorrelation(after.reshape(len(runs), -1))
    about = _about(len(data), len(spread))
    checks = Checks(
        relative[even], ranks[even], residuals[even], correlation, pairs, nominal, actual, about
    )
    return checks, _scores(predicted[even], y[even], lower[even], upper[even], levels)


def single_observations(posterior: Any) -> Any:
    """The data of a posterior, unless they are sums."""
    if not posterior.data.individual:
        raise ValueError(
            "figures and reports show single observations, and this posterior is that of a "
            "summary or stream: draw what it predicts, or fit to the observations"
        )
    return posterior.data


def _about(count: int, looked_at: int) -> str:
    of = f" of {count:,}" if looked_at < count else ""
    each = "observations, each compared with its prediction from all the others"
    alone = "observation, compared with its prediction without it"
    return (
        f"{looked_at:,}{of} {each if looked_at > 1 else alone}; hyperparameters were learned from "
        "all of them."
    )


def coverage_name(level: float) -> str:
    """What the share of observations inside the interval of a level is called among the scores."""
    return f"coverage of the {100 * level:.4g} % interval"


def _scores(
    predicted: Marginals,
    y: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    levels: tuple[float, ...],
) -> dict[str, float]:
    mean = np.asarray(predicted.moments()[0])
    scores = {
        "log density per observation": _mean(np.asarray(predicted.log_density(y))),
        "CRPS": _mean(np.asarray(predicted.crps(y))),
        "RMSE": float(np.sqrt(_mean((y - mean) ** 2))),
    }
    for level in levels:
        # y lies between the two quantiles: F(y) reaches the lower, P(Y < y) does not the upper
        inside = (upper >= (1 - level) / 2) & (lower <= (1 + level) / 2)
        scores[coverage_name(level)] = _mean(inside)
    return scores


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def _autocorrelation(rows: np.ndarray) -> tuple[np.ndarray, int]:
    """At lags 1, 2, …, of several runs together, about their common mean."""
    length = rows.shape[1]
    lags = min(40, length // 2)
    away = rows - rows.mean()
    power = np.mean(away**2)
    if lags < 1 or not power > 0:
        return np.zeros(0), 0
    correlations = [np.mean(away[:, lag:] * away[:, :-lag]) / power for lag in range(1, lags + 1)]
    return np.array(correlations), rows.shape[0] * (length - 1)


def user_units(relative: np.ndarray, origin: int | float, observed: int = 0) -> np.ndarray:
    """Inputs as the user has them. `observed` of them were integers if the origin is one.

    Further from the origin than 64-bit integers can be told apart by differences, they are floats.
    """
    if observed and isinstance(origin, int) and np.all(np.abs(relative) < 2.0**62):
        return np.rint(relative).astype(np.int64) + np.int64(origin)
    return relative + float(origin)


def extras_at(posterior: Any, which: np.ndarray) -> dict[str, np.ndarray]:
    """What the likelihood reads beside y, of these observations, as arguments by name."""
    name = posterior.model.likelihood.extra
    return {} if name is None else {name: np.asarray(posterior.data.extra)[which]}
