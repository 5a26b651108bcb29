"""Tables in files: CSV and Parquet, read and written through pyarrow."""

import contextlib
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

from stategp._forecasting import TimeAxis, as_frame, clock_times
from stategp._runtime import replacing

TABLES = (".csv", ".parquet", ".pq")
_TIMES = ("ds", "time", "date", "datetime", "timestamp", "t", "x")
_TARGETS = ("y", "target", "value", "count")


def read_table(path: Path, columns: list[str] | None = None) -> Any:
    """A pyarrow table; of Parquet only the columns asked for are read."""
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    if not path.exists():
        raise ValueError(f"there is no file {path}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give a CSV or Parquet file")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty")
    try:
        if _kind(path) == ".csv":
            return _separated(pyarrow.csv.read_csv(path), path)
        names = pyarrow.parquet.read_schema(path).names
        wanted = None if columns is None else [name for name in columns if name in names]
        # With a column missing all are read, so that the error can name what there is.
        return pyarrow.parquet.read_table(
            path, columns=wanted if columns and len(wanted or ()) == len(columns) else None
        )
    except (pyarrow.ArrowException, OSError) as error:
        reason = "".join(c for c in str(error).splitlines()[0] if c.isprintable())
        raise ValueError(f"{path} does not read as {_kind(path)[1:]}: {reason}") from None


def _separated(table: Any, path: Path) -> Any:
    for sign, name in {";": "semicolons", "\t": "tabs", "|": "bars"}.items():
        if table.num_columns == 1 and sign in table.column_names[0]:
            raise ValueError(f"the columns of {path} are separated by {name}; commas are expected")
    return table


def column_names(path: Path) -> list[str]:
    """The columns of a file, read from its head where that suffices."""
    import pyarrow.parquet

    if path.is_file() and path.stat().st_size and _kind(path) != ".csv":
        with contextlib.suppress(pyarrow.ArrowException, OSError):
            return list(pyarrow.parquet.read_schema(path).names)
    return list(read_table(path).column_names)


def write_table(table: Any, path: Path | None) -> None:
    """To a file, whole or not at all, or as CSV to standard output."""
    import pyarrow.csv
    import pyarrow.parquet

    if path is None:
        pyarrow.csv.write_csv(_in_seconds(table), sys.stdout.buffer)
        sys.stdout.flush()
        return
    with replacing(path) as file:
        if _kind(path) == ".csv":
            pyarrow.csv.write_csv(_in_seconds(table), file)
        else:
            pyarrow.parquet.write_table(table, file)


def _in_seconds(table: Any) -> Any:
    """Dates without six zeros after the second, where they all have those."""
    import pyarrow

    for number, field in enumerate(table.schema):
        if pyarrow.types.is_timestamp(field.type):
            with contextlib.suppress(pyarrow.ArrowInvalid):  # parts of a second would be lost
                seconds = table.column(number).cast(pyarrow.timestamp("s", field.type.tz))
                table = table.set_column(number, field.name, seconds)
    return table


def check_path(path: Path, ends: tuple[str, ...] = (), never: tuple[str, ...] = ()) -> None:
    """Before long work: can its result be written there, and would it be in the way?"""
    if ends and path.suffix.lower() not in ends:
        raise ValueError(f"cannot write {path}: its name should end in {' or '.join(ends)}")
    if path.suffix.lower() in never:
        raise ValueError(f"cannot write {path}: its name is that of a table, not of a model")
    if path.is_dir():
        raise ValueError(f"cannot write {path}: it is a folder")
    if not path.parent.is_dir():
        raise ValueError(f"cannot write {path}: the folder {path.parent} does not exist")


def check_table_path(path: Path | None) -> None:
    if path is not None:
        check_path(path, TABLES)


def choose_columns(path: Path, time: str | None, target: str | None) -> tuple[str, str]:
    """The columns to use: as given, or those that look like time and target."""
    if time is not None and target is not None:
        return time, target
    names = column_names(path)
    plain = {name.lower(): name for name in reversed(names)}
    if time is None:
        time = next((plain[word] for word in _TIMES if word in plain), None)
        time = time or next((name for name in names if name != target), None)
    if target is None:
        others = [name for name in names if name != time]
        target = next((plain[word] for word in _TARGETS if plain.get(word) in others), None)
        if target is None and len(others) == 1:
            target = others[0]
        if target is None:
            listed = ", ".join(map(repr, names[:12])) or "none"
            raise ValueError(
                f"which column is to be modelled? Give --target; the columns of {path} are {listed}"
            )
    if time is None:
        raise ValueError(f"{path} has no column for the times")
    return time, target


def as_columns(table: Any) -> dict[str, list[Any]]:
    """For JSON: dates as text, and null for what is no number."""
    frame = as_frame(table)
    return {name: [_plain(v) for v in frame[name].to_list()] for name in frame.columns}


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.isoformat() if hasattr(value, "isoformat") else value


def span_in_words(axis: TimeAxis, ends: np.ndarray) -> str:
    """From when to when, as a clock in the time zone of the data shows it."""
    if axis.dates:
        first, last = np.datetime_as_string(clock_times("pyarrow", axis, ends), unit="auto")
    else:
        first, last = (f"{end:.15g}" if isinstance(end, float) else str(end) for end in ends)
    return f"{first} to {last}" + (f" ({axis.zone})" if axis.zone else "")


def _kind(path: Path) -> str:
    if path.suffix.lower() not in TABLES:
        raise ValueError(f"{path} should end in .csv or .parquet")
    return ".csv" if path.suffix.lower() == ".csv" else ".parquet"
