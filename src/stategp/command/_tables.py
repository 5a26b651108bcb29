"""Tables in files: CSV and Parquet, read and written through pyarrow."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from stategp.forecasting._frames import as_frame

_KINDS = (".csv", ".parquet", ".pq")
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
            return pyarrow.csv.read_csv(path)
        names = pyarrow.parquet.read_schema(path).names
        wanted = None if columns is None else [name for name in columns if name in names]
        # With a column missing all are read, so that the error can name what there is.
        return pyarrow.parquet.read_table(
            path, columns=wanted if columns and len(wanted or ()) == len(columns) else None
        )
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path} does not read as {_kind(path)[1:]}: {reason}") from None


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
        pyarrow.csv.write_csv(table, sys.stdout.buffer)
        sys.stdout.flush()
        return
    with replacing(path) as file:
        if _kind(path) == ".csv":
            pyarrow.csv.write_csv(table, file)
        else:
            pyarrow.parquet.write_table(table, file)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes its place when it is complete."""
    check_folder(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def check_folder(path: Path) -> None:
    """Before long work: can its result be written there?"""
    if path.is_dir():
        raise ValueError(f"cannot write {path}: it is a folder")
    if not path.parent.is_dir():
        raise ValueError(f"cannot write {path}: the folder {path.parent} does not exist")


def check_table_path(path: Path | None) -> None:
    if path is not None:
        _kind(path)
        check_folder(path)


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
    """For JSON: dates as text."""
    frame = as_frame(table)
    return {
        name: [v.isoformat() if hasattr(v, "isoformat") else v for v in frame[name].to_list()]
        for name in frame.columns
    }


def _kind(path: Path) -> str:
    if path.suffix.lower() not in _KINDS:
        raise ValueError(f"{path} should end in .csv or .parquet")
    return ".csv" if path.suffix.lower() == ".csv" else ".parquet"
