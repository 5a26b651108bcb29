"""What maps of a field over space and time show."""

from typing import Any, NamedTuple

import numpy as np

from stategp._arguments import whole_number
from stategp._posteriors import SpaceTimePosterior, StackedPosterior, marginals_at

_PANELS = 6  # maps, unless times are given
_FRAMES, _FINENESS = 24, 48  # of a report: times to look through, points along a side
_MARGIN = 0.03  # around the places of the data, as a share of their extent
Axis2 = tuple[str, np.ndarray]


class Layer(NamedTuple):
    """One quantity on a grid: a map for each time, or one of time against place."""

    key: str  # among the layers: "mean", "sd", "class0", …
    name: str
    values: np.ndarray  # map, up, across
    ends: tuple[float, float] | None = None  # of its scale; None: its lowest and highest value

    @property
    def uncertainty(self) -> bool:
        """Whether large values say that little is known."""
        return self.key == "sd"


class Maps(NamedTuple):
    """What is shown on a grid: mean and standard deviation, or the probability of each class."""

    across: Axis2  # the name and the values of the horizontal axis
    up: Axis2
    titles: tuple[str, ...]
    layers: tuple[Layer, ...]
    dots: tuple[np.ndarray, ...]  # where there were observations, for each map


def maps_of(
    posterior: Any,
    times: Any = None,
    *,
    of: str | None = None,
    resolution: Any = 60,
) -> Maps:
    """Maps over the extent of the data.

    Fields over a plane or the Earth have a map for each of the times, by default six between the
    first and the last. A field over a line has one map, of time against place, between the first
    and the last of the times. `of="y"` shows what would be observed instead of f. Of fields
    that one likelihood reads there are maps of what would be observed only: the probability of each
    class, or mean and standard deviation.

    >>> import numpy as np, stategp as sg
    >>> times, places = np.arange(10.0), [[0.0], [1.0], [2.0]]
    >>> model = sg.SpaceTimeGP(sg.spatial.Matern32(), sg.kernels.Matern32())
    >>> posterior = sg.condition(model, (times, places), np.outer(np.sin(times), [1, 2, 3]))
    >>> [(layer.name, layer.values.shape) for layer in maps_of(posterior, resolution=20).layers]
    [('mean of f', (1, 20, 20)), ('standard deviation of f', (1, 20, 20))]
    """
    stacked = isinstance(posterior, StackedPosterior)
    field = posterior.parts[0] if stacked else posterior
    if not isinstance(field, SpaceTimePosterior):
        raise ValueError(
            "maps are for the posterior of an sg.SpaceTimeGP, or of an sg.StackedGP of them, got a "
            f"{type(posterior).__name__}; sg.plots.plot draws others"
        )
    of = of or ("y" if stacked else "f")
    if of not in ("f", "y"):
        raise ValueError(f"of must be 'f' (the function) or 'y' (observations), got {of!r}")
    if stacked and of == "f":
        raise ValueError(
            "each function of an sg.StackedGP has maps of its own: posterior.parts[0].plot_maps()"
        )
    size = whole_number("resolution", resolution, least=2)
    dimensions = field.inducing_places.shape[1]
    if dimensions > 2:
        raise ValueError(
            "maps are for places with one or two coordinates; posterior.map(times, places) gives "
            "the numbers for any others"
        )
    wanted = _times(field, times, size if dimensions == 1 else _PANELS, dimensions == 1)
    names = field.model.names(dimensions)
    places = np.asarray(field.places)
    if dimensions == 1:
        line = _between(places[:, 0], size)
        layers = tuple(
            layer._replace(values=layer.values.T[None])
            for layer in _layers(posterior, wanted, line[:, None], of)
        )
        when = np.asarray(field.data.x) + field.data.origin
        seen = np.column_stack([when, places[:, 0]])
        return Maps((names[0], wanted), (names[1], line), ("",), layers, (seen,))
    across, up = (_between(column, size) for column in places.T)
    grid = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)
    layers = tuple(
        layer._replace(values=layer.values.reshape(-1, size, size))
        for layer in _layers(posterior, wanted, grid, of)
    )
    titles = tuple(f"{names[0]} {time:.6g}" for time in wanted)
    dots = tuple(np.unique(places, axis=0) for _ in wanted)
    return Maps((names[1], across), (names[2], up), titles, layers, dots)


def report_maps(posterior: Any, times: Any = None) -> Maps | None:
    """Maps to look through one after the other; None for places with three coordinates."""
    field = posterior.parts[0] if isinstance(posterior, StackedPosterior) else posterior
    if field.inducing_places.shape[1] > 2:
        return None
    if times is None:
        times = _times(field, None, _FRAMES, False)
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


def _layers(posterior: Any, times: np.ndarray, places: np.ndarray, of: str) -> tuple[Layer, ...]:
    """Values with a row for each time and a column for each place."""
    if of == "f":
        seen = posterior.map(times, places)
        return _two_moments(seen.mean, seen.sd, of)
    rows = np.repeat(times, len(places)), np.tile(places, (len(times), 1))
    there = marginals_at(posterior, rows)
    likelihood, shape = posterior.model.likelihood, (len(times), len(places))
    if likelihood.latents > 1 and likelihood.outcomes is not None:
        return tuple(
            Layer(f"class{number}", f"probability of {number}", share.reshape(shape), (0.0, 1.0))
            for number, share in enumerate(np.asarray(there.probabilities()).T)
        )
    mean, variance = (np.asarray(part).reshape(shape) for part in there.moments())
    return _two_moments(mean, np.sqrt(variance), of)


def _two_moments(mean: np.ndarray, sd: np.ndarray, of: str) -> tuple[Layer, ...]:
    return Layer("mean", f"mean of {of}", mean), Layer("sd", f"standard deviation of {of}", sd)
