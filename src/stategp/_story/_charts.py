"""What a chart shows, said once: those who draw (Matplotlib, SVG, a canvas) only draw this.

A panel has two axes and marks from back to front. Colours are names of what they stand for; every
renderer has its own shade of each.
"""

import dataclasses

import numpy as np

Ticks = tuple[tuple[float, str], ...]


@dataclasses.dataclass(frozen=True)
class Axis:
    """What is written along an edge of the picture; whoever draws chooses what is left open."""

    label: str
    ends: tuple[float, float] | None = None
    ticks: Ticks | None = None
    whole: bool = False  # ticks at whole numbers only


@dataclasses.dataclass(frozen=True)
class Mark:
    """Something drawn. `key` names a layer that readers can switch; `name` is for the legend."""

    colour: str
    name: str = dataclasses.field(default="", kw_only=True)
    key: str = dataclasses.field(default="", kw_only=True)
    shown: bool = dataclasses.field(default=True, kw_only=True)  # unless the reader wants it


@dataclasses.dataclass(frozen=True)
class Line(Mark):
    x: np.ndarray
    y: np.ndarray


@dataclasses.dataclass(frozen=True)
class Fill(Mark):
    """What lies between two curves."""

    x: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    shade: float = 0.22


@dataclasses.dataclass(frozen=True)
class Dots(Mark):
    x: np.ndarray
    y: np.ndarray
    faint: bool = False  # many of them, one over the other


@dataclasses.dataclass(frozen=True)
class Stems(Mark):
    """Lines from zero, with a dot at their end."""

    x: np.ndarray
    y: np.ndarray


@dataclasses.dataclass(frozen=True)
class Spans(Mark):
    """Stretches of x, over the whole height."""

    spans: np.ndarray  # a row for each: from, to


@dataclasses.dataclass(frozen=True)
class Rule(Mark):
    """A dashed line upwards; what lies to its right is called by its name."""

    x: np.ndarray  # one number or date


@dataclasses.dataclass(frozen=True)
class Rug(Mark):
    """Small marks along the lower edge."""

    x: np.ndarray


@dataclasses.dataclass(frozen=True)
class Panel:
    """One chart."""

    key: str  # among the panels of a page
    title: str
    across: Axis
    up: Axis
    marks: tuple[Mark, ...]
    says: str = ""  # for those who cannot see it
    about: str = ""  # how to read it, in a sentence
    instead: str = ""  # where there is nothing to draw: why
    along: bool = True  # whether its x is that of the data, and not the phase of a period
    room: float | None = None  # for fills, beyond what lines and dots span, as a share of that

    @property
    def has_dates(self) -> bool:
        """Whether x is a date."""
        return any(getattr(mark, "x", np.zeros(0)).dtype.kind == "M" for mark in self.marks)

    @property
    def named(self) -> tuple[Mark, ...]:
        """What belongs into a legend."""
        return tuple(mark for mark in self.marks if mark.name and not isinstance(mark, Rule))

    def height(self) -> tuple[float, float]:
        """The ends of y: as given, or room for lines, dots and, unless far wider, fills."""
        if self.up.ends is not None:
            return self.up.ends
        within, beyond = [], []
        for mark in self.marks:
            if mark.shown and isinstance(mark, Line | Dots | Stems):
                within.append(mark.y)
            elif mark.shown and isinstance(mark, Fill):
                beyond += [mark.lower, mark.upper]
        low, high = _range(within or beyond)
        least, most = _range([np.array([low, high]), *beyond])
        if self.room is not None:
            room = self.room * (high - low) or 1.0
            least, most = max(least, low - room), min(most, high + room)
        margin = 0.06 * (most - least) or 0.5 * abs(most) or 1.0
        return least - margin, most + margin


def _range(parts: list[np.ndarray]) -> tuple[float, float]:
    together = np.concatenate(parts) if parts else np.zeros(1)
    finite = together[np.isfinite(together)]
    return (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)


def interval_name(level: float) -> str:
    """As people read it: "95 % interval"."""
    return f"{100 * level:.4g} % interval"
