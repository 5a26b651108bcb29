"""How well a model would have forecast: from each of the latest observations, the next ones.

With the hyperparameters that it learned, a model goes through the observations as a Kalman filter
does. What it expects of those that come next needs no further fit.
"""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from stategp._forecasting._candidates import Candidate
from stategp._forecasting._filtering import filtered
from stategp._forecasting._learning import Learned, Series, noise_of
from stategp._forecasting._regression_posterior import RegressionPosterior
from stategp._models import bare
from stategp._runtime import on_device, pad_last, padded_size, quick_jit
from stategp.chain import step_transitions
from stategp.kernels import Kernel

AHEAD = 6  # observations
_ORIGINS = 100  # at most, and no more than half of the observations
_FEWEST = 8


def missed_by(learned: Learned, series: Series) -> float:
    """By how much the forecasts of a model miss the next observations of y, on average.

    NaN where that is not known: too few observations, or a likelihood of their own.
    """
    if not series.beside.normal:
        return math.nan
    posterior, effects = learned.posterior, np.zeros(len(series.latest))
    if isinstance(posterior, RegressionPosterior):
        columns = posterior.design.matrix(series.x[series.latest])
        effects = columns @ np.asarray(posterior.effect_mean)
    kernel, noise = posterior.model.kernels[0], float(noise_of(posterior))
    return mean_miss(kernel, noise, learned.candidate, series, effects)


def mean_miss(
    kernel: Kernel, noise: float, candidate: Candidate, series: Series, effects: Any = 0.0
) -> float:
    """The same for a kernel and a noise that were learned, and effects at the latest observations.

    The observations that teach hyperparameters are gone through, and outliers do not count.
    """
    rows, scale = series.latest, candidate.scale
    count = min(_ORIGINS, len(rows) // 2)
    known = candidate.fitted[rows] + effects
    values = scale.forward(series.taken(scale))[rows] - known
    precision = (series.counts * series.shares)[rows] / noise
    expected = foreseen(kernel, series.x[rows], values, precision)
    there = np.isfinite(expected) & ~series.doubted[rows] & (precision > 0)
    for ahead in range(1, AHEAD + 1):
        there[ahead - 1, : len(rows) - 1 - count + ahead] = False
    misses = np.abs(scale.backward(expected + known) - series.y[rows])[there]
    if count < _FEWEST or len(misses) == 0:
        return math.nan
    return float(np.mean(misses))


def foreseen(
    kernel: Kernel, x: np.ndarray, values: np.ndarray, precision: np.ndarray
) -> np.ndarray:
    """What is expected of f at each observation, given all up to some observations before it.

    A row for every number of observations, from one to `AHEAD`; NaN for the first ones, which have
    none so long before. x is in order.
    """
    more = padded_size(len(x)) - len(x)
    steps = np.diff(pad_last(x, len(x) + more))
    columns = (np.pad(part, (0, more)) for part in (values, precision))
    found = np.array(_foreseen(bare(kernel), *on_device((steps, *columns))))[:, : len(x)]
    for ahead in range(1, AHEAD + 1):
        found[ahead - 1, :ahead] = np.nan
    return found


@quick_jit(rows="values")
def _foreseen(
    kernel: Kernel,
    steps: Float[Array, " steps"],
    values: Float[Array, " states"],
    precision: Float[Array, " states"],
) -> Float[Array, "ahead states"]:
    chain, h = step_transitions(kernel, steps), kernel.emission()
    means = filtered(kernel, chain, values[:, None], precision)[0][:, :, 0]
    expected = []
    for ahead in range(1, AHEAD + 1):
        means = jnp.einsum("nij,nj->ni", chain.A[ahead:], means[:-1])
        expected.append(jnp.concatenate([jnp.zeros(ahead), means @ h]))
    return jnp.stack(expected)
