"""What maps of a field over space and time show."""

from typing import Any, NamedTuple

import numpy as np

from stategp._arguments import whole_number
from stategp._posteriors import Points, SpaceTimePosterior, marginals_at

_PANELS = 6  # maps, unless times are given
_FRAMES, _FINENESS = 24, 48  # of a report: times to look through, points along a side
_MARGIN = 0.03  # around the places of the data, as a share of their extent
Axis2 = tuple[str, np.ndarray]


class Maps(NamedTuple):
    """Mean and standard deviation on a grid: one for each time, or one of time against place."""

    across: Axis2  # the name and the values of the horizontal axis
    up: Axis2
    titles: tuple[str, ...]
    mean: np.ndarray  # map, up, across
    sd: np.ndarray
    dots: tuple[np.ndarray, ...]  # where there were observations, for each map
    what: str


def maps_of(
    posterior: Any,
    times: Any = None,
    *,
    of: str = "f",
    resolution: Any = 60,
) -> Maps:
    """Maps over the extent of the data.

    Fields over a plane or the Earth have a map for each of the times, by default six between the
    first and the last. A field over a line has one map, of time against place, between the first
    and the last of the times. `of="y"` shows what would be observed instead of f.

    >>> import numpy as np, stategp as sg
    >>> times, places = np.arange(10.0), [[0.0], [1.0], [2.0]]
    >>> model = sg.SpaceTimeGP(sg.spatial.Matern32(), sg.kernels.Matern32())
    >>> posterior = sg.condition(model, (times, places), np.outer(np.sin(times), [1, 2, 3]))
    >>> maps_of(posterior, resolution=20).mean.shape
    (1, 20, 20)
    """
    if not isinstance(posterior, SpaceTimePosterior):
        raise ValueError(
            "maps are for the posterior of an sg.SpaceTimeGP, got a "
            f"{type(posterior).__name__}; sg.plots.plot draws others"
        )
    if of not in ("f", "y"):
        raise ValueError(f"of must be 'f' (the function) or 'y' (observations), got {of!r}")
    size = whole_number("resolution", resolution, least=2)
    dimensions = posterior.inducing_places.shape[1]
    if dimensions > 2:
        raise ValueError(
            "maps are for places with one or two coordinates; posterior.map(times, places) gives "
            "the numbers for any others"
        )
    wanted = _times(posterior, times, size if dimensions == 1 else _PANELS, dimensions == 1)
    names = posterior.model.names(dimensions)
    places = np.asarray(posterior.places)
    if dimensions == 1:
        line = _between(places[:, 0], size)
        mean, sd = _values(posterior, wanted, line[:, None], of)
        when = np.asarray(posterior.data.x) + posterior.data.origin
        seen = np.column_stack([when, places[:, 0]])
        axes = (names[0], wanted), (names[1], line)
        return Maps(*axes, ("",), mean.T[None], sd.T[None], (seen,), of)
    across, up = (_between(column, size) for column in places.T)
    grid = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)
    mean, sd = (v.reshape(-1, size, size) for v in _values(posterior, wanted, grid, of))
    titles = tuple(f"{names[0]} {time:.6g}" for time in wanted)
    dots = tuple(np.unique(places, axis=0) for _ in wanted)
    return Maps((names[1], across), (names[2], up), titles, mean, sd, dots, of)


def report_maps(posterior: SpaceTimePosterior, times: Any = None) -> Maps | None:
    """Maps to look through one after the other; None for places with three coordinates."""
    if posterior.inducing_places.shape[1] > 2:
        return None
    if times is None:
        times = _times(posterior, None, _FRAMES, False)
    return maps_of(posterior, times, resolution=_FINENESS)


def _times(posterior: Any, times: Any, count: int, filled: bool) -> np.ndarray:
    x = np.asarray(posterior.data.x) + posterior.data.origin
    if times is None:
        return np.linspace(x[0], x[-1], count)
    given = np.atleast_1d(np.asarray(times, dtype=float))
    if given.ndim != 1 or len(given) == 0 or not np.all(np.isfinite(given)):
        raise ValueError(f"times must be one or more numbers, got {times!r}")
    return np.linspace(given.min(), given.max(), count) if filled and len(given) > 1 else given


def _between(column: np.ndarray, count: int) -> np.ndarray:
    room = _MARGIN * (np.ptp(column) or 1.0)
    return np.linspace(column.min() - room, column.max() + room, count)


def _values(
    posterior: Any, times: np.ndarray, places: np.ndarray, of: str
) -> tuple[np.ndarray, np.ndarray]:
    """A row for each time and a column for each place."""
    if of == "f":
        seen = posterior.map(times, places)
        return seen.mean, seen.sd
    rows = np.repeat(times, len(places)), np.tile(places, (len(times), 1))
    moments: tuple[Points, Points] = marginals_at(posterior, rows).moments()
    mean, variance = (np.asarray(v).reshape(len(times), -1) for v in moments)
    return mean, np.sqrt(variance)
