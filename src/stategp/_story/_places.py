"""A field over space and time, along time at some of its places."""

import numpy as np

from stategp._posteriors import SpaceTimePosterior
from stategp._story._charts import Axis, Fill, Line, Panel
from stategp._story._story import Band

_MOST = 6  # places
_POINTS = 241


def place_panels(posterior: SpaceTimePosterior, level: float) -> list[Panel]:
    """f along time at the inducing places that are farthest from each other, a panel for each."""
    places = posterior.inducing_places[:_MOST]
    first, last = posterior.inducing[[0, -1]]
    times = np.linspace(first, last, _POINTS)
    seen = posterior.map(times, places)
    name = posterior.model.names(places.shape[1])[0]
    panels = []
    for number, place in enumerate(places):
        band = Band.of(seen.mean[:, number], seen.sd[:, number] ** 2, level)
        colour = f"part{number % _MOST}"
        marks = (
            Fill(colour, times, band.lower, band.upper, key="band"),
            Line(colour, times, band.mean, key="mean"),
        )
        title = "At " + ", ".join(f"{coordinate:.5g}" for coordinate in place)
        axes = Axis(name), Axis("f")
        panels.append(Panel(f"component-{number}", title, *axes, marks, says=title, along=False))
    return panels
