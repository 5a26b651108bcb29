"""Starting values of models over space and time, taken from the data."""

from typing import Any

import equinox as eqx
import numpy as np

from stategp._data import Observations
from stategp._inference._limits import Limits, search_limits
from stategp._inference._starting_values import _Guesses, _scales, _start
from stategp._models import SpaceTimeGP
from stategp._runtime import on_device
from stategp.parameters import Parameter, with_value
from stategp.spatial import distances

_SHARE = 0.2  # of the extent of the places, a lengthscale to start from


def starting_space_time(model: SpaceTimeGP, data: Observations, places: np.ndarray) -> SpaceTimeGP:
    """The model with every hyperparameter that was not given set from the data."""
    guess = _guess(model, data)
    parts = [_start(part, guess) for part in (model.time, model.noise, model.mean)]
    space = model.space
    if not space.lengthscale.given:
        extent = extent_of_places(model, places)
        value = np.broadcast_to(_SHARE * extent, np.shape(space.lengthscale.value))
        moved = with_value(space.lengthscale, on_device(np.array(value)))
        space = eqx.tree_at(lambda kernel: kernel.lengthscale, space, moved)
    opened: SpaceTimeGP = eqx.tree_at(
        lambda m: (m.space, m.time, m.noise, m.mean), model, (space, *parts)
    )
    return opened


def space_time_scales(model: SpaceTimeGP, data: Observations, places: np.ndarray) -> np.ndarray:
    """The natural size of a step in each coordinate of the hyperparameter vector."""
    guess = _guess(model, data)
    parts = model.space, model.time, model.noise, model.mean
    return np.append(_scales([(part, guess) for part in parts]), _apart(model, places))


def space_time_limits(model: SpaceTimeGP, y: np.ndarray, places: np.ndarray) -> Limits:
    """As of other models; learned places stay among those of the data.

    On the Earth they stay between the poles, and may go around it.
    """
    limits = search_limits(model, y)
    where = _learned_places(model)
    if where is None:
        return limits
    ends = [np.minimum(places.min(0), where.min(0)), np.maximum(places.max(0), where.max(0))]
    if model.space.metric != "euclidean":
        ends = [np.array([-np.inf, -90.0]), np.array([np.inf, 90.0])]
    cut = len(limits.lowest) - where.size
    sides = zip(limits, ends, strict=True)
    return Limits(*(np.append(side[:cut], np.tile(end, len(where))) for side, end in sides))


def _apart(model: SpaceTimeGP, places: np.ndarray) -> np.ndarray:
    """For each coordinate of each learned place, how far such places are apart on average."""
    where = _learned_places(model)
    if where is None:
        return np.zeros(0)
    spans = np.ptp(places, axis=0)
    spans = np.where(spans > 0, spans, spans.max() or 1.0)
    return np.tile(spans / len(where) ** (1 / places.shape[1]), len(where))


def _learned_places(model: SpaceTimeGP) -> np.ndarray | None:
    """Inducing places that are in the vector of hyperparameters, at its end."""
    anchors = model.anchors
    if not isinstance(anchors, Parameter) or not anchors.learned:
        return None
    return np.asarray(anchors.value)


def _guess(model: SpaceTimeGP, data: Observations) -> Any:
    f = model.likelihood.guess(np.asarray(data.y), np.asarray(data.extra))
    robust = not model.likelihood.conjugate
    guess = _Guesses(np.asarray(data.x), np.asarray(f), float(data.origin), robust, 1.0)
    guess.vague = guess.variance
    return guess


def extent_of_places(model: SpaceTimeGP, places: np.ndarray) -> np.ndarray:
    """How far the places reach, in each dimension if each has a lengthscale."""
    if model.space.metric == "euclidean":
        spans = np.ptp(places, axis=0)
        spans = np.where(spans > 0, spans, spans.max() or 1.0)
        return spans if np.ndim(model.space.lengthscale.value) else np.asarray(spans.max())
    return np.asarray(np.max(distances(places, places[:1], "chordal")) or 1.0)
