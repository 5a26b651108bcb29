"""Places as users give them, and the choice of some that stand for all."""

from typing import Any

import numpy as np

from stategp._arguments import whole_number
from stategp.spatial._metrics import check_coordinates

_ROUNDS = 50  # of k-means at most: it ends when nothing moves


def as_places(name: str, places: Any) -> np.ndarray:
    """Places as an array with a row for each, checked; one-dimensional ones may be a plain list."""
    try:
        array = np.asarray(places, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must hold numbers, a row for each place") from None
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or not 1 <= array.shape[1] <= 3:
        raise ValueError(
            f"{name} must have a row for each place and one to three coordinates, got shape "
            f"{array.shape}"
        )
    bad = ~np.isfinite(array).all(axis=1)
    if bad.any():
        at = int(np.argmax(bad))
        raise ValueError(f"{name} must be finite: row {at} is {array[at].tolist()}")
    return array


def choose_places(
    places: Any, number: int, *, seed: int = 0, metric: str = "euclidean"
) -> np.ndarray:
    """As many places as asked for, spread as the given ones are: the centres of k-means.

    The first centres are drawn far from each other (k-means++), by the seed. If there are no more
    distinct places than that, these are returned. The order is such that each place is far from
    those before it. For longitudes and latitudes give the metric of the kernel.

    >>> import stategp as sg
    >>> sg.spatial.choose_places([[0.0], [0.1], [5.0], [5.1]], 2)
    array([[0.05],
           [5.05]])
    """
    count = whole_number("number", number, least=1)
    given = as_places("places", places)
    check_coordinates("places", given, metric)
    distinct, weights = np.unique(given, axis=0, return_counts=True)
    if len(distinct) <= count:
        return _in_order(distinct)
    points = distinct if metric == "euclidean" else _on_sphere(distinct)
    centres = _k_means(points, weights, count, np.random.default_rng(seed))
    return _in_order(centres if metric == "euclidean" else _from_sphere(centres))


def _k_means(
    points: np.ndarray, weights: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    centres = _first_centres(points, weights, count, rng)
    for _ in range(_ROUNDS):
        nearest = np.argmin(_squares(points, centres), axis=1)
        mass = np.bincount(nearest, weights, count)[:, None]
        sums = np.stack([np.bincount(nearest, weights * c, count) for c in points.T], axis=1)
        moved = np.where(mass > 0, sums / np.maximum(mass, 1), centres)
        if np.array_equal(moved, centres):
            break
        centres = moved
    return np.unique(centres, axis=0)


def _on_sphere(places: np.ndarray) -> np.ndarray:
    """Longitude and latitude as points on the unit sphere."""
    lon, lat = np.deg2rad(places).T
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=1)


def _from_sphere(points: np.ndarray) -> np.ndarray:
    x, y, z = points.T
    return np.rad2deg(np.stack([np.arctan2(y, x), np.arctan2(z, np.hypot(x, y))], axis=1))


def _in_order(places: np.ndarray) -> np.ndarray:
    """The place nearest to the middle, then always the one farthest from all before it."""
    size = np.where(np.ptp(places, axis=0) > 0, np.ptp(places, axis=0), 1.0)
    scaled = (places - places.mean(axis=0)) / size
    order = [int(np.argmin(np.sum(scaled**2, axis=1)))]
    away = np.sum((scaled - scaled[order[0]]) ** 2, axis=1)
    while len(order) < len(places):
        order.append(int(np.argmax(away)))
        away = np.minimum(away, np.sum((scaled - scaled[order[-1]]) ** 2, axis=1))
    return places[order]


def _first_centres(
    points: np.ndarray, weights: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """k-means++: each next one is drawn in proportion to its squared distance from the others."""
    chosen = [int(rng.choice(len(points), p=weights / weights.sum()))]
    away = np.sum((points - points[chosen[0]]) ** 2, axis=1)
    while len(chosen) < count:
        chances = away * weights
        chosen.append(int(rng.choice(len(points), p=chances / chances.sum())))
        away = np.minimum(away, np.sum((points - points[chosen[-1]]) ** 2, axis=1))
    return points[chosen]


def _squares(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Squared distances, one coordinate at a time."""
    return np.sum(
        [np.subtract.outer(a, b) ** 2 for a, b in zip(points.T, centres.T, strict=True)], axis=0
    )
