"""How a CSV file is written: its letters, what separates its columns, its header."""

import bz2
import codecs
import csv
import dataclasses
import gzip
import io
import itertools
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# The rarer a sign is within cells, the earlier it comes.
_SEPARATORS = {"\t": "tabs", "|": "bars", ";": "semicolons", ",": "commas"}
_NAMES = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "bar": "|", "space": " "}
_OPEN: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open}
_LOOKED_AT = 100  # rows
_CHUNK = 2**20
_WESTERN = ("cp1252", "latin-1")  # the second reads everything


@dataclasses.dataclass(frozen=True)
class Sniffed:
    """What has to be known of a CSV file before it is read."""

    path: Path
    encoding: str
    separator: str
    names: tuple[str, ...]
    first: int  # the line of the header, from 0
    notes: tuple[str, ...] = ()

    def row_of(self, index: int) -> int:
        """The row of a spreadsheet in which the observation with that index is shown."""
        full = -1  # the header comes first
        for number, cells in self.records():
            full += bool(cells)
            if full == index + 1:
                return number
        return index + 2

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Rows from the header on, numbered as a spreadsheet does, the empty ones included."""
        with text_of(self.path, self.encoding) as lines:
            rows = csv.reader(itertools.islice(lines, self.first, None), delimiter=self.separator)
            yield from enumerate(rows, start=1)


def sniff(path: Path, separator: str | None = None) -> Sniffed:
    """Look at a file; `separator` is what the user says."""
    try:
        encoding, notes = _encoding(path)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is damaged, or not compressed: {error}") from None
    with text_of(path, encoding) as lines:
        sample = list(itertools.islice(lines, _LOOKED_AT))
    first = 0
    if sample and sample[0].lower().startswith("sep=") and len(sample[0].strip()) == 5:  # Excel's
        first, separator = 1, separator or sample[0][4]
    if separator is None:
        separator = _separator(sample[first:])
        usual = "\t" if ".tsv" in path.suffixes[-2:] else ","
        if separator != usual:
            notes.append(f"columns separated by {_SEPARATORS[separator]}")
    else:
        separator = as_separator(separator)
    rows = csv.reader(sample[first:], delimiter=separator)
    header = next((cells for cells in rows if cells), [])
    names = tuple(name.strip() for name in header)
    if not names:
        raise ValueError(f"{path} is empty")
    if all(map(_is_data, names)):
        raise ValueError(
            f"the first row of {path} should name its columns, but it is {', '.join(names[:5])}"
        )
    return Sniffed(path, encoding, separator, names, first, tuple(notes))


def as_separator(text: str) -> str:
    separator = _NAMES.get(text.lower(), text)
    if len(separator) != 1 or separator in "\"'\n\r" or separator.isalnum():
        raise ValueError(f"--sep must be one character (such as ';') or tab, got {text!r}")
    return separator


def binary_of(path: Path) -> Any:
    """What is in a file, decompressed."""
    return _OPEN.get(path.suffix.lower(), open)(path, "rb")


def text_of(path: Path, encoding: str) -> io.TextIOWrapper:
    encoding = "utf-8-sig" if encoding == "utf-8" else encoding
    return io.TextIOWrapper(binary_of(path), encoding=encoding, newline="")


def _encoding(path: Path) -> tuple[str, list[str]]:
    """UTF-8 if the file is that; UTF-16 if it says so; else what Windows writes."""
    with binary_of(path) as file:
        start = file.read(4)
    if start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16", ["text in UTF-16"]
    if b"\0" in start or start == b"PK\x03\x04":
        hint = "; save it as CSV first" if start.startswith(b"PK") else ""
        raise ValueError(f"{path} is not a text file{hint}")
    if _reads_as(path, "utf-8"):
        return "utf-8", []
    encoding = next(name for name in _WESTERN if _reads_as(path, name))
    name = "Windows-1252" if encoding == "cp1252" else "Latin-1"
    return encoding, [f"text in {name} (not UTF-8)"]


def _reads_as(path: Path, encoding: str) -> bool:
    decoder = codecs.getincrementaldecoder(encoding)()
    with binary_of(path) as file:
        try:
            while chunk := file.read(_CHUNK):
                decoder.decode(chunk)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


def _separator(sample: list[str]) -> str:
    """The sign that cuts all rows into the same number of cells, and more than one."""
    even = {}
    for sign in _SEPARATORS:
        try:
            widths = [len(cells) for cells in csv.reader(sample, delimiter=sign) if cells]
        except csv.Error:
            continue
        if widths and widths[0] > 1:
            even[sign] = sum(count == widths[0] for count in widths)
    return max(even, key=lambda sign: even[sign], default=",")


def _is_data(name: str) -> bool:
    try:
        float(name.replace(",", "."))
    except ValueError:
        return len(name) >= 8 and not any(map(str.isalpha, name.replace("T", "").replace("Z", "")))
    return True
