"""Numbers, dates and tables as HTML: everything that came from outside is escaped here."""

import html
from collections.abc import Sequence

import numpy as np


def number(value: float, digits: int = 4) -> str:
    """A number for reading: four significant digits, thousands apart.

    >>> number(1234567.0), number(-0.01234), number(float("nan"))
    ('1,234,567', '−0.01234', 'not known')
    """
    if np.isnan(value):
        return "not known"
    if np.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size != 0 and not 1e-4 <= size < 1e12:
        return f"{value:.{digits - 1}e}".replace("-", "−")
    places = 0 if size >= 10**digits or size == 0 else digits - 1 - int(np.floor(np.log10(size)))
    text = f"{value:,.{max(places, 0)}f}"
    return text.replace("-", "−")


def aligned(columns: np.ndarray) -> list[list[str]]:
    """Columns of numbers that belong together, with the same digits after the point.

    >>> import numpy as np
    >>> aligned(np.array([[3.25, 12.5], [2.0, 7.0]]))
    [['3.25', '12.50'], ['2', '7']]
    """
    largest = float(np.max(np.abs(columns), initial=0.0, where=np.isfinite(columns)))
    if largest > 0 and not 1e-4 <= largest < 1e12:
        return [[number(value) for value in column] for column in columns.tolist()]
    places = max(0, 3 - int(np.floor(np.log10(largest)))) if largest > 0 else 0
    return [
        [
            f"{value:,.{0 if whole else places}f}".replace("-", "−")
            if np.isfinite(value)
            else number(value)
            for value in column.tolist()
        ]
        for column, whole in zip(columns, np.all(columns == np.rint(columns), axis=1), strict=True)
    ]


def when(x: np.ndarray) -> list[str]:
    """Inputs for reading: dates as finely as they differ, numbers with enough digits.

    >>> import numpy as np
    >>> when(np.array(["2020-01-01", "2020-02-01"], dtype="datetime64[us]"))
    ['2020-01-01', '2020-02-01']
    """
    if x.dtype.kind != "M":
        span = float(np.ptp(x)) if len(x) > 1 else 0.0
        places = int(np.clip(3 - np.floor(np.log10(span)), 0, 9)) if span > 0 else 4
        return [_trimmed(f"{value:,.{places}f}") for value in x]
    stamps = x.astype("datetime64[us]")
    long = stamps.max() - stamps.min() if len(x) else np.timedelta64(0, "us")
    unit = "s"
    for coarser, enough in [("m", np.timedelta64(2, "D")), ("D", np.timedelta64(100, "D"))]:
        whole = np.all(stamps == stamps.astype(f"datetime64[{coarser}]"))
        unit = coarser if whole or long > enough else unit
    return [str(t).replace("T", " ") for t in stamps.astype(f"datetime64[{unit}]")]


def in_words(x: np.ndarray) -> list[str]:
    """Inputs for sentences: as `when`, with dates as people write them, never broken over lines.

    >>> import numpy as np
    >>> in_words(np.array(["2020-01-01", "2020-02-01"], dtype="datetime64[us]"))
    ['1\\xa0January\\xa02020', '1\\xa0February\\xa02020']
    """
    if x.dtype.kind != "M":
        return when(x)
    months = "January February March April May June July August September October November December"
    words = []
    for text in when(x):
        day, *clock = text.split(" ")
        year, month, number = day.rsplit("-", 2)
        words.append(" ".join([str(int(number)), months.split()[int(month) - 1], year, *clock]))
    return [text.replace(" ", "\N{NO-BREAK SPACE}") for text in words]


def _trimmed(text: str) -> str:
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace("-", "−")


def span_in_words(first: np.datetime64, last: np.datetime64) -> str:
    """How long it is between two dates."""
    seconds = float((last - first) / np.timedelta64(1, "s"))
    for name, length in [
        ("years", 365.25 * 86400),
        ("days", 86400),
        ("hours", 3600),
        ("minutes", 60),
    ]:
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {name}"
    return f"{seconds:,.0f} seconds"


def escape(text: object) -> str:
    """Text that stays text."""
    return html.escape(str(text), quote=True)


def table(
    header: Sequence[str],
    columns: Sequence[Sequence[str]],
    numeric: set[int],
    unbroken: bool = False,
    tall: bool = False,
) -> str:
    """A table of escaped text; `numeric` columns stand on the right, the first may be unbroken.

    A tall one scrolls below its header.
    """

    def cell(kind: str, at: int, text: str) -> str:
        scope = ' scope="col"' if kind == "th" else ""
        mark = (
            ' class="number"' if at in numeric else ' class="when"' if unbroken and at == 0 else ""
        )
        return f"<{kind}{scope}{mark}>{escape(text)}</{kind}>"

    head = "".join(cell("th", at, text) for at, text in enumerate(header))
    rows = [
        "<tr>" + "".join(cell("td", at, text) for at, text in enumerate(row)) + "</tr>"
        for row in zip(*columns, strict=True)
    ]
    return (
        f'<div class="scroll{" tall" if tall else ""}" tabindex="0"><table><thead><tr>'
        f"{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
