"""What the charts of the page draw, as JSON of bounded size, however long the series."""

import base64
import json
from typing import Any

import numpy as np

from stategp._story import (
    Dots,
    Fill,
    Line,
    Mark,
    Panel,
    Rug,
    Rule,
    Spans,
    Story,
    component_panels,
    in_columns,
    interval_name,
    series_panel,
)

_MOST_POINTS = 100_000  # observations carried one by one
_BINS = 16_384  # above that: range and mean in each of these, and the last observations in full
_LAST = 20_000
_MOST_MARKS = 5_000  # along the lower edge


def carried(story: Story) -> str:
    """JSON that may stand inside a script element: no character in it ends one."""
    text = json.dumps(_content(story), allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def over_time(story: Story) -> list[Panel]:
    """The components that are drawn along x, if there are several components."""
    if not story.several_components:
        return []
    return [panel for panel in component_panels(story) if panel.along]


def _content(story: Story) -> dict[str, Any]:
    shelf = _Shelf()
    end = story.end if len(story.forecast.x) else story.curve.x[-1]  # where the forecast begins
    panels = {"main-chart": series_panel(story)}
    panels |= {panel.key: panel for panel in over_time(story)}
    return {
        "dates": story.has_dates,
        "end": float(_numbers(np.array([end]))[0]),
        "charts": [
            {
                "id": key,
                "room": panel.room,
                "layers": [_layer(mark, shelf, story.widest) for mark in panel.marks],
            }
            for key, panel in panels.items()
        ],
        "forecast": _forecast(story),
        "arrays": shelf.packed,
    }


class _Shelf:
    """Arrays that charts share, each carried once."""

    def __init__(self) -> None:
        self.packed: list[dict[str, Any]] = []
        self.places: dict[tuple[int, bool], int] = {}
        self.kept: list[np.ndarray] = []  # so that no two have the same id

    def __call__(self, values: np.ndarray, exact: bool = False) -> int:
        key = (id(values), exact)
        if key not in self.places:
            self.places[key] = len(self.packed)
            self.packed.append(_exact(_numbers(values)) if exact else _short(values))
            self.kept.append(values)
        return self.places[key]


def _layer(mark: Mark, shelf: _Shelf, level: float) -> dict[str, Any]:
    layer = {"colour": mark.colour, "name": mark.name, "key": mark.key, "shown": mark.shown}
    match mark:
        case Line():
            return {**layer, "kind": "line", "x": shelf(mark.x, True), "y": shelf(mark.y)}
        case Fill():
            bounds = {"lower": shelf(mark.lower), "upper": shelf(mark.upper)}
            layer["name"] = mark.name or interval_name(level)
            x = shelf(mark.x, True)
            return {**layer, "kind": "fill", "x": x, **bounds, "shade": mark.shade}
        case Dots():
            return {**layer, "kind": "dots", **_data(_numbers(mark.x), mark.y)}
        case Spans():
            return {**layer, "kind": "spans", "spans": _numbers(mark.spans).tolist()}
        case Rule():
            return {**layer, "kind": "rule", "at": float(_numbers(mark.x)[0])}
        case Rug():
            kept = _numbers(mark.x)[:: -(-len(mark.x) // _MOST_MARKS)]
            return {**layer, "kind": "rug", "x": shelf(kept, True)}
    raise TypeError(f"no way to carry {type(mark).__name__}")


def _forecast(story: Story) -> dict[str, Any] | None:
    """All rows of the forecast, for whoever wants them in a file."""
    forecast = story.forecast
    if len(forecast.x) == 0:
        return None
    columns = {"mean": _exact(forecast.mean)}
    for level, (lower, upper) in sorted(forecast.intervals.items()):
        text = f"{100 * level:.6g}"
        columns |= {f"lower_{text}": _exact(lower), f"upper_{text}": _exact(upper)}
    return {"label": story.x_label, "x": _exact(_numbers(forecast.x)), "columns": columns}


def _data(x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    if len(y) <= _MOST_POINTS:
        return {"x": _exact(x), "y": _short(y)}
    bins = in_columns(x, y, _BINS)
    return {
        "x": _exact(x[-_LAST:]),
        "y": _short(y[-_LAST:]),
        "full_from": float(x[-_LAST]),
        "bins": {
            "x": _exact(bins.centre),
            "low": _short(bins.low),
            "high": _short(bins.high),
            "mean": _short(bins.mean),
            "count": _exact(bins.counts.astype(float)),
            "width": bins.width,
        },
    }


def _numbers(x: np.ndarray) -> np.ndarray:
    """Dates as JavaScript counts them: milliseconds since 1970."""
    return x.astype("datetime64[us]").astype(np.int64) / 1e3 if x.dtype.kind == "M" else x


def _exact(values: np.ndarray) -> dict[str, Any]:
    return {"kind": "f8", "bytes": _base64(np.ascontiguousarray(values, dtype="<f8"))}


def _short(values: np.ndarray) -> dict[str, Any]:
    """Half the size: single precision, measured from the middle so that little is lost."""
    finite = values[np.isfinite(values)]
    offset = float((finite.min() + finite.max()) / 2) if len(finite) else 0.0
    with np.errstate(over="ignore"):
        near = (values - offset).astype("<f4")
    return {"kind": "f4", "offset": offset, "bytes": _base64(near)}


def _base64(values: np.ndarray) -> str:
    return base64.b64encode(values.tobytes()).decode("ascii")
