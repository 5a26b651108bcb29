"""Parquet files that are read batch by batch: folders, and single files that are large."""

import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import stategp as sg
from stategp._command._tables import ParquetFolder, choose_columns, is_parquet, open_table
from stategp._command._writing import Writing, check_names

_LARGE = 2**30  # bytes of a Parquet file from which on it is not read as a whole
_CONDITION = re.compile(r"\s*(.+?)\s*(==|!=|<=|>=|<|>)\s*(.+?)\s*")


class Reading(NamedTuple):
    """How rows are read, where they are not read as a whole."""

    shortest: str | None
    bad: str | None
    conditions: list[str]
    scratch: Path | None

    def options(self) -> list[str]:
        """Those that were given."""
        names = ("--shortest", "--bad", "--filter", "--scratch")
        return [name for name, value in zip(names, self, strict=True) if value]


def is_streamed(data: Path, reading: Reading, *, shared: bool, needs_all: bool) -> bool:
    """Whether a folder or file is read batch by batch.

    `shared`: by several processes. `needs_all`: something was asked for that needs all rows.
    """
    if data.is_dir():
        return True
    asked = reading.options()
    if not is_parquet(data):
        if asked:
            raise ValueError(
                f"{asked[0]} is for folders of Parquet files and for Parquet files, which are read "
                f"batch by batch; {data} is read as a whole"
            )
        return False
    large = data.exists() and data.stat().st_size >= _LARGE
    return shared or bool(asked) or (large and not needs_all)


def open_whole(data: Path, reading: Reading, writing: Writing) -> Any:
    """A file, or a folder, whose columns are read as a whole, as those of many series are."""
    for option in reading.options():
        if option != "--filter":
            raise ValueError(
                f"{option} is for one series that is read batch by batch, and summed up; here all "
                f"rows of {data} are read as a whole: leave it out"
            )
    if not data.is_dir() and not reading.conditions:
        return open_table(data, writing)
    if not (data.is_dir() or is_parquet(data)):
        raise ValueError(f"--filter is for Parquet files and folders of them, not for {data}")
    file = ParquetFolder(data)
    file.filter = _filter(file, reading.conditions)
    return file


def say_dropped(series: Any) -> None:
    """How many bad rows of each file were left out."""
    for place, rows in getattr(series, "dropped", {}).items():
        print(f"left out {rows:,} bad rows of {place}", file=sys.stderr)


def open_stream(
    data: Path, time: str | None, target: str | None, columns: dict[str, Any], reading: Reading
) -> tuple[ParquetFolder, str, str, Any]:
    """The folder, its columns of times and observations, and the stream of its rows."""
    file = ParquetFolder(data)
    time, target = choose_columns(file, time, target)
    series = sg.stream(
        data,
        time=time,
        target=target,
        filter=_filter(file, reading.conditions),
        shortest=written_length(reading.shortest),
        bad=reading.bad or "refuse",
        scratch=reading.scratch,
        **columns,
    )
    return file, time, target, series


def written_length(text: str | None) -> float | str | None:
    """A number, or a duration as it was written."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def _filter(file: ParquetFolder, conditions: list[str]) -> Any:
    """All of these conditions, as pyarrow writes them."""
    import pyarrow
    import pyarrow.compute

    whole = None
    for text in conditions:
        parts = _CONDITION.fullmatch(text)
        if parts is None:
            raise ValueError(
                f"--filter must be a column, a comparison and a value, year >= 2024; got {text!r}"
            )
        name, sign, value = parts.groups()
        check_names(file.path, file.names, [name])
        kind = file.schema.field(name).type
        try:
            wanted = pyarrow.scalar(value.strip("'\"")).cast(kind)
        except pyarrow.ArrowException:
            raise ValueError(
                f"--filter {text!r}: column {name!r} holds {kind}, and {value} is none"
            ) from None
        column = pyarrow.compute.field(name)
        one = {
            "==": column == wanted,
            "!=": column != wanted,
            "<=": column <= wanted,
            ">=": column >= wanted,
            "<": column < wanted,
            ">": column > wanted,
        }[sign]
        whole = one if whole is None else whole & one
    return whole
