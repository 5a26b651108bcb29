"""What the charts of the page draw, as JSON of bounded size, however long the series."""

import base64
import json
from typing import Any

import numpy as np

from stategp._story import Band, Story, in_columns

_MOST_POINTS = 100_000  # observations carried one by one
_BINS = 16_384  # above that: range and mean in each of these, and the last observations in full
_LAST = 20_000
_MOST_INDUCING = 5_000


def carried(story: Story) -> str:
    """JSON that may stand inside a script element: no character in it ends one."""
    text = json.dumps(_content(story), allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _content(story: Story) -> dict[str, Any]:
    levels = sorted(story.curve.intervals, reverse=True)
    end = story.end if len(story.forecast.x) else story.curve.x[-1]  # where the forecast begins
    return {
        "dates": story.has_dates,
        "end": float(_numbers(np.array([end]))[0]),
        "x": _exact(_numbers(story.curve.x)),
        "mean": _short(story.curve.mean),
        "intervals": [
            {
                "level": level,
                "lower": _short(story.curve.intervals[level][0]),
                "upper": _short(story.curve.intervals[level][1]),
            }
            for level in levels
        ],
        "widest": story.widest,
        "function": None if story.function is None else _band(story.function),
        "probabilities": story.two_valued,
        "components": [_band(band) for band in story.several_components.values()],
        "data": _data(_numbers(story.x), story.y),
        "inducing": _exact(_numbers(story.inducing)[:: -(-len(story.inducing) // _MOST_INDUCING)]),
        "gaps": _numbers(story.gaps).tolist(),
    }


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


def _band(band: Band) -> dict[str, Any]:
    return {"mean": _short(band.mean), "lower": _short(band.lower), "upper": _short(band.upper)}


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
