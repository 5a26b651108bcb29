"""Matplotlib figures of a story. No pyplot: no backend is chosen and no global state is touched."""

import io
from typing import Any

import numpy as np
from scipy.special import ndtri

from stategp._story import Band, Story, in_columns

try:
    import matplotlib.dates
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError:  # pragma: no cover
    raise ImportError('pictures need Matplotlib: pip install "stategp[plot]"') from None

_dates: Any = matplotlib.dates  # without types

# Okabe and Ito's colours, which the colour-blind can tell apart.
BLUE, GREEN, VERMILION, DATA = "#0072B2", "#009E73", "#D55E00", "#4d4d4d"
COMPONENTS = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#D55E00", "#0072B2")
_MOST_POINTS = 5_000  # drawn one by one
_COLUMNS = 700


class Picture(Figure):
    """A figure that notebooks show although pyplot knows nothing of it."""

    def _repr_png_(self) -> bytes:
        written = io.BytesIO()
        self.savefig(written, format="png")
        return written.getvalue()


def plot(story: Story, *, ax: Axes | None = None) -> Figure:
    """Data, mean and intervals, with the inducing points, the gaps and where the forecast begins.

    >>> import numpy as np, stategp as sg
    >>> from stategp._story import tell
    >>> posterior = sg.condition(sg.GP(sg.kernels.Matern32()), np.arange(3), [0.0, 1.0, 0.0])
    >>> plot(tell(posterior, points=50)).savefig(io.BytesIO())
    """
    figure, axes = _axes(ax, (9.0, 4.2))
    _draw_gaps(axes, story)
    x = _as_plotted(story.curve.x)
    if story.two_valued and story.function is not None:
        _draw_band(axes, x, story.function, BLUE, f"{100 * story.widest:.4g} % for the probability")
    else:
        _draw_intervals(axes, x, story)
    _draw_data(axes, story)
    _set_height(axes, story)
    _draw_end(axes, story)
    z = _as_plotted(story.inducing[:: -(-len(story.inducing) // _COLUMNS)])
    axes.plot(
        z, np.zeros(len(z)), "|", color=GREEN, ms=7, mew=0.9 if len(z) < 200 else 0.4,
        clip_on=False, transform=axes.get_xaxis_transform(),
        label=f"{len(story.inducing):,} inducing points",
    )  # fmt: skip
    _finish(axes, story, story.y_label)
    long = len(story.y) > _MOST_POINTS
    title = _plain(story.title)
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", pad=40 if long else 26)
    axes.legend(
        loc="lower left", bbox_to_anchor=(-0.008, 1.0), ncols=4 if long else 6, fontsize=8,
        frameon=False, handlelength=1.4, columnspacing=1.2, borderaxespad=0.2,
    )  # fmt: skip
    return figure


def plot_components(story: Story, *, figure: Figure | None = None) -> Figure:
    """Each summand of the kernel with its interval, one below the other."""
    count = max(len(story.components), 1)
    if figure is None:
        figure = Picture(figsize=(9.0, 0.6 + 1.8 * count), layout="constrained")
    rows = figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
    x = _as_plotted(story.curve.x)
    for number, (axes, (name, band)) in enumerate(zip(rows, story.components.items(), strict=True)):
        _draw_gaps(axes, story)
        _draw_band(axes, x, band, COMPONENTS[number % len(COMPONENTS)])
        _draw_end(axes, story, name=number == 0)
        _finish(axes, story, "")
        axes.set_title(_plain(name), loc="left", fontsize=10, fontweight="bold")
        if axes is not rows[-1]:
            axes.set_xlabel("")
            axes.tick_params(labelbottom=False)
    label = f"Contribution to the function, with {100 * story.widest:.4g} % intervals"
    figure.supylabel(label if count > 2 else "Contribution", fontsize=9, color=DATA)
    return figure


def plot_trace(story: Story, *, ax: Axes | None = None) -> Figure:
    """The objective at each step of the fit, and how far it was from its best value."""
    figure, axes = _axes(ax, (6.0, 3.4))
    if len(story.trace) == 0:
        _say(axes, "Nothing was optimised: the hyperparameters were taken as given.")
        return figure
    axes.plot(np.arange(len(story.trace)), story.trace, ".-", color=BLUE, lw=1.2, ms=5)
    seen = story.trace[np.isfinite(story.trace)]
    if len(seen) > 4:  # first steps may start far below: show where it ended
        bottom = min(np.quantile(seen, 0.1), seen[-1])
        room = 0.08 * (seen.max() - bottom) or 1.0
        axes.set_ylim(bottom - room, seen.max() + room)
    axes.ticklabel_format(axis="y", style="plain", useOffset=False)
    axes.set(xlabel="Step", ylabel="Objective (nats)")
    time = f"{story.seconds[-1]:.1f} s: " if len(story.seconds) else ""
    axes.set_title(_plain(time + story.outcome), loc="left", fontsize=9, wrap=True)
    _tidy(axes)
    return figure


def plot_checks(story: Story, *, figure: Figure | None = None) -> Figure:
    """Calibration, autocorrelation of the residuals, residuals along x, and their quantiles."""
    if figure is None:
        figure = Picture(figsize=(9.0, 6.4), layout="constrained")
    grid = figure.subplots(2, 2)
    _draw_calibration(grid[0, 0], story)
    _draw_autocorrelation(grid[0, 1], story)
    _draw_residuals(grid[1, 0], story)
    _draw_quantiles(grid[1, 1], story)
    for axes in grid.ravel():
        _tidy(axes)
    return figure


def _draw_calibration(axes: Axes, story: Story) -> None:
    nominal, count = story.checks.nominal, max(len(story.checks.ranks), 1)
    chance = 1.96 * np.sqrt(nominal * (1 - nominal) / count)
    axes.fill_between(nominal, nominal - chance, nominal + chance, color="0.88", lw=0)
    axes.plot([0, 1], [0, 1], color="0.6", lw=0.8)
    axes.plot(nominal, story.checks.actual, color=BLUE, lw=1.6)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="Level of the interval", ylabel="Observations inside")
    axes.set_title("Calibration", loc="left", fontsize=10, fontweight="bold")


def _draw_autocorrelation(axes: Axes, story: Story) -> None:
    found = story.checks.autocorrelation
    axes.set_title("Autocorrelation of residuals", loc="left", fontsize=10, fontweight="bold")
    if len(found) == 0:
        _say(axes, "Too few observations")
        return
    lags, bound = np.arange(1, len(found) + 1), 1.96 / np.sqrt(story.checks.pairs)
    axes.axhspan(-bound, bound, color="0.88", lw=0)
    axes.axhline(0, color="0.6", lw=0.8)
    axes.vlines(lags, 0, found, color=BLUE, lw=1.6)
    axes.plot(lags, found, "o", color=BLUE, ms=3)
    height = max(1.25 * np.abs(found).max(), 3 * bound, 0.05)
    axes.set(xlim=(0, len(found) + 1), ylim=(-height, height))
    axes.set(xlabel="Lag (observations)", ylabel="Correlation")


def _draw_residuals(axes: Axes, story: Story) -> None:
    x = _as_plotted(story.checks.x)
    small = 2.0 if len(x) > 1000 else 3.5
    axes.plot(x, story.checks.residuals, "o", ms=small, mew=0, color=BLUE, alpha=0.45)
    for at in (-1.96, 0.0, 1.96):
        axes.axhline(at, color="0.6", lw=0.8, ls="-" if at == 0 else ":")
    _date_axis(axes, story)
    axes.set(xlabel=_plain(story.x_label), ylabel="Residual (normal score)")
    axes.set_title("Residuals", loc="left", fontsize=10, fontweight="bold")


def _draw_quantiles(axes: Axes, story: Story) -> None:
    ordered = np.sort(story.checks.residuals)
    expected = ndtri((np.arange(len(ordered)) + 0.5) / max(len(ordered), 1))
    reach = max(np.abs(ordered).max(initial=2.0), np.abs(expected).max(initial=2.0)) * 1.05
    axes.plot([-reach, reach], [-reach, reach], color="0.6", lw=0.8)
    axes.plot(expected, ordered, "o", ms=2.5, mew=0, color=BLUE)
    axes.set(xlabel="Normal quantile", ylabel="Residual quantile")
    axes.set_title("Normal quantiles of residuals", loc="left", fontsize=10, fontweight="bold")


# --- parts of the pictures ---------------------------------------------------------------------


def _draw_data(axes: Axes, story: Story) -> None:
    """One by one, or as ranges in columns that keep every extreme."""
    count = len(story.y)
    if count <= _MOST_POINTS:
        size = float(np.clip(60 / np.sqrt(count), 1.8, 4.5))
        name = f"{count:,} observation{'s' if count > 1 else ''}"
        axes.plot(
            _as_plotted(story.x), story.y, "o", color=DATA, ms=size, mew=0, alpha=0.75, zorder=3,
            label=name,
        )  # fmt: skip
        return
    found = in_columns(_as_plotted(story.x), story.y, _COLUMNS)
    axes.vlines(
        found.centre, found.low, found.high, color="0.72", lw=0.8, zorder=1.5,
        label=f"{count:,} observations, range in each column",
    )  # fmt: skip
    axes.vlines(
        found.centre, found.lower_quarter, found.upper_quarter, color="0.45", lw=0.8, zorder=1.6,
        label="their middle half",
    )  # fmt: skip


def _draw_intervals(axes: Axes, x: np.ndarray, story: Story) -> None:
    levels = sorted(story.curve.intervals, reverse=True)
    for shade, level in zip(np.linspace(0.16, 0.34, len(levels)), levels, strict=True):
        lower, upper = story.curve.intervals[level]
        name = f"{100 * level:.4g} % interval"
        axes.fill_between(x, lower, upper, color=BLUE, alpha=shade, lw=0, label=name, zorder=2)
    _draw_mean(axes, x, story.curve.mean, BLUE)


def _draw_band(axes: Axes, x: np.ndarray, band: Band, colour: str, name: str = "") -> None:
    axes.fill_between(x, band.lower, band.upper, color=colour, alpha=0.22, lw=0, label=name or None)
    _draw_mean(axes, x, band.mean, colour)


def _draw_mean(axes: Axes, x: np.ndarray, mean: np.ndarray, colour: str) -> None:
    """A line; where it swings too fast for the width of the picture, what it covers."""
    if np.sum(np.diff(np.sign(np.diff(mean))) != 0) < _COLUMNS:
        axes.plot(x, mean, color=colour, lw=1.3, label="mean", zorder=4)
        return
    found = in_columns(x, mean, _COLUMNS // 2)
    axes.fill_between(
        found.centre, found.low, found.high, color=colour, alpha=0.55, lw=0, zorder=4,
        label="mean, range in each column",
    )  # fmt: skip


def _draw_gaps(axes: Axes, story: Story) -> None:
    for number, (begin, end) in enumerate(_as_plotted(story.gaps)):
        name = "no data" if number == 0 else None
        axes.axvspan(begin, end, color="0.94", lw=0, zorder=0, label=name)


def _draw_end(axes: Axes, story: Story, name: bool = True) -> None:
    if len(story.forecast.x) == 0:
        return
    end = float(_as_plotted(np.array([story.end]))[0])
    axes.axvline(end, color=VERMILION, lw=0.9, ls=(0, (4, 3)), zorder=2.5)
    if name:
        axes.annotate(
            "forecast", (end, 1.0), xycoords=axes.get_xaxis_transform(), xytext=(4, -3),
            textcoords="offset points", va="top", fontsize=8, color=VERMILION,
        )  # fmt: skip


def _set_height(axes: Axes, story: Story) -> None:
    """Room for the data, the mean and, unless they are far wider, the intervals."""
    seen = np.concatenate([story.y, story.curve.mean])
    low, high = float(seen.min()), float(seen.max())
    lower, upper = story.curve.intervals[story.widest]
    room = 0.6 * (high - low) or 1.0
    low, high = max(low - room, min(low, lower.min())), min(high + room, max(high, upper.max()))
    margin = 0.06 * (high - low) or 1.0
    axes.set_ylim(low - margin, high + margin)


def _axes(ax: Axes | None, size: tuple[float, float]) -> tuple[Figure, Axes]:
    if ax is not None:
        figure: Any = ax.figure
        return figure, ax
    figure = Picture(figsize=size, layout="constrained")
    return figure, figure.subplots()


def _as_plotted(x: np.ndarray) -> np.ndarray:
    """Numbers as they are, dates as Matplotlib counts them."""
    return np.asarray(_dates.date2num(x)) if x.dtype.kind == "M" else x


def _finish(axes: Axes, story: Story, label: str) -> None:
    begin, end = _as_plotted(story.curve.x[[0, -1]])
    axes.set_xlim(begin, end)
    _date_axis(axes, story)
    axes.set(xlabel=_plain(story.x_label), ylabel=_plain(label))
    _tidy(axes)


def _date_axis(axes: Axes, story: Story) -> None:
    if story.has_dates:
        axes.xaxis_date()
        locator = _dates.AutoDateLocator(minticks=4, maxticks=10)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(_dates.ConciseDateFormatter(locator))


def _tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8.5, color="0.5")
    axes.spines[["left", "bottom"]].set_color("0.5")
    axes.xaxis.label.set_fontsize(9)
    axes.yaxis.label.set_fontsize(9)


def _say(axes: Axes, text: str) -> None:
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color="0.4")
    axes.set_xticks([])
    axes.set_yticks([])


def _plain(name: str) -> str:
    """Without Matplotlib's mathematics: a dollar is a dollar."""
    return name.replace("$", r"\$")
