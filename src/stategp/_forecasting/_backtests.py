"""A picture of forecasts from several origins and of what came."""

from typing import Any

import numpy as np

from stategp._forecasting._frames import as_frame, clock_times, number_column, time_column
from stategp._forecasting._rolling import Series, cross_validate, read_series
from stategp._forecasting._scores import coverage
from stategp._story import Axis, Dots, Fill, Line, Mark, Panel, Rule, interval_name

_COLOURS = 6  # of origins whose forecasts overlap
_BEFORE = 1.0  # data shown before the first origin, as a share of what comes after it


def backtest_panel(
    forecaster: Any, frame: Any, time: str, target: str, forecasts: Any, **options: Any
) -> Panel:
    """Data, and the mean and interval of the forecast from each origin."""
    data = read_series(frame, time, target, options.get("date_format"))
    if forecasts is None:
        if options.get("horizon") is None:
            raise ValueError(
                'give a horizon, or forecasts=, the frame of cross_validate(…, by="observation")'
            )
        forecasts = cross_validate(forecaster, frame, time, target, by="observation", **options)
    elif unused := [name for name in options if name != "date_format"]:
        raise ValueError(f"the forecasts were given, so {', '.join(unused)} would not be used")
    return _panel(data, *_read(forecasts, data))


def _read(forecasts: Any, data: Series) -> tuple[dict[str, np.ndarray], float]:
    """The columns of the frame of forecasts, times as numbers, and the level of the interval."""
    table = as_frame(forecasts, data.time, data.target)
    levels = [name.removeprefix("lower_") for name in table.columns if name.startswith("lower_")]
    needed = ("origin", data.time, data.target, "mean")
    if not levels or not all(name in table.columns for name in needed):
        raise ValueError(
            f"forecasts must be a frame of cross_validate(…, by='observation'); its columns are "
            f"{', '.join(map(repr, table.columns))}"
        )
    numbers = {
        "y": data.target, "mean": "mean", "lower": f"lower_{levels[0]}",
        "upper": f"upper_{levels[0]}",
    }  # fmt: skip
    found = {name: number_column(table, column) for name, column in numbers.items()}
    for name, column in (("origin", "origin"), ("x", data.time)):
        instants = time_column(table, column, data.axis.zone, data.axis.layout)
        found[name] = np.asarray(data.axis.numbers(instants, f"column {column!r}"), dtype=float)
    return found, float(levels[0]) / 100


def _panel(data: Series, found: dict[str, np.ndarray], level: float) -> Panel:
    origins = np.unique(found["origin"])
    parts = [found["origin"] == origin for origin in origins]
    if all(part.sum() == 1 for part in parts):  # points make one curve
        parts = [np.ones(len(found["x"]), dtype=bool)]
    ends = [found["x"][part].max() for part in parts[:-1]]
    overlap = any(end > origin for end, origin in zip(ends, origins[1:], strict=False))
    last = float(found["x"].max())
    first = float(origins[0]) - _BEFORE * (last - float(origins[0]))
    shown = np.isfinite(data.y) & (data.x >= first) & (data.x <= last)
    marks: list[Mark] = []
    for number, part in enumerate(parts):
        x, mean, lower, upper = (found[name][part] for name in ("x", "mean", "lower", "upper"))
        at, colour = _clock(data, x), f"part{number % _COLOURS}" if overlap else "model"
        names = (interval_name(level), "mean") if number == 0 else ("", "")
        marks.append(Fill(colour, at, lower, upper, name=names[0], key="interval"))
        marks.append(Line(colour, at, mean, name=names[1], key="mean"))
    if len(parts) > 1 or len(origins) == 1:
        rules = zip(_clock(data, origins), ["origin"] + [""] * len(origins), strict=False)
        marks += [Rule("before", np.array([at]), name=name) for at, name in rules]
    marks.append(Dots("data", _clock(data, data.x[shown]), data.y[shown], name="data", key="data"))
    inside = coverage(found["y"], found["lower"], found["upper"])
    count = f"{len(origins)} origin{'' if len(origins) == 1 else 's'}"
    share = f"{100 * inside:.0f} % of {len(found['y']):,} observations"
    title = f"Forecasts from {count}: {share} inside the {interval_name(level)}"
    zone = f" ({data.axis.zone})" if data.axis.zone else ""
    across, up = Axis(f"{data.time}{zone}"), Axis(data.target)
    return Panel("backtest", title, across, up, tuple(marks), says=title, room=0.6)


def _clock(data: Series, x: np.ndarray) -> np.ndarray:
    """Times as people read them."""
    return clock_times(data.kind, data.axis, x) if data.axis.dates else x
