"""How far apart places are: in the plane or in space, and on the Earth."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

EARTH = 6371.0088  # the mean radius of the Earth, in kilometres

METRICS = ("euclidean", "chordal", "great-circle")
Places = Float[Array, "places coordinates"]


def distances(places: Any, others: Any, metric: str = "euclidean") -> Float[Array, "n m"]:
    """The distance between every place and every other.

    "euclidean": in the unit of the coordinates. The other two take longitude and latitude in
    degrees and give kilometres: "chordal" straight through the Earth, "great-circle" along its
    surface.

    >>> import stategp as sg
    >>> berlin, lisbon = [[13.405, 52.52]], [[-9.139, 38.722]]
    >>> round(float(sg.spatial.distances(berlin, lisbon, "great-circle")[0, 0]))
    2312
    """
    if metric not in METRICS:
        raise ValueError(f"metric must be one of {', '.join(METRICS)}, got {metric!r}")
    left, right = (jnp.asarray(p, dtype=float) for p in (places, others))
    if metric == "euclidean":
        return safe_root(jnp.sum((left[:, None] - right[None]) ** 2, axis=-1))
    square = haversine(left, right)
    half_chord = safe_root(square)
    if metric == "chordal":
        return 2 * EARTH * half_chord
    # An arcsine would have no derivative at the place on the other side of the Earth.
    return 2 * EARTH * jnp.arctan2(half_chord, safe_root(1 - square))


def haversine(left: Any, right: Any) -> Float[Array, "n m"]:
    """The square of half the chord, in units of the radius; accurate for places close together."""
    (lon, lat), (other_lon, other_lat) = (jnp.deg2rad(p).T for p in (left, right))
    north = jnp.sin((lat[:, None] - other_lat[None]) / 2) ** 2
    east = jnp.sin((lon[:, None] - other_lon[None]) / 2) ** 2
    return north + jnp.cos(lat)[:, None] * jnp.cos(other_lat)[None] * east


def safe_root(square: Float[Array, "n m"]) -> Float[Array, "n m"]:
    """The square root, with derivative zero (not infinite) at zero."""
    positive = square > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1.0)), 0.0)


def check_coordinates(name: str, places: np.ndarray, metric: str) -> None:
    """Refuse what are no longitudes and latitudes."""
    if metric == "euclidean":
        return
    if places.shape[1] != 2:
        raise ValueError(
            f"{name} must have two coordinates for metric={metric!r}, longitude and latitude in "
            f"degrees, got {places.shape[1]}"
        )
    for column, (what, most) in enumerate((("longitude", 360.0), ("latitude", 90.0))):
        wrong = np.abs(places[:, column]) > most
        if wrong.any():
            at = int(np.argmax(wrong))
            raise ValueError(
                f"{name} must have longitude first and latitude second, in degrees: the {what} of "
                f"row {at} is {places[at, column]:g}, which is beyond {most:g}"
            )
