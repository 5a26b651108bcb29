"""Text cut into tokens, and errors that point into it."""

import re
from typing import NamedTuple

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\w*)   # 3, 2.5e3, 30d, 1d12h
    | (?P<word>[^\W\d]\w*(?:-\w+)*)                         # matern52, quasi-periodic
    | (?P<quoted>"[^"\n]*"|'[^'\n]*')
    | (?P<symbol>\S)
    )""",
    re.VERBOSE,
)
_LONGEST = 4000
_AROUND = 35  # characters of the text shown on either side of an error


class Token(NamedTuple):
    kind: str  # number, word, quoted, symbol or end
    text: str
    position: int  # of its first character, from 0

    @property
    def end(self) -> int:
        return self.position + len(self.text)

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(shortened(self.text))


def shortened(text: str) -> str:
    """Enough of the text for an error that stays on one line."""
    return text if len(text) <= _AROUND else text[:_AROUND] + "..."


def tokenize(text: str) -> list[Token]:
    if len(text) > _LONGEST:
        raise ValueError(
            f"a kernel expression has at most {_LONGEST} characters, got {len(text)}; "
            "build larger kernels in Python from sg.kernels"
        )
    tokens, position, end = [], 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        assert match is not None  # any character that is no space is at least a symbol
        kind = str(match.lastgroup)
        tokens.append(Token(kind, match[kind], match.start(kind)))
        position = match.end()
    return [*tokens, Token("end", "", end)]


def error_at(text: str, position: int, what: str, advice: str = "") -> ValueError:
    """`what`, where, and what to do, in one line; below it the place in the text."""
    start, stop = max(0, position - _AROUND), position + _AROUND
    before = ("..." if start else "") + text[start:position]
    after = text[position:stop] + ("..." if stop < len(text) else "")
    shown = "".join(c if c.isprintable() else " " for c in before + after)
    caret = " " * len(before) + "^"
    return ValueError(f"{what} at character {position + 1}{advice}\n  {shown}\n  {caret}")
