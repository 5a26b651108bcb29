"""Times as people write them, and the numbers that the model sees.

Dates become days since an origin; numbers stay as they are. The origin is fixed by the first fit,
so that a date means the same number for ever after.
"""

import dataclasses
import datetime
import zoneinfo
from typing import Any, NamedTuple

import numpy as np

from stategp.durations import days

_MICROSECONDS = 86_400 * 10**6  # in a day
_TEXT_EXAMPLES = "2024-03-01, 2024-03-01 12:30 or 2024-03-01T12:30:00+01:00"


class Instants(NamedTuple):
    """Times as they were read: numbers, or whole parts of seconds since 1970 (UTC)."""

    values: np.ndarray
    per_day: int | None  # how many of the values' units make a day; None for plain numbers
    zone: str | None = None

    @property
    def dates(self) -> bool:
        return self.per_day is not None


@dataclasses.dataclass(frozen=True)
class TimeAxis:
    """How times become numbers and numbers times."""

    dates: bool
    zone: str | None = None
    origin: int = 0  # microseconds since 1970; dates only

    @classmethod
    def of(cls, instants: Instants) -> "TimeAxis":
        """The axis on which the first of these times is zero."""
        if instants.per_day is None:
            return cls(False)
        first = int(instants.values.min()) if len(instants.values) else 0
        return cls(True, instants.zone, first * _MICROSECONDS // instants.per_day)

    def numbers(self, instants: Instants, name: str) -> np.ndarray:
        """What the model sees."""
        if instants.dates != self.dates:
            got, expected = ("dates", "numbers") if instants.dates else ("numbers", "dates")
            raise ValueError(f"{name} holds {got}, but the model was fitted to times in {expected}")
        if instants.per_day is None:
            return instants.values
        if (instants.zone is None) != (self.zone is None):
            one, other = ("without", "with") if instants.zone is None else ("with", "without")
            raise ValueError(
                f"{name} holds dates {one} a time zone, but the model was fitted to dates {other} "
                f"one{'' if self.zone is None else f' ({self.zone})'}; convert them first"
            )
        relative = instants.values - np.int64(self.origin * instants.per_day // _MICROSECONDS)
        return relative / instants.per_day

    def times(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers as datetime64 (UTC, or local if the data had no zone), or as they are."""
        if not self.dates:
            return np.asarray(numbers)
        # Whole days and microseconds apart, so that far dates keep their microseconds.
        whole = np.floor(numbers)
        rest = np.round((numbers - whole) * _MICROSECONDS).astype(np.int64)
        microseconds = np.int64(self.origin) + whole.astype(np.int64) * _MICROSECONDS + rest
        return microseconds.astype("datetime64[us]")

    def length(self, name: str, value: Any) -> float:
        """A stretch of time: "30d" where times are dates, a number where they are numbers."""
        if isinstance(value, datetime.timedelta):
            value = value.total_seconds() / 86_400
        elif isinstance(value, np.timedelta64):
            value = value / np.timedelta64(1, "D")
        elif isinstance(value, str):
            if not self.dates:
                raise ValueError(
                    f"{name} is {value!r}, but the times are numbers: give {name} as a number too"
                )
            value = days(value)
        if isinstance(value, bool) or not isinstance(value, int | float | np.number):
            raise ValueError(f"{name} must be a length of time such as '30d', got {value!r}")
        if not (np.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be positive and finite, got {value}")
        return float(value)


def read_times(values: Any, name: str, zone: str | None = None) -> Instants:
    """Dates, texts or numbers as they came, in any container.

    `zone` is that of the model: texts without one are local times there.
    """
    array = np.asarray(values)
    if array.ndim == 0:
        array = array.reshape(1)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one column, got shape {array.shape}")
    if array.dtype.kind in "iuf":
        bad = ~np.isfinite(array)
        if bad.any():
            at = int(np.argmax(bad))
            raise ValueError(f"{name} must be known for every row: row {at} is {array[at]}")
        return Instants(array, None)
    if array.dtype.kind == "M":
        return _from_datetime64(array, name)
    if array.dtype.kind in "OUST" or "str" in str(array.dtype):
        return _from_objects(array.tolist(), name, zone)
    raise ValueError(f"{name} must hold dates or numbers, got {array.dtype}")


def _from_datetime64(array: np.ndarray, name: str, zone: str | None = None) -> Instants:
    if np.isnat(array).any():
        raise ValueError(
            f"{name} must be known for every row: row {int(np.argmax(np.isnat(array)))} has no date"
        )
    fine = np.datetime_data(array.dtype)[0] in ("ns", "ps", "fs", "as")
    unit, per_second = ("ns", 10**9) if fine else ("us", 10**6)
    return Instants(array.astype(f"datetime64[{unit}]").astype(np.int64), 86_400 * per_second, zone)


def _from_objects(values: list[Any], name: str, zone: str | None) -> Instants:
    """Texts, datetimes, dates, or numbers among None's."""
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        return read_times(np.asarray(values, dtype=float), name)
    local = None if zone is None else zoneinfo.ZoneInfo(zone)
    moments = [_moment(value, name, row, local) for row, value in enumerate(values)]
    aware = {moment.tzinfo is not None for moment in moments}
    if len(aware) == 2:
        raise ValueError(f"{name} mixes dates with and without a time zone")
    own = next(iter(aware), False)
    if own:
        names = {getattr(moment.tzinfo, "key", None) for moment in moments}
        zone = names.pop() if len(names) == 1 else None
        moments = [m.astimezone(datetime.UTC).replace(tzinfo=None) for m in moments]
    array = np.array(moments, dtype="datetime64[us]")
    return _from_datetime64(array, name, (zone or "UTC") if own else None)


def _moment(value: Any, name: str, row: int, local: Any) -> datetime.datetime:
    if isinstance(value, str):
        try:
            moment = datetime.datetime.fromisoformat(value.strip())
        except ValueError:
            raise ValueError(
                f"{name} must hold dates or numbers: row {row} is {value!r}, which does not read "
                f"as a date; write dates as {_TEXT_EXAMPLES}"
            ) from None
        return moment.replace(tzinfo=local) if moment.tzinfo is None and local else moment
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, datetime.datetime) and value == value:  # pandas' NaT is not itself
        # A plain datetime also where pandas gives its own kind.
        return datetime.datetime(
            value.year, value.month, value.day, value.hour, value.minute, value.second,
            value.microsecond, tzinfo=value.tzinfo, fold=value.fold,
        )  # fmt: skip
    if isinstance(value, datetime.date) and value == value:
        return datetime.datetime(value.year, value.month, value.day)
    if value is None or value != value:
        raise ValueError(f"{name} must be known for every row: row {row} has none")
    raise ValueError(f"{name} must hold dates or numbers: row {row} is {value!r}")
