"""Several outputs along one input: a panel for each."""

from typing import Any

import numpy as np

from stategp._posteriors import MultiOutputPosterior
from stategp._story._charts import Axis, Dots, Fill, Line, Panel, Rule
from stategp._story._grids import forecast_end, make_grid

_PARTS = 6
_MOST_POINTS = 2000


def output_panels(posterior: MultiOutputPosterior, level: float, until: Any) -> list[Panel]:
    """Observations, mean and intervals of new observations of every output."""
    data = posterior.data
    relative = np.asarray(data.x)
    end = forecast_end(until, relative, data.origin)
    grid, _ = make_grid(posterior, relative, end, None)
    grid = grid[:: -(-len(grid) // _MOST_POINTS)]
    x, last = grid + float(data.origin), np.asarray([relative[-1] + float(data.origin)])
    rule = [Rule("forecast", last, name="forecast")] * int(end > relative[-1])
    panels = []
    for number, name in enumerate(posterior.model.names):
        there = posterior.marginals_of(number, x)
        tails = [(1 - level) / 2, (1 + level) / 2]
        lower, upper = np.asarray(there.quantiles(tails))
        mean = np.asarray(there.moments()[0])
        colour = f"part{number % _PARTS}"
        seen_x, seen_y = posterior.observed(number)
        marks = (
            Fill(colour, x, lower, upper, key="band"),
            Dots("data", seen_x.astype(float), seen_y, key="data", faint=len(seen_y) > 1000),
            Line(colour, x, mean, key="mean"),
            *rule,
        )
        title = f"Output {name}"
        panels.append(
            Panel(f"component-{number}", title, Axis("x"), Axis(name), marks, says=title,
                  along=False, room=1.0)
        )  # fmt: skip
    return panels
