"""Kernels over space: correlations between places in one to three dimensions, or on the Earth.

They are for `sg.SpaceTimeGP`, whose kernel is a product of one over space and one over time. The
variance is that of the kernel over time: a kernel over space is 1 at distance zero.
"""

from stategp.spatial._conditional import Anchors, principal_modes
from stategp.spatial._explaining import checked_share, places_explaining
from stategp.spatial._kernels import Kernel, Matern12, Matern32, Matern52, SquaredExponential
from stategp.spatial._metrics import EARTH, check_coordinates, distances
from stategp.spatial._places import as_places, choose_places

__all__ = [
    "EARTH",
    "Anchors",
    "Kernel",
    "Matern12",
    "Matern32",
    "Matern52",
    "SquaredExponential",
    "as_places",
    "check_coordinates",
    "checked_share",
    "choose_places",
    "distances",
    "places_explaining",
    "principal_modes",
]
