"""Several outputs along one input, or the functions that one likelihood reads: a panel for each."""

from typing import Any

import numpy as np

from stategp._posteriors import JointPosterior, MixedPosterior, MultiOutputPosterior
from stategp._story._charts import Axis, Dots, Fill, Line, Mark, Panel, Rule
from stategp._story._checks import user_units
from stategp._story._grids import forecast_end, make_grid
from stategp._story._story import Band

_PARTS = 6
_MOST_POINTS = 2000
_FEW_POINTS = 200  # where a quantile takes long


def output_panels(
    posterior: MultiOutputPosterior, level: float, until: Any, to_time: Any, label: str
) -> list[Panel]:
    """Observations, mean and intervals of new observations of every output.

    `to_time` makes of inputs what is drawn along the axis.
    """
    slow = posterior.model.functions > 1
    x, rule = _along(posterior, until, _FEW_POINTS if slow else _MOST_POINTS, to_time)
    panels = []
    for number, name in enumerate(posterior.model.names):
        there = posterior.marginals_of(number, x, **_usual(posterior, number))
        lower, upper = np.asarray(there.quantiles([(1 - level) / 2, (1 + level) / 2]))
        mean = np.asarray(there.moments()[0])
        at, y = posterior.observed(number)
        seen = to_time(at.astype(float)), y
        curve = mean, lower, upper
        marks = _marks(f"part{number % _PARTS}", to_time(x), curve, seen, rule)
        panels.append(_panel(number, f"Output {name}", name, marks, label))
    return panels


def function_panels(posterior: JointPosterior, level: float, until: Any) -> list[Panel]:
    """Observations with intervals of new ones, and every function that they read."""
    data = posterior.data
    x, rule = _along(posterior, until, _FEW_POINTS)
    extra = posterior.model.likelihood.extra
    usual = {} if extra is None else {extra: float(np.median(np.asarray(data.extra)))}
    lower, upper = np.asarray(posterior.quantiles(x, [(1 - level) / 2, (1 + level) / 2], **usual))
    mean = np.asarray(posterior.predict_y(x, **usual)[0])
    seen = np.asarray(data.x) + float(data.origin), np.asarray(data.y)
    panels = [_panel(0, "Observations", "y", _marks("part0", x, (mean, lower, upper), seen, rule))]
    means, variances = (np.asarray(part) for part in posterior.predict_f(x))
    for number in range(posterior.model.functions):
        band = Band.of(means[:, number], variances[:, number], level)
        curve = band.mean, band.lower, band.upper
        marks = _marks(f"part{(number + 1) % _PARTS}", x, curve, None, rule)
        panels.append(_panel(number + 1, f"Function {number + 1}", "", marks))
    return panels


def _along(
    posterior: MixedPosterior, until: Any, most: int, to_time: Any = np.asarray
) -> tuple[np.ndarray, list[Mark]]:
    """Where curves are computed, and the mark where a forecast begins."""
    data = posterior.data
    relative = np.asarray(data.x)
    end = forecast_end(until, relative, data.origin)
    grid, _ = make_grid(posterior, relative, end, None)
    x = user_units(grid[:: -(-len(grid) // most)], data.origin).astype(float)
    if end <= relative[-1]:
        return x, []
    last = to_time(np.asarray([relative[-1] + float(data.origin)]))
    return x, [Rule("forecast", last, name="forecast")]


def _usual(posterior: MultiOutputPosterior, number: int) -> dict[str, float]:
    """What the likelihood of an output reads beside y: the median of the data."""
    name = posterior.model.likelihoods[number].extra
    mine = np.asarray(posterior.data.extra)[np.asarray(posterior.places) == number]
    return {name: float(np.median(mine))} if name is not None and len(mine) else {}


def _marks(colour: str, x: np.ndarray, curve: Any, seen: Any, rule: list[Mark]) -> tuple[Mark, ...]:
    mean, lower, upper = curve
    dots: list[Mark] = []
    if seen is not None:
        faint = len(seen[1]) > 1000
        dots.append(Dots("data", seen[0], seen[1], key="data", faint=faint))
    return (
        Fill(colour, x, lower, upper, key="band"),
        *dots,
        Line(colour, x, mean, key="mean"),
        *rule,
    )


def _panel(at: int, title: str, label: str, marks: tuple[Mark, ...], across: str = "x") -> Panel:
    axes = Axis(across), Axis(label)
    return Panel(f"component-{at}", title, *axes, marks, says=title, along=False, room=1.0)
