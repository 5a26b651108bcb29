"""Times as people write them: dates, texts, numbers, in any container."""

import datetime
import re
import zoneinfo
from typing import Any, NamedTuple

import numpy as np

from stategp._arguments import as_number
from stategp._forecasting._date_texts import read_dates
from stategp._forecasting._sources import Source

_OFFSET = re.compile(r"(?:UTC)?([+-])(\d\d):?(\d\d)")


class Instants(NamedTuple):
    """Times as they were read: numbers, or whole parts of seconds since 1970 (UTC)."""

    values: np.ndarray
    unit: str | None  # of the values: "us" or "ns"; None for plain numbers
    zone: str | None = None
    layout: str | None = None  # how texts were read, where that was a choice

    @property
    def dates(self) -> bool:
        return self.unit is not None


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
        raise ValueError(f"unknown time zone {name!r}") from None


def read_times(
    values: Any, name: str, zone: str | None = None, layout: str | None = None
) -> Instants:
    """Dates, texts or numbers as they came, in any container.

    `zone` is that of the model: texts without one are local times there. `layout` decides where
    texts could be read in several ways.
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
            raise ValueError(f"{name} must be given for every row: row {at} is {array[at]}")
        return Instants(array, None)
    if array.dtype.kind == "M":
        return _from_datetime64(array, name)
    if array.dtype.kind in "OUST" or "str" in str(array.dtype):
        return _from_objects(array.tolist(), name, zone, layout)
    raise ValueError(f"{name} must hold dates or numbers, got {array.dtype}")


def instants_of(
    moments: list[datetime.datetime],
    name: str,
    zone: str | None = None,
    layout: str | None = None,
) -> Instants:
    """Moments with a time zone, or all without: those are local times in `zone`, if there is one.

    Dates that share a zone, or a distance from Greenwich, keep it.
    """
    if zone is not None:
        local = as_zone(zone)
        moments = [m.replace(tzinfo=local) if m.tzinfo is None else m for m in moments]
    aware = {moment.tzinfo is not None for moment in moments}
    if len(aware) == 2:
        raise ValueError(f"{name} mixes dates with and without a time zone")
    if aware != {True}:
        return _from_datetime64(np.array(moments, dtype="datetime64[us]"), name, None, layout)
    zones = {_zone_name(moment) for moment in moments}
    shared = zones.pop() if len(zones) == 1 else None
    moments = [m.astimezone(datetime.UTC).replace(tzinfo=None) for m in moments]
    array = np.array(moments, dtype="datetime64[us]")
    return _from_datetime64(array, name, shared or "UTC", layout)


def _zone_name(moment: datetime.datetime) -> str | None:
    key = getattr(moment.tzinfo, "key", None)
    if key is not None or not isinstance(moment.tzinfo, datetime.timezone):
        return key
    text = moment.isoformat()[-6:]
    return "UTC" if text == "+00:00" or text[-3:-2] != ":" else text


def _from_datetime64(
    array: np.ndarray, name: str, zone: str | None = None, layout: str | None = None
) -> Instants:
    if np.isnat(array).any():
        raise ValueError(
            f"{name} must be given for every row: row {int(np.argmax(np.isnat(array)))} has no date"
        )
    fine = np.datetime_data(array.dtype)[0] in ("ns", "ps", "fs", "as")
    unit = "ns" if fine else "us"
    return Instants(array.astype(f"datetime64[{unit}]").astype(np.int64), unit, zone, layout)


def _from_objects(values: list[Any], name: str, zone: str | None, layout: str | None) -> Instants:
    """Texts, datetimes, dates, or numbers among None's."""
    known = [v for v in values if v is not None]
    if known and all(as_number(v) is not None for v in known):
        return read_times(np.array(values, dtype=float), name)
    if values and all(isinstance(value, str) for value in values):
        texts = read_dates(values, Source(name), layout)
        return instants_of(texts.moments, name, zone, texts.layout)
    return instants_of([_moment(value, name, row) for row, value in enumerate(values)], name, zone)


def _moment(value: Any, name: str, row: int) -> datetime.datetime:
    if isinstance(value, str):
        source = Source(name, lambda _: f"row {row}")
        return read_dates([value], source).moments[0]
    if hasattr(value, "to_timestamp"):  # a period of pandas, which begins then
        value = value.to_timestamp()
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
        raise ValueError(f"{name} must be given for every row: row {row} has none")
    raise ValueError(f"{name} must hold dates or numbers: row {row} is {value!r}")
