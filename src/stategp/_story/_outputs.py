"""Several outputs along one input, or the functions that one likelihood reads: a panel for each."""

from typing import Any

import numpy as np

from stategp._posteriors import JointPosterior, MultiOutputPosterior, Posterior, summands_of
from stategp._story._charts import Axis, Dots, Fill, Line, Mark, Panel, Rule
from stategp._story._checks import single_observations, user_units
from stategp._story._classes import class_panel
from stategp._story._grids import forecast_end, make_grid
from stategp._story._story import Band

_PARTS = 6
_MOST_POINTS = 2000
_FEW_POINTS = 200  # where a quantile takes long


def output_panels(
    posterior: MultiOutputPosterior,
    level: float,
    until: Any,
    to_time: Any,
    label: str,
    outputs: list[int],
) -> list[Panel]:
    """Observations of some outputs, with the mean and intervals of new ones, or probabilities.

    `to_time` makes of inputs what is drawn along the axis.
    """
    slow = posterior.model.functions > 1
    x, rule = _along(posterior, until, _FEW_POINTS if slow else _MOST_POINTS, to_time)
    panels = []
    for number in outputs:
        name = posterior.model.names[number]
        at, y = posterior.observed(number)
        seen = to_time(at.astype(float)), y
        key, title = f"component-{number}", f"Output {name}"
        if posterior.model.likelihoods[number].nominal:
            shares = np.asarray(posterior.predict_probabilities(x, output=number))
            panels.append(class_panel(key, title, label, to_time(x), shares, seen, rule))
            continue
        there = posterior.marginals_of(number, x, **_usual(posterior, number))
        lower, upper = np.asarray(there.quantiles([(1 - level) / 2, (1 + level) / 2]))
        curve = np.asarray(there.moments()[0]), lower, upper
        marks = _marks(f"part{number % _PARTS}", to_time(x), curve, seen, rule)
        panels.append(_panel(number, title, name, marks, label))
    return panels


def function_panels(
    posterior: JointPosterior | Posterior, level: float, until: Any, to_time: Any, label: str
) -> list[Panel]:
    """Observations with intervals or probabilities of new ones, and the functions they read."""
    data, likelihood = single_observations(posterior), posterior.model.likelihood
    x, rule = _along(posterior, until, _FEW_POINTS, to_time)
    seen = to_time(np.asarray(data.x) + float(data.origin)), np.asarray(data.y)
    shown = to_time(x)
    if likelihood.nominal:
        shares = np.asarray(posterior.predict_probabilities(x))
        title = "Probability of each class"
        panels = [class_panel("component-0", title, label, shown, shares, seen, rule)]
    else:
        extra = likelihood.extra
        usual = {} if extra is None else {extra: float(np.median(np.asarray(data.extra)))}
        ends = np.asarray(posterior.quantiles(x, [(1 - level) / 2, (1 + level) / 2], **usual))
        curve = np.asarray(posterior.predict_y(x, **usual)[0]), *ends
        panels = [_panel(0, "Observations", "y", _marks("part0", shown, curve, seen, rule), label)]
    for at, (title, number, band) in enumerate(_functions(posterior, x, level), start=1):
        curve = band.mean, band.lower, band.upper
        marks = _marks(f"part{number % _PARTS}", shown, curve, None, rule)
        panels.append(_panel(at, title, "f", marks, label))
    return panels


def _functions(
    posterior: JointPosterior | Posterior, x: np.ndarray, level: float
) -> list[tuple[str, int, Band]]:
    """Every function and its number; its components, where it is a sum."""
    classes = posterior.model.likelihood.nominal
    of_one = "Function of class {}" if classes else "Function {}"
    if isinstance(posterior, Posterior) and any(
        len(summands_of(kernel)) > 1 for kernel in posterior.model.kernels
    ):
        found = []
        for name, moments in posterior.components(x).items():
            number, _, what = name.partition(".")
            title = f"{of_one.format(number)}: {what}"
            found.append((title, int(number), Band.of(*moments, level)))
        return found
    means, variances = (np.asarray(part) for part in posterior.predict_f(x))
    return [
        (of_one.format(number if classes else number + 1), number, Band.of(mean, variance, level))
        for number, (mean, variance) in enumerate(zip(means.T, variances.T, strict=True))
    ]


def _along(
    posterior: Any, until: Any, most: int, to_time: Any = np.asarray
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


def _panel(at: int, title: str, label: str, marks: tuple[Mark, ...], across: str) -> Panel:
    axes = Axis(across), Axis(label)
    return Panel(f"component-{at}", title, *axes, marks, says=title, along=False, room=1.0)
