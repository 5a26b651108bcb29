"""Data frames of any kind, through narwhals: columns out, answers in."""

from typing import Any

import numpy as np

from stategp.forecasting._axis import Instants, TimeAxis, read_times


def frames() -> Any:
    """narwhals, or what to do without it."""
    try:
        import narwhals
    except ImportError:
        raise ImportError(
            'data frames need narwhals: pip install "stategp[frames]" (or "stategp[all]")'
        ) from None
    return narwhals


def as_frame(data: Any) -> Any:
    """A narwhals frame; dictionaries of columns become pandas', polars' or pyarrow's."""
    nw = frames()
    if isinstance(data, dict):
        return nw.from_dict({name: list(column) for name, column in data.items()}, backend=_any())
    try:
        return nw.from_native(data, eager_only=True)
    except TypeError:
        lazy = " (call .collect() first)" if hasattr(data, "collect") else ""
        raise ValueError(
            f"expected a data frame of pandas, polars or pyarrow, got {type(data).__name__}{lazy}"
        ) from None


def _any() -> str:
    """A kind of frame that is installed."""
    import importlib.util

    for name in ("pandas", "polars", "pyarrow"):
        if importlib.util.find_spec(name):
            return name
    raise ImportError("data frames need pandas, polars or pyarrow: pip install pandas")


def is_frame(data: Any) -> bool:
    return isinstance(data, dict) or hasattr(data, "columns") or hasattr(data, "column_names")


def kind_of(frame: Any) -> str:
    """The library that a frame is of, by name."""
    return str(frame.implementation)


def column(frame: Any, name: Any) -> Any:
    if name not in frame.columns:
        some = ", ".join(map(repr, frame.columns[:12])) + (", …" * (len(frame.columns) > 12))
        raise ValueError(f"the frame has no column {name!r}; its columns are {some}")
    if list(frame.columns).count(name) > 1:
        raise ValueError(f"the frame has several columns called {name!r}")
    return frame[name]


def time_column(frame: Any, name: str, zone: str | None = None) -> Instants:
    """The times of a frame."""
    nw = frames()
    series = column(frame, name)
    if series.dtype == nw.Date:
        series = series.cast(nw.Datetime("us"))
    if series.dtype == nw.Datetime:
        missing = series.is_null()
        if missing.any():
            row = int(np.argmax(missing.to_numpy()))
            raise ValueError(f"column {name!r} must be known for every row: row {row} has no date")
        unit = "ns" if series.dtype.time_unit == "ns" else "us"
        values = series.dt.timestamp(unit).to_numpy()
        per_day = 86_400 * (10**9 if unit == "ns" else 10**6)
        return Instants(np.asarray(values, dtype=np.int64), per_day, series.dtype.time_zone)
    return read_times(series.to_numpy(), f"column {name!r}", zone)


def number_column(frame: Any, name: str) -> np.ndarray:
    """A column of numbers; what is missing becomes NaN."""
    series = column(frame, name)
    values = series.to_numpy()
    if values.dtype.kind == "O":
        values = np.array([np.nan if _missing(v) else v for v in values], dtype=object)
    try:
        if values.dtype.kind not in "iufbO":
            raise TypeError
        return values.astype(float)
    except (TypeError, ValueError):
        row, example = next((i, v) for i, v in enumerate(values.tolist()) if not _is_number(v))
        raise ValueError(
            f"column {name!r} must hold numbers: row {row} is {example!r}; "
            "convert or drop what is not a number"
        ) from None


def _missing(value: Any) -> bool:
    return value is None or value != value or str(value) == "<NA>"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and value == value


def make_frame(
    kind: str, axis: TimeAxis, time: tuple[str, np.ndarray], columns: dict[str, Any]
) -> Any:
    """A frame of the kind that came in, its first column the times (given as numbers)."""
    nw = frames()
    made = {time[0]: times_series(kind, axis, *time)}
    for name, values in columns.items():
        made[name] = nw.new_series(name, np.asarray(values), backend=kind)
    return nw.from_dict(made, backend=kind).to_native()


def times_series(kind: str, axis: TimeAxis, name: str, numbers: np.ndarray) -> Any:
    nw = frames()
    times = axis.times(numbers)
    if not axis.dates:
        return nw.new_series(name, times, backend=kind)
    series = nw.new_series(name, times, dtype=nw.Datetime("us"), backend=kind)
    if axis.zone is None:
        return series
    return series.dt.replace_time_zone("UTC").dt.convert_time_zone(axis.zone)
