"""Maps of a field: where they stand in the page, and their numbers for the script that paints them.

The axes, the dots and the scales of colour are drawn here; `maps.js` paints the maps themselves,
for the time that a slider points at.
"""

import base64
import json

import numpy as np

from stategp._story import Layer, Maps
from stategp.report._svg import round_ticks
from stategp.report._text import escape, number

_WIDTH, _LEFT, _RIGHT, _TOP, _BELOW = 500, 62, 84, 8, 46  # the right has the scale
_MOST_DOTS = 2_000
_SMALL = 6  # maps in a row below, to choose a time by looking
# A few colours of matplotlib's viridis and magma; what lies between is mixed.
_COLOURS = {
    "mean": "440154 472d7b 3b528b 2c728e 21918c 28ae80 5ec962 addc30 fde725",
    "sd": "000004 1c1044 4f127b 812581 b5367a e55964 fb8761 fec287 fcfdbf",
}


def map_section(maps: Maps) -> str:
    """The section with the maps: a slider if there are several times."""
    several = len(maps.layers[0].values) > 1
    figures = "".join(_figure(maps, layer) for layer in maps.layers)
    return (
        '<section aria-labelledby="maps-heading"><div class="bar"><h2 id="maps-heading">Maps</h2>'
        f"{_slider(maps) if several else ''}</div>"
        f'<p class="about">{_about(maps)}</p><div class="quad">{figures}</div>'
        f"{_thumbnails(maps) if several else ''}"
        '<noscript><p class="notice">The maps of this page need JavaScript; '
        "posterior.plot_maps() draws them as a picture.</p></noscript></section>"
    )


def carried_maps(maps: Maps) -> str:
    """The numbers as JSON that may stand inside a script element."""
    content = {
        "size": maps.layers[0].values.shape[:0:-1],
        "titles": maps.titles,
        "colours": {layer.key: _colours(layer) for layer in maps.layers},
    } | {layer.key: _bytes(layer) for layer in maps.layers}
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _bytes(layer: Layer) -> str:
    """256 steps from the lowest to the highest value of all maps."""
    steps = np.rint(255 * layer.share_of(layer.values)).astype(np.uint8)
    return base64.b64encode(steps.tobytes()).decode("ascii")


def _colours(layer: Layer) -> list[str]:
    return _COLOURS["sd" if layer.uncertainty else "mean"].split()


def _about(maps: Maps) -> str:
    if maps.along_time:
        where = f" At {escape(maps.titles[0])}." if maps.titles[0] else ""
        return f"Time runs from left to right.{where} Dots are observations."
    dots = "Dots are places that were observed."
    if len(maps.titles) == 1:
        return f"At {escape(maps.titles[0])}. {dots}"
    way = "Move the slider (arrow keys do so as well), or choose a map below."
    return f"{way} {dots} The scales hold for all times."


def _slider(maps: Maps) -> str:
    last = len(maps.titles) - 1
    return (
        '<div class="tools over-time"><button type="button" id="map-play" aria-pressed="false">'
        'Play</button><input type="range" id="map-time" min="0" value="0" step="1" '
        f'max="{last}" aria-label="Time of the maps" aria-valuetext="{escape(maps.titles[0])}">'
        f'<output for="map-time" id="map-shown">{escape(maps.titles[0])}</output></div>'
    )


def _thumbnails(maps: Maps) -> str:
    first = maps.layers[0]
    chosen = np.unique(np.linspace(0, len(maps.titles) - 1, _SMALL).round().astype(int))
    buttons = "".join(
        f'<button type="button" data-map="{at}"><canvas data-field="{first.key}" data-at="{at}" '
        f'aria-hidden="true"></canvas>{escape(maps.titles[at])}</button>'
        for at in chosen
    )
    label = escape(f"{first.name} at some times".capitalize())
    return f'<div class="small-maps" role="group" aria-label="{label}">{buttons}</div>'


def _figure(maps: Maps, layer: Layer) -> str:
    title = layer.name.capitalize()
    spoken = "{}, from {} to {}".format(title, *map(number, layer.range))
    wide = _WIDTH - _LEFT - _RIGHT
    tall = round(wide * (maps.ratio or 0.6))
    height = _TOP + tall + _BELOW
    place = ";".join(
        f"{side}:{100 * share:.3f}%"
        for side, share in [
            ("left", _LEFT / _WIDTH), ("top", _TOP / height),
            ("width", wide / _WIDTH), ("height", tall / height),
        ]
    )  # fmt: skip
    inside = _axes(maps, wide, tall) + _dots(maps, wide, tall) + _scale(layer, tall)
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>"
        f'<div class="map"><canvas data-field="{layer.key}" style="{place}" role="img" '
        f'aria-label="{escape(spoken)}"></canvas>'
        f'<svg viewBox="0 0 {_WIDTH} {height}" aria-hidden="true">{inside}</svg></div></figure>'
    )


def _axes(maps: Maps, wide: int, tall: int) -> str:
    ends = [(float(axis[1][0]), float(axis[1][-1])) for axis in (maps.across, maps.up)]
    bottom, words = _TOP + tall, []
    for value, text in round_ticks(*ends[0]):
        x = _LEFT + wide * (value - ends[0][0]) / (ends[0][1] - ends[0][0])
        words.append(f'<path class="axis" d="M{x:.1f} {bottom}v4"/>')
        words.append(f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{text}</text>')
    for value, text in round_ticks(*ends[1]):
        y = bottom - tall * (value - ends[1][0]) / (ends[1][1] - ends[1][0])
        words.append(f'<path class="axis" d="M{_LEFT} {y:.1f}h-4"/>')
        words.append(f'<text x="{_LEFT - 8}" y="{y:.1f}" dy="4" text-anchor="end">{text}</text>')
    middle = f"translate(12 {_TOP + tall / 2:.1f}) rotate(-90)"
    words.append(
        f'<text x="{_LEFT + wide / 2}" y="{bottom + 38}" text-anchor="middle">'
        f'{escape(maps.across[0])}</text><text transform="{middle}" text-anchor="middle">'
        f"{escape(maps.up[0])}</text>"
    )
    return "".join(words)


def _dots(maps: Maps, wide: int, tall: int) -> str:
    dots = maps.dots[0][:: max(1, -(-len(maps.dots[0]) // _MOST_DOTS))]
    (a, b), (c, d) = ((axis[1][0], axis[1][-1]) for axis in (maps.across, maps.up))
    x = _LEFT + wide * (dots[:, 0] - a) / (b - a)
    y = _TOP + tall * (d - dots[:, 1]) / (d - c)
    inside = (x >= _LEFT) & (x <= _LEFT + wide) & (y >= _TOP) & (y <= _TOP + tall)
    path = "".join(f"M{u:.1f} {v:.1f}h0" for u, v in zip(x[inside], y[inside], strict=True))
    return f'<path class="seen under" d="{path}"/><path class="seen" d="{path}"/>'


def _scale(layer: Layer, tall: int) -> str:
    """The colours beside the map, with round values."""
    colours = _colours(layer)
    stops = "".join(
        f'<stop offset="{at / (len(colours) - 1):.3f}" stop-color="#{colour}"/>'
        for at, colour in enumerate(colours)
    )
    left = _WIDTH - _RIGHT + 16
    ticks = round_ticks(*layer.range)
    if layer.log:
        ticks = [(value, f"{value:g}") for value in layer.log_ticks()]
    words = "".join(
        f'<text x="{left + 18}" y="{_TOP + tall * (1 - layer.share_of(value)):.1f}" dy="4">'
        f"{text}</text>"
        for value, text in ticks
    )
    return (
        f'<defs><linearGradient id="colours-{layer.key}" x1="0" y1="1" x2="0" y2="0">{stops}'
        f'</linearGradient></defs><rect x="{left}" y="{_TOP}" width="12" height="{tall}" '
        f'fill="url(#colours-{layer.key})"/>{words}'
    )
