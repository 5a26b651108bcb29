"""Where texts come from, for what is said of them."""

import dataclasses
from collections.abc import Callable

# What people write where they have no number.
MISSING = frozenset(
    ["", "-", "--", "–", "—", ".", "..", "?", "na", "n/a", "#n/a", "null", "none", "nan", "<na>"]
)
_SHOWN = 40  # characters of a cell


@dataclasses.dataclass(frozen=True)
class Source:
    """A column: its name, how its rows are called, and how options are written where it is read."""

    name: str
    row: Callable[[int], str] = "row {}".format
    option: Callable[[str, str], str] = "{}={!r}".format

    def refuse(self, number: int, text: str, because: str) -> ValueError:
        shown = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
        return ValueError(f"{self.name}: {self.row(number)} is {shown!r}{because}")


def is_missing(text: str) -> bool:
    return text.strip().lower() in MISSING
