"""What there is to show of a posterior, as plain NumPy arrays: pictures and report draw this."""

import dataclasses
import importlib.metadata
import platform
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from stategp._data import extra_values
from stategp._posteriors import Posterior
from stategp._story._checks import Checks, check, user_units
from stategp._story._grids import forecast_end, forecast_rows, make_grid
from stategp._story._hyperparameters import Hyperparameter, list_hyperparameters
from stategp._story._thinning import find_gaps

Interval = tuple[np.ndarray, np.ndarray]  # lower and upper bounds


@dataclasses.dataclass(frozen=True)
class Curve:
    """The distribution of a new observation along x."""

    x: np.ndarray
    mean: np.ndarray
    intervals: dict[float, Interval]  # by level

    def __getitem__(self, part: slice) -> "Curve":
        bounds = {
            level: (lower[part], upper[part]) for level, (lower, upper) in self.intervals.items()
        }
        return Curve(self.x[part], self.mean[part], bounds)


@dataclasses.dataclass(frozen=True)
class Band:
    """Mean and bounds of a function on the grid of a story."""

    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


@dataclasses.dataclass(frozen=True)
class Story:
    """Everything that pictures and report show. Inputs are numbers, or all of them dates.

    Made by `tell`.
    """

    title: str
    x_label: str
    y_label: str
    x: np.ndarray  # observations, in order
    y: np.ndarray
    end: Any  # of the data: what lies after it is forecast
    curve: Curve  # on the grid
    function: Band | None  # the expected observation, uncertain as the function is (widest level)
    components: dict[str, Band]  # at the widest level
    forecast: Curve  # a few rows after the end of the data, for a table
    inducing: np.ndarray
    gaps: np.ndarray  # a row for each: from, to
    trace: np.ndarray  # objective at each step of the fit
    seconds: np.ndarray  # since its beginning
    outcome: str  # of the fit, in words
    certificate: str
    model: str
    summary: str
    hyperparameters: tuple[Hyperparameter, ...]
    checks: Checks
    scores: dict[str, float]
    notes: tuple[str, ...]  # about the curves, for the reader
    call: str
    versions: dict[str, str]

    @property
    def has_dates(self) -> bool:
        """Whether the inputs are dates."""
        return bool(self.x.dtype.kind == "M")

    @property
    def several_components(self) -> dict[str, Band]:
        """The components if there are several; a single one says what the function says."""
        return self.components if len(self.components) > 1 else {}

    @property
    def two_valued(self) -> bool:
        """Whether observations are 0 or 1, so that intervals of new ones say little."""
        seen = np.concatenate([self.y, *self.curve.intervals[self.widest]])
        return bool(np.all((seen == 0) | (seen == 1)))

    @property
    def widest(self) -> float:
        """The level of the widest interval."""
        return max(self.curve.intervals)


def tell(
    posterior: Any,
    *,
    until: Any = None,
    levels: Iterable[Any] = (0.5, 0.95),
    points: Any = None,
    forecast_at: Any = None,
    to_time: Callable[[np.ndarray], np.ndarray] | None = None,
    extras: Mapping[str, Any] | None = None,
    scores: Mapping[str, Any] | None = None,
    unit: str = "",
    title: str | None = None,
    names: tuple[str, str] = ("x", "y"),
    call: str | None = None,
    seed: int = 0,
) -> Story:
    """What there is to show of a posterior.

    Arguments:
        posterior: of one input, from `sg.fit` or `sg.condition`.
        until: where the forecast ends, in the units of x; no forecast unless given.
        levels: of the intervals.
        points: of the grid; as many as the shortest period and lengthscale ask for unless given,
            12,000 at most.
        forecast_at: inputs of the forecast table, in the units of x.
        to_time: makes dates (datetime64) of inputs; everything is then shown with dates.
        extras: what a new observation has beside y, one number each: {"exposure": 2.0}.
        scores: more scores to show (of held-out data, say), by name.
        unit: of x, for the table of hyperparameters ("days").
        title: of pictures and report; what was fitted unless given.
        names: of x and y.
        call: what made the posterior, shown as it is.
        seed: of the ranks of discrete observations.

    >>> import numpy as np, stategp as sg
    >>> posterior = sg.condition(sg.GP(sg.kernels.Matern32()), np.arange(3), [0.0, 1.0, 0.0])
    >>> tell(posterior, points=50).curve.mean.shape
    (50,)
    """
    if not isinstance(posterior, Posterior):
        raise ValueError(
            "a story is told of the posterior of one input (sg.Posterior), got "
            f"{type(posterior).__name__}"
        )
    shares = _checked_levels(levels)
    data = posterior.data
    relative = np.asarray(data.x)
    end = float(relative[-1])
    until_relative = forecast_end(until, relative, data.origin)
    grid, notes = make_grid(posterior, relative, until_relative, points)
    extra, about = _grid_extras(posterior, extras)

    def show(relative: np.ndarray, observed: bool = False) -> np.ndarray:
        x = user_units(relative, data.origin, len(relative) if observed else 0)
        return _dates(to_time, x) if to_time is not None else x.astype(float)

    checks, found = check(posterior, shares, seed)
    fit = posterior.fit_result
    rows = forecast_rows(relative, until_relative, forecast_at, data.origin)
    everywhere = np.concatenate([grid, rows])  # together: one size to compile
    both = _curve(posterior, everywhere, shares, extra, show(everywhere))
    return Story(
        title=f"Gaussian process of {names[1]}" if title is None else title,
        x_label=names[0],
        y_label=names[1],
        x=show(relative, observed=True),
        y=np.asarray(data.y),
        end=show(np.array([end]), observed=True)[0],
        curve=both[: len(grid)],
        function=_function(posterior, grid, max(shares), extra),
        components=_components(posterior, grid, max(shares)),
        forecast=both[len(grid) :],
        inducing=show(np.asarray(posterior.relative_inducing)),
        gaps=show(find_gaps(relative).ravel(), observed=True).reshape(-1, 2),
        trace=np.array(fit.trace if fit else ()),
        seconds=np.array(fit.seconds if fit else ()),
        outcome=str(fit) if fit else "",
        certificate=str(posterior.certificate) if posterior.certificate else "",
        model=repr(posterior.model),
        summary=repr(posterior),
        hyperparameters=tuple(list_hyperparameters(posterior.model, unit)),
        checks=dataclasses.replace(checks, x=show(checks.x, observed=True)),
        scores={f"{name} (in sample)": value for name, value in found.items()}
        | {name: float(value) for name, value in (scores or {}).items()},
        notes=(*about, *notes),
        call="" if call is None else call,
        versions=_versions(),
    )


def _checked_levels(levels: Iterable[Any]) -> tuple[float, ...]:
    shares = tuple(sorted({float(level) for level in levels}))
    if not shares or not all(0 < level < 1 for level in shares):
        raise ValueError(f"levels must lie between 0 and 1, such as (0.5, 0.95); got {levels!r}")
    return shares


def _grid_extras(
    posterior: Posterior, extras: Mapping[str, Any] | None
) -> tuple[dict[str, Any], list[str]]:
    """Exposure and the like of a new observation: as given, or the median of the data."""
    name = posterior.model.likelihood.extra
    given = dict(extras or {})
    if name is None or name in given:
        return given, []
    values = np.asarray(posterior.data.extra)
    usual = float(np.median(values))
    if np.all(values == usual):
        return {**given, name: usual}, []
    about = (
        f"Intervals are those of an observation with {name} {usual:.4g}, the median of the data."
    )
    return {**given, name: usual}, [about.replace("_", " ")]


def _curve(
    posterior: Posterior,
    relative: np.ndarray,
    levels: tuple[float, ...],
    extra: dict[str, Any],
    shown: np.ndarray,
) -> Curve:
    x = user_units(relative, posterior.data.origin)
    mean = np.asarray(posterior.predict_y(x, **extra)[0])
    tails = [(1 + sign * level) / 2 for level in levels for sign in (-1, 1)]
    bounds = np.asarray(posterior.quantiles(x, tails, **extra))
    intervals = {level: (bounds[2 * at], bounds[2 * at + 1]) for at, level in enumerate(levels)}
    return Curve(shown, mean, intervals)


def _function(
    posterior: Posterior, relative: np.ndarray, level: float, extra: dict[str, Any]
) -> Band | None:
    """E[y | f] where f is at its mean or at its bounds; it moves with f in one direction."""
    likelihood = posterior.model.likelihood
    if likelihood.latents > 1:
        return None
    mean, variance = posterior.predict_f(user_units(relative, posterior.data.origin))
    known = jnp.asarray(extra_values(likelihood, len(mean), extra))
    away = ndtri((1 + level) / 2) * jnp.sqrt(variance)
    middle, one, other = (
        np.asarray(likelihood.moments(f, known)[0]) for f in (mean, mean - away, mean + away)
    )
    return Band(middle, np.minimum(one, other), np.maximum(one, other))


def _components(posterior: Posterior, relative: np.ndarray, level: float) -> dict[str, Band]:
    away = ndtri((1 + level) / 2)
    found = posterior.components(user_units(relative, posterior.data.origin))
    bands = {}
    for name, moments in found.items():
        mean, variance = (np.asarray(moment) for moment in moments)
        bands[name] = Band(mean, mean - away * np.sqrt(variance), mean + away * np.sqrt(variance))
    return bands


def _dates(to_time: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    dates = np.asarray(to_time(x))
    if dates.dtype.kind != "M" or dates.shape != x.shape:
        raise ValueError(
            "to_time must make one datetime64 of every input, got an array of "
            f"{dates.dtype} of shape {dates.shape} for {len(x)} inputs"
        )
    return dates.astype("datetime64[us]")


def _versions() -> dict[str, str]:
    names = ("stategp", "jax", "numpy", "scipy")
    return {name: importlib.metadata.version(name) for name in names} | {
        "python": platform.python_version()
    }
