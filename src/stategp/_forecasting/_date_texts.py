"""Dates as people write them: 31/12/2025, 31.12.2025, 31 Dec 2025, 2015-01, 2015Q1.

A column is written in one way. What that way is must follow from the column: 03/04/2025 is a day in
March or in April unless another row decides, and then nothing is guessed.
"""

import datetime
import re
from collections.abc import Sequence
from typing import NamedTuple

from stategp._forecasting._sources import Source

DAY_FIRST, MONTH_FIRST = "day first", "month first"
_EXAMPLES = "2024-03-01, 2024-03-01 12:30 or 2024-03-01T12:30:00+01:00"
_CLOCK = (
    r"(?:(?:[ ,]+|T)(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<part>\d+))?)?"
    r"(?: ?(?P<half>[AaPp])\.?[Mm]\.?)?)?"
)
_MONTHS = ["january", "february", "march", "april", "may", "june", "july", "august", "september"]
_MONTHS += ["october", "november", "december"]
_MONTH = r"(?P<name>[A-Za-z]{3,9})\.?"
_YEAR = r"(?P<year>\d{4})"
_SEP = r"(?P<sep>[-/.])"
_TWO = r"\d{1,2}"
# Tried in this order on the first cell; the words say what is assumed.
_LAYOUTS = {
    words: re.compile(pattern + _CLOCK)
    for words, pattern in {
        "year{0}month{0}day": rf"{_YEAR}{_SEP}(?P<month>{_TWO})(?P=sep)(?P<day>{_TWO})",
        "either": rf"(?P<first>{_TWO}){_SEP}(?P<other>{_TWO})(?P=sep){_YEAR}",
        "year{0}month (its first day)": rf"{_YEAR}{_SEP}(?P<month>{_TWO})",
        "month{0}year (its first day)": rf"(?P<month>{_TWO}){_SEP}{_YEAR}",
        "year, quarter (its first day)": rf"{_YEAR}[ -]?[Qq](?P<quarter>[1-4])",
        "quarter, year (its first day)": rf"[Qq](?P<quarter>[1-4])[ /-]?{_YEAR}",
        "day month year": rf"(?P<day>{_TWO})\.?[ -]?{_MONTH}[ ,-]*{_YEAR}",
        "month day, year": rf"{_MONTH} (?P<day>{_TWO})(?:st|nd|rd|th)?,? {_YEAR}",
        "month year (its first day)": rf"{_MONTH}[ -]{_YEAR}",
    }.items()
}
_TWO_DIGITS = re.compile(r"\d{1,2}([-/.])\d{1,2}\1\d\d(?!\d).*")

_ZONE = re.compile(r"(?<=:\d\d)\s*(?:(?P<offset>[+-]\d\d:?\d\d)|UTC|GMT)$")


class Dates(NamedTuple):
    """Dates that were read, how, and what to say of that ("" for ISO)."""

    moments: list[datetime.datetime]
    layout: str | None = None  # where there was a choice: DAY_FIRST, MONTH_FIRST or a format
    words: str = ""


def read_dates(texts: Sequence[str], source: Source, layout: str | None = None) -> Dates:
    """Dates of a column of texts, all written in the same way; no text is missing.

    `layout` decides where the texts do not: a format of `strptime`, or which part comes first.
    Texts in ISO format need no other.
    """
    texts = [text.strip() for text in texts]
    if layout is not None and "%" in layout and not _is_iso_only(texts, layout):
        return Dates(_in_format(texts, source, layout), layout, f"dates as {layout}")
    if not texts or _iso(texts[0]) is not None:
        return Dates([_iso_or_refused(text, source, row) for row, text in enumerate(texts)])
    for words, pattern in _LAYOUTS.items():
        first_match = pattern.fullmatch(texts[0])
        if first_match is None:
            continue
        matches = [_matched(pattern, text, texts[0], source, row) for row, text in enumerate(texts)]
        if words == "either":
            layout = _order(matches, source, layout)
            words = "day{0}month{0}year" if layout == DAY_FIRST else "month{0}day{0}year"
        else:
            layout = None
        moments = [_moment(match, source, row, layout) for row, match in enumerate(matches)]
        separator = first_match.groupdict().get("sep") or ""
        return Dates(moments, layout, f"dates as {words.format(separator)}")
    if _TWO_DIGITS.fullmatch(texts[0]):
        raise source.refuse(
            0, texts[0], f", with a two-digit year: give the format of the dates, such as "
            f"{source.option('date_format', '%d/%m/%y')}",
        )  # fmt: skip
    raise _no_date(source, 0, texts[0])


def _no_date(source: Source, row: int, text: str) -> ValueError:
    return source.refuse(
        row, text, f", which cannot be read as a date; write dates as {_EXAMPLES}, or give "
        f"their format: {source.option('date_format', '%d/%m/%Y')}",
    )  # fmt: skip


def _iso(text: str) -> datetime.datetime | None:
    for form in (text, _ZONE.sub(_without_space, text)):
        try:
            return datetime.datetime.fromisoformat(form)
        except ValueError:
            continue
    return None


def _without_space(zone: re.Match[str]) -> str:
    """As ISO has it: 12:30+01:00, not 12:30 +01:00 or 12:30 UTC."""
    return zone["offset"] or "+00:00"


def _iso_or_refused(text: str, source: Source, row: int) -> datetime.datetime:
    moment = _iso(text)
    if moment is None:
        raise _no_date(source, row, text)
    return moment


def _is_iso_only(texts: Sequence[str], layout: str) -> bool:
    if not texts or _iso(texts[0]) is None:
        return False
    try:
        datetime.datetime.strptime(texts[0], layout)
    except (ValueError, re.error):
        return True
    return False


def _in_format(texts: Sequence[str], source: Source, layout: str) -> list[datetime.datetime]:
    dates = []
    for row, text in enumerate(texts):
        try:
            dates.append(datetime.datetime.strptime(text, layout))
        except ValueError:
            raise source.refuse(
                row, text, f", which is not of the form {source.option('date_format', layout)}"
            ) from None
        except re.error:
            raise ValueError(
                f"{source.option('date_format', layout)} is not a date format"
            ) from None
    return dates


def _matched(
    pattern: re.Pattern[str], text: str, first: str, source: Source, row: int
) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise source.refuse(row, text, f", which does not have the format of {first!r} before it")
    return match


def _order(matches: Sequence[re.Match[str]], source: Source, layout: str | None) -> str:
    """Which comes first, day or month: a number over twelve decides."""
    large = {
        part: next((row for row, match in enumerate(matches) if int(match[part]) > 12), None)
        for part in ("first", "other")
    }
    if large["first"] is not None and large["other"] is not None:
        row = max(large["first"], large["other"])
        before = matches[min(large["first"], large["other"])][0]
        raise source.refuse(row, matches[row][0], f", but {before!r} has the month elsewhere")
    if large["first"] is not None:
        return DAY_FIRST
    if large["other"] is not None:
        return MONTH_FIRST
    if layout in (DAY_FIRST, MONTH_FIRST):
        return layout
    if matches[0]["sep"] == ".":  # nobody puts a month before a dot and a day
        return DAY_FIRST
    sep = matches[0]["sep"]
    day_first, month_first = f"%d{sep}%m{sep}%Y", f"%m{sep}%d{sep}%Y"
    raise source.refuse(
        0, matches[0][0], ": day or month first? No row decides it; say "
        f"{source.option('date_format', day_first)} or "
        f"{source.option('date_format', month_first)}",
    )  # fmt: skip


def _moment(
    match: re.Match[str], source: Source, row: int, layout: str | None
) -> datetime.datetime:
    parts = match.groupdict()
    day, month = parts.get("day") or 1, parts.get("month") or 1
    if "first" in parts:
        day, month = parts["first"], parts["other"]
        if layout == MONTH_FIRST:
            day, month = month, day
    if "quarter" in parts:
        month = 3 * int(parts["quarter"]) - 2
    try:
        if "name" in parts:
            month = _month_called(parts["name"])
        moment = datetime.datetime(int(parts["year"]), int(month), int(day))
        return moment + _clock(parts)
    except ValueError:
        raise source.refuse(row, match[0], ", which is not a valid date") from None


def _month_called(name: str) -> int:
    """By an English name, or the beginning of one."""
    beginning = name.lower()
    for number, month in enumerate(_MONTHS, start=1):
        if month.startswith(beginning):  # three letters at least, which belong to one
            return number
    raise ValueError


def _clock(parts: dict[str, str | None]) -> datetime.timedelta:
    hour, minute, second = (int(parts[part] or 0) for part in ("hour", "minute", "second"))
    half = (parts["half"] or "").lower()
    if half and not 1 <= hour <= 12:
        raise ValueError
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    time = datetime.time(hour, minute, second, int(((parts["part"] or "0") + "00000")[:6]))
    return datetime.timedelta(
        hours=time.hour, minutes=time.minute, seconds=time.second, microseconds=time.microsecond
    )
