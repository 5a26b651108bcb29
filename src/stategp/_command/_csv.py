"""CSV files as people have them: dates and numbers in the ways of their country.

What pyarrow reads by itself is taken as it is. The rest is read as text and understood here, if it
can be understood in one way only; what was assumed is kept, to be said.
"""

import csv
from collections.abc import Iterable
from typing import Any

import numpy as np

from stategp._command._sniffing import Sniffed, binary_of, sniff, text_of
from stategp._command._writing import Writing, check_names
from stategp._forecasting import Source, instants_of, looks_like_number, read_dates, read_numbers


class CsvFile:
    """A CSV file: its columns by name, with times and numbers understood."""

    def __init__(self, path: Any, writing: Writing):
        self.path, self.writing = path, writing
        self.sniffed: Sniffed = sniff(path, writing.separator)
        self.names = list(self.sniffed.names)
        self.notes = list(self.sniffed.notes)
        self.layout: str | None = None  # of its dates, where that was a choice
        self.kept: np.ndarray | None = None  # the rows that are not empty, if some are

    def read(self, time: str, numbers: Iterable[str], labels: Iterable[str] = ()) -> Any:
        """A pyarrow table of one column of times, columns of numbers, and texts (`labels`)."""
        import pyarrow

        wanted, named = list(dict.fromkeys([time, *numbers, *labels])), list(labels)
        check_names(self.path, self.names, wanted)
        raw = self._raw(wanted, [*self._texts_from_the_start(wanted, time), *named])
        again = [name for name in wanted if self._better_as_text(raw[name], name == time)]
        if again:
            texts = self._raw(again, again)
            raw = {name: texts.get(name, column) for name, column in raw.items()}
        raw = self._without_empty_rows(raw)
        times = {time: self._times(time, raw[time])}
        others = {
            name: raw[name] if name in named else self._numbers(name, raw[name])
            for name in wanted
            if name != time
        }
        return pyarrow.table(times | others)

    def row(self, index: int) -> str:
        """How a spreadsheet calls the row of an observation."""
        return f"row {self.sniffed.row_of(index if self.kept is None else int(self.kept[index]))}"

    def _texts_from_the_start(self, wanted: list[str], time: str) -> list[str]:
        if self.writing.decimal is not None:
            return wanted
        return [time] if self.writing.date_format or self.writing.zone else []

    def _better_as_text(self, column: Any, is_time: bool) -> bool:
        """Whether pyarrow took for granted what is not."""
        from pyarrow import types

        kind = column.type
        if is_time and types.is_integer(kind):
            return _are_days(column.drop_null().to_numpy())
        if is_time:
            return types.is_timestamp(kind) and kind.tz is not None  # the offset would be lost
        # 1.234 is a thousand where semicolons leave commas free for decimals.
        return types.is_floating(kind) and self.sniffed.separator == ";"

    def _raw(self, wanted: list[str], as_text: list[str]) -> dict[str, Any]:
        """Columns as pyarrow reads them, some as text."""
        import pyarrow
        from pyarrow import csv as arrow

        # By number: pyarrow cannot tell columns of the same name apart.
        numbers = {name: str(number) for number, name in enumerate(self.names)}
        encoding = self.sniffed.encoding.replace("utf-8", "utf8")
        reading = arrow.ReadOptions(
            encoding=encoding,
            column_names=[str(number) for number in range(len(self.names))],
            skip_rows=self._lines_of_header(),
        )
        converting = arrow.ConvertOptions(
            include_columns=[numbers[name] for name in wanted],
            column_types={numbers[name]: pyarrow.string() for name in as_text},
        )
        for multiline in (False, True):
            try:
                with binary_of(self.path) as file:
                    parsing = arrow.ParseOptions(
                        delimiter=self.sniffed.separator, newlines_in_values=multiline
                    )
                    table = arrow.read_csv(file, reading, parsing, converting)
                break
            except pyarrow.ArrowException as error:
                if multiline:
                    raise self._unreadable(error) from None
        return {name: table[numbers[name]].combine_chunks() for name in wanted}

    def _lines_of_header(self) -> int:
        """Lines up to the first observation."""
        with text_of(self.path, self.sniffed.encoding) as lines:
            for _ in range(self.sniffed.first):
                next(lines)
            rows = csv.reader(lines, delimiter=self.sniffed.separator)
            for cells in rows:
                if cells:
                    break
            return self.sniffed.first + rows.line_num

    def _unreadable(self, error: Exception) -> ValueError:
        width = len(self.names)
        try:
            if sum(bool(cells) for _, cells in self.sniffed.records()) < 2:
                return ValueError(f"{self.path} has no rows")
            for number, cells in self.sniffed.records():
                if cells and len(cells) != width:
                    return ValueError(
                        f"{self.path} cannot be read as CSV: row {number} has {len(cells)} "
                        f"cell{'s' * (len(cells) > 1)}, and its header has {width}"
                    )
        except csv.Error:
            pass
        return ValueError(f"{self.path} cannot be read as CSV: {str(error).splitlines()[0]}")

    def _without_empty_rows(self, raw: dict[str, Any]) -> dict[str, Any]:
        """Spreadsheets write rows of nothing but separators after the last one."""
        import pyarrow

        full = ~np.logical_and.reduce([_is_empty(column) for column in raw.values()])
        if full.all():
            return raw
        self.kept = np.flatnonzero(full)
        count = int((~full).sum())
        self.notes.append(f"{count} empty row{'s' * (count > 1)} skipped")
        return {name: column.filter(pyarrow.array(full)) for name, column in raw.items()}

    def _source(self, name: str) -> Source:
        return Source(f"column {name!r} of {self.path}", self.row, _option)

    def _times(self, name: str, column: Any) -> Any:
        import pyarrow
        from pyarrow import types

        source = self._source(name)
        empty = _is_empty(column)
        if empty.any():
            raise ValueError(f"{source.name} has no time in {self.row(int(np.argmax(empty)))}")
        if types.is_time(column.type):
            raise source.refuse(0, str(column[0]), ", a time of day without a date")
        if not types.is_string(column.type):
            return column
        texts = column.to_pylist()
        layout = self.writing.date_format or self.writing.layout
        if self.writing.date_format is None and texts and _may_be_a_number(texts[0]):
            return self._numbers(name, column)
        dates = read_dates(texts, source, layout)
        words = dates.words or ("dates as yearmonthday" if texts and texts[0].isdecimal() else "")
        instants = instants_of(dates.moments, source.name, self.writing.zone, dates.layout)
        self.layout, zone = dates.layout, self.writing.zone or instants.zone
        offsets = {moment.utcoffset() for moment in dates.moments}
        if len(offsets) > 1 and self.writing.zone is None:
            words = f"{words or 'times'} with several offsets: results in UTC (or give --zone)"
        if words and self.writing.date_format is None:
            self.notes.append(words)
        return pyarrow.array(instants.values, pyarrow.timestamp("us", zone))

    def _numbers(self, name: str, column: Any) -> Any:
        import pyarrow
        from pyarrow import types

        source = self._source(name)
        if types.is_string(column.type):
            by_comma = self.sniffed.separator == ","
            numbers = read_numbers(
                column.to_pylist(),
                source,
                self.writing.decimal,
                usual="." if by_comma else "",
                doubtful=",." if self.sniffed.separator == ";" else ",",
            )
            self.notes.extend(word for word in numbers.words if word not in self.notes)
            return pyarrow.array(numbers.values)
        if types.is_temporal(column.type):
            raise source.refuse(0, str(column[0]), ", which is not a number")
        if types.is_null(column.type):
            return pyarrow.array(np.full(len(column), np.nan))
        return column


def _are_days(numbers: np.ndarray) -> bool:
    """Whether whole numbers read as dates: 20251231."""
    year, month, day = numbers // 10_000, numbers // 100 % 100, numbers % 100
    fit = (year >= 1900) & (year <= 2100) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    return len(numbers) > 0 and bool(fit.all())


def _is_empty(column: Any) -> np.ndarray:
    from pyarrow import compute, types

    empty = compute.is_null(column)
    if types.is_string(column.type):
        blank = compute.equal(compute.utf8_trim_whitespace(column), "")
        empty = compute.or_(empty, compute.fill_null(blank, True))
    return np.asarray(empty.to_numpy(zero_copy_only=False), dtype=bool)


def _may_be_a_number(text: str) -> bool:
    """A number with decimals, not a date in digits."""
    return looks_like_number(text) and not text.strip().isdecimal() and text.count(".") < 2


def _option(name: str, value: str) -> str:
    return f"--{name.replace('_', '-')} '{value}'"
