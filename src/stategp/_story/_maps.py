"""What maps of a field over space and time show."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from stategp._arguments import as_whole, whole_number
from stategp._posteriors import SpaceTimePosterior, StackedPosterior, marginals_at

_PANELS = 6  # maps, unless times are given
_FRAMES, _FINENESS = 24, 48  # of a report: times to look through, points along a side
_NEAR = 0.1  # of the extent: places that far from a slice are shown on it
_WIDE = 3.0  # from this ratio of the highest to the lowest uncertainty on, its scale is a log one
_DECADES = 1e-3  # of the highest, where the scale of the uncertainty ends
_FLAT = 0.2  # flatter maps (or narrower ones) are stretched
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

    @property
    def range(self) -> tuple[float, float]:
        """The ends of the scale of colours."""
        if self.ends is not None:
            return self.ends
        low, high = float(np.min(self.values)), float(np.max(self.values))
        if self.log:
            return max(low, _DECADES * high), high
        room = 0.5 * (abs(low) or 1.0) if high - low <= 1e-12 * max(abs(low), abs(high)) else 0.0
        return low - room, high + room

    @property
    def log(self) -> bool:
        """Whether the colours follow the logarithm.

        Uncertainties at the data and far from them are then both told apart.
        """
        low, high = float(np.min(self.values)), float(np.max(self.values))
        return self.uncertainty and high > _WIDE * max(low, 0.0)

    def share_of(self, values: Any) -> np.ndarray:
        """Where values lie between the ends of the scale, from 0 to 1."""
        (low, high), values = self.range, np.asarray(values)
        if self.log:
            low, high, values = np.log(low), np.log(high), np.log(np.maximum(values, low))
        shares: np.ndarray = np.asarray(np.clip((values - low) / (high - low), 0, 1))
        return shares

    def log_ticks(self) -> list[float]:
        """Round values of a logarithmic scale: 1, 2 and 5 in every decade, more if it is short."""
        low, high = self.range
        powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
        factors = (1.0, 2.0, 5.0) if high > 10 * low else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
        values = [float(f"{factor}e{power}") for power in powers for factor in factors]
        return [value for value in values if low <= value <= high]


class Maps(NamedTuple):
    """What is shown on a grid: mean and standard deviation, or the probability of each class."""

    across: Axis2  # the name and the values of the horizontal axis
    up: Axis2
    titles: tuple[str, ...]
    layers: tuple[Layer, ...]
    dots: tuple[np.ndarray, ...]  # where there were observations, for each map
    along_time: bool = False  # whether time runs across
    aspect: float | None = None  # the length of a unit upwards, in those across; None: unknown

    @property
    def ratio(self) -> float | None:
        """The height of a map divided by its width, where a unit has one length; None: any."""
        if self.aspect is None:
            return None
        ratio = self.aspect * float(np.ptp(self.up[1])) / float(np.ptp(self.across[1]))
        return ratio if _FLAT <= ratio <= 1 / _FLAT else None


def maps_of(
    posterior: Any,
    times: Any = None,
    *,
    of: str | None = None,
    at: Any = None,
    resolution: Any = 60,
) -> Maps:
    """Maps over the extent of the data.

    Fields over a plane or the Earth have a map for each of the times, by default six between the
    first and the last. A field over a line has one map, of time against place, between the first
    and the last of the times. Of places with more coordinates there are maps of a slice,
    `at={"z": 1.0}`, with the name or the number of each coordinate that is held; by default the
    third, at its median. `of="y"` shows what would be observed instead of f. Of fields
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
    places = np.asarray(field.places)
    time, *names = field.model.names(places.shape[1])
    held = _held(names, at, places)
    free = [number for number in range(len(names)) if number not in held]
    wanted = _times(field, times, size if len(free) == 1 else _PANELS, len(free) == 1)
    where = "".join(f", {names[number]} {value:.4g}" for number, value in held.items())
    near = _near(places, held)
    if len(free) == 1:
        line = _between(places[:, free[0]], size)
        layers = tuple(
            layer._replace(values=layer.values.T[None])
            for layer in _layers(posterior, wanted, _filled(line[:, None], free, held), of)
        )
        when = np.asarray(field.data.x) + field.data.origin
        seen = np.column_stack([when, places[:, free[0]]])[near]
        axes = (time, wanted), (names[free[0]], line)
        return Maps(*axes, (where.removeprefix(", "),), layers, (seen,), along_time=True)
    across, up = (_between(places[:, number], size) for number in free)
    grid = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)
    layers = tuple(
        layer._replace(values=layer.values.reshape(-1, size, size))
        for layer in _layers(posterior, wanted, _filled(grid, free, held), of)
    )
    titles = tuple(f"{time} {value:.6g}{where}" for value in wanted)
    dots = tuple(np.unique(places[near][:, free], axis=0) for _ in wanted)
    axes = (names[free[0]], across), (names[free[1]], up)
    return Maps(*axes, titles, layers, dots, aspect=_aspect(field.model.space, up))


def report_maps(posterior: Any, times: Any = None, at: Any = None) -> Maps:
    """Maps to look through one after the other."""
    field = posterior.parts[0] if isinstance(posterior, StackedPosterior) else posterior
    if times is None:
        times = _times(field, None, _FRAMES, False)
    return maps_of(posterior, times, at=at, resolution=_FINENESS)


def _held(names: list[str], at: Any, places: np.ndarray) -> dict[int, float]:
    """The coordinates that are held, by number, and where."""
    if at is None:
        return {2: float(np.median(places[:, 2]))} if len(names) > 2 else {}
    held: dict[int, float] = {}
    for which, value in at.items() if isinstance(at, Mapping) else [(at, None)]:
        number = names.index(which) if which in names else as_whole(which)
        if value is None or number is None or not 0 <= number < len(names):
            raise ValueError(
                "at must say which coordinates are held and where, by their names or numbers, such "
                f"as at={{{names[-1]!r}: 1.0}}; the coordinates are {', '.join(names)}; got {at!r}"
            )
        if not np.ndim(value) == 0 or not np.isfinite(float(value)):
            raise ValueError(f"at[{which!r}] must be a finite number, got {value!r}")
        held[number] = float(value)
    if not 1 <= len(names) - len(held) <= 2:
        raise ValueError(
            f"maps have one or two coordinates beside time: of {', '.join(names)}, at holds "
            f"{len(held)}"
        )
    return held


def _filled(free: np.ndarray, which: list[int], held: dict[int, float]) -> np.ndarray:
    """Places from their free coordinates and those that are held."""
    places = np.empty((len(free), len(which) + len(held)))
    places[:, which] = free
    for number, value in held.items():
        places[:, number] = value
    return places


def _near(places: np.ndarray, held: dict[int, float]) -> np.ndarray:
    """Which places are so near to the slice that they are shown on it."""
    near = np.ones(len(places), dtype=bool)
    for number, value in held.items():
        column = places[:, number]
        near &= np.abs(column - value) <= _NEAR * np.ptp(column)
    return near


def _aspect(space: Any, up: np.ndarray) -> float | None:
    """The length of a unit upwards in those across, where the kernel says that they are alike."""
    if space.metric != "euclidean":
        return float(1 / np.cos(np.radians(np.clip(np.mean(up[[0, -1]]), -80, 80))))
    return 1.0 if np.size(space.lengthscale.value) == 1 else None


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
