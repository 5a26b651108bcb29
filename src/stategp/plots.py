"""Matplotlib figures. No pyplot: no backend is chosen and no global state is touched.

`stategp._story` determines what these figures and the report show; this module only draws it.
"""

import io
import textwrap
from typing import Any

import numpy as np

from stategp._story import (
    Dots,
    Fill,
    Line,
    Maps,
    Mark,
    Panel,
    Portrait,
    Rug,
    Rule,
    Spans,
    Stems,
    Story,
    check_panels,
    component_panels,
    in_columns,
    interval_name,
    maps_of,
    outcome_in_words,
    portray,
    recount,
    series_panel,
    tell,
    trace_panel,
)

try:
    import matplotlib.dates
    from matplotlib.axes import Axes
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.figure import Figure
except ImportError:  # pragma: no cover
    raise ImportError('figures need Matplotlib: pip install "stategp[plot]"') from None

__all__ = [
    "Picture",
    "Portrait",
    "Story",
    "plot",
    "plot_checks",
    "plot_components",
    "plot_maps",
    "plot_panel",
    "plot_trace",
    "portray",
    "tell",
]

_dates: Any = matplotlib.dates  # without types

# Okabe and Ito's colours, which the colour-blind can tell apart.
BLUE, GREEN, VERMILION, DATA = "#0072B2", "#009E73", "#D55E00", "#4d4d4d"
COMPONENTS = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#D55E00", "#0072B2")
_COLOURS = {
    "model": BLUE, "inducing": GREEN, "forecast": VERMILION, "data": DATA, "gap": "0.94",
    "chance": "0.88", "expected": "0.6", "before": "0.55",
} | {f"part{at}": colour for at, colour in enumerate(COMPONENTS)}  # fmt: skip
_REMARKS = {"good": GREEN, "look": "#B87800", "bad": VERMILION, "unknown": "0.4"}
_MOST_POINTS = 5_000  # drawn one by one
_COLUMNS = 700
_LETTERS = 62  # of a title and a legend beside it, in a panel of half the width


class Picture(Figure):
    """A figure that notebooks display without pyplot."""

    def _repr_png_(self) -> bytes:
        written = io.BytesIO()
        self.savefig(written, format="png")
        return written.getvalue()


def plot(posterior: Any, *, ax: Axes | None = None, **options: Any) -> Figure:
    """Data, mean and intervals, with the inducing points, the gaps and where the forecast begins.

    For an additive posterior it shows the effect of each input, for several outputs each of them
    (`output=` for some, by name or number), for a deep posterior its functions; for classes in no
    order their probabilities. Options are those of `stategp._story.tell` (`until=` for a forecast,
    `levels=`) or `portray` (`level=`); a story that has been computed already is drawn as it is.

    >>> import numpy as np, stategp as sg
    >>> posterior = sg.condition(sg.GP(sg.kernels.Matern32()), np.arange(3), [0.0, 1.0, 0.0])
    >>> plot(posterior, until=5.0, points=50).savefig(io.BytesIO())
    """
    account = recount(posterior, options)
    if isinstance(account, Portrait):
        if ax is not None:
            raise ValueError(
                f"{len(account.panels)} functions do not fit into one pair of axes: use "
                "plot_components(posterior, figure=…)"
            )
        return plot_components(account)
    return plot_panel(series_panel(account), ax=ax)


def plot_maps(posterior: Any, times: Any = None, **options: Any) -> Figure:
    """Maps of a field over space and time: the mean for each time, and below it its uncertainty.

    Classes that have a field each (`sg.StackedGP`) have maps of the probability of each of them.

    Without times there are six, from the first to the last observation. Dots are places that were
    observed. If places have one coordinate, the figure has one map of the mean and one of the
    uncertainty, with time along the horizontal axis. Options: `of="y"` for observations in place of
    f; `at={"z": 1.0}`, the slice that is shown of places with three coordinates (or of two, to see
    one along time); and `resolution`, the number of points along each side. Colours of
    uncertainties that differ much follow their logarithm.

    >>> import numpy as np, stategp as sg
    >>> times, places = np.arange(10.0), [[0.0], [1.0], [2.0]]
    >>> model = sg.SpaceTimeGP(sg.spatial.Matern32(), sg.kernels.Matern32())
    >>> posterior = sg.condition(model, (times, places), np.outer(np.sin(times), [1, 2, 3]))
    >>> plot_maps(posterior, resolution=20).savefig(io.BytesIO())
    """
    known = ("of", "at", "resolution")
    if strange := [name for name in options if name not in known]:
        raise TypeError(f"plot_maps() takes no {', '.join(strange)}; it takes {', '.join(known)}")
    maps = maps_of(posterior, times, **options)
    count = len(maps.layers[0].values)
    columns = min(count, 3)
    rows = -(-count // columns)
    tall = 3.6 if count == 1 else 2.6
    if maps.ratio is not None:  # the height of a map of the width that it has, and its words
        tall = float(np.clip(7.2 / columns * maps.ratio + 0.45, 1.4, 6.0))
    parts = len(maps.layers)
    figure = Picture(figsize=(9.0, parts * tall * rows), layout="constrained")
    grid = figure.subplots(parts * rows, columns, squeeze=False)
    for part, layer in enumerate(maps.layers):
        group, images = grid[part * rows : (part + 1) * rows], layer.values
        colours = "magma" if layer.uncertainty else "viridis"
        norm = LogNorm(*layer.range) if layer.log else Normalize(*layer.range)
        ends = {"norm": norm, "cmap": colours}
        for number, axes in enumerate(group.flat):
            axes.set_visible(number < count)
            if number < count:
                drawn = _draw_map(axes, maps, number, images[number], ends)
                axes.set_xlabel(_plain(maps.across[0]) if number + columns >= count else "")
                axes.set_ylabel(_plain(maps.up[0]) if number % columns == 0 else "")
        scale = figure.colorbar(drawn, ax=group.ravel().tolist(), label=layer.name)
        if layer.log:
            ticks = layer.log_ticks()
            scale.set_ticks(ticks, labels=[f"{value:g}" for value in ticks], minor=False)
            scale.ax.minorticks_off()
    return figure


def _draw_map(axes: Axes, maps: Maps, number: int, image: np.ndarray, ends: Any) -> Any:
    drawn = axes.pcolormesh(
        maps.across[1], maps.up[1], image, shading="nearest", rasterized=True, **ends
    )
    dots = maps.dots[number][:_MOST_POINTS].T  # seen on dark colours and on pale ones
    axes.plot(*dots, ".", color="black", ms=5.5, mew=0, alpha=0.5)
    axes.plot(*dots, ".", color="white", ms=3.4, mew=0, alpha=0.9)
    if maps.aspect is not None and maps.ratio is not None:
        axes.set_aspect(maps.aspect)
    axes.set_title(_plain(maps.titles[number]), fontsize=9)
    _tidy(axes)
    return drawn


def plot_panel(panel: Panel, *, ax: Axes | None = None) -> Figure:
    """One chart with its title, and a legend above it.

    >>> import numpy as np
    >>> from stategp._story import Axis, Line, Panel
    >>> line = Line("model", np.arange(3.0), np.arange(3.0), name="mean")
    >>> panel = Panel("rise", "A rise", Axis("x"), Axis("y"), (line,))
    >>> plot_panel(panel).axes[0].get_title(loc="left")
    'A rise'
    """
    figure, axes = _axes(ax, (9.0, 4.2))
    _draw(axes, panel)
    named = [mark for mark in panel.named if mark.shown]
    rows = -(-sum(len(mark.name) + 9 for mark in named) // 125)
    title = _plain(panel.title)
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", pad=12 + 14 * rows)
    axes.legend(
        loc="lower left", bbox_to_anchor=(-0.008, 1.0), ncols=-(-(len(named) + 1) // rows),
        fontsize=8, frameon=False, handlelength=1.4, columnspacing=1.2, borderaxespad=0.2,
    )  # fmt: skip
    return figure


def plot_components(posterior: Any, *, figure: Figure | None = None, **options: Any) -> Figure:
    """Each component of the kernel with its interval: along x, or over one period if it repeats.

    For an additive posterior it shows the effect of each input, for a deep one its functions.
    Options are those of `plot`.
    """
    account = recount(posterior, options, "plot_components")
    if isinstance(account, Portrait):
        panels, label, about = list(account.panels), "", ""
    else:
        panels = component_panels(account)
        label = f"Contribution to {account.modelled}"
        about = f", with {interval_name(account.widest)}s"
    narrow = {at for at, panel in enumerate(panels) if not panel.along}
    places = _places(len(panels), narrow)
    rows = max(row for row, _ in places) + 1
    if figure is None:
        tall = 2.3 if len(narrow) == len(panels) else 1.9
        figure = Picture(figsize=(9.0, 0.7 + tall * rows), layout="constrained")
    grid = figure.add_gridspec(rows, 2)
    wide = [at for at in range(len(panels)) if at not in narrow]
    for at, (panel, (row, column)) in enumerate(zip(panels, places, strict=True)):
        axes = figure.add_subplot(grid[row, slice(None) if column is None else column])
        _draw(axes, panel, rule_name=bool(wide) and at == wide[0])
        axes.set_title(_plain(panel.title), loc="left", fontsize=10, fontweight="bold")
        lines = [mark.name for mark in panel.named if isinstance(mark, Line)]
        if lines:
            above = len(panel.title) + 1.2 * sum(len(name) + 4 for name in lines) < _LETTERS
            place: dict[str, Any] = {}
            if above:
                place = {"loc": "lower right", "bbox_to_anchor": (1.01, 0.99), "borderaxespad": 0.0}
                place |= {"ncols": len(lines), "columnspacing": 1.0}
            axes.legend(fontsize=8, frameon=False, handlelength=1.4, **place)
        if label:
            axes.set_ylabel("")  # one for all stands at the side
        if at in wide[:-1]:
            axes.set_xlabel("")
            axes.tick_params(labelbottom=False)
    if label:
        figure.supylabel(_plain(label + about * (rows > 2)), fontsize=9, color=DATA)
    return figure


def _places(count: int, narrow: set[int]) -> list[tuple[int, int | None]]:
    """Row and column of each panel: wide ones first, each in a row; then narrow ones in pairs.

    A narrow one on its own takes the whole row.
    """
    wide = count - len(narrow)
    places: list[tuple[int, int | None]] = []
    for at in range(count):
        before = sum((other in narrow) == (at in narrow) for other in range(at))
        pair = (wide + before // 2, None if len(narrow) == 1 else before % 2)
        places.append(pair if at in narrow else (before, None))
    return places


def plot_trace(posterior: Any, *, ax: Axes | None = None, **options: Any) -> Figure:
    """The objective at each step of the fit, how it ended, and how long it took."""
    account = recount(posterior, options, "plot_trace")
    figure, axes = _axes(ax, (6.0, 3.4))
    panel = trace_panel(account)
    _draw(axes, panel)
    if not panel.instead:
        axes.ticklabel_format(axis="y", style="plain", useOffset=False)
        axes.set_title(_plain(outcome_in_words(account)), loc="left", fontsize=9, wrap=True)
    return figure


def plot_checks(posterior: Any, *, figure: Figure | None = None, **options: Any) -> Figure:
    """Calibration, autocorrelation of the residuals, residuals along x, and their quantiles.

    Every observation is compared with its prediction from all the others; the title states the
    conclusions.
    """
    account = recount(posterior, options, "plot_checks")
    if not isinstance(account, Story):
        raise ValueError(
            "the checks rank each observation among what the others predict, which is known for "
            "posteriors of one input (sg.Posterior) whose observations have an order, not for "
            f"that of {account.model}"
        )
    if figure is None:
        figure = Picture(figsize=(9.0, 7.0), layout="constrained")
    lines = [textwrap.fill(remark.text, 118) for remark in account.remarks]
    figure.suptitle(
        _plain("\n".join(lines)), x=0.01, ha="left", fontsize=9.5,
        color=_REMARKS[account.remarks[0].kind],
    )  # fmt: skip
    for axes, panel in zip(figure.subplots(2, 2).ravel(), check_panels(account), strict=True):
        _draw(axes, panel)
        axes.set_title(panel.title, loc="left", fontsize=10, fontweight="bold")
    return figure


# --- from a panel to axes -----------------------------------------------------------------------


def _draw(axes: Axes, panel: Panel, rule_name: bool = True) -> None:
    _tidy(axes)
    axes.set(xlabel=_plain(panel.across.label), ylabel=_plain(panel.up.label))
    if panel.instead:
        axes.text(
            0.5, 0.5, panel.instead, transform=axes.transAxes, ha="center", va="center",
            color="0.4", wrap=True,
        )  # fmt: skip
        axes.set(xlabel="", ylabel="", xticks=[], yticks=[])
        return
    for mark in panel.marks:
        if mark.shown:
            _DRAWN[type(mark)](axes, mark)
    if not rule_name:
        for text in axes.texts:
            text.set_visible(False)
    axes.set_ylim(*panel.height())
    axes.set_xlim(*_ends(panel))
    if panel.has_dates:
        axes.xaxis_date()
        locator = _dates.AutoDateLocator(minticks=4, maxticks=10)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(_dates.ConciseDateFormatter(locator))
    if panel.across.whole:
        axes.locator_params(axis="x", integer=True)
    for axis, side in ((axes.xaxis, panel.across), (axes.yaxis, panel.up)):
        if side.ticks is not None:
            axis.set_ticks([at for at, _ in side.ticks], [_plain(text) for _, text in side.ticks])


def _ends(panel: Panel) -> tuple[float, float]:
    if panel.across.ends is not None:
        return panel.across.ends
    curves = [mark.x for mark in panel.marks if isinstance(mark, Line | Fill | Dots)]
    seen = np.concatenate([_as_plotted(x) for x in curves])
    first, last = float(seen.min()), float(seen.max())
    return (first, last) if last > first else (first - 1.0, last + 1.0)


def _draw_line(axes: Axes, mark: Line) -> None:
    """A line; where it swings too fast for the width of the picture, what it covers."""
    x, colour, name = _as_plotted(mark.x), _COLOURS[mark.colour], _plain(mark.name) or None
    if mark.colour == "expected":
        axes.plot(x, mark.y, color=colour, lw=0.8)
        return
    if np.sum(np.diff(np.sign(np.diff(mark.y))) != 0) < _COLUMNS:
        axes.plot(x, mark.y, color=colour, lw=1.3, label=name, zorder=4)
        return
    columns = in_columns(x, mark.y, _COLUMNS // 2)
    axes.fill_between(
        columns.centre, columns.low, columns.high, color=colour, alpha=0.55, lw=0, zorder=4,
        label=name and f"{name}, range in each column",
    )  # fmt: skip


def _draw_fill(axes: Axes, mark: Fill) -> None:
    axes.fill_between(
        _as_plotted(mark.x), mark.lower, mark.upper, color=_COLOURS[mark.colour], alpha=mark.shade,
        lw=0, label=_plain(mark.name) or None, zorder=1 if mark.colour == "chance" else 2,
    )  # fmt: skip


def _draw_dots(axes: Axes, mark: Dots) -> None:
    """One by one, or as ranges in columns that keep every extreme."""
    x, count, colour = _as_plotted(mark.x), len(mark.y), _COLOURS[mark.colour]
    name = _plain(mark.name) or None
    if mark.colour != "data" or count <= _MOST_POINTS:
        size = float(np.clip(60 / np.sqrt(count), 1.8, 4.5))
        dense = 0.45 if mark.faint else 0.75
        axes.plot(x, mark.y, "o", color=colour, ms=size, mew=0, alpha=dense, zorder=3, label=name)
        return
    columns = in_columns(x, mark.y, _COLUMNS)
    axes.vlines(
        columns.centre, columns.low, columns.high, color="0.72", lw=0.8, zorder=1.5,
        label=f"{name}, range in each column",
    )  # fmt: skip
    axes.vlines(
        columns.centre, columns.lower_quarter, columns.upper_quarter, color="0.45", lw=0.8,
        zorder=1.6, label="their middle half",
    )  # fmt: skip


def _draw_stems(axes: Axes, mark: Stems) -> None:
    colour = _COLOURS[mark.colour]
    axes.vlines(mark.x, 0, mark.y, color=colour, lw=1.6)
    axes.plot(mark.x, mark.y, "o", color=colour, ms=3)


def _draw_spans(axes: Axes, mark: Spans) -> None:
    for number, (begin, end) in enumerate(_as_plotted(mark.spans)):
        name = mark.name if number == 0 else None
        axes.axvspan(begin, end, color=_COLOURS[mark.colour], lw=0, zorder=0, label=name)


def _draw_rule(axes: Axes, mark: Rule) -> None:
    at, colour = float(_as_plotted(mark.x)[0]), _COLOURS[mark.colour]
    axes.axvline(at, color=colour, lw=0.9, ls=(0, (4, 3)), zorder=2.5)
    axes.annotate(
        mark.name, (at, 1.0), xycoords=axes.get_xaxis_transform(), xytext=(4, -3),
        textcoords="offset points", va="top", fontsize=8, color=colour,
    )  # fmt: skip


def _draw_rug(axes: Axes, mark: Rug) -> None:
    x = _as_plotted(mark.x[:: -(-len(mark.x) // _COLUMNS)])
    axes.plot(
        x, np.zeros(len(x)), "|", color=_COLOURS[mark.colour], ms=7,
        mew=0.9 if len(x) < 200 else 0.4, clip_on=False, transform=axes.get_xaxis_transform(),
        label=mark.name or None,
    )  # fmt: skip


_DRAWN: dict[type[Mark], Any] = {
    Line: _draw_line,
    Fill: _draw_fill,
    Dots: _draw_dots,
    Stems: _draw_stems,
    Spans: _draw_spans,
    Rule: _draw_rule,
    Rug: _draw_rug,
}


def _axes(ax: Axes | None, size: tuple[float, float]) -> tuple[Figure, Axes]:
    if ax is not None:
        figure: Any = ax.figure
        return figure, ax
    figure = Picture(figsize=size, layout="constrained")
    return figure, figure.subplots()


def _as_plotted(x: np.ndarray) -> np.ndarray:
    """Numbers as they are, dates as Matplotlib counts them."""
    return np.asarray(_dates.date2num(x)) if x.dtype.kind == "M" else x


def _tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8.5, color="0.5")
    axes.spines[["left", "bottom"]].set_color("0.5")
    axes.xaxis.label.set_fontsize(9)
    axes.yaxis.label.set_fontsize(9)


def _plain(name: str) -> str:
    """Without Matplotlib's mathematics: a dollar is a dollar."""
    return name.replace("$", r"\$")
