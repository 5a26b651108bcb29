"""How a table is written, as far as the user says so."""

import dataclasses
from pathlib import Path


@dataclasses.dataclass(frozen=True)
class Writing:
    """None: to be found out."""

    separator: str | None = None
    decimal: str | None = None
    date_format: str | None = None
    zone: str | None = None
    layout: str | None = None  # of the dates that a model was fitted to

    def __post_init__(self) -> None:
        if self.decimal not in (None, ".", ","):
            raise ValueError(f"--decimal must be '.' or ',', got {self.decimal!r}")
        if self.date_format is not None and "%" not in self.date_format:
            raise ValueError(
                f"--date-format must consist of %d, %m, %Y, %H, %M and so on, such as '%d/%m/%Y', "
                f"got {self.date_format!r}"
            )


def check_names(path: Path, names: list[str], wanted: list[str]) -> None:
    """Are these columns there, and each of them once?"""
    for name in wanted:
        if names.count(name) > 1:
            raise ValueError(f"{names.count(name)} columns of {path} have the same name, {name!r}")
        if name not in names:
            raise ValueError(
                f"there is no column {name!r} in {path}; its columns are {listed(names)}"
            )


def listed(names: list[str]) -> str:
    return (", ".join(map(repr, names[:12])) + ", …" * (len(names) > 12)) or "none"
