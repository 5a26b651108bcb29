"""Durations in natural units: "30d", "1.5h", "2 weeks". A duration is a number of days.

Wherever dates are accepted they are measured in days, so that a lengthscale of "12h" is the same as
one of 0.5.
"""

import math
import re

__all__ = ["days", "describe"]

# Each unit is so many days: a product and a quotient of exact numbers, to round only once.
_UNITS: dict[str, tuple[float, float]] = {
    "y": (365.25, 1),
    "mo": (30.4375, 1),
    "w": (7, 1),
    "d": (1, 1),
    "h": (1, 24),
    "min": (1, 1440),
    "s": (1, 86_400),
    "ms": (1, 86_400e3),
    "us": (1, 86_400e6),
    "ns": (1, 86_400e9),
}
_LONG_NAMES = {
    "y": "yr yrs year years",
    "mo": "mos month months",
    "w": "wk wks week weeks",
    "d": "day days",
    "h": "hr hrs hour hours",
    "min": "mins minute minutes",
    "s": "sec secs second seconds",
    "ms": "msec millisecond milliseconds",
    "us": "µs μs usec microsecond microseconds",  # both of Unicode's mu
    "ns": "nsec nanosecond nanoseconds",
}
_NAMES = {name: name for name in _UNITS} | {
    long: unit for unit, names in _LONG_NAMES.items() for long in names.split()
}
_SIZE = list(_UNITS)  # from the longest to the shortest
_PART = re.compile(r"[\s,]*((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*([^\W\d_]+)\s*")
_LONGEST_TEXT = 100
_EXAMPLES = "30d, 12h, 15min, 2w, 1y"


def days(text: str) -> float:
    """The number of days in a duration such as "1d12h".

    >>> from stategp._durations import days
    >>> days("12h"), days("2 weeks"), days("1d12h"), days("1y")
    (0.5, 14.0, 1.5, 365.25)
    """
    plain = text.strip().lower()
    if len(plain) > _LONGEST_TEXT:
        raise _not_a_duration(text)
    if plain.startswith("-") and _PART.match(plain, 1):
        raise ValueError(f"a duration must be positive, got {text!r}")
    total, position, last = 0.0, 0, -1
    while position < len(plain):
        part = _PART.match(plain, position)
        if part is None:
            raise _not_a_duration(text)
        number, name = part.groups()
        if name == "m":
            raise ValueError(
                f"{text!r} could be minutes or months: write {number}min or {number}mo"
            )
        # A unit that does not follow a longer one ("1h 2h") is a slip, not a sum.
        if name not in _NAMES or _SIZE.index(_NAMES[name]) <= last:
            raise _not_a_duration(text)
        last = _SIZE.index(_NAMES[name])
        times, divided_by = _UNITS[_NAMES[name]]
        total += float(number) * times / divided_by
        position = part.end()
    if last < 0:
        raise _not_a_duration(text)
    if not (math.isfinite(total) and total > 0):
        raise ValueError(f"a duration must be positive and finite, got {text!r}")
    return total


def _not_a_duration(text: str) -> ValueError:
    shown = text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."
    return ValueError(f"{shown!r} is not a duration; write a number and a unit: {_EXAMPLES}")


# A whole number of these, and not too many of them, reads best, whatever the other units give.
_WHOLE = {"y": math.inf, "mo": 100, "w": 100, "d": 1000}
_OTHERWISE = ("y", "d", "h", "min", "s", "ms", "us", "ns")


def describe(days: float | int, digits: int = 3) -> str:
    """The shortest readable form of a number of days, to a number of significant digits.

    >>> from stategp._durations import describe
    >>> describe(0.5), describe(7.0), describe(365.25), describe(3.217)
    ('12h', '1w', '1y', '3.22d')
    """
    if not (math.isfinite(days) and days > 0):
        raise ValueError(f"a duration must be positive and finite, got {days}")
    for unit, limit in _WHOLE.items():
        amount = _in_units(days, unit)
        if 1 <= round(amount) < limit and abs(amount - round(amount)) < 0.5 * amount / 10**digits:
            return _number(float(round(amount)), digits) + unit
    for unit in _OTHERWISE:
        if _in_units(days, unit) >= 1:
            break
    return _number(_in_units(days, unit), digits) + unit


def _in_units(days: float | int, unit: str) -> float:
    times, divided_by = _UNITS[unit]
    return days / times * divided_by


def _number(amount: float, digits: int) -> str:
    text = f"{amount:.{digits}g}"
    return f"{float(text):.0f}" if "e+" in text and amount < 1e9 else text
