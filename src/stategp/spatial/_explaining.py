"""Inducing places, one after the other, until they explain a share of the variance."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from stategp._arguments import whole_number
from stategp.spatial._kernels import Kernel
from stategp.spatial._metrics import check_coordinates
from stategp.spatial._places import as_places

_NOTHING = 1e-10  # of its variance is left at a place that those before determine


def places_explaining(
    kernel: Kernel, places: Any, share: Any = 0.99, *, least: Any = 1, most: Any = None
) -> np.ndarray:
    """Places among the given ones that explain a share of the variance at all of them.

    Each is the one whose field is least certain given those before it (Cholesky with pivots), until
    the variance that is left is at most 1 − share on average over the rows of `places`. There are
    at least `least` (if each adds something) and at most `most`.

    >>> import stategp as sg
    >>> kernel = sg.spatial.Matern32(lengthscale=5.0)
    >>> sg.spatial.places_explaining(kernel, [[0.0], [0.1], [5.0], [5.1]], 0.98)
    array([[0. ],
           [5.1]])
    """
    wanted = checked_share("share", share)
    given = as_places("places", places)
    check_coordinates("places", given, kernel.metric)
    distinct, counts = np.unique(given, axis=0, return_counts=True)
    last = len(distinct) if most is None else whole_number("most", most, least=1)
    first = whole_number("least", least, least=1)
    on_device = jnp.asarray(distinct)
    left, columns = np.ones(len(distinct)), np.zeros((0, len(distinct)))
    chosen: list[int] = []
    while len(chosen) < min(last, len(distinct)):
        at = int(np.argmax(left))
        if left[at] <= _NOTHING:
            break
        own = np.asarray(kernel(on_device, on_device[at : at + 1]))[:, 0]
        column = (own - columns[:, at] @ columns) / np.sqrt(left[at])
        columns = np.vstack([columns, column])
        left = np.maximum(left - column**2, 0.0)
        left[at] = 0.0
        chosen.append(at)
        if len(chosen) >= first and np.average(left, weights=counts) <= 1 - wanted:
            break
    return distinct[chosen]


def checked_share(name: str, share: Any) -> float:
    """A number between 0 and 1."""
    number = isinstance(share, float | int | np.number) and not isinstance(share, bool)
    if not number or not 0 < float(share) < 1:
        raise ValueError(f"{name} must lie between 0 and 1, such as 0.99; got {share!r}")
    return float(share)
