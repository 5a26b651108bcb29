"""Numbers as people write them: 1,234.00 and 1.234,00, $5, 12 %, (3.50), and - for none.

Whether a comma separates thousands or decimals must follow from the column; 1,234 alone does not
say, and then nothing is guessed.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from stategp._forecasting._sources import Source, is_missing

_CURRENCIES = "$€£¥₹₽₩"
_SPACES = "\u00a0\u2007\u2009\u202f "
_BODY = re.compile(r"(?P<whole>[\d.,'’\s]*\d[\d.,'’\s]*)(?P<power>[eE][+-]?\d+)?")
_GROUPED = re.compile(r"\d{1,3}(?P<sep>[.,'’ ])\d{3}(?:(?P=sep)\d{3})*")


class Numbers(NamedTuple):
    """Numbers that were read (NaN where missing), and what was assumed."""

    values: np.ndarray
    words: tuple[str, ...] = ()


class _Cell(NamedTuple):
    row: int
    text: str
    sign: int
    body: str
    power: str
    mark: str  # a currency, "%", or ""


def read_numbers(
    texts: Sequence[str | None],
    source: Source,
    decimal: str | None = None,
    *,
    usual: str = "",
    doubtful: str = ",",
) -> Numbers:
    """Numbers of a column of texts.

    `decimal` is the sign before decimals if the user has said so; `usual` is the one taken where
    no cell shows it. Without either, 1,234 is refused, as is any other of the `doubtful` signs.
    """
    values = np.full(len(texts), np.nan)
    absent: dict[str, None] = {}  # in the order in which they came
    count = 0
    cells = []
    for row, text in enumerate(texts):
        if text is None or is_missing(text):
            if text and text.strip():
                absent[text.strip()] = None
                count += 1
        else:
            cells.append(_cell(row, text.strip(), source))
    words = _marks(cells, source)
    point = decimal or _decimal(cells, source) or usual
    undecided = [cell for cell in cells if any(sign in cell.body for sign in doubtful)]
    if not point and undecided:
        raise source.refuse(
            undecided[0].row, undecided[0].text, ": thousands or decimals? No row decides it; say "
            f"{source.option('decimal', '.')} or {source.option('decimal', ',')}",
        )  # fmt: skip
    for cell in cells:
        values[cell.row] = _value(cell, point or ".", source)
    if decimal is None and point == ",":
        words.insert(0, "decimal comma")
    elif decimal is None and any("," in cell.body for cell in cells):
        words.insert(0, "',' between thousands")
    if absent:
        shown = ", ".join(map(repr, absent))
        words.append(f"{shown} as missing ({count} row{'s' * (count > 1)})")
    return Numbers(values, tuple(words))


def looks_like_number(text: str) -> bool:
    """Whether a text could be one, whatever its separators mean."""
    return _taken_apart(text.strip()) is not None


def _taken_apart(text: str) -> tuple[int, str, str, str] | None:
    """Sign, digits with separators, power, mark."""
    sign = mark = ""
    if text.startswith("(") and text.endswith(")"):  # how accountants write what is owed
        sign, text = "-", text[1:-1].strip()
    for _ in range(2):  # -$5 and $-5
        if text.startswith(("-", "−", "+")):
            sign, text = sign + text[0], text[1:].lstrip(_SPACES)
        if text.startswith(tuple(_CURRENCIES)):
            mark, text = mark + text[0], text[1:].lstrip(_SPACES)
    if text.endswith(tuple(_CURRENCIES + "%")):
        mark, text = mark + text[-1], text[:-1].rstrip(_SPACES)
    body = _BODY.fullmatch(text)
    if body is None or len(sign) > 1 or len(mark) > 1:
        return None
    whole = re.sub(f"[{_SPACES}]", " ", body["whole"]).replace("’", "'")
    return (1 if sign in ("", "+") else -1), whole, body["power"] or "", mark


def _cell(row: int, text: str, source: Source) -> _Cell:
    parts = _taken_apart(text)
    if parts is None:
        raise source.refuse(row, text, ", which cannot be read as a number")
    return _Cell(row, text, *parts)


def _marks(cells: list[_Cell], source: Source) -> list[str]:
    """Currencies and percent: dropped where all are the same."""
    marks = {cell.mark: cell for cell in reversed(cells)}
    without = marks.pop("", None)
    if not marks:
        return []
    if len(marks) > 1:
        one, other = sorted(marks.values(), key=lambda cell: cell.row)[:2]
        raise source.refuse(other.row, other.text, f", but {one.text!r} is in another unit")
    (mark, cell), = marks.items()  # fmt: skip
    if mark == "%" and without is not None:
        raise source.refuse(without.row, without.text, f", but {cell.text!r} is in per cent")
    return [f"{mark!r} dropped"]


def _decimal(cells: list[_Cell], source: Source) -> str:
    """The sign before decimals, if any cell shows it."""
    shown: dict[str, _Cell] = {}
    for cell in cells:
        sign = _shown_by(cell.body)
        if sign:
            shown.setdefault(sign, cell)
    if len(shown) == 2:
        one, other = sorted(shown.values(), key=lambda cell: cell.row)
        raise source.refuse(
            other.row, other.text, f", but {one.text!r} has another decimal separator"
        )
    return next(iter(shown), "")


def _shown_by(body: str) -> str:
    signs = [sign for sign in body if sign in ".,"]
    if not signs:
        return ""
    other = {".": ",", ",": "."}
    if len(set(signs)) == 2:
        return signs[-1]
    if len(signs) > 1:  # only thousands come more than once
        return other[signs[0]]
    before, _, after = body.partition(signs[0])
    grouped = len(after) == 3 and 1 <= len(before) <= 3 and not before.startswith("0")
    # 0.123 and 12.5 are decimals; 12.345 may be either.
    return "" if grouped else signs[0]


def _value(cell: _Cell, point: str, source: Source) -> float:
    whole, separator, decimals = cell.body.strip().partition(point)
    grouped = _GROUPED.fullmatch(whole)
    if grouped:
        whole = whole.replace(grouped["sep"], "")
    plain = (whole == "" or whole.isdecimal()) and (decimals == "" or decimals.isdecimal())
    if not plain or (grouped and grouped["sep"] == point):
        raise source.refuse(
            cell.row, cell.text, f", which cannot be read as a number with decimal {point!r}"
        )
    return cell.sign * float(f"{whole or 0}{'.' if separator else ''}{decimals}{cell.power}")
