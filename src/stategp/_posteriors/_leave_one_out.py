"""f as all observations but one have it: what that one added to q is taken off again.

An observation of weight w at x adds w times its site to q, a factor in what the inducing states
say about f(x). That part of f(x) loses the site; what the states leave open (the residual) stays.
"""

from typing import Any

import numpy as np
from jaxtyping import Array, Float

from stategp._data import Column, Observations
from stategp._posteriors._at_points import Seen
from stategp._posteriors._pointwise import per_point
from stategp._runtime import on_device
from stategp.likelihoods import Likelihood

Latent = Float[Array, "points *latents"]


def without_each(
    likelihood: Likelihood, seen: Seen, y: np.ndarray, extra: np.ndarray, weights: np.ndarray
) -> tuple[Latent, Latent]:
    """Mean and variance of f at every observation, without it; those that are NaN leave q as is.

    `seen` is f there, with it.
    """
    missing = np.isnan(y)
    first = np.argmin(missing)  # what is missing must not disturb the others
    y, extra = (np.where(missing, column[first], column) for column in (y, extra))
    mean, spread, residual, prior = seen.mean, seen.spread, seen.residual, seen.prior
    slopes = per_point(likelihood, "expected_slopes", y, mean, seen.variance, extra)
    g, h = map(np.asarray, slopes[1:])
    w = np.where(missing, 0.0, weights)
    w = w if mean.ndim == 1 else w[:, None]
    # Without an observation f is known no better than with it, and no worse than a priori.
    least = np.where(prior > spread, spread / np.where(prior > spread, prior, 1.0), 1.0)
    kept = np.maximum(1 + 2 * w * h * spread, least)
    answer: tuple[Latent, Latent] = on_device(
        (mean - w * g * spread / kept, spread / kept + residual)
    )
    return answer


def as_fitted(
    name: str, column: Column, usual: float, data: Observations, x: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """What observations had of a column of the fit, found by x (from the origin) and y.

    `usual` is the value that means nothing was given; it is also that of missing observations.
    """
    if not data.individual:
        raise ValueError(
            f"this posterior is that of a summary or stream, without the {name} of each "
            f"observation: give {name}, or fit to the observations themselves"
        )
    values = np.asarray(column)
    if np.all(values == usual):
        return np.full(len(y), usual)
    seen = ~np.isnan(y)
    looked_up = np.full(len(y), usual)
    looked_up[seen] = values[_rows_in_fit(name, data, x, y, np.flatnonzero(seen))]
    return looked_up


def _rows_in_fit(
    name: str, data: Observations, x: np.ndarray, y: np.ndarray, asked: np.ndarray
) -> np.ndarray:
    """Which rows of the fit the observations are that are asked for; of several alike, in turn."""
    fitted = np.stack([np.asarray(data.x), np.asarray(data.y)], axis=1)
    wanted = np.stack([x[asked], y[asked]], axis=1)
    _, same = np.unique(np.concatenate([fitted, wanted]), axis=0, return_inverse=True)
    groups, wanted_groups = np.split(same.reshape(-1), [len(fitted)])
    order = np.argsort(groups, kind="stable")
    first = np.searchsorted(groups[order], wanted_groups, side="left")
    last = np.searchsorted(groups[order], wanted_groups, side="right")
    position = first + _occurrences(wanted_groups)
    unknown = position >= last
    if unknown.any():
        at = int(asked[np.argmax(unknown)])
        raise ValueError(
            f"the fit had {name}, but observation {at} (y = {y[at]}) was not fitted, or occurs "
            f"more often than in the fit: give {name}="
        )
    return order[position]


def _occurrences(groups: np.ndarray) -> np.ndarray:
    """How often the group of each entry has occurred before it."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    count: Any = np.empty(len(groups), dtype=int)
    count[order] = np.arange(len(groups)) - np.searchsorted(ordered, ordered, side="left")
    return count
