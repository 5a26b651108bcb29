"""Columns of a batch as numbers, and which of its rows are bad."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from stategp.likelihoods import Likelihood

_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


class Batch(NamedTuple):
    """Some rows of a file, or of whatever gives them."""

    place: str
    start: int  # rows of that place before these
    columns: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


def column(table: Any, name: str, place: str) -> np.ndarray:
    """A column as numbers, NaN for what is missing; dates are days since 1970.

    `table` is one of Arrow's, a mapping of names to arrays, or a pair of arrays x and y.
    """
    if not hasattr(table, "__getitem__") or isinstance(table, np.ndarray | str):
        raise ValueError(
            f"{place} is a {type(table).__name__}: give pairs (x, y), or tables with named columns "
            "(dictionaries of arrays, Arrow, data frames)"
        )
    try:
        values = table[name]
    except (KeyError, IndexError, TypeError, ValueError):
        names = getattr(table, "column_names", None) or getattr(table, "columns", None)
        names = list(table) if isinstance(table, Mapping) else names
        known = "" if names is None else f"; the columns are {', '.join(map(str, names))}"
        raise ValueError(f"{place} has no column {name!r}{known}") from None
    if hasattr(values, "type") and hasattr(values, "null_count"):
        return _from_arrow(values, name, place)
    return _from_array(np.asarray(values), name, place)


class Calendar(NamedTuple):
    """Whether a column holds dates, and in which time zone."""

    dates: bool
    zone: str | None = None


def calendar_of(table: Any, name: str) -> Calendar:
    """What a column of times holds."""
    kind = getattr(table[name], "type", None)
    if kind is None:
        return Calendar(np.asarray(table[name]).dtype.kind == "M")
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return Calendar(True, kind.tz)
    return Calendar(bool(pa.types.is_date(kind)))


def _from_array(values: np.ndarray, name: str, place: str) -> np.ndarray:
    if values.ndim != 1:
        raise ValueError(f"column {name!r} of {place} must be one-dimensional, got {values.shape}")
    if values.dtype.kind == "M":
        return in_days(values)
    if values.dtype.kind == "O":
        try:
            values = values.astype(float)
        except (TypeError, ValueError):
            raise _no_numbers(name, place, "objects") from None
    if values.dtype.kind not in "iufb":
        raise _no_numbers(name, place, str(values.dtype))
    return values.astype(np.int64 if values.dtype.kind == "i" else float, copy=False)


def in_days(dates: np.ndarray) -> np.ndarray:
    """Dates as days since 1970, NaN where there is none."""
    unit = np.datetime_data(dates.dtype)[0]
    if unit not in _PER_DAY:
        dates, unit = dates.astype("datetime64[us]"), "us"
    days = dates.astype(np.int64) / _PER_DAY[unit]
    return np.where(np.isnat(dates), np.nan, days)


def _from_arrow(values: Any, name: str, place: str) -> np.ndarray:
    import pyarrow as pa

    kind = values.type
    if pa.types.is_dictionary(kind):
        values, kind = values.cast(kind.value_type), kind.value_type
    if pa.types.is_date(kind):
        values, kind = values.cast(pa.timestamp("ms")), pa.timestamp("ms")
    if pa.types.is_timestamp(kind):
        whole = values.cast(pa.int64())
        return _numpy(whole).astype(float) / _PER_DAY[kind.unit]
    if pa.types.is_integer(kind):
        return _numpy(values.cast(pa.int64()))
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return _numpy(values.cast(pa.float64()))
    if pa.types.is_boolean(kind):
        return _numpy(values.cast(pa.int8()).cast(pa.float64()))
    raise _no_numbers(name, place, str(kind))


def _numpy(values: Any) -> np.ndarray:
    """NaN for what is null, which makes whole numbers floats."""
    chunked = hasattr(values, "chunks")
    array: np.ndarray = values.to_numpy() if chunked else values.to_numpy(zero_copy_only=False)
    return array


def _no_numbers(name: str, place: str, kind: str) -> ValueError:
    return ValueError(f"column {name!r} of {place} must hold numbers or dates, not {kind}")


class Roles(NamedTuple):
    """Which column is what; a number stands for all rows."""

    time: str
    target: str
    extras: dict[str, str | float]  # by the argument of `fit`
    weights: str | float | None

    @property
    def names(self) -> list[str]:
        """The columns that are read."""
        others = [*self.extras.values(), self.weights]
        names = [self.time, self.target, *(name for name in others if isinstance(name, str))]
        return list(dict.fromkeys(names))


class Fault(NamedTuple):
    """What is wrong with some rows of a batch."""

    rows: np.ndarray  # which, as booleans
    column: str
    rule: str


def faults(batch: Batch, roles: Roles, likelihood: Likelihood) -> Iterator[Fault]:
    """Everything that is wrong with rows; a missing observation is not."""
    columns = batch.columns
    x, y = columns[roles.time], columns[roles.target].astype(float, copy=False)
    yield Fault(~np.isfinite(x), roles.time, "be a number or date")
    yield Fault(np.isinf(y), roles.target, "be finite (null or NaN means missing)")
    seen = np.isfinite(y)
    extra: Any = np.broadcast_to(likelihood.extra_default, len(y))
    known = np.ones(len(y), bool)
    for name, value in roles.extras.items():
        if not isinstance(value, str):
            extra = np.broadcast_to(float(value), len(y))
            continue
        extra = columns[value]
        known = np.isfinite(extra) & (extra > 0)
        yield Fault(seen & ~known, value, f"be positive and finite, as {name}")
    valid = likelihood.valid(np.where(seen & known, y, np.nan), np.where(known, extra, 1.0))
    rule = f"{likelihood.support} for {type(likelihood).__name__}"
    yield Fault(seen & known & ~valid, roles.target, rule)
    if isinstance(roles.weights, str):
        counts = columns[roles.weights]
        fine = np.isfinite(counts) & (counts >= 0)
        yield Fault(seen & ~fine, roles.weights, "be zero or more, as weights")
