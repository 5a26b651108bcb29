"""Small charts that need no JavaScript: calibration, residuals, the course of the fit."""

import numpy as np
from scipy.special import ndtri

from stategp._story import Story
from stategp.report._text import escape

_WIDTH, _HEIGHT = 460, 270
_RIGHT, _TOP, _BOTTOM = 448, 8, 226
_MOST_DOTS = 2_500


Ends = tuple[float | int, float | int]


class _Plane:
    """From numbers to places in the picture."""

    def __init__(self, across: Ends, up: Ends, share: bool = False):
        self.across, self.up = across, up
        self.ticks = [(value, f"{value:.0%}" if share else t) for value, t in _round_ticks(*up)]
        self.left = 26 + 7 * max((len(text) for _, text in self.ticks), default=1)

    def x(self, value: np.ndarray | float | int) -> np.ndarray:
        first, last = self.across
        return np.asarray(self.left + (value - first) / (last - first) * (_RIGHT - self.left))

    def y(self, value: np.ndarray | float | int) -> np.ndarray:
        first, last = self.up
        return np.asarray(_BOTTOM - (value - first) / (last - first) * (_BOTTOM - _TOP))

    def path(self, x: np.ndarray, y: np.ndarray) -> str:
        places = zip(self.x(x), self.y(y), strict=True)
        return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in places)

    def line(self, x: np.ndarray, y: np.ndarray, kind: str) -> str:
        return f'<path class="{kind}" d="{self.path(x, y)}"/>'

    def area(self, x: np.ndarray, lower: np.ndarray, upper: np.ndarray, kind: str) -> str:
        around = self.path(np.append(x, x[::-1]), np.append(upper, lower[::-1]))
        return f'<path class="{kind}" d="{around}Z"/>'

    def dots(self, x: np.ndarray, y: np.ndarray, kind: str = "dots") -> str:
        places = zip(self.x(x), self.y(y), strict=True)
        return f'<path class="{kind}" d="{"".join(f"M{a:.1f} {b:.1f}h0" for a, b in places)}"/>'

    def picture(
        self, inside: str, says: str, across: str, up: str, ticks: list[tuple[float, str]]
    ) -> str:
        """The axes around it; `ticks` are those of x."""
        lines, words = [], []
        for value, text in self.ticks:
            y = float(self.y(value))
            lines.append(f'<path class="grid" d="M{self.left} {y:.1f}H{_RIGHT}"/>')
            words.append(
                f'<text x="{self.left - 8}" y="{y:.1f}" dy="4" text-anchor="end">{text}</text>'
            )
        for value, text in ticks:
            words.append(
                f'<text x="{float(self.x(value)):.1f}" y="{_BOTTOM + 18}" text-anchor="middle">'
                f"{escape(text)}</text>"
            )
        middle = (self.left + _RIGHT) / 2
        words.append(
            f'<text x="{middle}" y="{_BOTTOM + 38}" text-anchor="middle">{escape(across)}</text>'
            f'<text transform="translate(11 {(_TOP + _BOTTOM) / 2}) rotate(-90)" '
            f'text-anchor="middle">{escape(up)}</text>'
        )
        axis = f'<path class="axis" d="M{self.left} {_BOTTOM}H{_RIGHT}"/>'
        return (
            f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(says)}">'
            f"{''.join(lines)}{inside}{axis}{''.join(words)}</svg>"
        )


def calibration(story: Story) -> str:
    """How many observations intervals of each level hold."""
    nominal, actual = story.checks.nominal, story.checks.actual
    chance = 1.96 * np.sqrt(nominal * (1 - nominal) / max(len(story.checks.ranks), 1))
    plane = _Plane((0, 1), (0, 1), share=True)
    inside = plane.area(
        nominal, (nominal - chance).clip(0), (nominal + chance).clip(0, 1), "chance"
    )
    inside += plane.line(np.array([0.0, 1.0]), np.array([0.0, 1.0]), "expected")
    inside += plane.line(nominal, actual, "line")
    ticks = [(share, f"{share:.0%}") for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    worst = float(np.max(np.abs(actual - nominal)))
    says = f"Calibration curve; at most {worst:.1%} away from the diagonal"
    return plane.picture(inside, says, "Level of the interval", "Observations inside", ticks)


def autocorrelation(story: Story) -> str:
    """Whether residuals remember their neighbours."""
    found, lags = story.checks.autocorrelation, np.arange(1, len(story.checks.autocorrelation) + 1)
    if len(found) == 0:
        return '<p class="faint">Too few observations.</p>'
    bound = 1.96 / np.sqrt(story.checks.pairs)
    reach = max(1.2 * float(np.abs(found).max()), 3 * bound, 0.05)
    plane = _Plane((0, len(found) + 1), (-reach, reach))
    ends = np.array([0.0, len(found) + 1.0])
    inside = plane.area(ends, np.full(2, -bound), np.full(2, bound), "chance")
    inside += plane.line(ends, np.zeros(2), "expected")
    for lag, height in zip(lags, found, strict=True):
        inside += plane.line(np.full(2, lag), np.array([0.0, height]), "stem")
    inside += plane.dots(lags.astype(float), found, "dots full")
    ticks = [(value, text) for value, text in _round_ticks(0, len(found)) if value % 1 == 0]
    outside = int(np.sum(np.abs(found) > bound))
    says = f"Autocorrelation at {len(found)} lags, {outside} of them outside the bounds of chance"
    return plane.picture(inside, says, "Lag (observations)", "Correlation", ticks)


def residuals(story: Story) -> str:
    """Residuals along x."""
    x = story.checks.x
    across = (x - x[0]) / (x[-1] - x[0]) if x[-1] > x[0] else np.full(len(x), 0.5)
    shown = _keep_extremes(story.checks.residuals)
    y = story.checks.residuals
    reach = max(3.0, 1.08 * float(np.abs(y).max()))
    plane = _Plane((0, 1), (-reach, reach))
    inside = plane.line(np.array([0.0, 1.0]), np.zeros(2), "expected")
    inside += plane.area(np.array([0.0, 1.0]), np.full(2, -1.96), np.full(2, 1.96), "chance")
    inside += plane.dots(across[shown].astype(float), y[shown])
    outside = float(np.mean(np.abs(y) > 1.96))
    says = f"Residuals along the series, {outside:.1%} of them beyond 1.96"
    return plane.picture(inside, says, story.x_label, "Normal score", _ends(story))


def quantiles(story: Story) -> str:
    """Residuals beside those of a normal distribution."""
    ordered = np.sort(story.checks.residuals)
    expected = ndtri((np.arange(len(ordered)) + 0.5) / len(ordered))
    shown = np.unique(
        np.append(np.linspace(0, len(ordered) - 1, 400).astype(int), _tails(len(ordered)))
    )
    reach = 1.05 * max(float(np.abs(ordered).max()), float(np.abs(expected).max()), 2.0)
    plane = _Plane((-reach, reach), (-reach, reach))
    ends = np.array([-reach, reach])
    inside = plane.line(ends, ends, "expected")
    inside += plane.dots(expected[shown], ordered[shown], "dots full")
    says = "Quantiles of the residuals beside those of a normal distribution"
    return plane.picture(
        inside, says, "Normal quantile", "Residual quantile", _round_ticks(-reach, reach)
    )


def trace(story: Story) -> str:
    """The objective at each step."""
    values = story.trace
    if len(values) < 2 or not np.all(np.isfinite(values)):
        return ""
    low = (
        min(float(np.quantile(values, 0.1)), float(values[-1])) if len(values) > 4 else values.min()
    )
    room = 0.08 * (float(values.max()) - low) or 1.0
    plane = _Plane((0, len(values) - 1), (low - room, float(values.max()) + room))
    steps = np.arange(len(values), dtype=float)
    seen = values >= low - room
    first = int(np.argmax(seen))
    inside = plane.line(steps[first:], values[first:].clip(low - room), "line")
    inside += plane.dots(steps[seen], values[seen], "dots full")
    says = f"Objective over {len(values) - 1} steps, ending at {values[-1]:.6g}"
    ticks = [(value, text) for value, text in _round_ticks(0, len(values) - 1) if value % 1 == 0]
    return plane.picture(inside, says, "Step", "Objective (nats)", ticks)


def _round_ticks(first: float | int, last: float | int, most: int = 5) -> list[tuple[float, str]]:
    rough = (last - first) / most
    power = 10.0 ** np.floor(np.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= 0.999 * rough)
    places = max(0, -int(np.floor(np.log10(step) + 1e-9)))
    values = step * np.arange(np.ceil(first / step - 1e-9), np.floor(last / step + 1e-9) + 1)
    return [(float(value), f"{value:,.{places}f}".replace("-", "−")) for value in values + 0.0]


def _ends(story: Story) -> list[tuple[float, str]]:
    """Five places along x."""
    x = story.checks.x
    if not x[-1] > x[0]:
        return []
    if story.has_dates:
        marks = _date_marks(x[0], x[-1])
        places = (marks.astype("datetime64[us]") - x[0]) / (x[-1] - x[0])
        return [(float(p), str(m)) for p, m in zip(places, marks, strict=True)]
    span = x[-1] - x[0]
    return [((value - x[0]) / span, text) for value, text in _round_ticks(x[0], x[-1])]


def _date_marks(first: np.datetime64, last: np.datetime64) -> np.ndarray:
    """Round years, or four dates where there are few years."""
    years = np.arange(first.astype("datetime64[Y]") + 1, last.astype("datetime64[Y]") + 1)
    if len(years) < 3:
        return np.asarray((first + (last - first) * np.array([1, 3, 5, 7]) / 8).astype("M8[D]"))
    steps = (1, 2, 4, 5, 10, 20, 25, 50, 100, 200, 500)
    step = next((step for step in steps if len(years) <= 6 * step), 1000)
    return years[(years.astype(int) + 1970) % step == 0]


def _keep_extremes(y: np.ndarray) -> np.ndarray:
    """Few enough to draw, the most extreme among them."""
    if len(y) <= _MOST_DOTS:
        return np.arange(len(y))
    even = np.linspace(0, len(y) - 1, _MOST_DOTS - 200).astype(int)
    return np.unique(np.append(even, np.argsort(np.abs(y))[-200:]))


def _tails(count: int) -> np.ndarray:
    most = min(count, 50)
    return np.append(np.arange(most), np.arange(count - most, count))
