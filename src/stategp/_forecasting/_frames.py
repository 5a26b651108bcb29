"""Data frames of any kind, through narwhals: columns out, answers in."""

from typing import Any

import numpy as np

from stategp._forecasting._axis import TimeAxis
from stategp._forecasting._instants import Instants, as_zone, read_times
from stategp._forecasting._number_texts import read_numbers
from stategp._forecasting._sources import Source


def frames() -> Any:
    """narwhals, or what to do without it."""
    try:
        import narwhals
    except ImportError:
        raise ImportError(
            'data frames need narwhals: pip install "stategp[frames]" (or "stategp[all]")'
        ) from None
    return narwhals


def as_frame(data: Any, time: str = "ds", target: str = "y") -> Any:
    """A narwhals frame; dictionaries of columns become pandas', polars' or pyarrow's.

    What pandas keeps in an index becomes the column `time`, a series the column `target`.
    """
    nw = frames()
    data = _with_index(data, time, target)
    if isinstance(data, dict):
        return nw.from_dict({name: list(column) for name, column in data.items()}, backend=_any())
    try:
        return nw.from_native(data, eager_only=True)
    except nw.exceptions.DuplicateError:
        raise ValueError("some columns have the same name: rename them, or drop some") from None
    except TypeError:
        lazy = " (call .collect() first)" if hasattr(data, "collect") else ""
        raise ValueError(
            f"expected a pandas, polars or pyarrow data frame, got {type(data).__name__}{lazy}"
        ) from None


def _with_index(data: Any, time: str, target: str) -> Any:
    """A frame of pandas whose times are a column, if they were its index."""
    nw = frames()
    if nw.dependencies.is_pandas_series(data):
        data = data.to_frame(target)
    elif not nw.dependencies.is_pandas_dataframe(data) or time in data.columns:
        return data
    unnamed = data.index.name is None or time == "ds"
    if data.index.name == time or (unnamed and _holds_dates(data.index)):
        return data.rename_axis(index=time).reset_index()
    return data


def _holds_dates(index: Any) -> bool:
    return hasattr(index, "tz") or hasattr(index, "to_timestamp")  # of dates, or of periods


def names_in(data: Any, time: str, target: str) -> tuple[str, str]:
    """The columns to use: those of a series are called as it calls them, if it does."""
    if not frames().dependencies.is_pandas_series(data):
        return time, target
    if not _holds_dates(data.index):
        raise ValueError(
            f"a series needs an index of dates, got one of {data.index.dtype}; give a frame with "
            "a column of times"
        )
    index, name = data.index.name, data.name
    return (
        index if time == "ds" and isinstance(index, str) else time,
        name if target == "y" and isinstance(name, str) else target,
    )


def _any() -> str:
    """A kind of frame that is installed."""
    import importlib.util

    for name in ("pandas", "polars", "pyarrow"):
        if importlib.util.find_spec(name):
            return name
    raise ImportError("data frames need pandas, polars or pyarrow: pip install pandas")


def installed_kind() -> str:
    """A kind of frame that can be made here; nothing if there is none."""
    try:
        frames()
        return _any()
    except ImportError:
        return ""


def is_frame(data: Any) -> bool:
    """Whether it has columns (also if they have yet to be collected)."""
    lazy = hasattr(type(data), "collect")
    return isinstance(data, dict) or lazy or bool(frames().dependencies.is_into_dataframe(data))


def kind_of(frame: Any) -> str:
    """The library that a frame is of, by name."""
    return str(frame.implementation)


def column(frame: Any, name: Any) -> Any:
    if name not in frame.columns:
        some = ", ".join(map(repr, frame.columns[:12])) + (", …" * (len(frame.columns) > 12))
        raise ValueError(f"there is no column {name!r}; the columns are {some}")
    return frame.get_column(name)


def time_column(
    frame: Any, name: str, zone: str | None = None, layout: str | None = None
) -> Instants:
    """The times of a frame."""
    return _times(column(frame, name), f"column {name!r}", zone, layout)


def times_of(values: Any, zone: str | None = None, layout: str | None = None) -> Instants:
    """Times that came on their own: a column of a frame, an index, an array, a list, one time."""
    nw = frames()
    if hasattr(values, "to_series"):  # an index of pandas
        values = values.to_series()
    if hasattr(values, "from_buffers"):  # an array of pyarrow
        import pyarrow

        values = pyarrow.chunked_array([values])
    if nw.dependencies.is_into_series(values):
        return _times(nw.from_native(values, series_only=True), "times", zone, layout)
    return read_times(values, "times", zone, layout)


def dates_of(times: Any) -> Any:
    """The index of a pandas series of numbers at dates; anything else as it is."""
    is_series = frames().dependencies.is_pandas_series(times)
    if is_series and _holds_dates(times.index) and times.dtype.kind in "iufb":
        return times.index
    return times


def _times(series: Any, name: str, zone: str | None, layout: str | None) -> Instants:
    nw = frames()
    if series.dtype == nw.Date:
        series = series.cast(nw.Datetime("us"))
    if series.dtype == nw.Datetime:
        missing = series.is_null()
        if missing.any():
            row = int(np.argmax(missing.to_numpy()))
            raise ValueError(f"{name} must be given for every row: row {row} has no date")
        unit = "ns" if series.dtype.time_unit == "ns" else "us"
        zone = series.dtype.time_zone
        if zone is not None:
            as_zone(zone)  # an error here is clearer than one of the library's later
            zone = zone.removeprefix("UTC") or zone  # "UTC+01:00" is pandas' own name
        values = series.dt.timestamp(unit).to_numpy()
        return Instants(np.asarray(values, dtype=np.int64), unit, zone)
    return read_times(series.to_numpy(), name, zone, layout)


def number_column(frame: Any, name: str) -> np.ndarray:
    """A column of numbers; what is missing becomes NaN."""
    values = column(frame, name).to_numpy()
    if values.dtype.kind in "OUT":
        return _from_objects(values.tolist(), name)
    if values.dtype.kind not in "iufb":
        raise ValueError(f"column {name!r} must hold numbers, got {values.dtype}")
    numbers = values.astype(float)
    if np.isinf(numbers).any():
        row = int(np.argmax(np.isinf(numbers)))
        raise ValueError(f"column {name!r} must be finite: row {row} is {numbers[row]}")
    return numbers


def _from_objects(values: list[Any], name: str) -> np.ndarray:
    """Numbers, texts of numbers, and what stands for a missing one."""
    known = [None if v is None or str(v) in ("<NA>", "nan", "NaT") else v for v in values]
    if all(value is None or isinstance(value, str) for value in known):
        return read_numbers(known, Source(f"column {name!r}")).values
    return np.array([_number(value, name, row) for row, value in enumerate(known)], dtype=float)


def _number(value: Any, name: str, row: int) -> float:
    if value is None:
        return np.nan
    try:
        number = float(value)
        if np.isfinite(number):
            return number
    except (TypeError, ValueError):
        pass
    raise ValueError(
        f"column {name!r} must hold numbers: row {row} is {value!r}; "
        "convert or drop what is not a number"
    )


def make_frame(
    kind: str, axis: TimeAxis, time: tuple[str, np.ndarray], columns: dict[str, Any]
) -> Any:
    """A frame of the kind that came in, its first column the times (given as numbers)."""
    if time[0] in columns:
        raise ValueError(
            f"the result would have two columns called {time[0]!r}, one of them the times: rename "
            "the column of times"
        )
    return frame_of(kind, times_series(kind, axis, *time), columns)


def frame_of(kind: str, first: Any, columns: dict[str, Any], *series: Any) -> Any:
    """A frame of that kind: the first column, other series, columns that come as arrays."""
    others = [column_of(kind, name, values) for name, values in columns.items()]
    # Not from a dictionary of series: pandas would lose the time zone.
    return first.to_frame().with_columns(*series, *others).to_native()


def column_of(kind: str, name: str, values: Any) -> Any:
    """A series of a kind of frame."""
    return frames().new_series(name, np.asarray(values), backend=kind)


def text_series(kind: str, name: str, texts: Any) -> Any:
    """A column of texts."""
    return frames().new_series(name, list(texts), backend=kind)


def times_series(kind: str, axis: TimeAxis, name: str, numbers: np.ndarray) -> Any:
    nw = frames()
    times = axis.times(numbers)
    if not axis.dates:
        return nw.new_series(name, times, backend=kind)
    series = nw.new_series(name, times, dtype=nw.Datetime(axis.unit), backend=kind)
    if axis.zone is None:
        return series
    return series.dt.replace_time_zone("UTC").dt.convert_time_zone(_zone_for(kind, axis.zone))


def _zone_for(kind: str, zone: str) -> str:
    """A zone by a name that the library knows: polars has none for most distances from UTC."""
    if kind != "polars" or zone[0] not in "+-":
        return zone
    hours, minutes = int(zone[:3]), zone[-2:]
    return f"Etc/GMT{-hours:+d}" if minutes == "00" and -14 <= -hours <= 12 else "UTC"


def clock_times(kind: str, axis: TimeAxis, numbers: np.ndarray) -> np.ndarray:
    """Times as a clock in the zone of the data shows them."""
    if axis.zone is None:
        return axis.times(numbers)
    clock = times_series(kind, axis, "time", numbers).dt.replace_time_zone(None).to_numpy()
    return np.asarray(clock)
