"""A field over space and time, along time at some of its places."""

from collections.abc import Iterator

import numpy as np

from stategp._posteriors import SpaceTimePosterior, StackedPosterior, marginals_at
from stategp._story._charts import Axis, Fill, Line, Mark, Panel
from stategp._story._classes import class_lines
from stategp._story._story import Band

_MOST = 6  # places
_POINTS = 241


def place_panels(posterior: SpaceTimePosterior, level: float) -> list[Panel]:
    """f along time at the inducing places that are farthest from each other, a panel for each."""
    places, times, name = _where(posterior)
    seen = posterior.map(times, places)
    panels = []
    for number, title in _titles(places):
        band = Band.of(seen.mean[:, number], seen.sd[:, number] ** 2, level)
        colour = f"part{number % _MOST}"
        marks = (
            Fill(colour, times, band.lower, band.upper, key="band"),
            Line(colour, times, band.mean, key="mean"),
        )
        axes = Axis(name), Axis("f")
        panels.append(Panel(f"component-{number}", title, *axes, marks, says=title, along=False))
    return panels


def outcome_panels(posterior: StackedPosterior, level: float) -> list[Panel]:
    """What would be observed along time there: the probability of each class, or an interval."""
    places, times, name = _where(posterior.parts[0])
    likelihood, panels = posterior.model.likelihood, []
    for number, title in _titles(places):
        there = marginals_at(posterior, (times, np.tile(places[number], (len(times), 1))))
        marks: tuple[Mark, ...]
        if likelihood.outcomes is not None:
            marks = class_lines(times, np.asarray(there.probabilities()))
            up = Axis("Probability", (0.0, 1.0))
        else:
            ends = np.asarray(there.quantiles([(1 - level) / 2, (1 + level) / 2]))
            colour, mean = f"part{number % _MOST}", np.asarray(there.moments()[0])
            marks = (
                Fill(colour, times, ends[0], ends[1], key="band"),
                Line(colour, times, mean, key="mean"),
            )
            up = Axis("y")
        axes = Axis(name), up
        panels.append(Panel(f"component-{number}", title, *axes, marks, says=title, along=False))
    return panels


def _where(field: SpaceTimePosterior) -> tuple[np.ndarray, np.ndarray, str]:
    """Some places far from each other, times to draw curves at, and what time is called."""
    places = field.inducing_places[:_MOST]
    first, last = field.inducing[[0, -1]]
    return places, np.linspace(first, last, _POINTS), field.model.names(places.shape[1])[0]


def _titles(places: np.ndarray) -> Iterator[tuple[int, str]]:
    for number, place in enumerate(places):
        yield number, "At " + ", ".join(f"{coordinate:.5g}" for coordinate in place)
