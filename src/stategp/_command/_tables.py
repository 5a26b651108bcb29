"""Tables in files: CSV and Parquet."""

import contextlib
import math
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from stategp._command._csv import CsvFile
from stategp._command._writing import Writing, check_names, listed
from stategp._forecasting import TimeAxis, as_frame, clock_times
from stategp._runtime import replacing
from stategp._streams import read_files

TABLES = (".csv", ".tsv", ".parquet", ".pq")  # that are written
_PARQUET = (".parquet", ".pq")
_TEXTS = (".csv", ".tsv", ".txt")
_PACKED = (".gz", ".bz2")
_ROW = re.compile(r"(?:column '[^']*'|\b\w+)\[(\d+)\](?= is)|\brow (\d+)\b")
_TIMES = ("ds", "time", "date", "datetime", "timestamp", "t", "x")
_TARGETS = ("y", "target", "value", "count")


class ParquetFile:
    """A Parquet file, of which only the columns asked for are read."""

    layout = None  # its dates are no texts

    def __init__(self, path: Path):
        import pyarrow.parquet

        self.path, self.notes = path, []  # type: tuple[Path, list[str]]
        try:
            self.names = list(pyarrow.parquet.read_schema(path).names)
        except (pyarrow.ArrowException, OSError) as error:
            raise ValueError(f"{path} cannot be read as Parquet: {first_line(error)}") from None

    def read(self, time: str, numbers: Iterable[str], labels: Iterable[str] = ()) -> Any:
        import pyarrow.parquet

        wanted = list(dict.fromkeys([time, *numbers, *labels]))
        check_names(self.path, self.names, wanted)
        return pyarrow.parquet.read_table(self.path, columns=wanted)

    def row(self, index: int) -> str:
        return f"row {index}"


class ParquetFolder:
    """A folder of Parquet files, or one of them, which can be read as a stream."""

    layout = None

    def __init__(self, path: Path):
        import pyarrow
        import pyarrow.dataset

        self.path, self.notes = path, []  # type: tuple[Path, list[str]]
        self.filter: Any = None  # which rows are read
        try:
            self.schema = pyarrow.dataset.dataset(path, partitioning="hive").schema
        except (pyarrow.ArrowException, OSError) as error:
            raise ValueError(f"{path} cannot be read as Parquet: {first_line(error)}") from None
        self.names = list(self.schema.names)
        if not self.names:
            raise ValueError(f"{path} is a folder without Parquet files")

    def read(self, time: str, numbers: Iterable[str], labels: Iterable[str] = ()) -> Any:
        """These columns of all files, in memory."""
        wanted = list(dict.fromkeys([time, *numbers, *labels]))
        check_names(self.path, self.names, wanted)
        return read_files(self.path, wanted, self.filter)

    def row(self, index: int) -> str:
        return f"row {index}"


def first_line(error: Exception) -> str:
    """The beginning of a message, without what terminals cannot show."""
    return "".join(c for c in (str(error).splitlines() or [""])[0] if c.isprintable())


def open_table(path: Path, writing: Writing = Writing()) -> CsvFile | ParquetFile:  # noqa: B008
    """A file of which columns can be read."""
    if not path.exists():
        raise ValueError(f"there is no file {path}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give a CSV or Parquet file")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty")
    if not is_table(path):
        raise ValueError(f"{path} should end in .csv, .tsv (also .csv.gz) or .parquet")
    if is_parquet(path):
        return ParquetFile(path)
    return CsvFile(path, writing)


def is_parquet(path: Path) -> bool:
    """Whether a file is a Parquet file, by its name."""
    return path.suffix.lower() in _PARQUET


def is_table(path: Path) -> bool:
    """Whether a file is a table, by its name."""
    suffix = path.suffix.lower()
    if suffix in _PACKED:
        suffix = Path(path.stem).suffix.lower()
        return suffix in _TEXTS
    return suffix in (*_TEXTS, *_PARQUET)


def model_beside(path: Path) -> Path:
    """Where the model of a table goes: visits.stategp beside visits.csv.gz."""
    if path.suffix.lower() in _PACKED:
        path = path.with_suffix("")
    return path.with_suffix(".stategp")


@contextlib.contextmanager
def rows_of(file: CsvFile | ParquetFile | ParquetFolder) -> Iterator[None]:
    """Errors of the library, with rows as the file has them: a spreadsheet counts its header."""
    try:
        yield
    except ValueError as error:
        message = _ROW.sub(lambda match: file.row(int(match[1] or match[2])), str(error))
        raise ValueError(message) from None


def read_columns(
    file: CsvFile | ParquetFile | ParquetFolder,
    time: str,
    numbers: Iterable[str],
    labels: Iterable[str] = (),
) -> Any:
    """A table of these columns; what was assumed in reading is said in one line."""
    table = file.read(time, numbers, labels)
    if table.num_rows == 0:
        raise ValueError(f"{file.path} has no rows")
    if file.notes:
        notes = ", ".join(dict.fromkeys(file.notes))
        print(f"read {file.path}: {notes}", file=sys.stderr)
    return table


def write_table(table: Any, path: Path | None) -> None:
    """To a file, whole or not at all, or as CSV to standard output."""
    import pyarrow.csv
    import pyarrow.parquet

    if path is None:
        pyarrow.csv.write_csv(_as_clocks_show(table), sys.stdout.buffer)
        sys.stdout.flush()
        return
    with replacing(path) as file:
        if path.suffix.lower() in _PARQUET:
            pyarrow.parquet.write_table(table, file)
        else:
            by_tabs = path.suffix.lower() == ".tsv"
            options = pyarrow.csv.WriteOptions(delimiter="\t" if by_tabs else ",")
            pyarrow.csv.write_csv(_as_clocks_show(table), file, options)


def _as_clocks_show(table: Any) -> Any:
    """Dates as a clock in their zone shows them, and without six zeros after every second."""
    import pyarrow

    for number, field in enumerate(table.schema):
        if not pyarrow.types.is_timestamp(field.type):
            continue
        if field.type.tz not in (None, "UTC"):  # pyarrow would write it in UTC
            shown = pyarrow.array([t.isoformat(" ") for t in table.column(number).to_pylist()])
            table = table.set_column(number, field.name, shown)
            continue
        with contextlib.suppress(pyarrow.ArrowInvalid):  # parts of a second would be lost
            seconds = table.column(number).cast(pyarrow.timestamp("s", field.type.tz))
            table = table.set_column(number, field.name, seconds)
    return table


def check_path(path: Path, ends: tuple[str, ...] = (), never: tuple[str, ...] = ()) -> None:
    """Before long work: can its result be written there, and would it be in the way?"""
    if ends and path.suffix.lower() not in ends:
        raise ValueError(f"cannot write {path}: its name should end in {' or '.join(ends)}")
    if path.suffix.lower() in never:
        raise ValueError(f"cannot write {path}: its name is that of a table, not of a model file")
    if path.is_dir():
        raise ValueError(f"cannot write {path}: it is a folder")
    if not path.parent.is_dir():
        raise ValueError(f"cannot write {path}: the folder {path.parent} does not exist")


def check_table_path(path: Path | None) -> None:
    if path is not None:
        check_path(path, TABLES)


def choose_columns(
    file: CsvFile | ParquetFile | ParquetFolder, time: str | None, target: str | None
) -> tuple[str, str]:
    """The columns to use: as given, or those that look like time and target."""
    if time is not None and target is not None:
        return time, target
    path, names = file.path, file.names
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
            raise ValueError(
                f"which column should be modelled? Give --target; the columns of {path} are "
                f"{listed(names)}"
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
