"""Panels as small pictures that need no JavaScript."""

import numpy as np

from stategp._story import Dots, Fill, Line, Mark, Panel, Rug, Rule, Spans, Stems
from stategp.report._text import escape

_WIDTH, _HEIGHT = 460, 270
_RIGHT, _TOP, _BOTTOM = 448, 8, 226
_MOST_DOTS = 2_500
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

Ticks = list[tuple[float, str]]


def draw(panel: Panel) -> str:
    """The panel as an SVG element, or why there is none."""
    if panel.instead:
        return f'<p class="faint">{escape(panel.instead)}</p>'
    plane = _Plane(panel)
    inside = "".join(plane.mark(mark) for mark in panel.marks if mark.shown)
    return plane.framed(panel, inside)


def keys(panel: Panel) -> str:
    """The names of its curves, where it has several."""
    named = [mark for mark in panel.named if mark.shown]
    if not named:
        return ""
    entries = "".join(
        f'<span><i class="c-{mark.colour}"></i>{escape(mark.name)}</span>' for mark in named
    )
    return f'<p class="keys">{entries}</p>'


class _Plane:
    """From numbers to places in the picture."""

    def __init__(self, panel: Panel):
        self.dates = panel.has_dates
        self.across = panel.across.ends or self._ends(panel)
        self.up = panel.height()
        self.rows = list(panel.up.ticks) if panel.up.ticks else round_ticks(*self.up)
        self.left = 26 + 7 * max((len(text) for _, text in self.rows), default=1)
        self.columns = list(panel.across.ticks) if panel.across.ticks else self._choose()
        if panel.across.whole:
            self.columns = [(at, text) for at, text in self.columns if at % 1 == 0]

    def _ends(self, panel: Panel) -> tuple[float, float]:
        curves = [mark.x for mark in panel.marks if isinstance(mark, Line | Fill)]
        seen = np.concatenate([numbers(x[[0, -1]]) for x in curves])
        first, last = float(seen.min()), float(seen.max())
        return (first, last) if last > first else (first - 1.0, last + 1.0)

    def _choose(self) -> Ticks:
        if not self.dates:
            return round_ticks(*self.across)
        first, last = (np.datetime64(int(at), "us") for at in self.across)
        return _date_ticks(first, last)

    def x(self, value: np.ndarray | float) -> np.ndarray:
        first, last = self.across
        return np.asarray(self.left + (value - first) / (last - first) * (_RIGHT - self.left))

    def y(self, value: np.ndarray | float) -> np.ndarray:
        first, last = self.up
        place = _BOTTOM - (value - first) / (last - first) * (_BOTTOM - _TOP)
        return np.asarray(np.clip(place, -1e4, 1e4))

    def mark(self, mark: Mark) -> str:
        """One mark as an element."""
        kind = f"c-{mark.colour}"
        match mark:
            case Line():
                return f'<path class="line {kind}" d="{self._path(numbers(mark.x), mark.y)}"/>'
            case Fill():
                x = numbers(mark.x)
                path = self._path(np.append(x, x[::-1]), np.append(mark.upper, mark.lower[::-1]))
                return f'<path class="fill {kind}" opacity="{mark.shade:g}" d="{path}Z"/>'
            case Dots():
                return self._dots(mark, f"{'faint ' if mark.faint else ''}{kind}")
            case Stems():
                zero = float(self.y(0.0))
                places = zip(self.x(mark.x), self.y(mark.y), strict=True)
                stems = "".join(f"M{a:.1f} {zero:.1f}V{b:.1f}" for a, b in places)
                dots = self._dots(Dots(mark.colour, mark.x, mark.y), kind)
                return f'<path class="line {kind}" d="{stems}"/>{dots}'
            case Spans():
                pairs = [self.x(pair) for pair in numbers(mark.spans)]
                boxes = "".join(f"M{a:.1f} {_TOP}H{b:.1f}V{_BOTTOM}H{a:.1f}Z" for a, b in pairs)
                return f'<path class="fill {kind}" d="{boxes}"/>'
            case Rule():
                at = float(self.x(numbers(mark.x))[0])
                return (
                    f'<path class="line dashed {kind}" d="M{at:.1f} {_TOP}V{_BOTTOM}"/>'
                    f'<text x="{at + 5:.1f}" y="{_TOP + 12}">{escape(mark.name)}</text>'
                )
            case Rug():
                x = self.x(numbers(mark.x)[:: -(-len(mark.x) // 400)])
                ticks = "".join(f"M{at:.1f} {_BOTTOM}v-6" for at in x)
                return f'<path class="line {kind}" d="{ticks}"/>'
        raise TypeError(f"no way to draw {type(mark).__name__}")

    def _path(self, x: np.ndarray, y: np.ndarray) -> str:
        places = zip(self.x(x), self.y(y), strict=True)
        return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in places if np.isfinite(b))

    def _dots(self, mark: Dots, kind: str) -> str:
        kept = _keep_extremes(mark.y)
        places = zip(self.x(numbers(mark.x)[kept]), self.y(mark.y[kept]), strict=True)
        path = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in places if np.isfinite(b))
        return f'<path class="dots {kind}" d="{path}"/>'

    def framed(self, panel: Panel, inside: str) -> str:
        """The axes around it; what lies outside of them is cut off."""
        lines, words = [], []
        for value, text in self.rows:
            y = float(self.y(value))
            lines.append(f'<path class="grid" d="M{self.left} {y:.1f}H{_RIGHT}"/>')
            words.append(
                f'<text x="{self.left - 8}" y="{y:.1f}" dy="4" text-anchor="end">{text}</text>'
            )
        for value, text in self.columns:
            words.append(
                f'<text x="{float(self.x(value)):.1f}" y="{_BOTTOM + 18}" text-anchor="middle">'
                f"{escape(text)}</text>"
            )
        middle = (self.left + _RIGHT) / 2
        words.append(
            f'<text x="{middle}" y="{_BOTTOM + 38}" text-anchor="middle">'
            f"{escape(panel.across.label)}</text>"
            f'<text transform="translate(11 {(_TOP + _BOTTOM) / 2}) rotate(-90)" '
            f'text-anchor="middle">{escape(panel.up.label)}</text>'
        )
        axis = f'<path class="axis" d="M{self.left} {_BOTTOM}H{_RIGHT}"/>'
        left, top = self.left - 4, _TOP - 4
        size = f"{_RIGHT - left + 4} {_BOTTOM - top}"
        width, height = size.split()
        window = (
            f'<svg class="window" x="{left}" y="{top}" width="{width}" height="{height}" '
            f'viewBox="{left} {top} {size}">{inside}</svg>'
        )
        return (
            f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(panel.says)}">'
            f"{''.join(lines)}{window}{axis}{''.join(words)}</svg>"
        )


def numbers(x: np.ndarray) -> np.ndarray:
    """Dates as microseconds since 1970."""
    return x.astype("datetime64[us]").astype(float) if x.dtype.kind == "M" else x


def _number(date: np.datetime64) -> float:
    return float(date.astype("M8[us]").astype(np.int64))


def round_ticks(first: float, last: float, most: int = 5) -> Ticks:
    rough = (last - first) / most
    power = 10.0 ** np.floor(np.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= 0.999 * rough)
    places = max(0, -int(np.floor(np.log10(step) + 1e-9)))
    values = step * np.arange(np.ceil(first / step - 1e-9), np.floor(last / step + 1e-9) + 1)
    return [(float(value), f"{value:,.{places}f}".replace("-", "−")) for value in values + 0.0]


def _date_ticks(first: np.datetime64, last: np.datetime64) -> Ticks:
    """Five round dates or so: years, months, days or hours."""
    days = (last - first) / np.timedelta64(1, "D")
    if days > 3 * 365:
        marks = np.arange(first.astype("M8[Y]") + 1, last.astype("M8[Y]") + 1)
        steps: tuple[int, ...] = (1, 2, 4, 5, 10, 20, 25, 50, 100, 200, 500, 1000)
        step = next((step for step in steps if len(marks) <= 6 * step), len(marks))
        kept = marks[(marks.astype(int) + 1970) % step == 0]
        return [(_number(mark), str(mark)) for mark in kept]
    if days > 90:
        marks = np.arange(first.astype("M8[M]") + 1, last.astype("M8[M]") + 1)
        step = next(step for step in (1, 2, 3, 6, 12) if len(marks) <= 5 * step)
        kept = marks[marks.astype(int) % step == 0]
        words = [f"{_MONTHS[int(mark.astype(int)) % 12]} {mark.astype('M8[Y]')}" for mark in kept]
        return [(_number(mark), word) for mark, word in zip(kept, words, strict=True)]
    unit = "D" if days > 4 else "h" if days > 1 / 6 else "s"
    marks = np.unique((first + (last - first) * np.array([1, 3, 5, 7]) / 8).astype(f"M8[{unit}]"))
    return [(_number(mark), _moment(mark, unit)) for mark in marks]


def _moment(mark: np.datetime64, unit: str) -> str:
    day, _, clock = str(mark.astype("M8[s]")).partition("T")
    _, month, number = day.rsplit("-", 2)
    date = f"{int(number)} {_MONTHS[int(month) - 1]}"
    return date if unit == "D" else f"{date} {clock[:5]}" if unit == "h" else clock


def _keep_extremes(y: np.ndarray) -> np.ndarray:
    """Few enough to draw, the most extreme among them."""
    if len(y) <= _MOST_DOTS:
        return np.arange(len(y))
    even = np.linspace(0, len(y) - 1, _MOST_DOTS - 200).astype(int)
    return np.unique(np.append(even, np.argsort(np.abs(y))[-200:]))
