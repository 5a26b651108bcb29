"""Times as people write them, and the numbers that the model sees.

Dates become days since an origin; numbers stay as they are. The origin is fixed by the first fit,
so that a date means the same number for ever after.
"""

import dataclasses
import datetime
import re
import zoneinfo
from typing import Any, NamedTuple

import numpy as np

from stategp._arguments import as_number
from stategp._durations import days

_PER_DAY = {"us": 86_400 * 10**6, "ns": 86_400 * 10**9}
_TEXT_EXAMPLES = "2024-03-01, 2024-03-01 12:30 or 2024-03-01T12:30:00+01:00"
_OFFSET = re.compile(r"(?:UTC)?([+-])(\d\d):?(\d\d)")


# In which every library can write a date.
_YEARS = {"us": (1, 9999), "ns": (1678, 2262)}


class Instants(NamedTuple):
    """Times as they were read: numbers, or whole parts of seconds since 1970 (UTC)."""

    values: np.ndarray
    unit: str | None  # of the values: "us" or "ns"; None for plain numbers
    zone: str | None = None

    @property
    def dates(self) -> bool:
        return self.unit is not None


@dataclasses.dataclass(frozen=True)
class TimeAxis:
    """How times become numbers and numbers times."""

    dates: bool
    zone: str | None = None
    origin: int = 0  # units since 1970; dates only
    unit: str = "us"

    @classmethod
    def of(cls, instants: Instants) -> "TimeAxis":
        """The axis on which the first of these times is zero."""
        if instants.unit is None:
            return cls(False)
        first = int(instants.values.min()) if len(instants.values) else 0
        # Nanoseconds span 600 years only: they are kept where the data has some.
        if instants.unit == "ns" and np.all(instants.values % 1000 == 0):
            return cls(True, instants.zone, first // 1000)
        return cls(True, instants.zone, first, instants.unit)

    def takes(self, instants: Instants) -> bool:
        """Whether times of this kind lie on the axis."""
        return instants.dates == self.dates and (instants.zone is None) == (self.zone is None)

    def numbers(self, instants: Instants, name: str) -> np.ndarray:
        """What the model sees."""
        if len(instants.values) == 0:
            return np.zeros(0)
        if instants.dates != self.dates:
            got, expected = ("dates", "numbers") if instants.dates else ("numbers", "dates")
            raise ValueError(f"{name} holds {got}, but the model was fitted to times in {expected}")
        if instants.unit is None:
            return instants.values
        if not self.takes(instants):
            one, other = ("without", "with") if instants.zone is None else ("with", "without")
            raise ValueError(
                f"{name} holds dates {one} a time zone, but the model was fitted to dates {other} "
                f"one{'' if self.zone is None else f' ({self.zone})'}; convert them first"
            )
        theirs, ours = _PER_DAY[instants.unit], _PER_DAY[self.unit]
        origin, rest = divmod(self.origin * theirs, ours)
        return (instants.values - np.int64(origin)) / theirs - rest / (ours * theirs)

    def times(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers as datetime64 (UTC, or local if the data had no zone), or as they are."""
        if not self.dates:
            return np.asarray(numbers)
        per_day = _PER_DAY[self.unit]
        first, last = (self._number_of(year) for year in _YEARS[self.unit])
        if not np.all((numbers >= first) & (numbers <= last)):
            between = " and ".join(map(str, _YEARS[self.unit]))
            raise ValueError(f"these dates lie outside the years between {between}")
        # Whole days and parts of them apart, so that far dates keep their last digits.
        whole = np.floor(numbers)
        rest = np.round((numbers - whole) * per_day).astype(np.int64)
        counts = np.int64(self.origin) + whole.astype(np.int64) * per_day + rest
        return counts.astype(f"datetime64[{self.unit}]")

    def _number_of(self, year: int) -> float:
        days_since_1970 = int(np.datetime64(f"{year:04}-01-01", "D").astype(np.int64))
        return days_since_1970 - self.origin / _PER_DAY[self.unit]

    def length(self, name: str, value: Any) -> float:
        """A stretch of time: "30d" where times are dates, a number where they are numbers."""
        if isinstance(value, str | datetime.timedelta | np.timedelta64):
            if not self.dates:
                raise ValueError(
                    f"{name} is {value!r}, but the times are numbers: give {name} as a number too"
                )
            if isinstance(value, str):
                value = days(value)
            else:
                value = np.timedelta64(value) / np.timedelta64(1, "D")
        length = as_number(value)
        if length is None:
            example = "a length of time such as '30d'" if self.dates else "a number"
            raise ValueError(f"{name} must be {example}, got {value!r}")
        if not (np.isfinite(length) and length > 0):
            raise ValueError(f"{name} must be positive and finite, got {value}")
        return length


def as_zone(name: str) -> datetime.tzinfo:
    """A time zone by its name, or by its distance from Greenwich ("+01:00")."""
    offset = _OFFSET.fullmatch(name)
    if offset:
        sign, hours, minutes = offset.groups()
        ahead = datetime.timedelta(hours=int(hours), minutes=int(minutes))
        return datetime.timezone(ahead if sign == "+" else -ahead)
    try:
        return zoneinfo.ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"no time zone is called {name!r}") from None


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
    unit = "ns" if fine else "us"
    return Instants(array.astype(f"datetime64[{unit}]").astype(np.int64), unit, zone)


def _from_objects(values: list[Any], name: str, zone: str | None) -> Instants:
    """Texts, datetimes, dates, or numbers among None's."""
    known = [v for v in values if v is not None]
    if known and all(as_number(v) is not None for v in known):
        return read_times(np.array(values, dtype=float), name)
    local = None if zone is None else as_zone(zone)
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
